"""One run: three controllers, a group of brokers, a network, and faults, on one heap of virtual time.

Faults: clocks that differ in rate up to the bound, pauses of any process, crashes with loss of what was not flushed,
brokers that start again as another incarnation or with an empty store, guardians that report an exit or do not,
partitions (also one way), messages that are lost, late, doubled and out of order.
"""

from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random

from logherd.controller.admission import ElectionRequest, admit_election
from logherd.controller.leases import LeaseTerms
from logherd.controller.verdicts import Refusal
from logherd.replication.messages import Envelope, ReplicaId
from sim.consensus.streams import stream
from sim.leases.broker import KEY, Broker
from sim.leases.controller import Controller
from sim.leases.observer import Observer

__all__ = ["TERMS", "World"]

TERMS = LeaseTerms(lease_ms=1_000, bound_ppm=20_000)
FAULTY_US = 30_000_000
CALM_US = 20_000_000


class World:
    """A run is a pure function of the seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_us = 0
        self.steps = 0
        self.lines: list[str] = []
        self._digest = blake2b(digest_size=8)
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self.draw = stream(seed, "world")
        self._net = stream(seed, "net")
        self.loss = self.draw.choice((0.0, 0.02, 0.1))
        self.cut: dict[tuple[str, str], int] = {}
        self.observer = Observer(self)
        names = tuple(ReplicaId(f"n{number}") for number in (1, 2, 3))
        self.controllers = {str(name): Controller(self, name, names) for name in names}
        self.brokers = {f"b{number}": Broker(self, number) for number in range(1, self.draw.choice((2, 3, 3, 4)) + 1)}

    # ---- time --------------------------------------------------------------------------------------------------

    def after(self, wait_us: int, action: Callable[[], None]) -> None:
        """Plan an action from now."""
        self.steps += 1
        heappush(self._heap, (self.now_us + wait_us, self.steps, action))

    def note(self, who: str, what: str) -> None:
        """Add a line to the transcript."""
        line = f"{self.now_us / 1e6:10.6f} {who} {what}"
        self._digest.update(line.encode())
        self.lines.append(line)
        del self.lines[:-400]

    @property
    def digest(self) -> str:
        """Of the whole transcript."""
        return self._digest.hexdigest()

    def rate_of(self, name: str) -> int:
        """How far the clock of a process is off, in millionths: often as far as it may be."""
        draw = stream(self.seed, f"clock:{name}")
        return draw.choice((-TERMS.bound_ppm, TERMS.bound_ppm, draw.randint(-TERMS.bound_ppm, TERMS.bound_ppm)))

    def _run_until(self, when_us: int) -> None:
        while self._heap and self._heap[0][0] <= when_us:
            self.now_us, _, action = heappop(self._heap)
            action()
            self.observer.check()
        self.now_us = when_us

    def run(self) -> None:
        """Faults first; then, if no data is at risk, a master must come to lead. Raises: AssertionError."""
        self._plan_fault()
        self.after(2_000_000, self._order_transfer)
        self._run_until(FAULTY_US)
        self.note("-", "healed")
        self.cut.clear()
        self.loss = 0.0
        for process in (*self.controllers.values(), *self.brokers.values()):
            process.heal()
        self._run_until(FAULTY_US + CALM_US)
        self.observer.check_calm()

    # ---- the network -------------------------------------------------------------------------------------------

    def carries(self, sender: str, to: str) -> bool:
        """Whether a message from one to the other arrives now."""
        return self.cut.get((sender, to), 0) <= self.now_us and self._net.random() >= self.loss

    def send(self, sender: str, to: str, arrive: Callable[[], None]) -> None:
        """Put a message under way: lost, late, or twice."""
        if not self.carries(sender, to):
            return
        for _ in range(2 if self._net.random() < self.loss / 2 else 1):
            late = self._net.expovariate(1 / 800_000) if self._net.random() < self.loss else 0
            self.after(100 + int(self._net.expovariate(1 / 1_000) + late), arrive)

    def ship(self, envelope: Envelope) -> None:
        """A message between controllers."""
        to = self.controllers[str(envelope.to)]
        self.send(str(envelope.sender), to.name, lambda: to.receive(envelope))

    # ---- faults ------------------------------------------------------------------------------------------------

    def _order_transfer(self) -> None:
        """An operator wants another master now and then."""
        for controller in self.controllers.values():
            office = controller.office
            if controller.alive and office is not None and controller.paused_until <= self.now_us:
                target = self.draw.choice(list(self.brokers.values())).id
                admitted = admit_election(office, ElectionRequest(group=KEY, target=target), controller.now_ms())
                if not isinstance(admitted, Refusal):
                    controller.propose(admitted, lambda verdict: None)
        if self.now_us < FAULTY_US:
            self.after(int(self.draw.expovariate(1 / 3_000_000)), self._order_transfer)

    def _plan_fault(self) -> None:
        self.after(int(self.draw.expovariate(1 / 700_000)), self._fault)

    def _fault(self) -> None:
        if self.now_us >= FAULTY_US:
            return
        draw: Random = self.draw
        everybody = [*self.controllers.values(), *self.brokers.values()]
        leading = [broker for broker in self.brokers.values() if broker.believes() is not None]
        victim = draw.choice(leading) if leading and draw.random() < 0.5 else draw.choice(everybody)
        lasts = draw.choice((50_000, 500_000, 1_500_000, 4_000_000))
        kind = draw.choice(("pause", "crash", "isolate", "deafen", "mute", "split", "minority", "double"))
        self.note(victim.name, f"{kind} for {lasts} us")
        if kind == "pause":
            victim.pause(lasts)
        elif kind == "crash":
            victim.crash(lasts)
        elif kind == "double":
            self._lose_both_leaders(leading)
        else:
            others = list(self.controllers.values()) if kind == "minority" else everybody
            for other in others:
                if other is not victim and (kind != "split" or draw.random() < 0.5):
                    self._part(victim.name, other.name, lasts, to=kind != "mute", back=kind != "deafen")
        self._plan_fault()

    def _part(self, victim: str, other: str, lasts_us: int, *, to: bool = True, back: bool = True) -> None:
        """Nothing reaches the victim from there, nothing from it arrives there, or both."""
        if to:
            self.cut[other, victim] = self.now_us + lasts_us
        if back:
            self.cut[victim, other] = self.now_us + lasts_us

    def _lose_both_leaders(self, leading: list[Broker]) -> None:
        """The controllers' leader is gone or asleep, and the brokers' master reaches none of the others."""
        for name, controller in self.controllers.items():
            if controller.office is None:
                for broker in leading:
                    self._part(broker.name, name, 3_000_000)
            elif self.draw.random() < 0.5:
                # It wakes up cut off from its peers, still thinking that it leads, and only the master finds it.
                controller.pause(self.draw.choice((900_000, 1_500_000)))
                for peer in self.controllers:
                    self._part(name, peer, 3_000_000)
            else:
                controller.crash(1_500_000)
