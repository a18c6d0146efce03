"""The follower's side of shipping: compare, cut what differs, append, and say how far it is flushed.

Nothing is parked: a message that does not fit is refused at once with a hint. A repeated or overlapping message is
harmless, whatever its bounds are.

Source: raft-log rules 5.4 and 5.5; Raft paper 5.3, figure 7.
"""

import msgspec

from logherd.kit.errors import ensure
from logherd.model.names import Position
from logherd.replication.durable import DurableEnd
from logherd.replication.epochs import NOWHERE, EpochHistory, common_end
from logherd.replication.log import Image, ReplicaLog, Span
from logherd.replication.messages import (
    Append,
    AppendAck,
    AppendReject,
    CopyAck,
    CopyChunk,
    Heartbeat,
    HeartbeatAck,
    ShippingAnswer,
    ShippingRequest,
)

__all__ = ["Flushed", "FromLeader", "ReceiveOutput", "Receiver"]


class FromLeader(msgspec.Struct, frozen=True, gc=False):
    """A request of the one leader of this epoch; who that is and which epoch has been settled before."""

    body: ShippingRequest
    busy: bool = False
    """Ask the leader for heartbeats only: the disk is full or does not keep up."""
    short: bool = False
    """Tell it that this replica should not lead: the disk's reserve is touched, or the store does not work."""


class Flushed(msgspec.Struct, frozen=True, gc=False):
    """The durable end may have moved."""


class ReceiveOutput(msgspec.Struct, frozen=True, gc=False):
    """What one step did. `wrote`: the log changed, so take a token and flush; no answer here depends on that flush.

    `cut`: where the log was truncated. `grown`: records after this position are new. `installed`: the state must be
    loaded from this image before anything is applied. `commit`: never falls.
    """

    answers: tuple[ShippingAnswer, ...]
    commit: Position
    wrote: bool = False
    cut: Position | None = None
    grown: Position | None = None
    installed: Image | None = None


class Receiver:
    """What a follower knows within one epoch of one leader; a new epoch starts a new one.

    Invariants: (1) `verified` never falls and never exceeds the log's end: up to there the log equals the leader's;
    (2) a position is acknowledged as durable only if it is verified and flushed; (3) nothing at or below `commit` is
    ever cut; (4) a message of an older generation than the newest seen is dropped.
    """

    def __init__(
        self, log: ReplicaLog, durable: DurableEnd, commit: Position, *, generation: int = 0,
        verified: Position = NOWHERE,
    ) -> None:  # fmt: skip
        """`generation`, `verified`: the newest that an earlier receiver of the same leader in the same epoch has seen,
        and how far it had compared a log that nobody has changed since."""
        ensure(verified <= log.end, "receiver 1: what is verified is here", verified, log.end)
        self._log = log
        self._durable = durable
        self._commit = commit
        self._verified = max(commit, verified)
        self._generation = generation
        self._owed = False

    @property
    def verified(self) -> Position:
        """How far the log is known to equal the leader's."""
        return self._verified

    @property
    def generation(self) -> int:
        """The newest exchange that was seen."""
        return self._generation

    def step(self, event: FromLeader | Flushed, now: int) -> ReceiveOutput:
        """Take one request or the end of a flush. `now` is taken for uniformity: a follower of the log has no timers.

        Raises: SpanDamagedError. The process must stop: a cut may have been made that is not flushed and need not be.
        """
        del now
        if isinstance(event, Flushed):
            return self._on_flushed()
        match event.body:
            case Append():
                return self._on_append(event.body)
            case Heartbeat():
                return self._on_heartbeat(event.body, busy=event.busy, short=event.short)
            case CopyChunk():
                return self._on_chunk(event.body)

    def _on_flushed(self) -> ReceiveOutput:
        """One cumulative acknowledgement for everything that the flush covered."""
        if not self._owed:
            return ReceiveOutput((), self._commit)
        self._owed = self._durable.position < self._verified
        return ReceiveOutput((self._ack(),), self._commit)

    def _on_heartbeat(self, beat: Heartbeat, *, busy: bool, short: bool) -> ReceiveOutput:
        self._learn_commit(beat.commit)
        answer = HeartbeatAck(beat.round, self._durable.lasting, busy, short)
        return ReceiveOutput((answer,), self._commit)

    def _on_append(self, request: Append) -> ReceiveOutput:
        if self._is_straggler(request.generation):
            return ReceiveOutput((), self._commit)
        span, history, end = request.span, self._log.epochs, self._log.end
        if not history.matches(span.previous, end):
            asked = span.previous.position
            if asked >= self._commit:
                ensure(asked > self._commit, "receiver 3: a leader holds what is committed", span.previous, history)
                hint = history.hint(span.previous.epoch, end)
                return ReceiveOutput((AppendReject(request.generation, asked, hint),), self._commit)
            below_base = asked < history.base.position
            ensure(below_base, "receiver 3: a leader holds what is committed", span.previous, history)
        cut, grown = self._merge(span, history, end)
        self._verified = max(self._verified, span.end)
        self._learn_commit(request.commit)
        if grown is None:
            self._owed = self._durable.position < self._verified
            return ReceiveOutput((self._ack(),), self._commit)
        self._owed = True
        return ReceiveOutput((), self._commit, wrote=True, cut=cut, grown=grown)

    def _merge(self, span: Span, history: EpochHistory, end: Position) -> tuple[Position | None, Position | None]:
        """Skip what is here, cut at the first difference, append the rest; (cut at, grown after)."""
        known = max(span.previous.position, self._commit)
        if known >= span.end:
            return None, None
        if span.previous.position == end:  # the usual case, without comparing histories
            self._log.write(span, end)
            return None, end
        ours = EpochHistory(history.point_at(known), history.runs_between(known, end))
        theirs = EpochHistory(ours.base, span.history.runs_between(known, span.end))
        shared = common_end(ours, end, theirs, span.end)
        if shared == span.end:
            return None, None
        cut = None
        if shared < end:
            ensure(shared >= self._commit, "receiver 3: committed records are never cut", shared, self._commit)
            self._log.truncate(shared)
            self._durable.cut(shared)
            cut = shared
        self._log.write(span, shared)
        return cut, shared

    def _on_chunk(self, chunk: CopyChunk) -> ReceiveOutput:
        if self._is_straggler(chunk.generation):
            return ReceiveOutput((), self._commit)
        image, at = chunk.image, chunk.image.point.position
        if at <= self._commit:
            return ReceiveOutput((self._ack(),), self._commit)
        have, wrote = self._log.staged(image), False
        if chunk.offset == have and len(chunk.data) > 0:
            self._log.stage(image, have, chunk.data)
            have, wrote = have + len(chunk.data), True
        answer = CopyAck(chunk.generation, image.identity, have)
        if have < image.size:
            return ReceiveOutput((answer,), self._commit, wrote=wrote)
        kept = self._log.epochs.matches(image.point, self._log.end)
        self._log.install(image)
        if not kept:
            # The old tail is gone and the image is not flushed: only what was committed here before is sure to last.
            self._durable.replace(self._commit, at)
        self._commit = at
        self._verified = max(self._verified, at)
        self._owed = True
        return ReceiveOutput((answer,), at, wrote=True, installed=image)

    def _is_straggler(self, generation: int) -> bool:
        if generation < self._generation:
            return True
        self._generation = generation
        return False

    def _learn_commit(self, commit: Position) -> None:
        """The leader's word, but only as far as this log is known to be the leader's."""
        self._commit = max(self._commit, min(commit, self._verified))

    def _ack(self) -> AppendAck:
        return AppendAck(self._generation, self._verified, min(self._verified, self._durable.position))
