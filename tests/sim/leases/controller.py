"""One simulated controller: a Raft core, its disk, the machine, and an office while it leads."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING
from zlib import crc32

from logherd.controller.commands import Command, Tune, decode_command, encode_command
from logherd.controller.machine import Machine
from logherd.controller.office import Office
from logherd.controller.reports import Report
from logherd.controller.settings import LEASE_WAIT, OfficeOptions, epochs_above
from logherd.controller.silence import Silence, patience_ms, successor
from logherd.controller.verdicts import Verdict
from logherd.model.names import Position
from logherd.raft.core import RaftCore, found_group, make_image
from logherd.raft.inputs import Applied, DiskFull, Flushed, ImageKept, Input, Propose, Read, Received, Tick, Transfer
from logherd.raft.options import RaftOptions
from logherd.raft.output import Answer, Decided, Output, ReadReady, Role, RoleChanged
from logherd.raft.record import Kind
from logherd.raft.store import HardState
from logherd.replication.epochs import NOWHERE
from logherd.replication.messages import ClusterId, CopyChunk, Envelope, ReplicaId
from logherd.replication.sender import ShipOptions
from sim.consensus.disk import SimStore
from sim.leases.process import Process

if TYPE_CHECKING:
    from sim.leases.world import World

__all__ = ["Controller"]

CLUSTER = ClusterId("leases")
OPTIONS = OfficeOptions(fresh_ms=700, gather_ms=200, transfer_ms=2_000, retry_ms=50, idle_ms=200)
RAFT = RaftOptions(ship=ShipOptions(small_bytes=0))
TICK_US = 50_000

Done = Callable[[Verdict | None], None]


class Controller(Process):
    """`propose` and `confirm` call back with None when this controller cannot answer for the quorum any more."""

    def __init__(self, world: "World", identity: ReplicaId, founders: tuple[ReplicaId, ...]) -> None:
        super().__init__(world, str(identity))
        self.identity = identity
        self.marks = world.observer.marks
        self.silent_until = 0
        self.full = False
        self.store = SimStore(1 << 16)
        found_group(self.store, HardState(CLUSTER, identity), founders)
        self.store.flush(len(self.store.pending))
        self._requests = 0
        self.office: Office | None = None
        self._waiting: dict[int, tuple[Command | None, Done]] = {}
        self.started()

    def started(self) -> None:
        """Start from the disk, perhaps with other terms."""
        self.terms = self.world.terms_of(f"{self.name}.{self.life}")
        self.machine, self.position, self.since_image = Machine(), NOWHERE, 0
        self.machine.apply(Tune(values={LEASE_WAIT: self.world.terms.waiter_ms}))  # as of offices before the first
        self._silence = Silence(patience_ms(self.terms.lease_ms))
        self._verdicts: dict[Position, Verdict] = {}
        self._held: deque[tuple[int, tuple[Envelope, ...]]] = deque()
        self._flushing, self._wanted = False, 0
        self._load()
        hard = HardState(CLUSTER, self.identity)
        seed = self.draw.getrandbits(64)
        options = replace(RAFT, ship=replace(RAFT.ship, chunk_bytes=self.world.shape.piece_bytes))
        self.core = RaftCore(self.store, options, hard=hard, seed=seed, now=self.now_ms())
        if self.full:
            self.feed(DiskFull(full=True))
        self.soon(self.draw.randrange(TICK_US), self._tick)

    def ended(self) -> None:
        """What was not flushed may be gone."""
        self._leave_office()
        self._waiting.clear()
        self.store.lose(self.draw)
        self.store = self.store.reopened()

    def fill(self, *, full: bool) -> None:
        """The reserve of its disk is touched, or free again."""
        self.full = full
        if self.alive:
            self.feed(DiskFull(full=full))

    @property
    def leader_hint(self) -> str:
        """Where it sends whoever asks the wrong controller."""
        leader = self.core.leader
        return str(leader) if leader is not None and leader != self.identity else ""

    def hand_over(self, target: ReplicaId | None = None) -> None:
        """Another controller shall lead."""
        self._requests += 1
        self._waiting[self._requests] = (None, lambda verdict: None)
        self.feed(Transfer(self._requests, target))

    def _mind_silence(self, office: Office) -> None:
        """As the board and the member do."""
        turn = self._silence.gives_way(office, self.now_ms())
        target = None if turn is None else successor(self.core.ground.members.current.voters, self.identity, turn)
        if target is not None:
            self.marks.hit("unreached")
            self.hand_over(target)

    def _load(self) -> None:
        image = self.store.image()
        if image is not None and image.size:
            self.machine = Machine.load(self.store.image_chunk(image, 0, image.size) or b"")
        self.position = image.point.position if image is not None else NOWHERE
        self.world.observer.on_state(self)

    def _tick(self) -> None:
        self.feed(Tick())
        if self.office is not None:
            self.world.observer.on_tick(self)
            for command in self.office.decide(self.now_ms()):
                self.world.observer.on_proposed(self, command)
                self._append(command, lambda verdict: None)
            if self.office is not None:  # with one voter a decision may be applied at once
                self._mind_silence(self.office)
        self.soon(TICK_US, self._tick)

    # ---- what brokers ask for ----------------------------------------------------------------------------------

    def propose(self, command: Command, done: Done) -> None:
        """Have a command decided."""
        if self.office is None:
            done(None)
            return
        self.office.submitted(command)
        self._append(command, done)

    def _append(self, command: Command, done: Done) -> None:
        self._requests += 1
        self._waiting[self._requests] = (command, done)
        self.feed(Propose(self._requests, encode_command(command)))

    def confirm(self, done: Callable[[Office | None], None]) -> None:
        """Find out whether the quorum still follows this controller, from now on."""
        if self.silent_until > self.world.now_us:
            self.marks.hit("read-unconfirmed")
            done(None)
            return
        decided = self.world.observer.decided

        def confirmed(verdict: Verdict | None) -> None:
            if verdict is not None:
                self.world.observer.on_read(self, decided)
            done(self.office if verdict is not None else None)

        self._requests += 1
        self._waiting[self._requests] = (None, confirmed)
        self.feed(Read(self._requests))

    def hear_beat(self, report: Report, who: tuple[str, int], sent: int, back: Callable[[object], None]) -> None:
        """A heartbeat has arrived, perhaps not for the first time."""
        assert self.office is not None
        observer = self.world.observer
        observer.on_heard(self, report, who, sent)
        heard = self.now_ms()
        refusal = self.office.hear(report, heard)
        if refusal is not None:
            self.marks.hit_refusal("beat", refusal)

        def renew(office: Office | None) -> None:
            if office is None:
                back(None)
                return
            answer = office.renew(report, self.now_ms(), heard=heard)
            observer.on_renewed(self, report, answer)
            back(answer)

        self.confirm(renew)

    # ---- the shell ---------------------------------------------------------------------------------------------

    def receive(self, envelope: Envelope) -> None:
        """A message has arrived at this address."""
        if self.alive:
            self.marks.hit_if("image-in-pieces", isinstance(envelope.body, CopyChunk) and envelope.body.offset > 0)
            self.soon(0, lambda: self.feed(Received(envelope)))

    def feed(self, event: Input) -> None:
        """Give the core an input, and do what its output asks, in the order of `raft.output`."""
        self._carry_out(self.core.step(event, self.now_ms()))

    def _carry_out(self, output: Output) -> None:
        for envelope in output.messages:
            self.world.ship(envelope)
        if output.flush is not None:
            self._wanted = max(self._wanted, output.flush)
            self._held.append((output.flush, output.held))
            self._begin_flush()
        if output.load is not None:
            self.marks.hit("image-installed")
            self._load()
            self.feed(Applied(output.load.point.position))
        if output.apply_to is not None and output.apply_to > self.position:
            self._apply(output.apply_to)
        for answer in output.answers:
            self._answer(answer)
        for event in output.events:
            if isinstance(event, RoleChanged):
                self._on_role(event)

    def _on_role(self, event: RoleChanged) -> None:
        if event.role is Role.LEADER:
            self.world.observer.on_leader(self, event.term)
        if event.role is Role.LEADER and event.ready:
            options = replace(OPTIONS, epochs_above=epochs_above(self.world.recoveries))
            self.office = Office(self.machine, self.terms, options, self.now_ms())
            self._silence.begin(self.now_ms())
            self.world.note(self.name, f"leads term {event.term}")
            self.world.observer.on_office(self, event.term)
        elif event.role is not Role.LEADER:
            self._leave_office()

    def _leave_office(self) -> None:
        self._silence.end(self.now_ms())
        if self.office is not None:
            self.world.note(self.name, "leads no more")
            pending = [command for command, _ in self._waiting.values() if command is not None]
            self.world.observer.on_office_left(self, pending)
        self.office = None

    def _begin_flush(self) -> None:
        if self._flushing:
            return
        self._flushing = True
        token, changes = self._wanted, len(self.store.pending)
        wait = 100 + int(self.draw.expovariate(1 / self.world.shape.flush_us))
        self.soon(wait, lambda: self._end_flush(token, changes))

    def _end_flush(self, token: int, changes: int) -> None:
        self.store.flush(changes)
        self._flushing = False
        while self._held and self._held[0][0] <= token:
            for envelope in self._held.popleft()[1]:
                self.world.ship(envelope)
        self.feed(Flushed(token))
        if self._wanted > token:
            self._begin_flush()

    def _apply(self, upto: Position) -> None:
        for record in self.store.records(self.position, upto):
            if record.kind is Kind.DATA:
                before = self.position
                command = decode_command(record.body)
                verdict = self.machine.apply(command)
                self._verdicts[record.end] = verdict
                if self.office is not None:
                    self.office.applied(command, verdict, self.now_ms())
                self.position = record.end
                self.world.observer.on_applied(self, before, command, verdict)
                self.since_image += 1
        self.position = upto
        self.feed(Applied(upto))
        if self.since_image >= self.world.shape.image_every:
            self.since_image = 0
            data = self.machine.save()
            image = make_image(self.core, self.position, data, crc32(data))
            self.store.keep_image(image, data)
            self.feed(ImageKept(image))

    def _answer(self, answer: Answer) -> None:
        command, done = self._waiting.pop(answer.request)
        if isinstance(answer, Decided):
            self.world.observer.on_answered(answer.position, self.core.ground.term)
            done(self._verdicts.get(answer.position))
        elif isinstance(answer, ReadReady):
            done(Verdict())
        else:
            if command is not None and self.office is not None:
                self.office.dropped(command)
            done(None)
