"""One run: `sim.leases`' controllers, network and faults, with real replicas instead of its model of them."""

from bisect import bisect
from collections import Counter

from logherd.controller.values import GroupKey
from logherd.group.output import Event, Fenced, Serving, SetChanged
from logherd.model.names import Epoch
from logherd.replication.messages import Envelope
from sim.consensus.streams import stream
from sim.groups.broker import GroupBroker
from sim.groups.faults import GroupFaults
from sim.groups.settings import Settings
from sim.groups.volume import Bases
from sim.leases.broker import Broker
from sim.leases.doubt import Forgiven
from sim.leases.fate import require
from sim.leases.world import KEYS, World
from sim.plan import Plan

__all__ = ["GroupWorld", "settings_of"]


def settings_of(plan: Plan) -> Settings:
    """With what all brokers begin. In some seeds a log takes seconds to be copied, as a long one does."""
    settings = Settings().slowed(stream(plan.seed, "catch-up").choice((64 << 20, 64 << 20, 4_000)))
    return settings.upgraded(stream(plan.seed, "settings")) if "half-way" in plan.shape["kinds"] else settings


class GroupWorld(World):
    """A run is a pure function of its plan."""

    def __init__(self, plan: Plan, *, keep: int = 400) -> None:
        self.bases: Bases = {}
        self.answered = 0
        self.seen: Counter[str] = Counter()
        self.settings = settings_of(plan)
        self._told: dict[GroupKey, list[tuple[int, int]]] = {}
        super().__init__(plan, keep=keep)
        self.faults = GroupFaults(self)

    def add_broker(self, key: GroupKey, number: int, *, learner: bool = False, twin: str = "") -> Broker:
        """Another process; a twin has an id that another living process has, too."""
        letter = "b" if key == KEYS[0] else "d"
        broker = GroupBroker(self, key, f"{letter}{number}{twin}", number, learner=learner)
        self.brokers[broker.name] = broker
        self.observer.fates[key].processes.append(broker)
        return broker

    def carry(self, sender: GroupBroker, envelope: Envelope) -> None:
        """A message between replicas goes to whoever has that name now."""
        for other in self.group(sender.key):
            if isinstance(other, GroupBroker) and other.core.identity == envelope.to:
                self.net.send(sender.name, other.name, lambda to=other: to.receive(envelope))  # type: ignore[misc]

    def note_event(self, broker: GroupBroker, news: Event) -> None:
        """Something has changed at a replica."""
        if isinstance(news, (Fenced, Serving, SetChanged)):
            self.note(broker.name, str(news))
        self.seen[type(news).__name__] += 1

    def note_retimed(self, broker: GroupBroker) -> None:
        """An operator has changed settings while the process runs."""
        self.note(broker.name, f"runs on with {broker.settings}")
        self.seen["retimed"] += 1

    def note_cramped(self, broker: GroupBroker, epoch: Epoch) -> None:
        """A leadership begins without its barrier, which finds no room."""
        self.note(broker.name, f"has no room for the barrier of epoch {epoch}")
        self.seen["cramped"] += 1

    def on_answered(self, broker: GroupBroker, epoch: Epoch) -> None:
        """R2: a client hears of its record; nobody else would answer one at this moment."""
        self.answered += 1
        fate = self.observer.fate_of(broker)
        for other in self.group(broker.key):
            alone = other is broker or not isinstance(other, GroupBroker) or other.serves() is None
            if not alone and fate.doubt.standing:
                raise Forgiven("who led by the record leads on")
            require(alone, "R2", f"{broker.name} answers in epoch {epoch} while {other.name} serves")

    # ---- what clients were told ------------------------------------------------------------------------------------

    def note_told(self, broker: GroupBroker, count: int) -> None:
        """A client has heard that so many records are committed."""
        told = self._told.setdefault(broker.key, [])
        if not told or told[-1][1] < count:
            told.append((self.now_us, count))

    def told_before(self, broker: GroupBroker, us: int) -> int:
        """How many records clients of its group had been told of at a moment."""
        told = self._told.get(broker.key, [])
        at = bisect(told, us, key=lambda each: each[0])
        return told[at - 1][1] if at else 0

    def may_lose(self, broker: GroupBroker) -> bool:
        """Whether what was told may be lost, because an operator has accepted that."""
        fate = self.observer.fate_of(broker)
        return fate.lost > 0 or fate.amnesty or fate.dissolved or fate.doubt.standing
