"""One run: members, network, clients, faults and observer on one heap of virtual time."""

from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from math import inf
from random import Random

from logherd.model.names import Position
from logherd.raft.inputs import Linked, Patience, Propose, Read, Received
from logherd.raft.options import RaftOptions
from logherd.raft.output import Answer, Decided, ReadReady, Role
from logherd.replication.messages import Envelope, ReplicaId
from logherd.replication.sender import ShipOptions
from sim.consensus.disk import SimStore
from sim.consensus.faults import Faults
from sim.consensus.file_store import FileStore
from sim.consensus.member import Member
from sim.consensus.net import Net
from sim.consensus.observer import Observer, Violation
from sim.consensus.plan import Action, Plan
from sim.consensus.shape import Shape
from sim.consensus.streams import stream
from sim.consensus.trace import Trace
from sim.consensus.words import say_envelope

__all__ = ["LIVENESS_MS", "World"]

LIVENESS_MS = 60_000


class World:
    """A run is a pure function of its plan."""

    def __init__(self, plan: Plan, *, keep: int = 100, messages: bool = False) -> None:
        seed, shape = plan.seed, plan.shape
        self.seed = seed
        self.shape = shape
        self.plan = plan
        self.now_us = 0
        self.trace = Trace(keep)
        self.observer = Observer()
        self.steps = 0
        self.decided = 0
        self.reads = 0
        self.no_writes_until = 0
        self.halted = False
        self._say_messages = messages
        self._order = stream(seed, "order")
        self._heap: list[tuple[int, int, int, Callable[[], None]]] = []
        self._numbers = 0
        self._floors: dict[int, Position] = {}
        self.net = Net(seed, shape, self.at, self.observer.marks.hits)
        self.net.now_us = lambda: self.now_us
        self.net.deliver = self._deliver
        founders = tuple(ReplicaId(f"n{number}.0") for number in range(1, shape.founders + 1))
        self.options = options_of(shape, founders)
        names = [f"n{number}" for number in range(1, shape.founders + shape.spares + 1)]
        self.members: dict[str, Member] = {}
        for name in names:
            self.members[name] = Member(self, name, founders)
        self.faults = Faults(self)

    def make_store(self, segment_bytes: int, draw: Random) -> SimStore:
        """The disk of a member that has never started."""
        return FileStore.on_empty_disk(segment_bytes, draw) if self.plan.files else SimStore(segment_bytes)

    # ---- time --------------------------------------------------------------------------------------------------

    def at(self, when_us: int, action: Callable[[], None]) -> None:
        """Plan an action; ties are broken by a stream of their own."""
        self._numbers += 1
        heappush(self._heap, (when_us, self._order.getrandbits(24), self._numbers, action))

    def after(self, wait_us: int, action: Callable[[], None]) -> None:
        """Plan an action from now."""
        self.at(self.now_us + wait_us, action)

    def note(self, node: str, event: str) -> None:
        """Add a line to the trace."""
        self.trace.note(self.now_us, node, event)

    def _run_until(self, when_us: int, done: Callable[[], bool] = lambda: False) -> bool:
        while self._heap and self._heap[0][0] <= when_us:
            self.now_us, _, _, action = heappop(self._heap)
            self.steps += 1
            action()
            if self.steps % 64 == 0 and done():
                return True
        self.now_us = when_us
        return done()

    # ---- the run -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Faults first, then the demand that a healed group works. Raises: Violation."""
        for fault in self.plan.faults:
            self.at(fault.at_ms * 1000, partial(self.faults.begin, fault))
        for action in self.plan.actions:
            self.at(action.at_us, partial(self._operate, action))
        self.after(2_000_000, self._mend_members)
        self._run_until(self.shape.faulty_ms * 1000)
        self.note("-", "healed")
        self.faults.heal()
        behind = inf
        while not self._run_until(self.now_us + LIVENESS_MS * 1000, self._recovered):
            self.halted = self._is_helpless()
            if self.halted:
                self.note("-", "halted: too many disks may have forgotten what they promised")
                return
            lacks = self._lacks()
            before, behind = behind, inf if lacks is None else sum(lacks)
            if not behind < 0.9 * before:
                raise Violation(f"liveness: not recovered {LIVENESS_MS} ms after the last fault: {self.report()}")

    def report(self) -> str:
        """Where everybody is."""
        lines = []
        for member in self.members.values():
            ground = member.core.ground
            lines.append(
                f"{member.identity} {member.core.role.value} term {ground.term} last {ground.last} "
                f"commit {ground.progress.commit} applied {member.machine.position} {ground.members.current}"
            )
        return "; ".join(lines)

    def leader(self) -> Member | None:
        """The live leader of the newest term."""
        leading = [member for member in self.members.values() if member.alive and member.core.role is Role.LEADER]
        return max(leading, key=lambda member: member.core.ground.term, default=None)

    def _recovered(self) -> bool:
        """A ready leader; every member of its group has applied what was committed well after the healing."""
        leader, lacks = self.leader(), self._lacks()
        if leader is None or lacks is None or any(lacks):
            return False
        ground = leader.core.ground
        if ground.members.current.joint or ground.log.epochs.epoch_at(ground.progress.commit) != ground.term:
            return False
        if ground.progress.commit != ground.log.end:
            return False
        return self.now_us > (self.shape.faulty_ms + 1_000) * 1000

    def _lacks(self) -> list[int] | None:
        """How many bytes each member has not applied: records that go one at a time over a slow network take long. None
        without a leader that serves."""
        leader = self.leader()
        if leader is None or leader.core.leading is None or not leader.core.leading.ready:
            return None
        ground = leader.core.ground
        live = {member.identity: member for member in self.members.values()}
        members = [live[peer] for peer in ground.members.current.members if peer in live]
        return [ground.log.end - member.machine.position for member in members]

    def _is_helpless(self) -> bool:
        """Whether some group is left without a majority of members that may vote; an operator would have to decide."""
        for member in self.members.values():
            current = member.core.ground.members.current
            for half in (current.voters, current.outgoing):
                lost = [peer for peer in half if peer in self.observer.graves or self.observer.is_doubtful(peer)]
                if half and 2 * len(lost) >= len(half):
                    return True
        return False

    # ---- clients and operator ----------------------------------------------------------------------------------

    def _operate(self, action: Action) -> None:
        draw, write = Random(action.number), action.kind == "write"
        target = self._choose(draw, write=write)
        if not write:
            self.read(target, lease=action.kind == "lease")
        elif self.now_us >= self.no_writes_until:
            request = self.new_request()
            target.feed(Propose(request, b"%d " % request + bytes(draw.choice((0, 10, 100)))))

    def read(self, member: Member, *, lease: bool) -> None:
        """A client asks a member for its state, and knows what was answered to anybody before."""
        request = self.new_request()
        self._floors[request] = self.observer.answered
        member.feed(Read(request, lease=lease))

    def _choose(self, draw: Random, *, write: bool) -> Member:
        """Mostly who leads; for reads also who only believes so, and anybody."""
        chance, leader = draw.random(), self.leader()
        if leader is not None and chance < (0.8 if write else 0.4):
            return leader
        believers = [member for member in self.members.values() if member.alive and member.core.role is Role.LEADER]
        if believers and chance < 0.7:
            return draw.choice(believers)
        return self.members[draw.choice(list(self.members))]

    def new_request(self) -> int:
        """A number that comes back in one answer."""
        self._numbers += 1
        return self._numbers

    def answered(self, member: Member, answer: Answer) -> None:
        """A member has answered a request."""
        floor = self._floors.pop(answer.request, None)
        if isinstance(answer, Decided):
            self.decided += 1
            self.observer.on_answered(min(answer.position, member.core.ground.progress.commit))
        elif isinstance(answer, ReadReady) and floor is not None:
            self.reads += 1
            self.observer.on_read(member, floor)

    def _mend_members(self) -> None:
        """An operator replaces members whose disk is gone."""
        self.faults.replace_dead()
        self.after(1_000_000, self._mend_members)

    # ---- messages ----------------------------------------------------------------------------------------------

    def send(self, member: Member, envelope: Envelope) -> None:
        """A member's shell puts a message on the wire."""
        self.observer.on_send(member, envelope)
        self.net.send(envelope)

    def _deliver(self, name: str, envelope: Envelope) -> None:
        member = self.members[name]
        if member.alive:
            if self._say_messages:
                self.note(name, f"< {say_envelope(envelope)}")
            if self.shape.patience:
                self._tell_patience(member, envelope.sender)
            member.feed(Received(envelope))

    def _tell_patience(self, member: Member, sender: ReplicaId) -> None:
        """A process tells how long it waits for a leader with each connection, before anything else."""
        waits_ms = self.members[sender.partition(".")[0]].core.ground.options.election_ms
        if member.told.get(sender) != waits_ms:
            member.told[sender] = waits_ms
            member.feed(Patience(dict(member.told)))

    def relink(self, name: str) -> None:
        """New connections between this process and everybody else."""
        for other in self.members.values():
            if other.name != name:
                for pair in ((name, other.name), (other.name, name)):
                    self.net.reconnect(pair)
                    self.members[pair[0]].feed(Linked(self.members[pair[1]].identity))


def options_of(shape: Shape, founders: tuple[ReplicaId, ...]) -> RaftOptions:
    """The cores' settings: small limits, so that their edges are met often."""
    ship = ShipOptions(
        heartbeat_ms=150,
        answer_ms=400,
        backoff_ms_max=2_000,
        message_bytes_max=shape.message_bytes,
        window_messages=shape.window_messages,
        window_bytes=4 * shape.message_bytes,
        small_bytes=shape.small_bytes,
        chunk_bytes=100,
        chunks_ahead=2,
        catch_up_bytes_per_second=200_000,
    )
    return RaftOptions(
        election_ms=1_000,
        election_spread_ms=1_000,
        preferred=founders[: shape.preferred],
        rank_delay_ms=200,
        uncommitted_bytes_max=4_000,
        uncommitted_records_max=40,
        lease_reads=shape.lease_reads,
        change_ms_max=5_000,
        ship=ship,
    )
