"""Everything that runs on the writer thread: write, flush, keep the checkpoint, and background work in small steps.

The owner thread hands work over (batches, tasks) and reads three plain values back: `flushed_position`, `failure`,
`free_bytes`. Each is one reference, replaced whole, so no lock is needed; the last is an estimate that the owner lowers
when it allocates a segment.

A failed write or flush is final. The system may have thrown the dirty pages away and would answer a second flush with
success, so after the first failure every call raises StoreStopped and no position ever advances again.

Source: apache/rocketmq: store/src/main/java/org/apache/rocketmq/store/CommitLog.java (GroupCommitService)
"""

import dataclasses
import errno
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from msgspec.structs import replace

from logherd.kit.clock import Clock
from logherd.kit.errors import broken, ensure
from logherd.store.background import Background, NoSpace, Task
from logherd.store.checkpoint import CHECKPOINT_SIZE, SLOT_OFFSETS, Checkpoint, encode_java_fields, encode_slot
from logherd.store.consume_queue import QueueLog
from logherd.store.errors import StoreStopped
from logherd.store.files import NO_SPACE, Buffer, File, Files
from logherd.store.looks import Looks
from logherd.store.options import StoreOptions
from logherd.store.segment import Segment
from logherd.store.tail import cut_tail

_T = TypeVar("_T")

__all__ = [
    "NO_DESCRIPTOR",
    "CheckpointFile",
    "Cut",
    "LogWriter",
    "WriteBatch",
    "patiently",
    "with_descriptor",
]


_STEP_INTERVAL_MS = 20
_STEPS_BETWEEN_BATCHES = 16
_ZEROS_PAY_BELOW = 48 << 10
"""Mean bytes of a flush. Above it zeros cost more than they save: each byte is written and flushed twice. Without them
three replicas took a tenth more of a stream of 250 KB a flush, and wrote half as much to the disk."""
_MEAN_OF_FLUSHES = 16
_MORE_OFTEN = 10
BRIEF_BYTES_MAX = 128 << 10
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


def patiently(writer: "LogWriter", action: Callable[[], _T]) -> Generator[NoSpace, None, _T]:
    """Do what may be repeated (writes, never flushes) until there is space and a descriptor for it.

    Raises other OSErrors.
    """
    lacking = False
    while True:
        try:
            done = action()
        except OSError as error:
            if error.errno in NO_SPACE:
                lacking = True
                writer.took(None)
            elif error.errno not in NO_DESCRIPTOR:
                raise
        else:
            if lacking:
                writer.found()
            return done
        yield NoSpace.WAITING


def with_descriptor(action: Callable[[], None]) -> Task:
    """Do what opens files for itself, once it gets descriptors for them: what needs one has done nothing, so this may
    be a flush of a directory; what came before that is done again."""
    while True:
        try:
            return action()
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR:
                raise
        yield NoSpace.WAITING


class CheckpointFile:
    """The open `checkpoint` file and the newest values written to it.

    `record` is a plain write: what it said is there after the process dies. `sync` makes it survive the machine.
    `committed` is the owner's: a replica's newest committed position, which goes along with whatever is recorded next.
    """

    __slots__ = ("_file", "_synced", "committed", "last_store_timestamp", "synced_to", "value")

    def __init__(self, file: File, value: Checkpoint) -> None:
        self._file = file
        self._synced = True
        self.value = value
        self.synced_to = value.flushed
        self.committed = value.committed
        self.last_store_timestamp = 0

    @staticmethod
    def create(files: Files, directory: str) -> File:
        """Open the file, giving it its full length first."""
        file = files.open(f"{directory}/checkpoint", create=True)
        if file.size() < CHECKPOINT_SIZE:
            file.allocate(CHECKPOINT_SIZE)
        return file

    def record(self, value: Checkpoint, *, flushed: int | None = None) -> None:
        """`flushed`, where it is given, instead of that of `value`."""
        counter = self.value.counter + 1
        reached = value.flushed if flushed is None else flushed
        self.value = replace(value, counter=counter, committed=self.committed, flushed=reached)
        self._file.write(SLOT_OFFSETS[counter % 2], (encode_slot(self.value),))
        self._synced = False

    def sync(self) -> None:
        if self.committed != self.value.committed:
            self.record(self.value)
        if not self._synced:
            self._file.write(0, (encode_java_fields(self.last_store_timestamp, self.value.flushed),))
            self._file.flush()
            self._synced, self.synced_to = True, self.value.flushed

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True, slots=True)
class Cut:
    """The log ends at position `at` from now on; `segments` are the one that holds it and all behind."""

    at: int
    segments: tuple[Segment, ...]


class WriteBatch:
    """Consecutive records of one segment: positions [start, end), to be written and flushed at once; or a cut.

    Made by the owner thread, written by the writer thread, then given back to `MessageStore.flushed` in the same order.
    `kept` and `touched` stay the owner's: a cut that comes after the batch was taken leaves positions [start, kept).
    """

    __slots__ = (
        "_writer", "cut", "done", "end", "kept", "parts", "segment", "start", "store_timestamp", "taken", "touched",
    )  # fmt: skip

    def __init__(
        self, writer: "LogWriter", segment: Segment, start: int, end: int, *, parts: list[Buffer],
        touched: dict[QueueLog, int], store_timestamp: int, cut: Cut | None = None,
    ) -> None:  # fmt: skip
        self._writer = writer
        self.segment = segment
        self.start = start
        self.end = self.kept = end
        self.parts = parts
        self.touched = touched
        self.store_timestamp = store_timestamp
        self.cut = cut
        self.taken = self.done = False

    def write_and_flush(self) -> None:
        """Write the batch and, unless flush is `async`, make it durable. Blocks; writer thread only.

        Raises: StoreStopped if it failed or an earlier one did; then nothing of it may be answered as stored.
        """
        self._writer.write(self)
        self.done = True

    def write_if_brief(self) -> bool:
        """The same if nothing but these few bytes has to be written and flushed for it; False: nothing was done.

        Also for another thread than the writer's, while that one does nothing. What else is due stays its work; `note`
        is to follow, once whoever waits for the batch has heard of it, and before that thread does anything.
        """
        self.done = self._writer.write_if_brief(self)
        return self.done

    def note(self) -> None:
        """Say in the checkpoint's file how far the log is flushed. A process that dies before leaves it one batch
        behind, which costs nothing: what was written stands in the log, and is looked for there.

        Raises: StoreStopped.
        """
        self._writer.note_flush()


@dataclass(slots=True)
class _Due:
    """When it is time again, in ms: for a step of what waits, and an async flush; and when the checkpoint went to the
    disk."""

    looks: Looks
    """At the free space."""
    step: int = 0
    flush: int = 0
    checkpoint_synced: int = 0


class LogWriter:
    """The writer thread's state.

    1. Batches arrive in order of position, without gaps.
    2. flushed_position <= written position; everything below flushed_position was flushed without an error.
    """

    __slots__ = (
        "_active", "_clock", "_directory", "_due", "_files", "_flush_bytes_mean", "_options", "_unflushed",
        "_written", "checkpoint", "failure", "flushed_position", "free_bytes", "next_segment", "tasks",
    )  # fmt: skip

    def __init__(
        self, files: Files, directory: str, options: StoreOptions, *, clock: Clock, checkpoint: CheckpointFile,
        active: Segment, position: int,
    ) -> None:  # fmt: skip
        self._files = files
        self._directory = directory
        self._options = options
        self._clock = clock
        self._active = active
        self._written = position
        self._unflushed: dict[Segment, None] = {}
        self._due = _Due(Looks(options.free_space_check_ms))
        self._flush_bytes_mean = 0
        self.checkpoint = checkpoint
        self.failure: BaseException | None = None
        self.flushed_position = position
        self.free_bytes = files.free_bytes(directory)
        self.next_segment: Segment | None = None
        self.tasks = Background()

    @property
    def flushes_later(self) -> bool:
        """Whether a batch is flushed some time after it was written."""
        return self._options.log.flush == "async"

    def took(self, segment_bytes: int | None) -> None:
        """Either thread: a segment was made; None: that, or another file, lacks space after all, inode or descriptor.

        If the system says that there is space for a segment it is believed later then (`Looks`): else the store would
        say every second that it has space, and then that it has none, and a leader hand over for it. Of a disk that is
        just full each look tells the truth.
        """
        if segment_bytes is None:
            if self.free_bytes >= self._options.log.segment_bytes:
                self._due.looks.misled(self._clock.monotonic_ms())
            self.free_bytes = 0
        else:
            self.free_bytes -= segment_bytes
            self._due.looks.met()

    def found(self) -> None:
        """A file that lacked space or an inode before could be made."""
        self._due.looks.anew()

    def flush_every(self, milliseconds: int) -> None:
        """Any thread: with flush "async", how often from now on."""
        self._options = dataclasses.replace(
            self._options, log=dataclasses.replace(self._options.log, async_flush_ms=milliseconds)
        )

    def write(self, batch: WriteBatch) -> None:
        """See WriteBatch.write_and_flush."""
        self._refuse_after_failure()
        if batch.cut is not None:
            cut = batch.cut
            self.guarded(lambda: self._cut(cut))
            return
        self._in_order(batch)
        self.guarded(lambda: self._write(batch))

    def write_if_brief(self, batch: WriteBatch) -> bool:
        """See WriteBatch.write_if_brief."""
        self._refuse_after_failure()
        log, size = self._options.log, batch.end - batch.start
        if (
            batch.cut is not None or size > BRIEF_BYTES_MAX or not batch.segment.created
            or (self.flushes_later and batch.end - self.flushed_position > log.async_unflushed_bytes_max)
            or self._behind >= self._options.derived.behind_bytes
        ):  # fmt: skip
            return False
        self._in_order(batch)
        try:
            self._put(batch, noted=False)
        except OSError as error:
            self._fail(error)
        return True

    def note_flush(self) -> None:
        """See WriteBatch.note."""
        if self.checkpoint.value.flushed != self.flushed_position:
            self.guarded(self._note_flush)

    def _note_flush(self) -> None:
        self.checkpoint.record(self.checkpoint.value, flushed=self.flushed_position)

    def _in_order(self, batch: WriteBatch) -> None:
        if batch.start != self._written:
            broken("batches are written in order", batch.start, self._written)

    def _write(self, batch: WriteBatch) -> None:
        self._put(batch)
        if self._clock.monotonic_ms() >= self._due.step:
            self._take_share()
        self._catch_up()

    def _put(self, batch: WriteBatch, *, noted: bool = True) -> None:
        segment = batch.segment
        segment.make_durable(f"{self._directory}/commitlog")
        unflushed = batch.end - self.flushed_position
        if unflushed > self.checkpoint.value.window:
            self._widen(unflushed)
        later = self.flushes_later and unflushed <= self._options.log.async_unflushed_bytes_max
        if later or self._unflushed:
            segment.file.write(batch.start - segment.start, batch.parts)
            self._unflushed[segment] = None
        else:  # one call takes a tenth less than two
            segment.file.write_through(batch.start - segment.start, batch.parts)
        self._active = segment
        self._written = batch.end
        self.checkpoint.last_store_timestamp = batch.store_timestamp
        if not later:
            self._flush_log(noted=noted)

    def _widen(self, window: int) -> None:
        """More is written at once than the options allow, for a leader with others took a longer record: a recovery has
        to know how far a torn write can reach before there is one."""
        self.checkpoint.record(replace(self.checkpoint.value, window=window))
        self.checkpoint.sync()

    def _cut(self, cut: Cut) -> None:
        """First the checkpoint goes down and says how far old bytes may lie; then the header at the cut becomes zero,
        which is the cut; then the rest. Each is durable before the next begins, and all of it before anything is
        appended: so no record of the part that went can be taken for one that follows (R14)."""
        self.flush_for_derived()
        end = self._written
        ensure(cut.at <= end, "a cut is below what was written", cut.at, end)
        self._written = self.flushed_position = cut.at
        self._active = cut.segments[0]
        self.checkpoint.record(replace(self.checkpoint.value, flushed=cut.at, loose=end, closed=False))
        self.checkpoint.sync()
        cut_tail(list(cut.segments), cut.at, end)
        self.checkpoint.record(replace(self.checkpoint.value, loose=0))
        self.checkpoint.sync()

    def _flush_log(self, *, noted: bool = True) -> None:
        for segment in self._unflushed:
            segment.file.flush()
        self._unflushed.clear()
        self._flush_bytes_mean += (self._written - self.flushed_position - self._flush_bytes_mean) // _MEAN_OF_FLUSHES
        self.flushed_position = self._written
        if noted:
            self._note_flush()

    def background_work(self) -> bool:
        """Do one small step of what waits. Blocks for a few ms at most. True if more could be done at once.

        Call it whenever no batch waits; when batches always wait, `write` does some of it between them.
        Raises: StoreStopped as `write` does.
        """
        self._refuse_after_failure()
        self._due.step = self._clock.monotonic_ms() + _STEP_INTERVAL_MS
        return self.guarded(self._step)

    def _step(self) -> bool:
        now = self._clock.monotonic_ms()
        if self._unflushed and now >= self._due.flush:
            self._due.flush = now + self._options.log.async_flush_ms
            self._flush_log()
            return True
        self._tend(now)
        if self._zero_step(self._options.log.zero_ahead_bytes // 4):
            return True
        if self.tasks.step():
            return True
        return self._zero_step(self._options.log.zero_ahead_bytes)

    def _tend(self, now: int) -> None:
        """What is due by time and short: the checkpoint's way to the disk, a look at the free space."""
        interval = self._options.checkpoint_sync_ms
        if self.flushed_position - self.checkpoint.synced_to >= self._options.checkpoint_sync_bytes:
            interval //= _MORE_OFTEN
        if now - self._due.checkpoint_synced >= interval:
            self._due.checkpoint_synced = now
            self.checkpoint.sync()
        if self._due.looks.due(now):
            self.free_bytes = self._files.free_bytes(self._directory)

    def _take_share(self) -> None:
        """Batches always wait: let background work have about a tenth of the thread's time between them."""
        now = self._clock.monotonic_ms()
        self._due.step = now + _STEP_INTERVAL_MS
        self._tend(now)
        for _ in range(_STEPS_BETWEEN_BATCHES):
            if not self.tasks.step() or self._clock.monotonic_ms() > now + 1:
                break
        self._zero_step(self._options.log.zero_ahead_bytes // 4)

    def _catch_up(self) -> None:
        """Derived files are far behind: batches wait for them, the longer the further, 1 ms for each `behind_bytes`.

        What is not yet derived stands in memory, so this bounds it: senders slow down to what can be kept up with.
        """
        until = self._clock.monotonic_ms() + self._behind // self._options.derived.behind_bytes
        while self._clock.monotonic_ms() < until and self.tasks.step():
            pass

    @property
    def _behind(self) -> int:
        """Bytes of the log that are not yet in the derived files."""
        return self.flushed_position - self.checkpoint.value.queues_dispatched

    def _zero_step(self, ahead: int) -> bool:
        """Where it pays, write zeros, durably, over the next blocks if fewer than `ahead` bytes are prepared."""
        if self._flush_bytes_mean >= _ZEROS_PAY_BELOW:
            return False
        if self._zero_segment(self._active, self._written - self._active.start, ahead):
            return True
        upcoming = self.next_segment
        left = self._active.end - self._written
        if upcoming is None or upcoming.start != self._active.end or left >= ahead:
            return False
        upcoming.make_durable(f"{self._directory}/commitlog")
        return self._zero_segment(upcoming, 0, ahead - left)

    def _zero_segment(self, segment: Segment, written: int, ahead: int) -> bool:
        """Whole steps only, but at a segment's end: as each has a flush, one after each batch would double a lone
        sender's flushes."""
        log = self._options.log
        start = max(segment.zeroed, written)
        end = min(start + log.zero_step_bytes, written + ahead, segment.size)
        if end <= start or (end < segment.size and end - start < min(log.zero_step_bytes, log.zero_ahead_bytes // 4)):
            return False
        segment.file.write(start, (bytes(end - start),))
        segment.file.flush()
        segment.zeroed = end
        return True

    def run_tasks(self) -> None:
        """Do all tasks that wait, at once; those that wait for space stay. Raises: StoreStopped."""
        self._refuse_after_failure()
        self.guarded(self._run_tasks)

    def _run_tasks(self) -> None:
        while self.tasks.step():
            pass

    def flush_for_derived(self) -> None:
        """Derived files may name only flushed records; with async flush this makes it so. For tasks."""
        if self._unflushed:
            self._flush_log()

    def finish(self) -> None:
        """Do all background work that waits and make the checkpoint durable. Blocks; writer thread stopped."""
        self._refuse_after_failure()
        self.guarded(self._finish)

    def _finish(self) -> None:
        self.flush_for_derived()
        self._run_tasks()
        self.checkpoint.record(replace(self.checkpoint.value, closed=True))
        self.checkpoint.sync()
        self._files.unlink(f"{self._directory}/abort")
        try:
            self._files.sync_dir(self._directory)
        except OSError as error:  # without a descriptor RocketMQ may find its mark again; all that counts is durable
            if error.errno not in NO_DESCRIPTOR:
                raise

    def _refuse_after_failure(self) -> None:
        if self.failure is not None:
            raise StoreStopped(f"the store stopped when a write failed earlier: {self.failure}") from self.failure

    def guarded(self, action: Callable[[], _T]) -> _T:
        """Do what writes or flushes; a failure stops the store. Also for the owner thread's rare flushes.

        Raises: StoreStopped.
        """
        try:
            return action()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> NoReturn:
        self.failure = error
        raise StoreStopped(f"a write or flush in {self._directory} failed: {error}") from error
