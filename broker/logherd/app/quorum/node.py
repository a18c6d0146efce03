"""The shell of a Raft member: it carries out what the core's outputs say, in the order that raft/output.py states.

One pass of the loop gathers everything that was proposed and read in it into one step each. What a step wants flushed
goes to the writer thread as one batch; while that is on its way the next one collects. `held` messages leave when their
token has been flushed, and never before.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from secrets import randbits
from typing import Generic, Protocol, TypeVar

from logherd.app.clock import boot_ms
from logherd.app.foreground import ServerFailed
from logherd.app.quorum.applying import Applying, ImageRule
from logherd.app.quorum.flushing import Flushing
from logherd.app.quorum.outcomes import Applied, Outcome, ReadAt, ReadOutcome, Rejected, StateMachine, Uncertain
from logherd.kit.errors import InvariantError
from logherd.model.names import Position
from logherd.raft.core import RaftCore
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
from logherd.raft.output import Answer, Decided, Event, Output, ReadReady, Refusal, Refused, RoleChanged, Unknown
from logherd.raftlog.log import RaftLog
from logherd.replication.messages import Envelope, ReplicaId
from logherd.store.errors import StoreStopped
from logherd.telemetry.log import Log
from logherd.telemetry.spread import Spread

__all__ = ["NodeFailed", "NodeOptions", "RaftNode"]

_TICK_SECONDS = 0.05
_log = Log("logherd.quorum")

ResultT = TypeVar("ResultT")


class NodeFailed(ServerFailed):
    """The member's log failed, or a rule of its core was broken; the process must end without writing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """`raft`: the core's own; an image is made after so many records or bytes, whichever comes first."""

    raft: RaftOptions
    image_records: int = 20_000
    image_bytes: int = 16 << 20


class Sender(Protocol):
    """What carries messages to the other members; it may lose them."""

    def send(self, envelope: Envelope) -> bool: ...


class RaftNode(Generic[ResultT]):
    """One running member. Belongs to the loop on which it was made; every method but `stop` returns at once.

    Invariants: (1) a held message leaves after the flush that it waits for; (2) each proposal and each read is answered
    exactly once, in the order of the outputs, after the state has reached what it names; (3) nothing is sent after a
    failure.
    """

    def __init__(
        self, log: RaftLog, machine: StateMachine[ResultT], options: NodeOptions, *, sender: Sender,
        on_event: Callable[[Event], None], on_failure: Callable[[BaseException], None],
        silent_since: int | None = None,
    ) -> None:  # fmt: skip
        """Start as a follower of what the log says; the state machine is loaded from its newest image.

        `silent_since`: see RaftCore. `on_failure` hears once that the node has failed; then the process must end.

        Raises: what `machine.load` does.
        """
        hard = log.hard_state()
        if hard is None:
            raise InvariantError("a member's log has an owner before it starts")
        self.log = log
        self._send = sender.send
        self._on_event = on_event
        self._on_failure = on_failure
        self.failure: NodeFailed | None = None
        rule = ImageRule(records=options.image_records, bytes_=options.image_bytes)
        self._state = Applying(log, machine, rule)
        self.core = RaftCore(
            log, options.raft, hard=hard, seed=randbits(64), now=boot_ms(), silent_since=silent_since
        )  # fmt: skip
        self._disk = Flushing(log, send=self._send, on_flushed=self._flushed, on_failure=self._fail)
        self._asking = _Asking()
        self._pass_due = False
        self._carrying = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def identity(self) -> ReplicaId:
        """Who this member is."""
        return self.core.ground.identity

    @property
    def position(self) -> Position:
        """Up to where the state machine has applied."""
        return self._state.position

    @property
    def flush_seconds(self) -> Spread:
        """How long batches of the log took to be flushed."""
        return self._disk.seconds

    @property
    def healthy(self) -> bool:
        """Whether it makes progress: no failure, and no flush that has been waiting for an election time-out."""
        return self.failure is None and not self.core.ground.stalled

    def start(self) -> None:
        """Begin: the writer thread and the ticks."""
        self._disk.start()
        self._timer = asyncio.get_running_loop().call_later(_TICK_SECONDS, self._tick)

    async def stop(self, seconds: float) -> bool:
        """End the writer after the batch in flight and close the log; False if the thread did not end in time. A disk
        that fails at that is told to `on_failure`.

        What was proposed and not answered gets no answer any more.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.failure is None:
            self.failure = NodeFailed("the node was stopped")
        ended = await self._disk.stop(seconds)
        if ended:
            try:
                self.log.close()
            except StoreStopped as error:
                self._on_failure(error)
        return ended

    # ---- what others ask for ------------------------------------------------------------------------------------

    def propose(self, body: bytes, then: Callable[[Outcome[ResultT]], None]) -> None:
        """Have a record decided. `then` is called once, later, on this loop.

        What the log cannot hold is refused: a body is as long as whoever asked has made it, and the log stops for it.
        """
        if len(body) > self.log.body_bytes_max:
            refusal = Rejected(Refusal.INVALID, self.core.leader)
            asyncio.get_running_loop().call_soon(then, refusal)
            return
        asking = self._asking
        asking.proposals.append(Propose(asking.number(then, applied=True), body))
        if not self._pass_due:
            self._end_pass_soon()

    def read(self, then: Callable[[ReadOutcome], None], *, lease: bool = False) -> None:
        """Call `then` when the state here holds everything that is committed now. Reads of one pass share one round.

        With `lease` and `lease_reads` among the options a leader need not ask the others; that trusts clock rates.
        """
        (self._asking.lease_reads if lease else self._asking.reads).append(then)
        self._end_pass_soon()

    def transfer(self, target: ReplicaId | None, then: Callable[[Outcome[None]], None]) -> None:
        """Hand leadership over. Applied means that the order was carried out."""
        self._step(Transfer(self._asking.number(then), target))

    def change_members(
        self, goal: Goal, then: Callable[[Outcome[None]], None], *, instead: bool = False
    ) -> None:  # fmt: skip
        """Work towards other members. `instead`: see ChangeMembers."""
        self._step(ChangeMembers(self._asking.number(then), goal, instead))

    def recover_quorum(self, order: RecoverQuorum, then: Callable[[Outcome[None]], None]) -> None:
        """An operator's decision that lost voters never come back; the order's own request number is not used. Told
        once it is on the disk: who was told that a survivor has it goes on to the next one."""

        def told(outcome: Outcome[None]) -> None:
            durable = self.core.ground.durable
            if isinstance(outcome, Applied) and durable.flushed_token < durable.token:
                self._asking.flushing.append((durable.token, partial(then, outcome)))
            else:
                then(outcome)

        self._step(replace(order, request=self._asking.number(told)))

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
            asyncio.get_running_loop().call_soon(self._end_pass)

    def _end_pass(self) -> None:
        self._pass_due = False
        proposals, reads, lease_reads = self._asking.take()
        if proposals:
            self._step(ProposeAll(proposals))
        if reads:
            self._step(Read(self._asking.number(lambda outcome: _tell_all(reads, outcome))))
        if lease_reads:
            number = self._asking.number(lambda outcome: _tell_all(lease_reads, outcome))
            self._step(Read(number, lease=True))
        if self.failure is None:
            self._disk.submit(messages_first=self._pass_due)

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_TICK_SECONDS, self._tick)
        self._look_at_disk()
        self._step(Tick())

    def _flushed(self, token: int) -> None:
        self._look_at_disk()
        self._step(Flushed(token))
        flushing = self._asking.flushing
        while flushing and flushing[0][0] <= token and self.failure is None:
            flushing.popleft()[1]()

    def _look_at_disk(self) -> None:
        full = self.log.full
        if full != self.core.ground.full:
            if full:
                _log.warning("no records are taken for now", reason=self.log.lack)
            else:
                _log.info("records are taken again")
            self._step(DiskFull(full))

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
            self._disk.want(output.flush, output.held)
            self._end_pass_soon()
        if output.apply_to is not None:
            self._state.goal = max(self._state.goal, output.apply_to)
        for event in output.events:
            self._report(event)
        if output.load is not None:
            self._state.load(output.load)
            self._step(AppliedUpTo(output.load.point.position))
        self._asking.answers.extend(output.answers)
        if not self._carrying:
            self._advance()

    def _report(self, event: Event) -> None:
        """Tell it; but that this leader is ready only when its state holds everything that was decided before."""
        if isinstance(event, RoleChanged):
            self._asking.ready = (self._state.goal, event) if event.ready else None
            if event.ready:
                return
        self._on_event(event)

    def _report_ready(self) -> None:
        if self._asking.ready is not None and self._state.position >= self._asking.ready[0]:
            (_, event), self._asking.ready = self._asking.ready, None
            self._on_event(event)

    def _advance(self) -> None:
        """Apply what may be applied, some records at a time, then answer who waited for it."""
        if self.failure is not None:
            return
        self._carrying = True
        try:
            if self._state.behind:
                due = self._state.apply_some(keep_results=bool(self._asking.waiting))
                self._step(AppliedUpTo(self._state.position))
                if due:
                    self._state.make_image(self.core, lambda image: self._step(ImageKept(image)))
            self._report_ready()
            self._answer_ready()
        except Exception as error:  # a state machine that cannot go on: this member must not pretend to
            self._fail(error)
        finally:
            self._carrying = False
        if self._state.behind:
            asyncio.get_running_loop().call_soon(self._advance)

    def _fail(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = NodeFailed(f"{type(error).__name__}: {error}")
            self._disk.end()
            self._on_failure(error)

    def _answer_ready(self) -> None:
        asking, state = self._asking, self._state
        answers, waiting, results = asking.answers, asking.waiting, state.results
        while answers:
            answer = answers[0]
            if isinstance(answer, Decided):  # nearly all are
                then, applied = waiting[answer.request]
                if applied and answer.position > state.position:
                    return
                del answers[0], waiting[answer.request]
                then(Applied(answer.position, results.pop(answer.position, None)))
            else:
                del answers[0]
                then, _ = waiting.pop(answer.request)
                then(_outcome(answer))
        results.clear()


def _outcome(answer: ReadReady | Refused | Unknown) -> object:
    match answer:
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


_Reads = list[Callable[[ReadOutcome], None]]


class _Asking:
    """Who waits for what: the requests of this pass, and the answers that are not due yet."""

    def __init__(self) -> None:
        self.proposals: list[Propose] = []
        self.reads: _Reads = []
        self.lease_reads: _Reads = []
        self.waiting: dict[int, tuple[Callable[..., None], bool]] = {}
        self.answers: deque[Answer] = deque()
        self.flushing: deque[tuple[int, Callable[[], None]]] = deque()
        """Who is to be told once a flush covers a token."""
        self.ready: tuple[Position, Event] | None = None
        """That this leader is ready, to be told when the state has reached the position."""
        self._last = 0

    def number(self, then: Callable[..., None], *, applied: bool = False) -> int:
        """Remember who is to be told, under a new number; with `applied`, not before the record is applied here."""
        self._last += 1
        self.waiting[self._last] = (then, applied)
        return self._last

    def take(self) -> tuple[tuple[Propose, ...], _Reads, _Reads]:
        """What this pass has gathered: proposals, reads, reads that a lease may serve."""
        proposals, self.proposals = tuple(self.proposals), []
        reads, self.reads = self.reads, []
        lease_reads, self.lease_reads = self.lease_reads, []
        return proposals, reads, lease_reads
