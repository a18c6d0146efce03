"""One run without controllers: the network, disks and faults of `sim.groups`, with replicas in static or raft mode."""

from collections import Counter
from random import Random

from logherd.controller.leases import LeaseTerms
from logherd.controller.values import BrokerId
from logherd.group.output import Event, Fenced, Serving
from logherd.group.seat import voter_of
from logherd.model.names import Epoch
from logherd.replication.messages import Envelope, ReplicaId
from sim.consensus.streams import stream
from sim.consensus.trace import Trace
from sim.groups.broker import GroupBroker
from sim.groups.free_broker import FreeBroker, StaticBroker, VotingBroker
from sim.groups.free_fate import FreeFate, FreeObserver
from sim.groups.free_faults import FreeFaults
from sim.groups.registry import Registry
from sim.groups.volume import Bases
from sim.groups.world import GroupWorld, settings_of
from sim.leases.broker import Broker
from sim.leases.fate import require
from sim.leases.net import Net
from sim.leases.shape import Shape
from sim.leases.world import KEYS
from sim.plan import Plan

__all__ = ["FreeWorld"]

KEY = KEYS[0]
CALM_US = 20_000_000
_CALM_US_MOST = 3 * CALM_US
"""As long as somebody catches up: one leader may have to copy its log to all others, one after the other."""
_LOOK_US = 500_000
_STEADY = 4
_PATIENCE = 5
"""So many looks are left to what was ordered."""


class FreeWorld(GroupWorld):
    """A run is a pure function of its plan. `learners` of the shape are asynchronous followers, or raft's learners."""

    observer: FreeObserver  # type: ignore[assignment]

    def __init__(self, plan: Plan, *, keep: int = 400) -> None:
        self.plan, self.seed = plan, plan.seed
        shape = dict(plan.shape)
        self.mode = str(shape.pop("mode"))
        copies = str(shape.pop("copies"))
        self.shape = Shape(**shape)
        self.now_us = self.steps = self.answered = 0
        self.bases: Bases = {}
        self.seen: Counter[str] = Counter()
        self.settings = settings_of(plan)
        self.patience: dict[ReplicaId, int] = {}
        """How long each voter's latest process waits for a leader at least (raft mode)."""
        self._told = {}
        self.trace = Trace(keep)
        self.terms = LeaseTerms(lease_ms=1_000, bound_ppm=20_000)
        self._heap = []
        self.net = Net(self)
        self.observer = FreeObserver(FreeFate(KEY, strict=self.mode == "raft" or copies == "all"))
        self.controllers = {}
        self.brokers: dict[str, Broker] = {}
        self.founders = tuple(voter_of(BrokerId(each), f"b{each}.s1") for each in range(1, self.shape.brokers + 1))
        self.registry = Registry(
            stream(plan.seed, "registry"), self.shape, copies, stream(plan.seed, "second hand")
        )  # fmt: skip
        for number in range(1, self.shape.brokers + self.shape.learners + 1):
            self.add_free(number)
        self.faults = FreeFaults(self)

    def add_free(self, number: int) -> None:
        """Another broker."""
        kind = VotingBroker if self.mode == "raft" else StaticBroker
        broker = kind(self, KEY, f"b{number}", number, learner=number > self.shape.brokers)
        self.brokers[broker.name] = broker
        self.observer.fates[KEY].processes.append(broker)

    def free(self) -> list[FreeBroker]:
        """All brokers."""
        return [each for each in self.brokers.values() if isinstance(each, FreeBroker)]

    def wanted(self) -> tuple[tuple[ReplicaId, ...], tuple[ReplicaId, ...]]:
        """Voters and learners as whoever holds the identities wants them: every broker with its present store."""
        voting = [each for each in self.free() if isinstance(each, VotingBroker)]
        learning = [each.voter for each in voting if each.learner]
        return tuple(each.voter for each in voting if not each.learner), tuple(learning)

    def note_event(self, broker: GroupBroker, news: Event) -> None:
        if isinstance(news, (Fenced, Serving)):
            self.note(broker.name, str(news))
        self.seen[type(news).__name__] += 1

    def may_lose(self, broker: GroupBroker) -> bool:
        return not self.observer.fates[KEY].strict

    def on_answered(self, broker: GroupBroker, epoch: Epoch) -> None:
        """A client hears of its record."""
        self.answered += 1
        self.check_alone(broker, epoch)

    def check_alone(self, broker: GroupBroker, epoch: Epoch) -> None:
        """R2: where that is promised, nobody else would answer a client at this moment."""
        if self.observer.fates[KEY].strict:
            others = [each.name for each in self.free() if each is not broker and each.serves() is not None]
            require(not others, "R2", f"{broker.name} answers in epoch {epoch} while {others} serve")

    def carry(self, sender: GroupBroker, envelope: Envelope) -> None:
        for other in self.free():
            if other.core.identity == envelope.to:
                self.net.send(sender.name, other.name, lambda to=other: to.receive(envelope))  # type: ignore[misc]

    # ---- the end -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Faults first; then somebody must come to lead, and all must have the same."""
        for fault in self.plan.faults:
            self.after(1_000 * fault.at_ms, lambda fault=fault: self.faults.strike(fault))  # type: ignore[misc]
        self.run_until(1_000 * self.shape.faulty_ms)
        self.note("-", "healed")
        self.faults.heal()
        fate = self.observer.fates[KEY]
        until, steady, wrong, before = self.now_us + CALM_US, 0, "", fate.acknowledged
        end, patience, held = self.now_us + _CALM_US_MOST, 0, 0
        while self.now_us < until and steady < _STEADY:
            self.run_until(self.now_us + _LOOK_US)
            wrong = self._wrong() or ("" if fate.acknowledged > before else "nothing is acknowledged")
            steady = 0 if wrong else steady + 1
            held_before, held = held, sum(each.volume.committed for each in self._behind())
            gains = held > held_before > 0
            if gains:
                until = min(until + _LOOK_US, end)
            # An operator who orders something else all the time would never see a group at work.
            patience = patience - 1 if wrong and not gains else _PATIENCE
            if patience < 0 and self.now_us > until - CALM_US // 2 and self.mode == "static":
                self.registry.rescue(self, Random(self.now_us))
                patience = _PATIENCE
        require(not wrong, "liveness", wrong)

    def _wrong(self) -> str:
        serving, fate = [each for each in self.free() if each.serves() is not None], self.observer.fates[KEY]
        if len(serving) != 1:
            return f"{[each.name for each in serving]} serve"
        leader = serving[0]
        if leader.core.closed(leader.now_ms()) is not None:
            return f"{leader.name} takes no writes: {leader.core.closed(leader.now_ms())}"
        for each in self._behind():
            return f"{each.name} is {len(fate.committed) - each.volume.committed} records behind"
        return ""

    def _behind(self) -> list[FreeBroker]:
        committed = len(self.observer.fates[KEY].committed)
        return [each for each in self.free() if committed - each.volume.committed > 20]
