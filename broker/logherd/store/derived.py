"""What follows from the log and is kept beside it: consume queues, their list, and the key index.

The owner thread collects what committed records add (`committed`) and from time to time seals it: everything up to one
position becomes a task for the writer thread, which writes and flushes it in small steps, then records in the
checkpoint how far they go. Until a sealed part is done its units and entries stay in memory, where reads find them.
Opening a store derives again whatever lies above the recorded positions.
"""

from collections.abc import Iterator
from functools import partial

from msgspec.structs import replace

from logherd.kit.clock import Clock
from logherd.store.background import Task
from logherd.store.consume_queue import DELETED, UNIT_SIZE, QueueLog
from logherd.store.extract import Extractor
from logherd.store.files import Files
from logherd.store.index_file import IndexFile
from logherd.store.index_set import IndexSet
from logherd.store.key_index import PENDING, find_waiting, hash_key, waiting_below
from logherd.store.options import StoreOptions
from logherd.store.queue_files import UnitReader, UnitWriter
from logherd.store.queue_list import LISTED_DELETED, QueueEntry, QueueList
from logherd.store.queues import QueueTable
from logherd.store.writer import LogWriter, WriteBatch, patiently, with_descriptor

__all__ = ["Derived"]

_TRIMMED_QUEUES_MAX = 64
_LISTED_QUEUES = 64
_INDEX_INTERVAL_MS = 30_000
_INDEX_LAG_BYTES_MAX = 256 << 20


class Derived:
    """All derived files of one store.

    1. `_dirty` holds every queue with committed units that no sealed part has, and its end at its last commit.
    2. At most one part is sealed and not done; no queue's tail is trimmed while one is.
    """

    __slots__ = (
        "_clock", "_dirty", "_due", "_index_due", "_options", "_running", "_sealed_entries", "_sealed_position",
        "_trimming", "_units", "_writer", "extract", "index", "position", "queue_list", "reader", "table",
    )  # fmt: skip

    def __init__(
        self, files: Files, root: str, options: StoreOptions, *, clock: Clock, writer: LogWriter, min_position: int,
        queue_list: QueueList,
    ) -> None:  # fmt: skip
        self._options = options
        self._clock = clock
        self._writer = writer
        derived = options.derived
        sizes = {"units_per_file": derived.queue_file_units, "open_files_max": derived.open_files_max}
        self.reader = UnitReader(files, root, **sizes)
        self._units = UnitWriter(files, root, **sizes)
        self.index = IndexSet(files, root, writer, slots=derived.index_slots, entries=derived.index_entries)
        self.queue_list = queue_list
        self.table = QueueTable(self.reader, min_position)
        self.extract = Extractor(outlined=options.replicated)
        self._dirty: dict[QueueLog, int] = {}
        self._trimming: Iterator[QueueLog] = iter(())
        self._running = False
        self._sealed_entries: bytes | bytearray = b""
        self._due = clock.monotonic_ms() + derived.interval_ms
        self._index_due = clock.monotonic_ms() + _INDEX_INTERVAL_MS
        self.position = self._sealed_position = 0

    def committed(self, batch: WriteBatch) -> None:
        """Note what a committed batch added; seals when it is time. Owner thread."""
        self._dirty.update(batch.touched)
        self.position = batch.kept
        if self._running:
            return
        self._trim(_TRIMMED_QUEUES_MAX + 2 * len(batch.touched))
        if self._is_due():
            self.seal()

    def distrust_names(self) -> None:
        """Until the next part is written, names of existing files count as not durable: their maker was killed."""
        self._units.distrusts_names = True

    def replayed(self, queue: QueueLog) -> None:
        """Note that a record was derived again, whose unit is in the queue's tail."""
        self._dirty[queue] = queue.max_offset

    def tick(self) -> None:
        """Seal if it is time although no batch came by."""
        self._trim(_TRIMMED_QUEUES_MAX)
        if not self._running and (self._dirty or self._index_is_behind()) and self._is_due():
            self.seal()

    def _index_is_behind(self) -> bool:
        """Whether the index's progress should be recorded although nothing is new: retention waits for it."""
        behind = self._writer.checkpoint.value.index_dispatched < self.position
        return behind and self._clock.monotonic_ms() >= self._index_due

    def _is_due(self) -> bool:
        return (
            self._index_is_full()
            or self.position - self._sealed_position >= self._options.derived.bytes_max
            or self._clock.monotonic_ms() >= self._due
        )

    def seal(self, *, final: bool = False) -> bool:
        """Hand everything up to the committed position to the writer thread. False if the last part is not yet done."""
        if self._running:
            return False
        self._trim(None)
        self._due = self._clock.monotonic_ms() + self._options.derived.interval_ms
        indexed = final or self._index_is_due()
        self._sealed_entries = self._take_entries() if indexed else b""
        dirty, self._dirty = self._dirty, {}
        self._sealed_position = self.position
        self._running = True
        self._writer.tasks.append(self._write(dirty, self._sealed_entries, self.position, indexed=indexed))
        return True

    def _take_entries(self) -> bytes:
        """The waiting index entries of committed records."""
        waiting = self.extract.pending
        end = waiting_below(waiting, self.position)
        entries = bytes(waiting[:end])
        del waiting[:end]
        return entries

    def _write(self, dirty: dict[QueueLog, int], entries: bytes, position: int, *, indexed: bool) -> Task:
        """The sealed part's task. Writer thread."""
        writer = self._writer
        writer.flush_for_derived()
        yield from self._write_queues(dirty)
        writer.checkpoint.record(replace(writer.checkpoint.value, queues_dispatched=position))
        if indexed:
            yield from self.index.add(entries)
            self._index_due = self._clock.monotonic_ms() + _INDEX_INTERVAL_MS
            writer.checkpoint.record(self.index.recorded(replace(writer.checkpoint.value, index_dispatched=position)))
        self._sealed_entries = b""
        self._trimming = iter(dirty)
        self._running = False

    def _index_is_full(self) -> bool:
        return len(self.extract.pending) >= self._options.derived.index_write_entries * PENDING.size

    def _index_is_due(self) -> bool:
        """Each write of the index touches its slots, 20 MB of them, all over: so it comes seldom."""
        lag = self.position - self._writer.checkpoint.value.index_dispatched
        return (
            not self.extract.pending
            or self._index_is_full()
            or lag >= _INDEX_LAG_BYTES_MAX
            or self._clock.monotonic_ms() >= self._index_due
        )

    def _write_queues(self, dirty: dict[QueueLog, int]) -> Task:
        changed, checkpoint = [], self._writer.checkpoint
        if checkpoint.committed is not None and any(queue.entry_at < 0 for queue in dirty):
            checkpoint.sync()  # files of a queue that is not listed are believed if its records are derived again
        for queue, end in dirty.items():
            if queue.deleted == DELETED:  # said before the checkpoint moves on without its units
                yield from self._list_deleted([queue])
                continue
            if end < queue.stale_end:
                yield from self._cut(queue, end)
            queue.stale_end = 0
            start = queue.written
            at = (start - queue.tail_start) * UNIT_SIZE
            units = queue.tail[at : at + (end - start) * UNIT_SIZE]
            for offset, part in self._units.parts(start, units):
                write = partial(self._units.write, queue.topic, queue.queue_id, offset, part)
                file = yield from patiently(self._writer, write)
                file.flush()
            changed.append((queue, end))
            yield None
        yield from self._units.sync_names()
        self._units.distrusts_names = False
        yield from self._list(changed)

    def _list(self, changed: list[tuple[QueueLog, int]]) -> Task:
        """Make new lengths durable, after the units themselves; only then may the tails be trimmed."""
        for count, (queue, end) in enumerate(changed, 1):
            yield from patiently(self._writer, partial(self._put, queue, end))
            if count % _LISTED_QUEUES == 0:
                yield None
        if changed:
            self.queue_list.flush()
        for queue, end in changed:
            queue.written = end

    def _put(self, queue: QueueLog, end: int | None) -> None:
        """Write a queue's line, None: that it was deleted. That is said once, and nothing after it: another queue of
        the name may have the line then."""
        if queue.entry_at != LISTED_DELETED:
            live = end is not None
            first = queue.first_offset if live else 0
            entry = QueueEntry(queue.topic, queue.queue_id, end or 0, first, live=live, at=queue.entry_at)
            queue.entry_at = self.queue_list.put(entry)

    def _cut(self, queue: QueueLog, end: int) -> Task:
        """The queue began anew below what its files hold: first the list says so, then they are shortened."""
        end = min(queue.written, end)
        yield from self._list([(queue, end)])
        yield from with_descriptor(partial(self._units.cut, queue.topic, queue.queue_id, end))

    def _trim(self, count: int | None) -> None:
        """Forget units in memory that files hold now: all of queues that had no message since, the oldest of others."""
        if self._running:
            return
        keep = self._options.derived.tail_units_max
        for queue in self._trimming:
            queue.drop_tail(keep if queue in self._dirty else 0)
            if count is not None:
                count -= 1
                if count <= 0:
                    return

    def remove_topic(self, topic: str) -> None:
        """Forget a topic's queues at once and delete their files in the background. Owner thread."""
        removed = self.table.remove_topic(topic)
        for queue in removed:
            self._dirty.pop(queue, None)
        self.reader.cache.forget(f"{self.reader.directory(topic)}/")
        self._writer.tasks.append(self._remove_files(topic, removed))

    def remove_queues(self, queues: list[QueueLog]) -> None:
        """Forget queues that are in no table any more and delete their files in the background. Owner thread."""
        for queue in queues:
            queue.deleted = DELETED
            queue.start_at(0, 0)
            self._dirty.pop(queue, None)
            self.reader.forget(queue)
        if queues:
            self._writer.tasks.append(self._remove_queue_files(queues))

    def _remove_queue_files(self, queues: list[QueueLog]) -> Task:
        yield from self._list_deleted(queues)
        for queue in queues:
            yield from with_descriptor(partial(self._units.remove_queue, queue.topic, queue.queue_id))
            yield None

    def empty(self, queue: QueueLog) -> None:
        """Let a living queue begin anew at offset 0; its files are shortened when the next part is written."""
        self.table.empty(queue)
        self._dirty[queue] = 0

    def _remove_files(self, topic: str, removed: list[QueueLog]) -> Task:
        yield from self._list_deleted(removed)
        yield from with_descriptor(partial(self._units.remove_topic, topic))

    def _list_deleted(self, removed: list[QueueLog]) -> Task:
        self._writer.flush_for_derived()  # what tells of the deletion was written: no crash may take it, and leave this
        if self._writer.checkpoint.committed is not None:
            self._writer.checkpoint.sync()  # that the deletion is committed must outlast the machine first
        for queue in removed:
            yield from patiently(self._writer, partial(self._put, queue, None))
        self.queue_list.flush()
        yield None

    def remove_below(self, min_position: int) -> Task:
        """A task that deletes files all of whose units or entries are below a position. Called by the owner thread."""
        self.reader.forget_deleted(self.table.find)  # what went the last time; until then it may be looked in
        units_per_file = self._options.derived.queue_file_units
        queues = [queue for queue in self.table if queue.written > units_per_file]
        return self._remove_below(queues, self.index.take_below(min_position), min_position)

    def _remove_below(self, queues: list[QueueLog], files: list[IndexFile], min_position: int) -> Task:
        for queue in queues:
            look = partial(self._units.first_kept, queue.topic, queue.queue_id, min_position, queue.written)
            first = yield from patiently(self._writer, look)
            if first > queue.first_offset and queue.deleted != DELETED:
                queue.first_offset = first  # said before files go, so that none counts as missing
                yield from self._list([(queue, queue.written)])
                yield from with_descriptor(partial(self._units.remove_before, queue.topic, queue.queue_id, first))
            yield None
        writer = self._writer
        if files:
            writer.checkpoint.record(replace(writer.checkpoint.value, index_files=len(self.index.files)))
            writer.checkpoint.sync()
        for file in files:
            self.index.delete(file)
            yield None

    def find_positions(self, topic_hash: int, key: bytes, begin: int, end: int) -> Iterator[int | None]:
        """Committed positions of records with a key of this hash that may have been stored in [begin, end] (ms), newest
        first; some may come twice. None for every other entry that was looked at. Owner thread."""
        wanted = hash_key(topic_hash, key)
        for waiting in (self.extract.pending, self._sealed_entries):
            for position, stored in find_waiting(waiting, wanted):
                yield position if position < self.position and begin <= stored <= end else None
        yield from self.index.find(wanted, begin, end)

    def close(self) -> None:
        """Close all files."""
        self.queue_list.close()
        self.index.close()
        self.reader.cache.forget("")
        self._units.cache.forget("")
