"""What operators order: whatever can be ordered, sensible or not, at whichever controller thinks that it leads."""

from random import Random
from typing import TYPE_CHECKING

from logherd.controller.admission import ElectionRequest, admit_clean, admit_election
from logherd.controller.choosing import choose
from logherd.controller.commands import Clean, Command, Configure, Elect, Grounds, SetLearner, Tune
from logherd.controller.values import BrokerId, Group, GroupKey
from logherd.controller.verdicts import Refusal
from logherd.model.names import Epoch
from logherd.replication.epochs import ORIGIN, Point
from sim.leases.fate import Fate

if TYPE_CHECKING:
    from sim.leases.controller import Controller
    from sim.leases.world import World

__all__ = ["Orders"]

_WITH_LOSS = (Grounds.OUTRUN, Grounds.UNCLEAN, Grounds.FIRST_BY_OPERATOR)
"""Any other election loses nothing by the record, though the operator would have accepted it."""


class Orders:
    """Each order is admitted and proposed as the controllers' services do it."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def _desk(self, draw: Random | None = None) -> "Controller | None":
        """A controller that holds itself for the leader."""
        offices = [each for each in self._world.controllers.values() if each.active and each.office is not None]
        if not offices:
            return None
        return draw.choice(offices) if draw is not None else offices[-1]

    def submit(self, command: Command, draw: Random | None = None) -> None:
        """Propose something."""
        desk = self._desk(draw)
        if desk is not None:
            desk.propose(command, lambda verdict: None)

    def _some(self, key: GroupKey, draw: Random) -> BrokerId:
        return draw.choice(self._world.group(key)).id

    def elect(self, key: GroupKey, draw: Random, *, unclean: bool = False, guess: bool = False) -> None:
        """Another master, wanted for the epoch that the operator has seen, or thinks to have seen."""
        desk = self._desk(draw)
        group = desk.machine.group(key) if desk is not None else None
        if desk is None or desk.office is None or group is None:
            return
        expected = Epoch(max(0, group.epoch - draw.choice((0, 0, 1)))) if guess else None
        wanted = ElectionRequest(group=key, target=self._some(key, draw), expected_epoch=expected, unclean=unclean)
        admitted = admit_election(desk.office, wanted, desk.now_ms())
        if isinstance(admitted, Refusal):
            self._world.marks.hit_if("order-stale", admitted is Refusal.FENCED_EPOCH)
            self._world.marks.hit_if("order-early", admitted is Refusal.LEASE_RUNS)
        else:
            self._order(desk, wanted, admitted)

    def set_learner(self, key: GroupKey, draw: Random, *, learner: bool) -> None:
        """Promote or demote."""
        desk = self._desk(draw)
        group = desk.machine.group(key) if desk is not None else None
        if desk is None or group is None:
            return
        fitting = [each.broker_id for each in group.replicas if each.learner != learner] or [BrokerId(1)]
        command = SetLearner(
            group=key, expected_epoch=group.epoch, broker_id=draw.choice(fitting), learner=learner
        )  # fmt: skip
        desk.propose(command, lambda verdict: None)

    def forget(self, key: GroupKey, draw: Random, *, all_of_it: bool = False) -> None:
        """Forget a broker, most often one that does not report; or the whole group."""
        desk = self._desk(draw)
        group = desk.machine.group(key) if desk is not None else None
        if desk is None or desk.office is None or group is None or not group.replicas:
            return
        now = desk.now_ms()
        dead = [each.broker_id for each in group.replicas if not desk.office.alive(group, each.broker_id, now)]
        ids = () if all_of_it else (draw.choice(dead) if dead else self._some(key, draw),)
        command = Clean(group=key, expected_epoch=group.epoch, broker_ids=ids)
        admitted = admit_clean(desk.office, command, now, living=all_of_it or draw.random() < 0.3)
        if isinstance(admitted, Refusal):
            self._world.marks.hit("forget-refused")
        else:
            desk.propose(admitted, lambda verdict: None)

    def tune(self, draw: Random) -> None:
        """updateControllerConfig."""
        values = {
            "gatherMs": draw.choice((0, 200, 1_000)), "transferMs": draw.choice((500, 2_000, 6_000)),
            "preferAfterMs": draw.choice((0, 300, 1_000)), "bootstrapMs": draw.choice((0, 500, 3_000)),
        }  # fmt: skip
        if draw.random() < 0.2:
            values["transferMs"] = 1
        names = draw.sample(sorted(values), draw.randint(1, 4))
        self.submit(Tune(values={name: values[name] for name in names}), draw)

    def configure(self, key: GroupKey, draw: Random) -> None:
        """Another minimum, another preferred broker."""
        replicas = self._world.shape.brokers
        preferred = self._some(key, draw) if draw.random() < 0.7 else None
        minimum = draw.randint(1, min(replicas, 3))
        self.submit(Configure(group=key, replicas=replicas, min_in_sync=minimum, preferred=preferred), draw)

    def rescue(self, fate: Fate) -> None:
        """What an operator does when a group does not come back by itself."""
        desk = self._desk()
        group = desk.machine.group(fate.key) if desk is not None else None
        if desk is None or desk.office is None or group is None or desk.office.leads(group, desk.now_ms()):
            return
        office, now = desk.office, desk.now_ms()
        stuck = not group.founded or choose(group, lambda replica: office.seen(replica, group.key, now)) is None
        if not stuck:
            return
        reported = ((each, office.seen(each, group.key, now)) for each in group.replicas)
        ends = {replica.broker_id: seen.report.end for replica, seen in reported if seen is not None}
        learners = {each.broker_id for each in group.replicas if each.learner}
        if not self._promote(desk, group, ends, learners):
            self._accept_loss(desk, group, {each: end for each, end in ends.items() if each not in learners})

    def _promote(self, desk: "Controller", group: Group, ends: dict[BrokerId, Point], learners: set[BrokerId]) -> bool:
        """Whoever was demoted and is needed now, or has a longer log than all others."""
        most = max((end for each, end in ends.items() if each not in learners), default=ORIGIN)
        meant = [each for each in learners if each <= self._world.shape.brokers or ends.get(each, ORIGIN) > most]
        for each in sorted(meant):
            command = SetLearner(group=group.key, expected_epoch=group.epoch, broker_id=each, learner=False)
            desk.propose(command, lambda verdict: None)
        return bool(meant)

    def _accept_loss(self, desk: "Controller", group: Group, ends: dict[BrokerId, Point]) -> None:
        """The longest log of those who report."""
        assert desk.office is not None
        if not ends:
            return
        best = max(ends, key=lambda each: (ends[each], each))
        wanted = ElectionRequest(group=group.key, target=best, unclean=True)
        admitted = admit_election(desk.office, wanted, desk.now_ms())
        if not isinstance(admitted, Refusal):
            self._order(desk, wanted, admitted)

    def _order(self, desk: "Controller", wanted: ElectionRequest, command: Command) -> None:
        if wanted.unclean and isinstance(command, Elect) and command.grounds in _WITH_LOSS:
            self._world.observer.fates[wanted.group].doubt.accepted.add(command)
        desk.propose(command, lambda verdict: None)
