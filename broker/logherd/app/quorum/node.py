"""The shell of a Raft member: it carries out what the core's outputs say, in the order that raft/output.py states.

One pass of the loop gathers everything that was proposed and read in it into one step each. What a step wants flushed
goes to the writer thread as one batch; while that is on its way the next one collects. `held` messages leave when their
token has been flushed, and never before.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from secrets import randbits
from typing import Generic, Protocol, TypeVar
from zlib import crc32

from logherd.app.quorum.outcomes import Applied, Outcome, ReadAt, ReadOutcome, Rejected, StateMachine, Uncertain
from logherd.app.writer import Writer
from logherd.kit.errors import InvariantError, LogHerdError
from logherd.model.names import Position
from logherd.raft.core import RaftCore, make_image
from logherd.raft.inputs import Applied as AppliedUpTo
from logherd.raft.inputs import (
    ChangeMembers,
    DiskFull,
    Flushed,
    ImageKept,
    Input,
    Linked,
    Propose,
    ProposeAll,
    Read,
    Received,
    RecoverQuorum,
    Tick,
    Transfer,
)
from logherd.raft.members import Goal
from logherd.raft.options import RaftOptions
from logherd.raft.output import Answer, Decided, Event, Output, ReadReady, Refused, Unknown
from logherd.raft.record import Kind
from logherd.raftlog.log import Batch, RaftLog
from logherd.replication.epochs import NOWHERE, Point
from logherd.replication.log import Image
from logherd.replication.messages import Envelope, ReplicaId
from logherd.store.errors import StoreFull

__all__ = ["NodeFailed", "NodeOptions", "RaftNode", "boot_ms"]

_TICK_SECONDS = 0.02
_FULL_RETRY_SECONDS = 0.2
_TEND_SECONDS = 0.1
_APPLY_RECORDS_MAX = 2_000
"""Applied in one go; after that others get a turn."""

ResultT = TypeVar("ResultT")


class NodeFailed(LogHerdError):
    """The member's log failed, or a rule of its core was broken; the process must end without writing."""


def boot_ms() -> int:
    """Milliseconds of a clock that never goes back and counts suspension (leases and elections need both)."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """`raft`: the core's own; an image is made after so many records or bytes, whichever comes first."""

    raft: RaftOptions
    image_records: int = 20_000
    image_bytes: int = 16 << 20


class Sender(Protocol):
    """What carries messages to the other members; it may lose them."""

    def send(self, envelope: Envelope) -> bool: ...


class _FlushBatch:
    """A batch for the writer thread that outlives a full disk: it is tried again, because votes must go on."""

    __slots__ = ("_batch", "full", "token")

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self.token = batch.token
        self.full = False

    def write_and_flush(self) -> None:
        try:
            self.full = False
            self._batch.write_and_flush()
        except StoreFull:
            self.full = True


class RaftNode(Generic[ResultT]):
    """One running member. Belongs to the loop on which it was made; every method but `stop` returns at once.

    Invariants: (1) a held message leaves after the flush that it waits for; (2) each proposal and each read is answered
    exactly once, in the order of the outputs, after the state has reached what it names; (3) nothing is sent after a
    failure.
    """

    def __init__(
        self, log: RaftLog, machine: StateMachine[ResultT], options: NodeOptions, *, sender: Sender,
        on_event: Callable[[Event], None], on_failure: Callable[[BaseException], None],
    ) -> None:  # fmt: skip
        """Start as a follower of what the log says; the state machine is loaded from its newest image.

        `on_failure` hears once that the node has failed; then the process must end. Raises: what `machine.load` does.
        """
        hard = log.hard_state()
        if hard is None:
            raise InvariantError("a member's log has an owner before it starts")
        self._loop = asyncio.get_running_loop()
        self.log = log
        self._machine = machine
        self._options = options
        self._send = sender.send
        self._on_event = on_event
        self._on_failure = on_failure
        self.failure: NodeFailed | None = None
        self.position: Position = NOWHERE
        self._apply_to: Position = NOWHERE
        self._since_image = (0, self.position)
        self._load(log.image())
        self.core = RaftCore(log, options.raft, hard=hard, seed=randbits(64), now=boot_ms())
        self._writer: Writer[_FlushBatch] = Writer(
            self._loop, on_done=self._written, background=log.tend, idle_seconds=_TEND_SECONDS
        )
        self._flush_wanted = 0
        self._flush_asked = False
        self._held: deque[tuple[int, tuple[Envelope, ...]]] = deque()
        self._pass_due = False
        self._applying = False
        self._asking = _Asking[ResultT]()
        self._full = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def identity(self) -> ReplicaId:
        """Who this member is."""
        return self.core.ground.identity

    @property
    def healthy(self) -> bool:
        """Whether it makes progress: no failure, and no flush that has been waiting for an election time-out."""
        return self.failure is None and not self.core.ground.stalled

    def start(self) -> None:
        """Begin: the writer thread and the ticks."""
        self._writer.start()
        self._timer = self._loop.call_later(_TICK_SECONDS, self._tick)

    async def stop(self, seconds: float) -> bool:
        """End the writer after the batch in flight and close the log; False if the thread did not end in time.

        What was proposed and not answered gets no answer any more.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        ended = await asyncio.to_thread(self._writer.stop, seconds)
        if self.failure is None:
            self.failure = NodeFailed("the node was stopped")
        if ended:
            self.log.close()
        return ended

    # ---- what others ask for ------------------------------------------------------------------------------------

    def propose(self, body: bytes, then: Callable[[Outcome[ResultT]], None]) -> None:
        """Have a record decided. `then` is called once, later, on this loop."""
        self._asking.proposals.append(Propose(self._asking.number(then, applied=True), body))
        self._end_pass_soon()

    def read(self, then: Callable[[ReadOutcome], None]) -> None:
        """Call `then` when the state here holds everything that is committed now. Reads of one pass share one round."""
        self._asking.reads.append(then)
        self._end_pass_soon()

    def transfer(self, target: ReplicaId | None, then: Callable[[Outcome[None]], None]) -> None:
        """Hand leadership over. Applied means that the order was carried out."""
        self._step(Transfer(self._asking.number(then), target))

    def change_members(self, goal: Goal, then: Callable[[Outcome[None]], None]) -> None:
        """Work towards other members."""
        self._step(ChangeMembers(self._asking.number(then), goal))

    def recover_quorum(
        self, order: tuple[int, int, tuple[tuple[ReplicaId, Point], ...]], then: Callable[[Outcome[None]], None]
    ) -> None:
        """An operator's decision that lost voters never come back: (reset, term, survivors); see RecoverQuorum."""
        reset, term, survivors = order
        self._step(RecoverQuorum(self._asking.number(then), reset, type(self.core.ground.term)(term), survivors))

    # ---- what the links tell ------------------------------------------------------------------------------------

    def receive(self, envelopes: Sequence[Envelope]) -> None:
        """Messages of other members have arrived."""
        for envelope in envelopes:
            self._step(Received(envelope))

    def linked(self, peer: ReplicaId) -> None:
        """There is a new connection to a member."""
        self._step(Linked(peer))

    # ---- passes -------------------------------------------------------------------------------------------------

    def _end_pass_soon(self) -> None:
        if not self._pass_due:
            self._pass_due = True
            self._loop.call_soon(self._end_pass)

    def _end_pass(self) -> None:
        self._pass_due = False
        proposals, reads = self._asking.take()
        if proposals:
            self._step(ProposeAll(proposals))
        if reads:
            number = self._asking.number(lambda outcome: _tell_all(reads, outcome))
            self._step(Read(number))
        if self._flush_asked and not self._writer.busy:
            self._submit()

    def _tick(self) -> None:
        self._timer = self._loop.call_later(_TICK_SECONDS, self._tick)
        self._step(Tick())
        self._look_at_disk()

    def _step(self, event: Input) -> None:
        if self.failure is not None:
            return
        try:
            self._carry_out(self.core.step(event, boot_ms()))
        except Exception as error:  # a broken rule: nothing that this member says may be believed any more
            self._fail(error)

    def _carry_out(self, output: Output) -> None:
        for envelope in output.messages:
            self._send(envelope)
        if output.flush is not None:
            self._flush_wanted = max(self._flush_wanted, output.flush)
            if output.held:
                self._held.append((output.flush, output.held))
            self._flush_asked = True
            self._end_pass_soon()
        for event in output.events:
            self._on_event(event)
        if output.load is not None:
            self._load(output.load)
            self._step(AppliedUpTo(output.load.point.position))
        if output.apply_to is not None and output.apply_to > self._apply_to:
            self._apply_to = output.apply_to
        self._asking.answers.extend(output.answers)
        if not self._applying:
            self._apply_all()

    # ---- the disk -----------------------------------------------------------------------------------------------

    def _submit(self) -> None:
        self._flush_asked = False
        self._writer.submit(_FlushBatch(self.log.take_batch(self._flush_wanted)))

    def _written(self, batch: _FlushBatch | None, error: BaseException | None) -> None:
        if self.failure is not None:
            return
        if batch is None or error is not None:
            self._fail(error or RuntimeError("the writer reported neither a batch nor an error"))
            return
        if batch.full:
            self._look_at_disk()
            self._writer.busy = True
            self._loop.call_later(_FULL_RETRY_SECONDS, self._write_again, batch)
            return
        while self._held and self._held[0][0] <= batch.token:
            for envelope in self._held.popleft()[1]:
                self._send(envelope)
        self._step(Flushed(batch.token))
        self._look_at_disk()
        if self._flush_asked and not self._writer.busy:
            self._submit()

    def _write_again(self, batch: _FlushBatch) -> None:
        if self.failure is None:
            self._writer.busy = False
            self._writer.submit(batch)

    def _look_at_disk(self) -> None:
        if self.log.full != self._full:
            self._full = self.log.full
            self._step(DiskFull(self._full))

    def _fail(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = NodeFailed(f"{type(error).__name__}: {error}")
            self._on_failure(error)

    # ---- the state machine --------------------------------------------------------------------------------------

    def _load(self, image: Image | None) -> None:
        if image is None:
            return
        data = self.log.image_chunk(image, 0, image.size) or b""
        self._machine.load(data)
        self.position = image.point.position
        self._apply_to = max(self.position, self._apply_to)
        self._since_image = (0, self.position)

    def _apply_all(self) -> None:
        """Apply what may be applied, some records at a time, then answer who waited for it."""
        self._applying = True
        try:
            if self.position < self._apply_to:
                self._apply_some()
            self._answer_ready()
        finally:
            self._applying = False
        if self.position < self._apply_to:
            self._loop.call_soon(self._apply_more)

    def _apply_more(self) -> None:
        if self.failure is None and not self._applying:
            try:
                self._apply_all()
            except Exception as error:
                self._fail(error)

    def _apply_some(self) -> None:
        records = self.log.records(self.position, self._apply_to)
        more = len(records) > _APPLY_RECORDS_MAX
        asking = self._asking
        for record in records[:_APPLY_RECORDS_MAX]:
            if record.kind is Kind.DATA:
                result = self._machine.apply(record)
                if asking.waiting:
                    asking.results[record.end] = result
            self.position = record.end
        if not more:
            self.position = self._apply_to
        count, since = self._since_image
        self._since_image = (count + min(len(records), _APPLY_RECORDS_MAX), since)
        self._step(AppliedUpTo(self.position))
        self._keep_image_if_due()

    def _keep_image_if_due(self) -> None:
        count, since = self._since_image
        due = count >= self._options.image_records or self.position - since >= self._options.image_bytes
        if not due or count == 0:
            return
        self._since_image = (0, self.position)
        data = self._machine.save()
        image = make_image(self.core, self.position, data, crc32(data))
        self.log.keep_image(image, data)
        self._step(ImageKept(image))

    # ---- answers ------------------------------------------------------------------------------------------------

    def _answer_ready(self) -> None:
        asking = self._asking
        while asking.answers:
            answer = asking.answers[0]
            then, applied = asking.waiting[answer.request]
            if applied and isinstance(answer, Decided) and answer.position > self.position:
                return
            asking.answers.popleft()
            del asking.waiting[answer.request]
            then(self._outcome(answer))
        asking.results.clear()

    def _outcome(self, answer: Answer) -> object:
        match answer:
            case Decided():
                return Applied(answer.position, self._asking.results.pop(answer.position, None))
            case ReadReady():
                return ReadAt(answer.position)
            case Refused():
                return Rejected(answer.reason, answer.leader)
            case Unknown():
                return Uncertain()


def _tell_all(reads: list[Callable[[ReadOutcome], None]], outcome: object) -> None:
    if not isinstance(outcome, ReadAt | Rejected):
        raise InvariantError(f"a read is answered as a read: {outcome}")
    for then in reads:
        then(outcome)


class _Asking(Generic[ResultT]):
    """Who waits for what: the requests of this pass, and the answers that are not due yet."""

    def __init__(self) -> None:
        self.proposals: list[Propose] = []
        self.reads: list[Callable[[ReadOutcome], None]] = []
        self.waiting: dict[int, tuple[Callable[..., None], bool]] = {}
        self.answers: deque[Answer] = deque()
        self.results: dict[Position, ResultT] = {}
        self._last = 0

    def number(self, then: Callable[..., None], *, applied: bool = False) -> int:
        """Remember who is to be told, under a new number; with `applied`, not before the record is applied here."""
        self._last += 1
        self.waiting[self._last] = (then, applied)
        return self._last

    def take(self) -> tuple[tuple[Propose, ...], list[Callable[[ReadOutcome], None]]]:
        """What this pass has gathered."""
        proposals, self.proposals = tuple(self.proposals), []
        reads, self.reads = self.reads, []
        return proposals, reads
