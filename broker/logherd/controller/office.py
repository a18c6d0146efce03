"""The controller leader's own part: it hears brokers, grants leases and proposes what should be decided.

An office begins when this controller has become the ready leader of the quorum, and is thrown away when it leads no
more. Nothing in it is replicated: what must outlive it is in the machine, and what it may not know (leases of an
earlier leader) it waits out. It proposes by desired and observed state, again and again (R19); each proposal expects
what it was made from, so one that comes late changes nothing.

Source: controller-ha R1, R2, R10, R12, R19, R21; design H4.
"""

from typing import TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from logherd.controller.agenda import Agenda
from logherd.controller.choosing import (
    RELIEF,
    Better,
    SeenOf,
    absent_members,
    best_of_longest,
    better,
    choose,
    founders,
    gives_way,
    have_more,
    knows_more,
    longest_leads,
    unfit,
)
from logherd.controller.commands import (
    CancelTransfer,
    Command,
    Elect,
    Grounds,
    Move,
    PlanTransfer,
    Register,
    Release,
    Tune,
)
from logherd.controller.electing import elect_command, grounds_of
from logherd.controller.leases import LeaseTable, LeaseTerms
from logherd.controller.machine import Machine
from logherd.controller.phases import Phases
from logherd.controller.reports import Granted, Report, RoleView, Seen, Withheld
from logherd.controller.seen import SeenTable
from logherd.controller.settings import LEASE_WAIT, OfficeOptions
from logherd.controller.values import BrokerId, Group, GroupKey, Registration, Replica
from logherd.controller.verdicts import MasterEnded, Refusal, Verdict
from logherd.model.names import Epoch
from logherd.replication.epochs import ORIGIN, Point

__all__ = ["Office", "view_of"]


class _Words(Struct, frozen=True):
    """What the brokers of a group hear, in the state that it is in."""

    group: Group
    granted: Granted
    found: Granted
    """The same, to a leader at whom clients arrive by the address that follows it."""
    nothing: Withheld


class _Moments(Struct):
    """When the office began, when it granted a lease last, and when one of a group was given back."""

    began: int
    granted_at: int
    given_back: dict[GroupKey, int]


class Office:
    """One leadership of one controller. `now` is milliseconds of a clock that counts suspension.

    Invariants: (1) no lease is granted in a group while an election of it is proposed; (2) an election is proposed only
    when the latest leadership holds no lease any more, by the bound of the clocks; (3) one proposal of the office's own
    is under way per group; (4) no lease is granted that lasts longer than what the machine tells the next office to
    wait, which may have other terms while the controllers are restarted with them.
    """

    def __init__(self, machine: Machine, terms: LeaseTerms, options: OfficeOptions, now: int) -> None:
        self.machine = machine
        self._options = options
        self._moments = _Moments(now, now, {})
        self._leases = LeaseTable(terms, now, earlier_ms=machine.lease_wait_ms)
        self._seen = SeenTable()
        self._electing: dict[GroupKey, int] = {}
        self._proposed: dict[GroupKey, Command] = {}
        self._phases = Phases()
        self._words: dict[GroupKey, _Words] = {}
        self._endpoints: dict[GroupKey, tuple[Epoch, int]] = {}
        self._agenda = Agenda()
        self._recording: Tune | None = None
        for group in machine:
            self._agenda.put(group.key, now)

    @property
    def options(self) -> OfficeOptions:
        """How it decides now."""
        return self._options.tuned(self.machine.settings)

    @property
    def granted_at(self) -> int:
        """When a lease was granted last, in any group; at first when the office began."""
        return self._moments.granted_at

    # ---- hearing -----------------------------------------------------------------------------------------------

    def hear(self, report: Report, now: int) -> Refusal | None:
        """Note a heartbeat as soon as it arrives. A refusal means: register first; it counts for nothing.

        One that comes late shows that its sender lived then, and nothing else.
        """
        group = self.machine.group(report.group)
        replica = group.replica(report.broker_id) if group is not None else None
        if group is None or replica is None:
            return Refusal.UNKNOWN_REPLICA
        if replica.registration != report.registration or replica.exited:
            return Refusal.FENCED_PROCESS
        if knows_more(group, replica, report):
            return Refusal.FENCED_EPOCH
        before = self._seen.get(report.group, report.broker_id)
        if not self._seen.take(report, now):
            return None
        changed = (
            before is None
            or not before.stands
            or report.address != replica.address
            or report.resigned != before.report.resigned
            or (report.space, report.barrier) != (before.report.space, before.report.barrier)
        )
        if changed or not self.leads(group, now):
            self._agenda.hasten(report.group, now)
        return None

    def renew(self, report: Report, now: int, *, heard: int) -> Granted | Withheld:
        """The answer to a heartbeat that came at `heard`, once the quorum has confirmed this leadership since then."""
        group = self.machine.group(report.group)
        replica = group.replica(report.broker_id) if group is not None else None
        if group is None or replica is None:
            return Withheld(None, Refusal.UNKNOWN_REPLICA)
        if replica.registration != report.registration or replica.exited:
            return Withheld(None, Refusal.FENCED_PROCESS)
        self._seen.answered(report, now)
        if knows_more(group, replica, report) or self.must_leap(group, now):
            return Withheld(None, Refusal.FENCED_EPOCH)
        words, tenure = self._words_for(group), group.tenure
        if tenure is None or tenure.ended or tenure.registration != report.registration:
            return words.nothing
        view = words.granted.view
        if max(report.resigned, self._resigned_before(report)) >= tenure.epoch:
            return Withheld(view, Refusal.RESIGNED)
        if not report.healthy:
            return Withheld(view, Refusal.NOT_FIT)
        if group.key in self._electing or self.machine.lease_wait_ms < self._leases.terms.waiter_ms:
            return Withheld(view, Refusal.RUNNING)
        self._leases.grant(group.key, tenure, now, heard=heard)
        self._moments.granted_at = now
        return words.found if self._finds(group.key, tenure.epoch, now) else words.granted

    def endpoint_leads(self, key: GroupKey, epoch: Epoch, said: int) -> None:
        """Who keeps the address that follows the group's leader said at `said` that it leads to the leader of this
        epoch. It holds for one lease from then: later it has to be said again, or this office does not know."""
        if self.machine.group(key) is not None:
            self._endpoints[key] = (epoch, said)

    def _finds(self, key: GroupKey, epoch: Epoch, now: int) -> bool:
        told, at = self._endpoints.get(key, (None, 0))
        return told == epoch and now - at < self._leases.terms.lease_ms

    def _words_for(self, group: Group) -> "_Words":
        """The answers of a group, which stay the same objects until it changes: thousands ask each second."""
        words = self._words.get(group.key)
        if words is None or words.group is not group:
            view = view_of(group)
            target = group.transfer.target if group.transfer is not None else None
            granted = Granted(view=view, holder_ms=self._leases.terms.holder_ms, hand_over=target)
            found = replace(granted, endpoint=True)
            words = self._words[group.key] = _Words(group, granted, found, Withheld(view, None))
        return words

    def _resigned_before(self, report: Report) -> Epoch:
        """The latest epoch that this process is known here to have resigned; `report` may come late."""
        seen = self._seen.get(report.group, report.broker_id)
        same = seen is not None and seen.report.registration == report.registration
        return seen.report.resigned if seen is not None and same else Epoch(0)

    def alive(self, group: Group, broker_id: BrokerId, now: int) -> bool:
        """Whether a broker's latest process reports. The one meaning of "alive"."""
        replica = group.replica(broker_id)
        return replica is not None and not replica.exited and self.seen(replica, group.key, now) is not None

    def may_live(self, group: Group, broker_id: BrokerId, now: int) -> bool:
        """Whether a broker is alive, or has hardly had the time to report to this office: nobody is declared dead, and
        another put in its place, before one lease has passed (R2)."""
        replica = group.replica(broker_id)
        young = now < self._leases.earlier_over
        return self.alive(group, broker_id, now) or (young and replica is not None and not replica.exited)

    def seen(self, replica: Replica, key: GroupKey, now: int) -> Seen | None:
        """The report of a replica's latest process, while it is fresh."""
        seen = self.last_seen(replica, key)
        return seen if seen is not None and seen.stands and now - seen.at < self._options.fresh_ms else None

    def seen_in(self, group: Group, now: int) -> SeenOf:
        """`seen` of this group's replicas at this moment, as those who choose among them ask it. Where the longest log
        leads only what was made after the last lease counts: what arrives after it may have been made before, by who
        has acknowledged more since. Elsewhere whoever may be chosen has all that was acknowledged, by whatever age."""
        since = self._since(group, now)

        def seen(replica: Replica) -> Seen | None:
            found = self.seen(replica, group.key, now)
            return found if found is not None and found.after >= since else None

        return seen

    def _since(self, group: Group, now: int) -> int:
        if not longest_leads(group):
            return 0
        over = self.over_at(group)
        return max(over if over <= now else 0, self._moments.given_back.get(group.key, 0))

    def unproven(self, group: Group, now: int) -> bool:
        """Whether somebody reports who has not shown yet that it did so after the last lease; for a moment after that,
        in case it hears no answers."""
        seen_of = self.seen_in(group, now)
        early = any(self.seen(each, group.key, now) and not seen_of(each) for each in group.replicas)
        return early and now < self._since(group, now) + self._options.fresh_ms

    def last_seen(self, replica: Replica, key: GroupKey) -> Seen | None:
        """The latest report of a replica's latest process, however old."""
        seen = self._seen.get(key, replica.broker_id)
        return seen if seen is not None and seen.report.registration == replica.registration else None

    def over_at(self, group: Group) -> int:
        """When nobody holds a lease in this group any more."""
        over = self._leases.over_at(group.key, group.tenure)
        # That the latest leadership on record is over says nothing about later ones that are lost.
        return max(over, self._leases.earlier_over) if group.outrun or not group.founded else over

    def leads(self, group: Group, now: int) -> bool:
        """Whether the master may hold a lease now."""
        return group.master is not None and now < self.over_at(group)

    def must_leap(self, group: Group, now: int) -> bool:
        """Whether the next epoch of this group may have been granted by controllers that were given up. Who leads goes
        on; then whoever reports is asked to register, which takes the group over all of those (R20)."""
        return group.epoch < self._options.epochs_above and not self.leads(group, now)

    def serving(self, group: Group, now: int) -> Replica | None:
        """The master, if it has been granted a lease that should still run: whom to send clients to (H17)."""
        master, tenure = group.master, group.tenure
        return master if tenure is not None and self._leases.serving(group.key, tenure, now) else None

    def living_members(self, group: Group, now: int) -> list[BrokerId]:
        """Who of the in-sync set reports."""
        return [member for member in group.sync.members if self.alive(group, member, now)]

    def committed(self, key: GroupKey) -> Point:
        """The highest committed end that a member of the in-sync set has reported.

        Others may remember an end that an unclean election has given up.
        """
        group = self.machine.group(key)
        ids = group.sync.members if group is not None else ()
        marks = [seen.report.committed for each in ids if (seen := self._seen.get(key, each)) is not None]
        return max(marks, default=ORIGIN)

    def better(self, group: Group, now: int) -> Better | None:
        """Whom the master should hand over to, if there is a reason, and how long that must have been so."""
        found = better(group, self.seen_in(group, now), self.options)
        if found is None or found.why != RELIEF:
            return found
        return found._replace(patience_ms=self._phases.patience_ms(group.key, found.patience_ms, now))

    # ---- proposing ---------------------------------------------------------------------------------------------

    def decide(self, now: int) -> list[Command]:
        """What should be proposed now. Each command must be answered for with `applied` or `dropped`."""
        commands: list[Command] = []
        if (record := self._lease_record(now)) is not None:
            self._recording = record
            commands.append(record)
        for key in self._agenda.take_due(now):
            group = self.machine.group(key)
            if group is None:
                continue
            command, again = (None, now + self._options.retry_ms)
            if key not in self._proposed:
                command, again = self._examine(group, now)
            self._agenda.put(key, again)
            if command is not None:
                self.submitted(command)
                self._proposed[key] = command
                commands.append(command)
        return commands

    def submitted(self, command: Command) -> None:
        """A command is about to be proposed: by `decide`, or by a request that was admitted."""
        if isinstance(command, Elect):
            self._electing[command.group] = self._electing.get(command.group, 0) + 1

    def applied(self, command: Command, verdict: Verdict, now: int) -> None:
        """A command has been applied to the machine, whoever proposed it."""
        self.dropped(command)
        group = verdict.group
        if group is None:
            return
        if isinstance(command, Elect) and verdict.refusal is None and group.tenure is not None:
            # Long enough for the new master to hear of it; it holds no lease until then.
            self._leases.expect(group.key, group.tenure, now)
            if command.request.startswith(RELIEF):
                self._phases.relieved(group.key, now)
        if verdict.refusal is None and _silences(command, group):
            self._forget(group, command)
        if isinstance(command, Release) and any(isinstance(each, MasterEnded) for each in verdict.events):
            # Whether it will count (`longest_leads`) may be told only afterwards, by who registers. A lease of another
            # leadership than that on record is over by `over_at`, whoever lets go.
            self._moments.given_back[group.key] = now + 1
        self._agenda.hasten(group.key, now)

    def dropped(self, command: Command) -> None:
        """A command was refused by the quorum and will never be applied. (An unknown outcome ends the office.)"""
        if isinstance(command, Tune):
            if command == self._recording:
                self._recording = None
            return
        key = command.group
        if self._proposed.get(key) == command:
            del self._proposed[key]
        if isinstance(command, Elect) and key in self._electing:
            self._electing[key] -= 1
            if self._electing[key] == 0:
                del self._electing[key]

    def _forget(self, group: Group, command: Register | Release) -> None:
        """What the process said before says nothing about now. Of one that lives on its number is kept: what it said
        before that may still be on its way."""
        replica, seen = group.replica(command.broker_id), self._seen.get(group.key, command.broker_id)
        same = replica is not None and seen is not None and seen.report.registration == replica.registration
        if seen is None or (same and isinstance(command, Register)):
            return
        if isinstance(command, Release) and replica is not None and replica.incarnation != command.incarnation:
            return  # that of an earlier process, told late
        if same:
            self._seen.silence(group.key, command.broker_id)
        else:
            self._seen.forget(group.key, command.broker_id)

    # ---- deciding ----------------------------------------------------------------------------------------------

    def _lease_record(self, now: int) -> Tune | None:
        """What the next office has to know of the leases of this one: that they are longer than those before, at once;
        that they are shorter, when none of the longer ones is held any more."""
        ours, recorded = self._leases.terms.waiter_ms, self.machine.lease_wait_ms
        if self._recording is not None or ours == recorded or (ours < recorded and now < self._leases.earlier_over):
            return None
        return Tune(values={LEASE_WAIT: ours})

    def _examine(self, group: Group, now: int) -> tuple[Command | None, int]:
        """The one thing that this group needs most, and when to look again."""
        moved = self._moved(group, now) or self._resigned(group, now)
        if moved is not None:
            return moved, now + self._options.retry_ms
        if self.must_leap(group, now):
            return None, now + self._options.retry_ms
        if not group.founded:
            return self._found(group, now)
        if now < self.over_at(group):
            return self._tend(group, now)
        return self._succeed(group, now)

    def _moved(self, group: Group, now: int) -> Command | None:
        for replica in group.replicas:
            seen = self.seen(replica, group.key, now)
            if seen is not None and seen.report.address and seen.report.address != replica.address:
                return Move(
                    group=group.key, broker_id=replica.broker_id, registration=replica.registration,
                    address=seen.report.address,
                )  # fmt: skip
        return None

    def _resigned(self, group: Group, now: int) -> Command | None:
        """The release that the master sent, and that was lost; else it would neither lead nor be replaced."""
        tenure, master = group.tenure, group.master
        seen = self.seen(master, group.key, now) if master is not None else None
        if tenure is None or seen is None or seen.report.resigned < tenure.epoch:
            return None
        return Release(
            group=group.key, broker_id=tenure.broker_id, store_id=tenure.store_id, incarnation=tenure.incarnation,
            exited=False, committed=seen.report.committed, epoch=tenure.epoch,
        )  # fmt: skip

    def _found(self, group: Group, now: int) -> tuple[Command | None, int]:
        """The first election (R12): by everybody who is configured, or by nobody."""
        seen_of = self.seen_in(group, now)
        present = founders(group, seen_of)
        logs = any(each.end != ORIGIN for each in group.replicas) or group.epoch > self._options.epochs_above
        # Logs without a known leadership: controllers that lost theirs may have granted a lease just now.
        if not present or (logs and now < self.over_at(group)):
            return None, now + (self._options.retry_ms if present else self._options.idle_ms)
        grounds = Grounds.FIRST
        if len(present) < group.rules.replicas:
            patience = self.options.bootstrap_ms
            if patience == 0 or self._phases.lasting(group.key, "founding", now) < patience or logs:
                return None, now + self._options.retry_ms
            grounds = Grounds.FIRST_BY_OPERATOR
        best = best_of_longest(group, present, seen_of)
        if best is None or have_more(group, best, seen_of):
            return None, now + self._options.retry_ms
        return elect_command(group, best, present, grounds), now + self._options.retry_ms

    def _tend(self, group: Group, now: int) -> tuple[Command | None, int]:
        """A master that may lead: only see that planned things end, and begin."""
        retry = now + self._options.retry_ms
        if group.transfer is not None:
            request, target = group.transfer.request, group.transfer.target
            # The master takes no writes meanwhile, so a target that cannot lead is not waited for.
            lasting = self._phases.lasting(group.key, f"transfer {request}", now)
            if self._may_take_over(group, target, now) and lasting < self.options.transfer_ms:
                return None, retry
            return CancelTransfer(group=group.key, expected_epoch=group.epoch, request=request), retry
        over, found = self.over_at(group), self.better(group, now)
        if found is None:
            self._phases.end(group.key)
            return None, over
        if self._phases.lasting(group.key, found.why, now) < found.patience_ms:
            return None, min(over, now + self._options.idle_ms)
        self._phases.end(group.key)
        wanted = found.replica
        return PlanTransfer(
            group=group.key, expected_epoch=group.epoch, broker_id=wanted.broker_id, registration=wanted.registration,
            request=f"{found.why} {wanted.broker_id} after epoch {group.epoch} at {now - self._moments.began}",
        ), retry  # fmt: skip

    def _may_take_over(self, group: Group, target: BrokerId, now: int) -> bool:
        """Whether a planned transfer can still be carried out."""
        replica, seen_of = group.replica(target), self.seen_in(group, now)
        if replica is None or target not in group.sync.members or unfit(replica, seen_of(replica)) is not None:
            return False
        return not gives_way(replica, group.master, seen_of)

    def _succeed(self, group: Group, now: int) -> tuple[Command | None, int]:
        """Nobody holds a lease: elect, unless somebody better may report in a moment."""
        seen_of = self.seen_in(group, now)
        best = choose(group, seen_of)
        if best is None:
            return None, now + self._options.idle_ms
        planned = group.transfer is not None and group.transfer.target == best.broker_id
        if not planned and absent_members(group, seen_of):
            tenure = group.tenure.epoch if group.tenure is not None else 0
            if self._phases.lasting(group.key, f"after {tenure}", now) < self.options.gather_ms:
                return None, now + self._options.retry_ms
        # The election carries the request of the transfer, so that whoever repeats it hears that it was done.
        request = group.transfer.request if planned and group.transfer is not None else ""
        command = elect_command(group, best, self.living_members(group, now), grounds_of(group), request)
        return command, now + self._options.retry_ms


def view_of(group: Group) -> RoleView:
    """What every broker of a group is told."""
    master = group.master
    return RoleView(
        epoch=group.epoch,
        master=master.broker_id if master is not None else None,
        master_address=master.address if master is not None else "",
        master_registration=master.registration if master is not None else Registration(0),
        version=group.sync.version,
        members=group.sync.members,
        processes=tuple(each.registration for each in group.replicas if each.broker_id in group.sync.members),
        learners=tuple(replica.broker_id for replica in group.replicas if replica.learner),
        min_in_sync=group.rules.min_in_sync,
        others=tuple(
            (each.broker_id, each.registration)
            for each in group.replicas
            if each.registration and each.broker_id not in group.sync.members
        ),
    )


def _silences(command: Command, group: Group) -> TypeGuard[Register | Release]:
    """Whether what the process said before says nothing about now: it is another one, or it is about to stop.

    Whoever lets go because a transfer was planned goes on as a follower.
    """
    if isinstance(command, Release):
        return command.exited or group.transfer is None
    return isinstance(command, Register)
