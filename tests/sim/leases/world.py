"""One run: controllers, groups of brokers, a network, and a plan of faults, on one heap of virtual time.

Faults: clocks that differ in rate up to the bound, pauses of any process, crashes with loss of what was not flushed,
brokers that start again as another incarnation, with an empty, an older or a torn store, or twice; guardians that
report an exit, late or not at all; controllers that all go on from older disks; partitions (also one way, also from
some controllers only); messages that are lost, late, doubled and out of order; full disks; and operators that order
whatever can be ordered.
"""

from collections.abc import Callable
from dataclasses import replace
from heapq import heappop, heappush

from logherd.controller.leases import LeaseTerms
from logherd.controller.values import GroupKey
from logherd.replication.messages import Envelope, ReplicaId
from sim.consensus.streams import stream
from sim.consensus.trace import Trace
from sim.leases.broker import Broker
from sim.leases.calm import Calm
from sim.leases.controller import Controller
from sim.leases.doubt import Forgiven
from sim.leases.faults import Faults
from sim.leases.marks import Marks
from sim.leases.net import Net
from sim.leases.observer import Observer
from sim.leases.process import Process
from sim.leases.shape import Shape
from sim.plan import Plan

__all__ = ["KEYS", "World"]

KEYS = (GroupKey("c", "bg"), GroupKey("d", "bg"))
"""One name in two clusters: they must have nothing to do with each other (DX-19)."""
CALM_US = 20_000_000


class World:
    """A run is a pure function of its plan."""

    def __init__(self, plan: Plan, *, keep: int = 400) -> None:
        self.plan = plan
        self.seed = plan.seed
        self.shape = Shape(**plan.shape)
        self.now_us = 0
        self.steps = 0
        self.trace = Trace(keep)
        self.terms = LeaseTerms(lease_ms=1_000, bound_ppm=20_000)
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self.net = Net(self)
        self.era = 0
        """How often the controllers have gone on from older disks."""
        self.recoveries = 0
        """How often it was an operator who recovered the quorum."""
        keys = KEYS[: self.shape.groups]
        self.observer = Observer(self, list(keys))
        names = tuple(ReplicaId(f"n{number}") for number in range(1, self.shape.controllers + 1))
        self.controllers: dict[str, Controller] = {}
        for name in names:
            self.controllers[str(name)] = Controller(self, name, names)
        self.brokers: dict[str, Broker] = {}
        for key in keys:
            for number in range(1, self.shape.brokers + self.shape.learners + 1):
                self.add_broker(key, number, learner=number > self.shape.brokers)
        self.faults = Faults(self)

    @property
    def marks(self) -> Marks:
        """The rare states that were reached."""
        return self.observer.marks

    def add_broker(self, key: GroupKey, number: int, *, learner: bool = False, twin: str = "") -> Broker:
        """Another process; a twin has an id that another living process has, too."""
        letter = "b" if key == KEYS[0] else "d"
        broker = Broker(self, key, f"{letter}{number}{twin}", number, learner=learner)
        self.brokers[broker.name] = broker
        self.observer.fates[key].processes.append(broker)
        return broker

    def group(self, key: GroupKey) -> list[Broker]:
        """All processes of a group."""
        return self.observer.fates[key].processes

    def everybody(self) -> list[Process]:
        """All processes."""
        return [*self.controllers.values(), *self.brokers.values()]

    # ---- time --------------------------------------------------------------------------------------------------

    def after(self, wait_us: int, action: Callable[[], None]) -> None:
        """Plan an action from now."""
        self.steps += 1
        heappush(self._heap, (self.now_us + wait_us, self.steps, action))

    def terms_of(self, life: str) -> LeaseTerms:
        """How long leases are that a controller grants in this life."""
        if not self.shape.changing_leases:
            return self.terms
        return replace(self.terms, lease_ms=stream(self.seed, f"lease:{life}").choice((1_000, 2_000, 4_000)))

    def note(self, who: str, what: str) -> None:
        """Add a line to the transcript."""
        self.trace.note(self.now_us, who, what)

    def rate_of(self, name: str) -> int:
        """How far the clock of a process is off, in millionths: often as far as it may be."""
        draw, bound = stream(self.seed, f"clock:{name}"), self.terms.bound_ppm
        some = draw.randint(-bound, bound)
        return draw.choice((-bound, bound, some)) if self.shape.extreme_clocks else some

    def run_until(self, when_us: int) -> None:
        """Let time pass."""
        heap, check = self._heap, self.observer.check
        while heap and heap[0][0] <= when_us:
            self.now_us, _, action = heappop(heap)
            action()
            check()
        self.now_us = when_us

    def run(self) -> None:
        """Faults first; then a master must come to lead each group. Raises: Violation, or whatever the cores raise."""
        for fault in self.plan.faults:
            self.after(1_000 * fault.at_ms, lambda fault=fault: self.faults.strike(fault))  # type: ignore[misc]
        self.faults.backups.plan()
        try:
            self.run_until(1_000 * self.shape.faulty_ms)
            self.note("-", "healed")
            self.faults.heal()
            Calm(self).run(self.now_us + CALM_US)
        except Forgiven as why:
            self.marks.hit("outrun-unknown")
            self.note("-", f"nothing more is promised: {why}")

    def ship(self, envelope: Envelope) -> None:
        """A message between controllers."""
        to, era = self.controllers[str(envelope.to)], self.era
        self.net.send(str(envelope.sender), to.name, lambda: to.receive(envelope) if self.era == era else None)
