"""A broker group under real controllers: cores over memory logs, with time, network and flushes in the test's hand."""

from collections import deque
from heapq import heappop, heappush
from itertools import count

from logherd.controller.admission import admit_register, admit_sync_set
from logherd.controller.commands import AlterSyncSet, Command, Register, Release
from logherd.controller.leases import LeaseTerms
from logherd.controller.machine import Machine
from logherd.controller.office import Office
from logherd.controller.reports import Report, Withheld
from logherd.controller.settings import OfficeOptions
from logherd.controller.values import BrokerId, Group, GroupKey, Registration, Rules
from logherd.controller.verdicts import Refusal, Verdict
from logherd.group.core import GroupCore
from logherd.group.inputs import Appended, Flushed, Heard, Input, Received, Registered, SetAnswered, Tick
from logherd.group.options import GroupOptions
from logherd.group.output import Ask, Event, Leading, Output
from logherd.group.seat import Seat
from logherd.model.names import Epoch, Position
from logherd.raft.memory import MemoryLog
from logherd.raft.record import Kind
from logherd.replication.messages import Envelope
from logherd.replication.sender import ShipOptions

__all__ = ["KEY", "Desk", "Node", "Stage"]

KEY = GroupKey("c", "bg")


class Desk:
    """One controller that is always right. `deaf`: brokers that it does not hear, and that do not hear it."""

    def __init__(self, *, replicas: int, min_in_sync: int) -> None:
        self.rules = Rules(replicas=replicas, min_in_sync=min_in_sync)
        self.machine = Machine()
        self.office = Office(self.machine, LeaseTerms(), OfficeOptions(gather_ms=200), 0)
        self.deaf: set[int] = set()

    @property
    def group(self) -> Group:
        group = self.machine.group(KEY)
        assert group is not None
        return group

    def submit(self, command: Command, now: int) -> Verdict:
        self.office.submitted(command)
        verdict = self.machine.apply(command)
        self.office.applied(command, verdict, now)
        return verdict

    def decide(self, now: int) -> None:
        for command in self.office.decide(now):
            verdict = self.machine.apply(command)
            self.office.applied(command, verdict, now)

    def answer(self, ask: Ask, now: int) -> Input | None:
        """What a broker hears to its question."""
        match ask:
            case Report():
                refusal = self.office.hear(ask, now)
                answer = Withheld(None, refusal) if refusal else self.office.renew(ask, now, heard=now)
                return Heard(answer, now, ask.number)
            case Register():
                admitted = admit_register(self.office, ask, now)
                verdict = self.submit(admitted, now) if not isinstance(admitted, Refusal) else Verdict()
                replica = verdict.group.replica(ask.broker_id) if verdict.group is not None else None
                ours = replica is not None and replica.incarnation == ask.incarnation
                return Registered(replica.registration) if replica is not None and ours else None
            case AlterSyncSet():
                proposal = admit_sync_set(self.office, ask, now)
                if isinstance(proposal, Refusal):
                    return None
                verdict = self.submit(proposal, now)
                group = verdict.group
                if verdict.refusal is not None or group is None:
                    return None
                return SetAnswered(ask.request, group.sync.members, group.sync.version)
            case Release():
                self.submit(ask, now)
                return None


class Node:
    """A replica: its core, its log, and what its shell would do. `slow`: flushes end only when the test says so."""

    def __init__(self, stage: "Stage", broker_id: int, log: MemoryLog, *, life: int = 1, learner: bool = False) -> None:
        self.stage = stage
        self.id = broker_id
        self.log = log
        self.life = life
        self.slow = False
        self.alive = True
        self.kept_epoch = Epoch(0)
        self.committed = Position(0)
        self.events: list[Event] = []
        self.asks: list[Ask] = []
        self.outputs: list[Output] = []
        self._flushes: deque[tuple[int, tuple[Envelope, ...], Epoch | None]] = deque()
        self._seat = Seat(
            group=KEY, broker_id=BrokerId(broker_id), store_id=f"s{broker_id}", incarnation=f"s{broker_id}.{life}",
            address=f"b{broker_id}:10911", rules=stage.desk.rules, learner=learner,
        )  # fmt: skip
        self.start()

    def start(self) -> None:
        self.core = GroupCore(
            self._seat, self.stage.options, self.log, epoch=self.kept_epoch, commit=self.committed, now=self.stage.now
        )

    def feed(self, event: Input) -> Output:
        """One step, and the shell's duties in the order of output.py."""
        now = self.stage.now
        output = self.core.step(event, now)
        self.outputs.append(output)
        self.events += output.events
        for envelope in output.messages:
            self.stage.post(self, envelope)
        if output.flush is not None:
            self._flushes.append((output.flush, output.held, output.keep and output.keep.epoch))
        if output.commit is not None:
            self.committed = output.commit
        for ask in output.asks:
            self.asks.append(ask)
            self.stage.ask(self, ask)
        for news in output.events:
            if isinstance(news, Leading) and not self.stage.no_barrier:
                self.write(news.epoch, b"barrier")
                self.feed(Appended())
        if not self.slow:
            self.flush()
        return output

    def flush(self) -> None:
        """End all flushes that have begun."""
        while self._flushes:
            token, held, epoch = self._flushes.popleft()
            if epoch is not None:
                self.kept_epoch = epoch
            for envelope in held:
                self.stage.post(self, envelope)
            self.feed(Flushed(token))

    def write(self, epoch: Epoch, body: bytes) -> Position:
        """What the services of a leader do."""
        return self.log.append(Kind.DATA, epoch, body)

    def append(self, body: bytes = b"record") -> Position:
        """A client's write, by a leader."""
        leader = self.core.leading
        assert leader is not None
        end = self.write(leader.epoch, body)
        self.feed(Appended())
        return end

    def heard(self, *kinds: type) -> list[Event]:
        """The events of these kinds, oldest first."""
        return [event for event in self.events if isinstance(event, kinds)]

    @property
    def serves(self) -> Epoch | None:
        return self.core.serving(self.stage.now)


class Stage:
    """Messages take one millisecond, from and to who is in `far` as many as stand there; `cut` holds pairs (from, to)
    between which nothing arrives."""

    def __init__(self, replicas: int = 3, *, min_in_sync: int = 2, options: GroupOptions | None = None) -> None:
        self.now = 0
        self.options = options or GroupOptions(ship=ShipOptions(small_bytes=0))
        self.no_barrier = False
        self.desk = Desk(replicas=replicas, min_in_sync=min_in_sync)
        self.cut: set[tuple[int, int]] = set()
        self.far: dict[int, int] = {}
        self._post: list[tuple[int, int, Envelope]] = []
        self._posted = count()
        self._answers: deque[tuple[int, Node, Input]] = deque()
        self.nodes = {each: Node(self, each, MemoryLog()) for each in range(1, replicas + 1)}

    # ---- what nodes do -------------------------------------------------------------------------------------------

    def post(self, sender: Node, envelope: Envelope) -> None:
        to = int(envelope.to.partition(".")[0])
        if (sender.id, to) not in self.cut:
            due = self.now + max(self.far.get(sender.id, 1), self.far.get(to, 1))
            heappush(self._post, (due, next(self._posted), envelope))

    def ask(self, node: Node, ask: Ask) -> None:
        if node.id in self.desk.deaf:
            return
        answer = self.desk.answer(ask, self.now)
        if answer is not None:
            self._answers.append((self.now + 1, node, answer))

    # ---- what tests do -------------------------------------------------------------------------------------------

    def run(self, ms: int) -> None:
        """Let time pass."""
        for _ in range(ms):
            self.now += 1
            while self._post and self._post[0][0] <= self.now:
                envelope = heappop(self._post)[2]
                node = self.nodes.get(int(envelope.to.partition(".")[0]))
                if node is not None and node.alive:
                    node.feed(Received(envelope))
            while self._answers and self._answers[0][0] <= self.now:
                _, node, answer = self._answers.popleft()
                if node.alive:
                    node.feed(answer)
            if self.now % 20 == 0:
                self.desk.decide(self.now)
                for node in self.nodes.values():
                    if node.alive:
                        node.feed(Tick())

    def run_until_served(self, ms: int = 10_000) -> Node:
        """Until somebody serves."""
        until = self.now + ms
        while (leader := self.leader) is None:
            assert self.now < until, self.desk.group
            self.run(1)
        return leader

    def slow_learner(self, leader: Node) -> tuple[Node, Position]:
        """One that has heard up to where all is committed, and has not flushed the last record of that."""
        self.nodes[4] = learner = Node(self, 4, MemoryLog(), learner=True)
        self.run(3_000)
        learner.slow = True
        end = leader.append()
        self.run(400)
        return learner, end

    @property
    def leader(self) -> Node | None:
        """Who serves; nobody else may."""
        serving = [node for node in self.nodes.values() if node.alive and node.serves is not None]
        assert len(serving) <= 1, [node.id for node in serving]
        return serving[0] if serving else None

    def isolate(self, node: Node, *, from_controllers: bool = True) -> None:
        """Nothing reaches it, and nothing leaves it."""
        for other in self.nodes:
            self.cut |= {(node.id, other), (other, node.id)}
        if from_controllers:
            self.desk.deaf.add(node.id)

    def heal(self) -> None:
        self.cut.clear()
        self.desk.deaf.clear()

    def kill(self, node: Node) -> None:
        node.alive = False

    def restart(self, node: Node) -> Node:
        """Another process on the same store; nothing is lost."""
        node.alive = False
        after = Node.__new__(Node)
        fresh = self.nodes[node.id] = after
        Node.__init__(fresh, self, node.id, node.log, life=node.life + 1)
        fresh.kept_epoch, fresh.committed = node.kept_epoch, node.committed
        fresh.start()
        return fresh

    def registration(self, node: Node) -> Registration:
        return node.core.ground.me.registration
