"""The commit log's owner side: where the next record goes, what waits to be written, and where a position lies.

Nothing here blocks except the creation of a segment (about 1 ms per GiB), an eighth of a segment or more before it is
needed.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Protocol

from logherd.kit.errors import ensure
from logherd.model.record import BLANK_MAGIC, BLANK_SIZE_MIN, RecordError, encode_blank
from logherd.store.background import Task
from logherd.store.cached_tail import CachedTail
from logherd.store.consume_queue import QueueLog
from logherd.store.errors import RecordTooLarge, StoreDamaged, StoreFull, StoreStopped
from logherd.store.extract import Extractor
from logherd.store.files import Buffer, Files
from logherd.store.follow import QueuePlan, note_record
from logherd.store.options import SEGMENT_PARTS, LogOptions, RetentionOptions
from logherd.store.raw import newest_bytes, trim_parts, whole_records
from logherd.store.retention import delete_segments, expired_segments
from logherd.store.segment import Segment
from logherd.store.writer import Cut, LogWriter, WriteBatch

__all__ = ["CommitLog", "Extent"]

_MIB = 1 << 20
_FIRST_RECORDS_BYTES = 64 << 10
"""More than a leader appends before it serves: the barrier of its epoch, and the topics and groups of a new group."""
_start = attrgetter("start")


class Extent(Protocol):
    """Positions of a log, to be read only."""

    @property
    def end_position(self) -> int:
        """End of everything appended."""

    @property
    def min_position(self) -> int:
        """Lowest position that is kept."""

    @property
    def untaken(self) -> bool:
        """Whether `take_batch` has something to give."""

    @property
    def untaken_batches(self) -> int:
        """How many batches `take_batch` gives until all that is here now is taken."""

    @property
    def is_tight(self) -> bool:
        """Whether there is no further segment, and what another replica appends next may need one."""


class CommitLog:
    """Segments, and the records appended to the last one that were not yet taken as batches.

    1. Segments are contiguous and ascending; positions [segments[0].start, end_position) were appended.
    2. A batch lies in one segment; a record never crosses a segment's end and leaves at least 8 bytes there.
    3. append_limit is the highest end of a record for which nothing but appending is to be done.
    4. `pending` are the batches that were not flushed yet, those in front were taken; records below the first of them
       are in the files, the others in the parts of the batches and in `parts`.
    """

    __slots__ = (
        "_cached_tail", "_directory", "_files", "_options", "_writer", "active", "append_limit", "batch_start",
        "end_position", "parts", "pending", "segments", "store_timestamp", "taken_position", "touched", "upcoming",
    )  # fmt: skip

    def __init__(
        self, files: Files, directory: str, options: LogOptions, *, segments: list[Segment], position: int,
        writer: LogWriter,
    ) -> None:  # fmt: skip
        self._files = files
        self._directory = directory
        self._options = options
        self._writer = writer
        self.segments = segments
        self.active = segments[bisect_right(self.segments, position, key=_start) - 1]
        later = [segment for segment in segments if segment.start >= self.active.end]
        ensure(len(later) <= 1, "at most one segment is prepared ahead", len(later))
        self.upcoming: Segment | None = later[0] if later else None
        writer.next_segment = self.upcoming
        self.end_position = self.taken_position = self.batch_start = position
        self.parts: list[Buffer] = []
        self.touched: dict[QueueLog, int] = {}
        self.store_timestamp = 0
        self.pending: deque[WriteBatch] = deque()
        self.append_limit = 0
        self._cached_tail = CachedTail(options.follower_cached_bytes, self.active.start, position)
        self._set_limit()

    @property
    def min_position(self) -> int:
        return self.segments[0].start

    @property
    def cached_from(self) -> int:
        """What lies below this position may not be in memory any more, by our own wish."""
        return self._cached_tail.position

    @property
    def record_bytes_limit(self) -> int:
        """Most bytes of one record."""
        return self._options.record_bytes_limit

    @property
    def bare_end(self) -> int:
        """Below it records may be without a checksum of the whole: RocketMQ wrote them."""
        return self._writer.checkpoint.value.bare_end

    @property
    def has_room(self) -> bool:
        """Whether there is no need of a further segment whatever another replica appends next, or there is one. It is
        made then: that the system says there is space need not mean that a file can be. Not earlier, for what is left
        then is what a full disk has for metadata."""
        try:
            return not self.is_tight or self.prepare_roll()
        except StoreStopped:  # whoever writes next hears of it
            return False

    @property
    def is_tight(self) -> bool:
        if self.upcoming is not None:
            return False
        longest = self._options.foreign_bytes(self.active.size)
        return self.active.end - self.end_position <= longest + BLANK_SIZE_MIN

    @property
    def has_room_to_lead(self) -> bool:
        """Whether what a leader appends first finds room, be it in the last bytes of the last segment."""
        return self.has_room or self.active.end - self.end_position >= _FIRST_RECORDS_BYTES

    def make_room(self, size: int, *, reserve: bool) -> int:
        """Prepare for a record of `size` bytes that would end beyond `append_limit`; the position to append it at.

        Ends the batch that would become too long, creates the next segment ahead of need, and moves to it.
        Raises: RecordTooLarge; StoreFull if the next segment is needed and cannot be had; then nothing was changed.
        """
        if size > self._options.record_bytes_limit:
            raise RecordTooLarge(f"the record takes {size} bytes, the limit is {self._options.record_bytes_limit}")
        return self._make_room(size, reserve=reserve)

    def _make_room(self, size: int, *, reserve: bool) -> int:
        """`make_room` for whatever was appended elsewhere: there the limit was met or did not matter."""
        if self.end_position + size - self.batch_start > self._options.batch_bytes_max:
            self._end_batch()
        end = self.end_position + size + BLANK_SIZE_MIN
        if self.upcoming is None and end > self.active.end - self._ahead_bytes:
            self._create_upcoming(reserve=reserve)
        if self.upcoming is None:
            kept = 0 if reserve else self._kept_bytes
            if end > self.active.end - kept:
                needed = self._options.segment_bytes + (0 if reserve else self._options.reserve_bytes)
                raise StoreFull(f"the log needs a further segment, and {self._said_full(needed)}")
        elif end > self.active.end:
            return self._roll_for(size, self.upcoming, reserve=reserve)
        self._set_limit()
        return self.end_position

    def _roll_for(self, size: int, upcoming: Segment, *, reserve: bool) -> int:
        """Move on for a record; undone if it is refused there, as a blank belongs to the record behind it."""
        end = self.end_position
        self._roll(upcoming)
        try:
            return self._make_room(size, reserve=reserve)
        except StoreFull:
            self.cut(end)
            raise

    def ensure_room(self, size: int, largest: int) -> None:
        """Prepare for records of `size` bytes together, none above `largest`, that are to be appended all or none.

        Raises: RecordTooLarge, StoreFull; nothing is to be appended then.
        """
        options = self._options
        if largest > options.record_bytes_limit:
            raise RecordTooLarge(f"a record takes {largest} bytes, the limit is {options.record_bytes_limit}")
        left = self.active.end - self.end_position - BLANK_SIZE_MIN
        if self.upcoming is None and size > left - self._kept_bytes:
            self._create_upcoming(reserve=False)
            self._set_limit()
            if self.upcoming is None:
                needed = options.reserve_bytes + options.segment_bytes
                raise StoreFull(f"the log needs a further segment, and {self._said_full(needed)}")
        if self.upcoming is not None:
            kept = options.kept_bytes(self.upcoming.size)
            beyond = 0 if size <= left else size - max(left - largest, 0) - (self.upcoming.size - kept)
            further = -(-max(beyond, 0) // (options.segment_bytes - largest))
            if further and self._writer.free_bytes - further * options.segment_bytes < options.reserve_bytes:
                needed = options.reserve_bytes + further * options.segment_bytes
                raise StoreFull(f"the log needs {further} further segments, and {self._said_full(needed)}")

    @property
    def _ahead_bytes(self) -> int:
        """How much of the segment is left when the next one is made: not less than what messages leave if it cannot."""
        return max(self.active.size // SEGMENT_PARTS, self._kept_bytes)

    def _set_limit(self) -> None:
        ahead = self._ahead_bytes if self.upcoming is None else 0
        limit = self.batch_start + self._options.batch_bytes_max
        self.append_limit = min(limit, self.active.end - ahead - BLANK_SIZE_MIN)

    def _create_upcoming(self, *, reserve: bool) -> None:
        size = self._options.segment_bytes
        kept = 0 if reserve else self._options.reserve_bytes
        if self._writer.free_bytes - size < kept:
            return
        folder = f"{self._directory}/commitlog"
        try:
            if not self.active.created:
                self._keep_active(folder)
            self.upcoming = Segment.create(self._files, folder, self.active.end, size)
        except OSError:  # no space after all, or a limit of the process: the same to whoever appends
            self._writer.took(None)
            return
        self._writer.took(size)
        self._writer.next_segment = self.upcoming
        self.segments.append(self.upcoming)

    def _keep_active(self, folder: str) -> None:
        """At most one file may be lost with its name. Seen with tiny segments, and while a log is being filled."""
        active, directory = self.active, self._files.open_directory(folder)
        try:
            self._writer.guarded(lambda: active.make_durable_for_next(directory))
        finally:
            directory.close()

    def _roll(self, upcoming: Segment) -> None:
        self.parts.append(encode_blank(self.active.end - self.end_position))
        self.end_position = self.active.end
        self._end_batch()
        self.active = upcoming
        self.upcoming = self._following()

    def _end_batch(self) -> None:
        if self.parts:
            self.pending.append(
                WriteBatch(
                    self._writer, self.active, self.batch_start, self.end_position, parts=self.parts,
                    touched=self.touched, store_timestamp=self.store_timestamp,
                )
            )  # fmt: skip
            self.parts = []
            self.touched = {}
        self.batch_start = self.end_position

    def _following(self) -> Segment | None:
        """The segment behind the active one: there may be several after a cut."""
        index = bisect_right(self.segments, self.active.start, key=_start)
        return self.segments[index] if index < len(self.segments) else None

    def take_batch(self) -> WriteBatch | None:
        """The oldest records that nobody took yet, bounded by `batch_bytes_max`; None if all are taken."""
        pending = self.pending
        if pending and not pending[-1].taken:  # batches are taken in order
            batch = next(batch for batch in pending if not batch.taken)
        elif self.parts:
            self._end_batch()
            self._set_limit()
            batch = pending[-1]
        else:
            return None
        batch.taken = True
        self.taken_position = batch.end
        return batch

    @property
    def untaken(self) -> bool:
        """Whether there is something for `take_batch`."""
        # Batches are taken in order, so the last one tells.
        return bool(self.parts) or bool(self.pending and not self.pending[-1].taken)

    @property
    def untaken_batches(self) -> int:
        """How many batches `take_batch` gives until all that is here now is taken."""
        return sum(not batch.taken for batch in self.pending) + bool(self.parts)

    def expect_raw(self, after: int) -> None:
        """Before records of another replica are appended at `after`: refuse them, or make room for them in memory.

        Raises: InvariantError if the log does not end there; StoreFull, StoreStopped.
        """
        ensure(after == self.end_position, "records are appended at the end", after, self.end_position)
        self.refuse(reserve=True)
        self._cached_tail.trim(self._writer.flushed_position, self.min_position, self.segment_of)

    def prepare_roll(self) -> bool:
        """Whether the log can go on in a further segment; creates it if need be. For appends that use the reserve."""
        if self.upcoming is None:
            self._create_upcoming(reserve=True)
            self._set_limit()
        return self.upcoming is not None

    def roll(self) -> None:
        """End the active segment with a blank record, where another replica's log has one. After `prepare_roll`."""
        ensure(self.upcoming is not None, "a roll was prepared", self.end_position)
        if self.upcoming is not None:
            self._roll(self.upcoming)
            self._set_limit()

    def append_run(self, data: memoryview, plan: QueuePlan, extract: Extractor) -> None:
        """Append records as planned; they fit the active segment."""
        first = start = self.end_position
        for record, queue in plan.placed:
            size = record.size
            if self.end_position + size > self.append_limit:
                if self.end_position > start:
                    self.parts.append(data[start - first : self.end_position - first])
                    start = self.end_position
                self._make_room(size, reserve=True)
            end = note_record(record, queue, extract)
            if queue is not None and end is not None:
                self.touched[queue] = end
            self.end_position += size
            self.store_timestamp = record.store_timestamp
        if self.end_position > start:
            self.parts.append(data[start - first : self.end_position - first])

    def begins_at(self, position: int) -> bool:
        """Whether a record of this log, or a blank one, begins at `position`; a guard, not a proof."""
        try:
            data, _ = self.read_raw(position, 0)
        except (RecordError, StoreDamaged):
            return False
        head = memoryview(data)
        return bytes(head[4:8]) == BLANK_MAGIC.to_bytes(4) or int.from_bytes(head[28:36]) == position

    def cut(self, at: int) -> None:
        """Drop what was appended at or above `at`, where a record ends: what nobody took yet at once, the rest by a
        batch that the writer does after those that were taken. Parts only; queues are the caller's."""
        pending = self.pending
        is_written = self.taken_position > at
        while pending and not pending[-1].taken and pending[-1].start >= at:
            is_written |= pending.pop().cut is not None  # what that one was to cut is still there
        last = pending[-1] if pending else None
        if self.batch_start < at:
            trim_parts(self.parts, self.batch_start, at)
        else:
            self.parts, self.touched, self.batch_start = [], {}, at
        for batch in pending:
            if batch.kept > at:
                batch.kept = max(at, batch.start)
        if last is not None and not last.taken and last.end > at:
            trim_parts(last.parts, last.start, at)
            last.end = at
        self.active = self.segments[bisect_right(self.segments, at, key=_start) - 1]
        self.upcoming = self._writer.next_segment = self._following()
        self.end_position = at
        if is_written:
            segments = tuple(segment for segment in self.segments if segment.end > at)
            pending.append(
                WriteBatch(
                    self._writer, self.active, at, at, parts=[], touched={}, store_timestamp=self.store_timestamp,
                    cut=Cut(at, segments),
                )
            )  # fmt: skip
            self.taken_position = at
        self._set_limit()

    def read_raw(self, after: int, bytes_max: int) -> tuple[Buffer, int]:
        """Whole records from position `after` on, at least one, else at most `bytes_max` bytes, and where they end; all
        from one segment. Of a blank record the head alone. Never waits for a disk: what is not flushed is in memory."""
        ensure(self.min_position <= after < self.end_position, "there is something to read", after, self.end_position)
        if after >= self.batch_start:
            data = newest_bytes(self.parts, self.end_position, after)
            return whole_records(data, after, self.end_position, bytes_max)
        for batch in reversed(self.pending):
            if batch.start <= after < batch.kept:
                data = newest_bytes(batch.parts, batch.end, after, segment_end=batch.segment.end)
                return whole_records(data, after, batch.kept, bytes_max, segment_end=batch.segment.end)
        segment = self.segments[bisect_right(self.segments, after, key=_start) - 1]
        # The lowest of all: a cut, or what follows it, may begin below a batch that is being written.
        end = min(self.batch_start, segment.end, *(batch.start for batch in self.pending))
        view = segment.view[after - segment.start : end - segment.start]
        try:
            return whole_records(view, after, end, bytes_max, segment_end=segment.end)
        except RecordError as error:
            raise self.damaged(after, str(error)) from error

    def damaged(self, position: int, what: str) -> StoreDamaged:
        """The error for damage found at a position."""
        segment = self.segment_of(position)
        path, start = (self._directory, 0) if segment is None else (segment.path, segment.start)
        return StoreDamaged(path, position - start, what, self._directory)

    def segment_of(self, position: int) -> Segment | None:
        """The segment that holds `position`, None if it was deleted or not yet begun."""
        index = bisect_right(self.segments, position, key=_start) - 1
        if index < 0:
            return None
        segment = self.segments[index]
        return segment if position < segment.end else None

    def view(self, position: int, size: int) -> memoryview | None:
        """Bytes of the log as a slice of the mapping; None if their segment was deleted."""
        segment = self.segment_of(position)
        if segment is None or position + size > segment.end:
            return None
        at = position - segment.start
        return segment.view[at : at + size]

    def bytes_at(self, position: int, bytes_max: int) -> memoryview:
        """Bytes from `position` on as they lie in one of the files, the zeros behind its blank record included: at
        least one, at most `bytes_max`. Not compared with any checksum; what is not written yet is zeros.

        Raises: InvariantError for a position that is not kept, or less than one byte.
        """
        segment = self.segment_of(position)
        ensure(segment is not None and bytes_max > 0, "only bytes that are kept are read", position, bytes_max)
        if segment is None:
            return memoryview(b"")
        at = position - segment.start
        return segment.view[at : min(at + bytes_max, segment.size)]

    def expire(
        self, options: RetentionOptions, *, now_ms: int, pinned: int, stored_at: Callable[[int], int | None],
        derived: Callable[[int], Task], epoch_before: Callable[[int], int],
    ) -> int:  # fmt: skip
        """Forget the segments that may go and have the writer delete them; how many. See retention.expired_segments.

        Views that were handed out stay valid. `derived` makes the task that deletes what belongs to them, given the new
        lowest position; `epoch_before` knows of which epoch the record before that one was.
        """
        expired = expired_segments(
            self.segments, self.active, options, now_ms=now_ms, pinned=min(pinned, self._writer.flushed_position),
            stored_at=stored_at,
        )  # fmt: skip
        if expired:
            count = len(expired)
            ensure(self.active not in expired, "the active segment is never deleted")
            del self.segments[:count]
            directory = f"{self._directory}/commitlog"
            task = delete_segments(
                self._files, directory, expired, writer=self._writer, derived=derived(self.min_position),
                start_epoch=epoch_before(self.min_position),
            )  # fmt: skip
            self._writer.tasks.append_deletion(task)
        return len(expired)

    def close(self) -> None:
        """Close all files; views that were handed out live on."""
        for segment in self.segments:
            segment.close()

    def keep_free(self, reserve_bytes: int) -> None:
        """Clients' messages leave so many bytes of the disk free from now on."""
        self._options = replace(self._options, reserve_bytes=reserve_bytes)

    def refuse(self, *, reserve: bool) -> None:
        """Raise if appends of this kind are refused now: StoreStopped after a failure, StoreFull at the reserve."""
        writer = self._writer
        if writer.failure is not None:
            raise StoreStopped(f"the store stopped when a write failed earlier: {writer.failure}") from writer.failure
        if not reserve and writer.free_bytes < self._options.reserve_bytes:
            raise StoreFull(self._said_full(self._options.reserve_bytes))

    @property
    def refusal(self) -> str:
        """Why messages are refused now, if only large ones; empty if all are taken."""
        try:
            self.refuse(reserve=False)
        except (StoreFull, StoreStopped) as error:
            return str(error)
        left = self.active.end - self.end_position - self._kept_bytes
        if self.upcoming is not None or left > self._options.record_bytes_limit:
            return ""
        needed = self._options.reserve_bytes + self._options.segment_bytes
        return self._said_full(needed) if self._writer.free_bytes < needed else ""

    @property
    def _kept_bytes(self) -> int:
        return self._options.kept_bytes(self.active.size)

    def _said_full(self, needed: int) -> str:
        free = f"{self._writer.free_bytes / _MIB:.1f} MiB free"
        if not self._writer.free_bytes:  # also where a file could not be made, whatever the system says to be free
            free += ", or no inode or descriptor for a further file"
        return f"the disk of {self._directory} has {free}, and messages need {needed / _MIB:.1f} MiB"
