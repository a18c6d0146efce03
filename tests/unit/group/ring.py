"""A broker group without controllers, in static or raft mode: cores over memory logs; time, network and flushes are in
the test's hand."""

from abc import ABC, abstractmethod
from collections import deque

from logherd.controller.values import BrokerId, GroupKey, Registration
from logherd.group.inputs import Appended, Assigned, Flushed, Input, Linked, Received, Registered, Tick
from logherd.group.machine import GroupMachine
from logherd.group.options import GroupOptions
from logherd.group.output import Event, Leading, Output, Promise
from logherd.group.seat import Seat, voter_of
from logherd.group.static_core import StaticCore
from logherd.group.table import Table
from logherd.group.voting_core import VotingCore
from logherd.model.names import Epoch, Position
from logherd.raft.memory import MemoryLog
from logherd.raft.options import RaftOptions
from logherd.raft.record import Kind
from logherd.replication.messages import Envelope, ReplicaId
from logherd.replication.sender import ShipOptions

__all__ = [
    "KEY", "NotedMemory", "Replica", "Ring", "StaticReplica", "StaticRing", "VotingReplica", "VotingRing", "others",
    "voting",
]  # fmt: skip

KEY = GroupKey("c", "bg")


class Replica(ABC):
    """Its core, its log, and what its shell would do. `slow`: flushes end only when the test says so. `cramped`: a
    barrier finds no room."""

    def __init__(self, ring: "Ring", broker_id: int, log: MemoryLog) -> None:
        self.ring = ring
        self.id = broker_id
        self.log = log
        self.life = 0
        self.slow = False
        self.cramped = False
        self.alive = True
        self.kept = Promise()
        self.committed = Position(0)
        self.events: list[Event] = []
        self._flushes: deque[tuple[int, tuple[Envelope, ...], Promise | None]] = deque()

    @abstractmethod
    def made(self) -> GroupMachine:
        """A core over what is kept."""

    @abstractmethod
    def begin(self) -> None:
        """Tell a new process what it must know first."""

    def start(self) -> None:
        """Another process on the same store."""
        self.life += 1
        self.alive, self.slow = True, False
        self._flushes.clear()
        self.core = self.made()
        self.begin()

    def lose_disk(self) -> None:
        """Its next process finds nothing."""
        self.log, self.kept, self.committed = type(self.log)(), Promise(), Position(0)

    @property
    def seat(self) -> Seat:
        return Seat(
            group=KEY, broker_id=BrokerId(self.id), store_id=f"s{self.id}", incarnation=f"s{self.id}.{self.life}",
            address=f"b{self.id}:10911",
        )  # fmt: skip

    def feed(self, event: Input) -> Output:
        """One step, and the shell's duties in the order of output.py."""
        output = self.core.step(event, self.ring.now)
        self.events += output.events
        for envelope in output.messages:
            self.ring.post(self, envelope)
        if output.flush is not None:
            self._flushes.append((output.flush, output.held, output.keep))
        if output.commit is not None:
            assert output.commit > self.committed
            self.committed = output.commit
        for news in output.events:
            if isinstance(news, Leading) and not self.cramped:
                self.write(news.epoch, b"barrier")
                self.feed(Appended())
        if not self.slow:
            self.flush()
        return output

    def flush(self) -> None:
        """End all flushes that have begun."""
        while self._flushes:
            token, held, promise = self._flushes.popleft()
            if promise is not None:
                self.kept = promise
            for envelope in held:
                self.ring.post(self, envelope)
            self.feed(Flushed(token))

    def write(self, epoch: Epoch, body: bytes) -> Position:
        """What the services of a leader do."""
        return self.log.append(Kind.DATA, epoch, body)

    def append(self, body: bytes = b"record") -> Position:
        """A client's write, by a leader."""
        epoch = self.core.leads
        assert epoch is not None
        end = self.write(epoch, body)
        self.feed(Appended())
        return end

    def heard(self, *kinds: type) -> list[Event]:
        """The events of these kinds, oldest first."""
        return [event for event in self.events if isinstance(event, kinds)]

    @property
    def serves(self) -> Epoch | None:
        return self.core.serving(self.ring.now) if self.alive else None


class Ring:
    """Messages take one millisecond; `cut` holds pairs (from, to) between which nothing arrives."""

    def __init__(self) -> None:
        self.now = 1_000
        self.cut: set[tuple[int, int]] = set()
        self._post: deque[tuple[int, Envelope]] = deque()
        self.nodes: dict[int, Replica] = {}

    def post(self, sender: Replica, envelope: Envelope) -> None:
        to = int(envelope.to.partition(".")[0])
        if (sender.id, to) not in self.cut:
            self._post.append((self.now + 1, envelope))

    def run(self, ms: int) -> None:
        """Let time pass."""
        for _ in range(ms):
            self.now += 1
            while self._post and self._post[0][0] <= self.now:
                envelope = self._post.popleft()[1]
                node = self.nodes.get(int(envelope.to.partition(".")[0]))
                if node is not None and node.alive:
                    node.feed(Received(envelope))
            if self.now % 20 == 0:
                for node in self.nodes.values():
                    if node.alive:
                        node.feed(Tick())

    def until_served(self, ms: int = 10_000, *, by: int | None = None) -> Replica:
        """Until somebody serves, or that one."""
        until = self.now + ms
        while True:
            for node in self.serving:
                if by in (None, node.id):
                    return node
            assert self.now < until, [(node.id, node.events[-3:]) for node in self.nodes.values()]
            self.run(1)

    @property
    def serving(self) -> list[Replica]:
        """All who would answer clients now."""
        return [node for node in self.nodes.values() if node.serves is not None]

    @property
    def leader(self) -> Replica | None:
        """Who serves; nobody else may."""
        assert len(self.serving) <= 1, [node.id for node in self.serving]
        return self.serving[0] if self.serving else None

    def isolate(self, node: Replica, *others: Replica) -> None:
        """Nothing reaches it from these, and nothing reaches these from it; everybody, if none is named."""
        for other in others or self.nodes.values():
            self.cut |= {(node.id, other.id), (other.id, node.id)}

    def heal(self) -> None:
        """New connections everywhere."""
        self.cut.clear()
        for node in self.nodes.values():
            self.link(node)

    def kill(self, node: Replica) -> None:
        node.alive = False

    def restart(self, node: Replica) -> Replica:
        """Another process on the same store; nothing is lost."""
        node.start()
        self.link(node)
        return node

    def link(self, node: Replica) -> None:
        """Connections between it and all others."""
        for other in self.nodes.values():
            open_ = (node.id, other.id) not in self.cut and (other.id, node.id) not in self.cut
            if other is not node and node.alive and other.alive and open_:
                node.feed(Linked(other.core.identity))
                other.feed(Linked(node.core.identity))


class StaticReplica(Replica):
    """In static mode. `table`: what its configuration, or whoever it asks, says."""

    ring: "StaticRing"
    core: StaticCore

    def made(self) -> StaticCore:
        return StaticCore(
            self.seat, self.ring.options, self.log, epoch=self.kept.epoch, commit=self.committed, now=self.ring.now
        )

    def begin(self) -> None:
        self.feed(Registered(Registration(self.life)))
        self.feed(Assigned(self.ring.table))


class StaticRing(Ring):
    """Everybody hears of a table at once, unless told later by hand."""

    def __init__(self, table: Table, *, replicas: int = 3) -> None:
        super().__init__()
        self.options = GroupOptions(ship=ShipOptions(small_bytes=0))
        self.table = table
        self.nodes = {each: StaticReplica(self, each, MemoryLog()) for each in range(1, replicas + 1)}
        for node in self.nodes.values():
            node.start()
        for node in self.nodes.values():
            self.link(node)

    def assign(self, table: Table, *to: Replica) -> None:
        """The table is in force, and these hear of it; everybody, if none is named."""
        self.table = table
        for node in to or self.nodes.values():
            if node.alive:
                node.feed(Assigned(table))


class NotedMemory(MemoryLog):
    """A memory log in which a leadership can leave notes."""

    def append_note(self, epoch: Epoch, note: bytes) -> Position:
        return self.append(Kind.MEMBERS, epoch, note)

    def notes(self, after: Position, upto: Position) -> list[tuple[Position, bytes]]:
        return [(record.end, record.body) for record in self.records(after, upto) if record.kind is Kind.MEMBERS]


class VotingReplica(Replica):
    """In raft mode. `founders`: empty, if it joined later. With another `store` it is another voter."""

    ring: "VotingRing"
    core: VotingCore
    log: NotedMemory
    store = 1
    founders: tuple[ReplicaId, ...] = ()

    @property
    def seat(self) -> Seat:
        return Seat(
            group=KEY, broker_id=BrokerId(self.id), store_id=f"s{self.id}.{self.store}", address=f"b{self.id}:10911",
            incarnation=f"s{self.id}.{self.life}",
        )  # fmt: skip

    def made(self) -> VotingCore:
        return VotingCore(
            self.seat, self.ring.options, self.log, promise=self.kept, founders=self.founders, commit=self.committed,
            seed=self.id * 1_000 + self.life, now=self.ring.now,
        )  # fmt: skip

    def begin(self) -> None:
        """It knows all that it needs."""


class VotingRing(Ring):
    """Founded by all of its first replicas."""

    def __init__(self, replicas: int = 3, *, options: RaftOptions | None = None) -> None:
        super().__init__()
        self.options = options or RaftOptions(ship=ShipOptions(small_bytes=0))
        self.founders = tuple(voter_of(BrokerId(each), f"s{each}.1") for each in range(1, replicas + 1))
        for each in range(1, replicas + 1):
            self.add(each).founders = self.founders
        for node in self.nodes.values():
            node.start()

    def add(self, broker_id: int) -> VotingReplica:
        """A replica that is not started."""
        node = VotingReplica(self, broker_id, NotedMemory())
        self.nodes[broker_id] = node
        return node


def others(ring: VotingRing, leader: Replica) -> list[Replica]:
    return [node for node in ring.nodes.values() if node is not leader]


def voting(ring: VotingRing, broker_id: int) -> VotingReplica:
    node = ring.nodes[broker_id]
    assert isinstance(node, VotingReplica)
    return node
