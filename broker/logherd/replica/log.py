"""A message store behind the protocol of `replication.log.ReplicaLog`, and the way from flushes to tokens.

    log.begin_epoch(epoch), then append the barrier      a leader's first act
    token = durable.wrote(log.end, now); log.note(token) after whatever changed the log
    batch = log.take_batch(); (writer thread) batch.write_and_flush(); token = log.flushed(batch)
    log.advance(position)                                what the group has committed

Positions are the store's: bytes of the log, a record's end. The blank record that fills a segment belongs to the record
behind it: it is of that one's epoch, for it was its leader who rolled, and it is shipped with it in one range. So no
range, acknowledgement or commit ends behind a blank; one that a crash has left at the log's end is cut.
"""

from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct

from logherd.kit.errors import broken, ensure
from logherd.model.names import Epoch, Position
from logherd.model.record import BLANK_MAGIC, BLANK_SIZE_MIN, RecordError
from logherd.replication.epochs import EpochHistory, Point, Run
from logherd.replication.log import Image, ReplicationError, Span, SpanDamagedError, UnreadableError
from logherd.store import MessageStore, QueueLog, RawRefused, StoreDamaged, WriteBatch
from logherd.store.outline import decode_outlines, encode_outlines
from logherd.store.raw import decode_run
from logherd.store.writer import NO_DESCRIPTOR

__all__ = ["LogStartGone", "ReplicaStore"]


_U32X2 = Struct(">II")
_READ_BYTES = 1 << 20
_UNREADABLE_MAX = 1_000
_ANYWHERE = 1 << 62
"""Where a segment ends of which that does not matter yet."""


class LogStartGone(ReplicationError):
    """The others have deleted what this log would need next: it has to begin again at `point`, without what it has."""

    def __init__(self, point: Point) -> None:
        self.point = point
        super().__init__(f"the group's log is kept from position {point.position} on, after epoch {point.epoch}")


class ReplicaStore:
    """Belongs to the store's owner thread; every method returns at once.

    1. `epochs` tells of every record in the store, those that are not committed included.
    2. A token is given back once everything that had changed when it was noted is flushed; whatever was appended since.
    """

    __slots__ = (
        "_begun", "_extent", "_history", "_in_flight", "_last_read", "_noted", "_taken", "_tokens", "_unreadable",
        "on_damage", "store",
    )  # fmt: skip

    def __init__(self, store: MessageStore, barriers: Sequence[tuple[int, int]]) -> None:
        """`barriers` are (epoch, end of the log before its barrier) of all that the log holds, oldest first."""
        self.store = store
        self._extent = store.extent
        if (blank := _trailing_blank(store)) is not None:
            store.truncate(blank)
        self._history = _history(store, barriers)
        self._begun: Run | None = None
        self._noted: deque[tuple[int, int]] = deque()
        """Tokens, each with how many batches are taken when all that was there is; both rise."""
        self._taken = 0
        """How many batches were taken."""
        self._in_flight: list[tuple[WriteBatch, int]] = []
        self._tokens = 0
        self._last_read: tuple[tuple[int, int, int], Span] | None = None
        self._unreadable: set[Position] = set()
        self.on_damage: Callable[[StoreDamaged, Position], None] = lambda _error, _after: None
        """Hears of damage that keeps a follower from getting anything behind this position."""

    # ---- the log as shipping sees it ---------------------------------------------------------------------------

    @property
    def end(self) -> Position:
        """The end of everything appended."""
        return Position(self._extent.end_position)

    @property
    def epochs(self) -> EpochHistory:
        """The epoch table; its base follows what retention deletes."""
        extent, begun = self._extent, self._begun
        if begun is not None and extent.end_position > begun.after:
            self._history = self._history.extended(begun.epoch, begun.after)
            self._begun = None
        if extent.min_position > self._history.base.position:
            self._history = self._history.compacted(Position(extent.min_position), self.end)
        return self._history

    @property
    def shown(self) -> Position:
        """The store shows what is committed in whole batches of its own."""
        return Position(self.store.committed_position)

    def begin_epoch(self, epoch: Epoch) -> None:
        """What is appended from now on is of `epoch`, the barrier first."""
        ensure(epoch > self.epochs.last_epoch, "a leader's epoch is new to its log", epoch, self.epochs)
        self._begun = Run(epoch, self.end)

    def give_epoch_up(self) -> None:
        """Its barrier was refused, so that what is appended from now on is of the epoch before; unless something was
        appended in it, which stays in it."""
        self._history, self._begun = self.epochs, None

    def read(self, after: Position, bytes_max: int) -> Span:
        """See ReplicaLog. Followers in step ask for the same: it is put together once."""
        asked = (after, bytes_max, self._extent.end_position)
        if self._last_read is not None and self._last_read[0] == asked:
            return self._last_read[1]
        if after in self._unreadable:
            raise UnreadableError(f"the log is damaged behind position {after}")
        try:
            data, read_to = _without_blank(self.store, after, bytes_max)
        except RecordError as error:  # in memory: whoever has named the place has another log
            raise UnreadableError(str(error)) from error
        except StoreDamaged as error:
            if after >= self.store.flushed_position:
                raise UnreadableError(str(error)) from error
            if len(self._unreadable) >= _UNREADABLE_MAX:
                self._unreadable.clear()
            self._unreadable.add(after)
            if self.store.lies_in_record(after):
                raise UnreadableError(f"no record begins at position {after}, one lies across it") from error
            self.on_damage(error, after)
            raise UnreadableError(str(error)) from error
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR:
                raise
            raise UnreadableError(f"no descriptor is left to read behind position {after}") from error
        end, history = Position(read_to), self.epochs
        kept = self.store.outlines
        outline = b"" if kept is None else encode_outlines(kept.between(after, end))
        span = Span(history.point_at(after), end, history.runs_between(after, end), data, outline)
        self._last_read = (asked, span)
        return span

    def write(self, span: Span, after: Position) -> None:
        """See ReplicaLog. Raises: SpanDamagedError; StoreFull, look at `full` first; StoreStopped."""
        if after != self._extent.end_position:
            broken("a range continues the log", after, self.end)
        history, whole = self.epochs, after == span.previous.position
        for run in span.runs if whole else span.history.runs_between(after, span.end):
            history = history.extended(run.epoch, run.after)
        try:
            self._append(memoryview(span.data), span, after)
        except (RawRefused, RecordError) as error:
            raise SpanDamagedError(str(error)) from error
        self._history, self._begun, self._last_read = history, None, None

    def _append(self, data: memoryview, span: Span, after: Position) -> None:
        """Append what of a span is not here yet: the blank that it may begin with, then records of one segment."""
        start, outlines = span.previous.position, decode_outlines(span.outline)
        if len(data) < BLANK_SIZE_MIN or _U32X2.unpack_from(data)[1] != BLANK_MAGIC:
            self.store.append_raw(data[after - start :], after, end=span.end, outlines=outlines)
            return
        size, _ = _U32X2.unpack_from(data)
        segment_end = start + size
        if after < segment_end:
            bare_end = self.store.recovery.bare_end
            decode_run(data[BLANK_SIZE_MIN:], segment_end, _ANYWHERE, bare_end=bare_end)  # before all else
            self.store.append_raw(data[:BLANK_SIZE_MIN], after, end=segment_end)
            after = Position(segment_end)
        rest = data[BLANK_SIZE_MIN + after - segment_end :]
        self.store.append_raw(rest, after, end=span.end, outlines=outlines)

    def truncate(self, at: Position) -> None:
        """See ReplicaLog. Raises: InvariantError for what is committed."""
        history = self.epochs
        self.store.truncate(at)
        self._history, self._begun, self._last_read = history.truncated(at), None, None
        self._unreadable = {each for each in self._unreadable if each < at}  # other records will lie behind

    def image(self) -> Image | None:
        """Where the log begins, if its start is gone: a follower that has nothing of it begins there too."""
        base = self.epochs.base
        if not base.position:
            return None
        return Image(f"the log from {base.position} on, after epoch {base.epoch}", base, 0, 0, 0, b"")

    def image_chunk(self, image: Image, offset: int, bytes_max: int) -> bytes | None:
        """There are no bytes."""
        del offset, bytes_max
        return b"" if image == self.image() else None

    def staged(self, image: Image) -> int:
        """There is nothing to stage."""
        del image
        return 0

    def stage(self, image: Image, offset: int, data: bytes | memoryview) -> None:
        """Raises SpanDamagedError: a message log's image has no bytes."""
        raise SpanDamagedError(f"image {image.identity}: {len(data)} bytes at {offset}, a message log sends none")

    def install(self, image: Image) -> None:
        """The group's log begins at the image's point. What holds that point stays as it is.

        Raises: LogStartGone if this log does not: close the store, `store.begin_again` at that point, and open it;
        SpanDamagedError for an image with bytes.
        """
        if image.size:
            raise SpanDamagedError(f"image {image.identity} has {image.size} bytes, that of a message log has none")
        if not self.epochs.matches(image.point, self.end):
            raise LogStartGone(image.point)

    @property
    def full(self) -> bool:
        """Whether `write` may find no room: the leader is to be asked for heartbeats only."""
        return not self.store.has_room

    @property
    def tight(self) -> bool:
        """Whether the next `write` may need a segment that is not there: look at `full` before each."""
        return self._extent.is_tight

    # ---- what is flushed, and what is committed ----------------------------------------------------------------

    def note(self, token: int) -> bool:
        """Everything that has changed so far is to be reported by this token, which is higher than those before.

        True if all of it is flushed already; then it is not reported again.
        """
        if token <= self._tokens:
            broken("tokens rise", token, self._tokens)
        self._tokens = token
        # A cut takes batches away that nobody took yet, and what was noted with them is dropped or in those before.
        due = self._taken + self._extent.untaken_batches
        while self._noted and self._noted[-1][0] >= due:
            self._noted.pop()
        if due > self._taken:
            self._noted.append((due, token))
            return False
        if self._in_flight:
            self._in_flight[-1] = (self._in_flight[-1][0], token)
            return False
        return True

    @property
    def untaken(self) -> bool:
        """Whether `take_batch` has something to give."""
        return self._extent.untaken

    def take_batch(self) -> WriteBatch | None:
        """The store's next batch for the writer thread."""
        batch = self.store.take_batch()
        if batch is not None:
            self._taken, token = self._taken + 1, 0
            while self._noted and (self._noted[0][0] <= self._taken or not self._extent.untaken):
                _, token = self._noted.popleft()
            self._in_flight.append((batch, token))
        return batch

    def flushed(self, batch: WriteBatch) -> int | None:
        """Take back a written batch; the newest token that is covered now, None if no further one is."""
        if not self._in_flight or self._in_flight[0][0] is not batch:
            broken("batches are flushed in order", batch.start)
        self.store.flushed(batch)
        _, token = self._in_flight.pop(0)
        return token or None

    def apply_retention(self, now_ms: int, pinned: Position) -> int:
        """See MessageStore.apply_retention; what is left keeps the epoch of what was before it."""
        return self.store.apply_retention(now_ms, pinned, self._epoch_before)

    def _epoch_before(self, position: int) -> int:
        return self._history.epoch_at(Position(position))

    def readable_to(self, position: Position) -> int:
        """How far `advance` to this position would make the log readable."""
        return self.store.readable_to(position)

    def advance(self, position: Position) -> list[QueueLog]:
        """The group has committed the log up to here; the queues that have new messages."""
        return self.store.advance(position)


def _without_blank(store: MessageStore, after: int, bytes_max: int) -> tuple[memoryview | bytes, int]:
    """Records from a position on, and their end, which is in front of a blank; one that begins here stands before the
    first record of the next segment."""
    data, end = store.read_raw(after, bytes_max)
    if end == after:
        raise RecordError(f"no record begins at position {after}")
    view = data if isinstance(data, memoryview) else memoryview(bytes(data))
    size = _blank_size(view, end - after)
    if not size:
        return view, end
    head = view[-BLANK_SIZE_MIN:]
    if end - size > after:
        return view[:-BLANK_SIZE_MIN], end - size
    if end == store.end_position:
        raise RecordError(f"no record is behind the blank at position {after} yet")
    more, more_end = store.read_raw(end, bytes_max)
    if following := _blank_size(memoryview(more), more_end - end):
        more, more_end = memoryview(more)[:-BLANK_SIZE_MIN], more_end - following
    return b"".join((head, more)), more_end


def _blank_size(data: memoryview, length: int) -> int:
    """The length of the blank record with which a range of the log ends, of which the head alone is there; 0 if with
    none."""
    if len(data) < BLANK_SIZE_MIN:  # no record is there
        return 0
    size, magic = _U32X2.unpack_from(data, len(data) - BLANK_SIZE_MIN)
    return size if magic == BLANK_MAGIC and len(data) - BLANK_SIZE_MIN + size == length else 0


def _trailing_blank(store: MessageStore) -> int | None:
    """Where a blank begins that is the last record of what is not committed."""
    at, end, size = store.committed_position, store.end_position, 0
    while at < end:
        data, read_to = store.read_raw(at, _READ_BYTES)
        size = _blank_size(memoryview(data), read_to - at)
        at = read_to
    return end - size if size else None


def _history(store: MessageStore, barriers: Sequence[tuple[int, int]]) -> EpochHistory:
    """The epoch table of a log that was just opened."""
    start, end = Position(store.min_position), Position(store.end_position)
    before = [epoch for epoch, after in barriers if after < start]
    base = Point(Epoch(max([store.start_epoch, *before])), start)
    runs = [Run(Epoch(epoch), Position(after)) for epoch, after in barriers if start <= after < end]
    if start < (runs[0].after if runs else end):
        runs.insert(0, Run(base.epoch, start))
    return EpochHistory(base, tuple(runs))
