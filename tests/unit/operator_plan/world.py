"""A small world for the planner: pods, volumes, controllers and a broker group that behave as the real ones promise to.

Actions are carried out with their preconditions, as the adapters must do it; a late one fails. `faults` gathers what
the planner did and may not do.
"""

from dataclasses import dataclass, field, replace
from random import Random

from logherd_operator.observed.observed import Observed, Orders, Platform
from logherd_operator.observed.quorum import Group, Member, Own, Quorum, Replica, Rules
from logherd_operator.observed.slots import Instance, Report, Slot, Volume
from logherd_operator.plan import actions as act
from logherd_operator.plan.outcome import Plan
from logherd_operator.plan.settings import members_of
from logherd_operator.spec.effects import MEMBERS
from logherd_operator.spec.group import BrokerGroupSpec
from logherd_operator.spec.machine import quantity_value

__all__ = ["Pod", "World"]

_START_SECONDS = 8.0
_STOP_SECONDS = 4.0
_COPY_PER_SECOND = 1 << 20
_DATA = 32 << 20


@dataclass
class Pod:
    """One pod; `leaves_at` is when it will be gone."""

    uid: str
    revision: str
    started_at: float
    leaves_at: float | None = None
    starved: bool = False


@dataclass
class Disk:
    uid: str
    size: int
    store: str = ""
    behind: int = _DATA
    lost: bool = False


@dataclass
class World:
    """Everything there is; `now` moves in `tick` only."""

    random: Random
    spec: BrokerGroupSpec
    now: float = 1000.0
    serial: int = 0
    count: int | None = None
    claim: int = 0
    pods: dict[int, Pod] = field(default_factory=dict)
    disks: dict[int, Disk] = field(default_factory=dict)
    controllers: dict[int, Pod] = field(default_factory=dict)
    leading: int = 0
    quorum_down: bool = False
    no_room: bool = False
    group: Group | None = None
    hot: dict[str, dict[str, str]] = field(default_factory=dict)
    table: tuple[int, int] = (1, 1)
    """Mode Static: the number of the table of roles, and who leads by it."""
    faults: list[str] = field(default_factory=list)

    # ---- what is seen ----

    @property
    def revision(self) -> str:
        return str(self.spec.image)

    @property
    def voting(self) -> bool:
        """Mode Raft: the brokers decide, by what their leader was told of who belongs to the group."""
        return self.spec.replication.mode == "Raft"

    @property
    def wanted_hot(self) -> dict[str, str]:
        return dict(self.spec.config)

    @property
    def from_file(self) -> dict[str, str]:
        """What a broker that starts now has in force."""
        return self.wanted_hot | ({MEMBERS: members_of(self.count or 0)} if self.voting else {})

    def observed(self, since: dict[str, float]) -> Observed:
        ordinals = sorted({*self.pods, *self.disks})
        return Observed(
            platform=Platform(
                brokers=self.count, controllers=len(self.controllers) or None, broker_revision=self.revision,
                controller_revision=self.revision, broker_claim=self.claim or None,
            ),
            brokers=tuple(self._slot(ordinal) for ordinal in ordinals),
            controllers=tuple(Slot(ordinal=n, instance=self._instance(pod)) for n, pod in self.controllers.items()),
            group=None if self.group is None or not (self.quorum or self.voting) else self._group_page(),
            quorum=self.quorum, orders=Orders(), hot=self.wanted_hot, since=since,
        )  # fmt: skip

    def _group_page(self) -> Group:
        assert self.group is not None
        lags = {n + 1: disk.behind for n, disk in self.disks.items()}
        members = tuple(
            replace(each, alive=self.serves(each.broker_id - 1), lag=lags.get(each.broker_id, _DATA))
            for each in self.group.replicas
        )
        return replace(self.group, replicas=members, serving=self.group.leader is not None)

    @property
    def quorum(self) -> Quorum | None:
        up = [n for n, pod in self.controllers.items() if self.ready(pod)]
        if self.quorum_down or 2 * len(up) <= len(self.controllers) or not up:
            return None
        members = tuple(
            Member(node=f"c{n}", identity=f"c{n}.1", voter=True, connected=n in up, lag=0) for n in self.controllers
        )
        return Quorum(leader=f"c{self.leading if self.leading in up else min(up)}", term=1, members=members)

    def _slot(self, ordinal: int) -> Slot:
        pod, disk = self.pods.get(ordinal), self.disks.get(ordinal)
        report = None
        if pod is not None and disk is not None and self.serves(ordinal):
            report = Report(
                broker_id=ordinal + 1, role="follower", epoch=self.group.epoch if self.group else 0,
                store_id=disk.store, hot=self.hot.get(pod.uid, {}),
            )  # fmt: skip
        volume = Volume(uid=disk.uid, requested=disk.size, capacity=disk.size, lost=disk.lost) if disk else None
        return Slot(ordinal=ordinal, instance=self._instance(pod), volume=volume, report=report)

    def _instance(self, pod: Pod | None) -> Instance | None:
        if pod is None:
            return None
        bad = pod.revision.startswith("bad") and self.now - pod.started_at >= _START_SECONDS
        return Instance(
            uid=pod.uid, revision=pod.revision, started_at=pod.started_at, ready=self.ready(pod),
            leaves_by=pod.leaves_at, failing="ImagePullBackOff" if bad and not pod.starved else "",
            unschedulable="no node fits" if pod.starved else "",
        )  # fmt: skip

    def ready(self, pod: Pod) -> bool:
        started = self.now - pod.started_at >= _START_SECONDS
        return started and not pod.starved and pod.leaves_at is None and not pod.revision.startswith("bad")

    def serves(self, ordinal: int) -> bool:
        pod, disk = self.pods.get(ordinal), self.disks.get(ordinal)
        return pod is not None and disk is not None and not disk.lost and self.ready(pod)

    # ---- what happens by itself ----

    def tick(self, seconds: float) -> None:
        self.now += seconds
        for pods in (self.pods, self.controllers):
            for ordinal in [n for n, pod in pods.items() if pod.leaves_at is not None and pod.leaves_at <= self.now]:
                del pods[ordinal]
        for ordinal in range(self.count or 0):
            self._keep(ordinal)
        for n in range(3):
            if self.controllers and n not in self.controllers:
                self.controllers[n] = self._pod()
        self._copy(seconds)
        if self.quorum is not None or self.voting:
            self._decide()

    def _keep(self, ordinal: int) -> None:
        self.disks.setdefault(ordinal, Disk(uid=self._name("disk"), size=self.claim))
        if ordinal not in self.pods:
            self.pods[ordinal] = replace(self._pod(), starved=self.no_room)
        pod = self.pods[ordinal]
        if pod.starved and not self.no_room:
            pod.starved, pod.started_at = False, self.now
        disk = self.disks[ordinal]
        if self.serves(ordinal) and not disk.store:
            disk.store = self._name("store")
        if self.serves(ordinal) and pod.uid not in self.hot:
            self.hot[pod.uid] = self.from_file

    def _copy(self, seconds: float) -> None:
        led = self.group is not None and self.group.leader is not None
        for ordinal, disk in self.disks.items():
            if led and self.serves(ordinal):
                disk.behind = max(0, disk.behind - int(seconds * _COPY_PER_SECOND))

    def _decide(self) -> None:
        """The controllers, or the brokers themselves: registrations, elections, the in-sync set."""
        belonging = self._belonging()
        for ordinal in sorted(self.disks):
            if self.serves(ordinal) and (belonging is None or ordinal + 1 in belonging):
                self._register(ordinal)
        if belonging is not None and self.group is not None:
            self._vote(self.group, belonging)
        group = self.group
        if group is None or not group.replicas:
            return
        group = self._elected(group)
        joined = set(group.in_sync)
        if group.leader is not None:
            for each in group.replicas:
                complete = self.serves(each.broker_id - 1) and self.disks[each.broker_id - 1].behind == 0
                if complete and not each.learner:
                    joined.add(each.broker_id)
            gone = {n for n in joined if not self.serves(n - 1)} - {group.leader}
            joined -= gone if len(joined - gone) >= 1 else set()
        self.group = replace(group, in_sync=tuple(sorted(joined)))

    def _belonging(self) -> set[int] | None:
        """Whom the leader of a voting group was told to belong to it; None if there is none to tell."""
        leader = self.group.leader if self.group is not None and self.voting else None
        if leader is None or not self.serves(leader - 1):
            return None
        return {int(each) for each in self.hot[self.pods[leader - 1].uid][MEMBERS].split(",")}

    def _vote(self, group: Group, belonging: set[int]) -> None:
        """A learner that has everything gets a vote; who does not belong to the group loses it."""
        kept = tuple(
            replace(each, learner=each.learner and self.disks[each.broker_id - 1].behind > 0)
            for each in group.replicas if each.broker_id in belonging
        )  # fmt: skip
        majority = sum(not each.learner for each in kept) // 2 + 1
        self.group = replace(
            group, replicas=kept, in_sync=tuple(each for each in group.in_sync if each in belonging),
            rules=Rules(replicas=len(kept), min_in_sync=majority),
        )  # fmt: skip

    def _elected(self, group: Group) -> Group:
        if group.leader is not None and self.serves(group.leader - 1):
            return group
        group = replace(group, leader=None)
        if group.founded and self.spec.replication.mode == "Static":
            able = [each for each in self.table[1:] if self.serves(each - 1)]
            return replace(group, leader=able[0], epoch=group.epoch + 1) if able else group
        if not group.founded:
            able = [each.broker_id for each in group.replicas if self.serves(each.broker_id - 1) and not each.learner]
            if len(able) < group.rules.replicas:
                return group
            for each in able:
                self.disks[each - 1].behind = 0
            return replace(group, founded=True, leader=able[0], epoch=1, in_sync=tuple(able))
        able = [each for each in group.in_sync if self.serves(each - 1)]
        return replace(group, leader=able[0], epoch=group.epoch + 1) if able else group

    def _register(self, ordinal: int) -> None:
        number, disk = ordinal + 1, self.disks[ordinal]
        group = self.group or Group(
            epoch=0, founded=False, rules=Rules(replicas=self.spec.replicas, min_in_sync=self.spec.min_in_sync),
            own=Own() if self.voting else None,
        )  # fmt: skip
        found = group.replica(number)
        if found is not None and found.store_id == disk.store:
            self.group = group
            return
        fresh = Replica(broker_id=number, store_id=disk.store, learner=group.founded and found is None)
        if found is not None:
            fresh = replace(fresh, learner=found.learner)
        others = tuple(each for each in group.replicas if each.broker_id != number)
        in_sync = tuple(each for each in group.in_sync if each != number)
        members = tuple(sorted([*others, fresh], key=lambda each: each.broker_id))
        leader = None if group.leader == number else group.leader
        self.group = replace(group, replicas=members, in_sync=in_sync, leader=leader)

    def _pod(self) -> Pod:
        return Pod(uid=self._name("pod"), revision=self.revision, started_at=self.now)

    def _name(self, kind: str) -> str:
        self.serial += 1
        return f"{kind}-{self.serial}"

    # ---- what the planner does ----

    def carry_out(self, plan: Plan) -> None:
        """Judge the plan, then do it; a precondition that does not hold any more makes an action fail in silence."""
        self._judge(plan)
        for action in plan.actions:
            getattr(self, f"_do_{type(action).__name__.lower()}")(action)

    def _judge(self, plan: Plan) -> None:
        disruptive = [action for action in plan.actions if action.disruptive]
        if len(disruptive) > 1 or (disruptive and plan.actions[-1] is not disruptive[0]):
            self.faults.append(f"OP-2: {disruptive}")
        for action in disruptive:
            number = {act.Restart: "ordinal", act.RemoveMember: "ordinal", act.Demote: "broker_id"}.get(type(action))
            if number is None or (isinstance(action, act.Restart) and action.component == "controller"):
                continue
            broker_id = getattr(action, number) + (1 if number == "ordinal" else 0)
            self._judge_taking(action, broker_id)

    def _judge_taking(self, action: act.Action, broker_id: int) -> None:
        group = self.group
        if group is None or not group.founded:
            return
        left = [each for each in group.in_sync if each != broker_id and self.serves(each - 1)]
        alone = self.spec.replicas == 1 and self.count == 1
        if isinstance(action, act.Restart) and not self.serves(broker_id - 1):
            return
        if broker_id in group.in_sync and len(left) < group.rules.min_in_sync and not alone:
            self.faults.append(f"OP-1: {action} leaves {left} in sync")
        if broker_id == group.leader and not alone:
            self.faults.append(f"OP-50: {action} takes the leader")
        if isinstance(action, act.RemoveMember) and broker_id in group.in_sync:
            self.faults.append(f"OP-60: {action} removes a member of the in-sync set")
        serving = isinstance(action, act.Restart) and action.serving
        away = [n + 1 for n in range(self.count or 0) if n + 1 != broker_id and not self.serves(n)]
        if serving and away and self.spec.replicas >= (self.count or 0):
            self.faults.append(f"OP-2: {action} while {away} are away")

    def _do_setmembers(self, action: act.SetMembers) -> None:
        if action.component == "controller":
            self.controllers = self.controllers or {n: self._pod() for n in range(action.count)}
        elif action.before == self.count:
            if self.count is None:
                self.claim = int(quantity_value(self.spec.storage.size))
            self.count = action.count

    def _do_removemember(self, action: act.RemoveMember) -> None:
        pod = self.pods.get(action.ordinal)
        if self.count == action.count + 1 and (pod.uid if pod else "") == action.uid:
            self.count = action.count
            self._stop(pod)

    def _do_restart(self, action: act.Restart) -> None:
        pod = (self.controllers if action.component == "controller" else self.pods).get(action.ordinal)
        if pod is not None and pod.uid == action.uid:
            self._stop(pod)

    def _stop(self, pod: Pod | None) -> None:
        if pod is not None and pod.leaves_at is None:
            pod.leaves_at = self.now + _STOP_SECONDS

    def _do_switchover(self, action: act.Switchover) -> None:
        group = self._fenced(action.expected_epoch)
        if group is not None and action.target in group.in_sync and self.serves(action.target - 1):
            self.group = replace(group, leader=action.target, epoch=group.epoch + 1)

    def _fenced(self, epoch: int) -> Group | None:
        able = self.quorum is not None or self.voting
        right = able and self.group is not None and self.group.epoch == epoch
        return self.group if right else None

    def _set_learner(self, broker_id: int, epoch: int, *, learner: bool) -> None:
        group = self._fenced(epoch)
        if group is None or group.replica(broker_id) is None:
            return
        in_sync = tuple(each for each in group.in_sync if not learner or each != broker_id)
        if learner and (broker_id == group.leader or len(in_sync) < group.rules.min_in_sync):
            return
        members = tuple(
            replace(each, learner=learner) if each.broker_id == broker_id else each for each in group.replicas
        )
        self.group = replace(group, in_sync=in_sync, replicas=members)

    def _do_promote(self, action: act.Promote) -> None:
        self._set_learner(action.broker_id, action.expected_epoch, learner=False)

    def _do_demote(self, action: act.Demote) -> None:
        self._set_learner(action.broker_id, action.expected_epoch, learner=True)

    def _do_forget(self, action: act.Forget) -> None:
        group = self._fenced(action.expected_epoch)
        if group is not None and action.broker_id not in group.in_sync:
            members = tuple(each for each in group.replicas if each.broker_id != action.broker_id)
            self.group = replace(group, replicas=members)

    def _do_setrules(self, action: act.SetRules) -> None:
        if self.quorum is not None and self.group is not None:
            self.group = replace(self.group, rules=Rules(replicas=action.replicas, min_in_sync=action.min_in_sync))

    def _do_pushconfig(self, action: act.PushConfig) -> None:
        if self.serves(action.ordinal):
            uid = self.pods[action.ordinal].uid
            self.hot[uid] = {**self.hot.get(uid, {}), **action.values}

    def _do_leaveout(self, action: act.LeaveOut) -> None:
        self._do_pushconfig(action)

    def _do_growvolume(self, action: act.GrowVolume) -> None:
        self.disks[action.ordinal].size = max(action.size, self.disks[action.ordinal].size)

    def _do_renewclaims(self, action: act.RenewClaims) -> None:
        self.claim = action.size

    def _do_deletevolume(self, action: act.DeleteVolume) -> None:
        if action.ordinal in self.pods or action.ordinal < (self.count or 0):
            self.faults.append(f"OP-73: {action} is in use")
        del self.disks[action.ordinal]

    def _do_transferquorum(self, action: act.TransferQuorum) -> None:
        self.leading = int(action.node.removeprefix("c"))
