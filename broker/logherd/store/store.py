"""MessageStore: append, commit and read messages of queues, all on one owner thread.

The only things that run elsewhere are `WriteBatch.write_and_flush` and `background_work`, on one writer thread. The
order is always: append ... append, take_batch, (writer) write_and_flush, flushed, advance. Only committed messages can
be read: a broker that is alone advances to whatever is flushed, a replica to what its group has committed.

Source: apache/rocketmq: store/src/main/java/org/apache/rocketmq/store/DefaultMessageStore.java
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from logherd.kit.clock import Clock
from logherd.kit.errors import InvariantError, ensure
from logherd.model.record import RecordError, encode_record_for
from logherd.model.record_run import run_encoder
from logherd.store.admission import Admission, DiskState
from logherd.store.append_raw import append_raw
from logherd.store.append_run import BatchFacts, BatchPart, RunMessage, append_batch, append_run
from logherd.store.consume_queue import DELETED, UNIT, QueueLog, topic_hash
from logherd.store.errors import RecordTooLarge, StoreDamaged, StoreFull
from logherd.store.extract import has_unit
from logherd.store.files import Buffer, Files
from logherd.store.log import Extent
from logherd.store.options import StoreOptions
from logherd.store.outline import Outline, Outlines
from logherd.store.pieces import lies_in_record
from logherd.store.read import ReadResult
from logherd.store.reader import QueueReader
from logherd.store.recovery import Recovered, Recovery, recover
from logherd.store.writer import WriteBatch

__all__ = ["DiskState", "MessageStore"]

_pack_unit = UNIT.pack
_NO_PARTS = list[Buffer]()
_RECORD_OVERHEAD = 160  # most that a record takes beside topic, body and properties, rounded up


class MessageStore:
    """A store that was opened and recovered.

    1. committed_position <= flushed (with flush "sync") <= end_position; `_uncommitted` holds what lies between the
       first two.
    2. Queue offsets are dense: an append gets the queue's next_offset, and offsets become readable in that order.
    3. After a failed write nothing becomes committed any more; reads go on.
    """

    __slots__ = (
        "_admission", "_derived", "_extract", "_lock", "_log", "_reader", "_store_host", "_uncommitted", "_writer",
        "committed_position", "recovery", "retention",
    )  # fmt: skip

    def __init__(self, recovered: Recovered, options: StoreOptions) -> None:
        self._admission = Admission(options.log.reserve_bytes, options.log.reserve_bytes)
        self._store_host = options.store_host
        self._lock = recovered.lock
        self._log = recovered.log
        self._writer = recovered.writer
        self._derived = recovered.derived
        self._extract = recovered.derived.extract
        self._reader = QueueReader(self._log, recovered.derived.table, recovered.root)
        self._uncommitted = recovered.uncommitted
        self.committed_position = recovered.committed
        self.recovery: Recovery = recovered.report
        self.retention = options.retention  # what `apply_retention` deletes; may be replaced at any time

    @staticmethod
    def open(directory: Path, options: StoreOptions, files: Files, *, clock: Clock) -> "MessageStore":
        """Lock and recover the store in `directory`, which is made if it does not exist. Blocks for as long as the part
        of the log since the last checkpoint takes to read; `recovery` says what was found, dropped and rebuilt.

        Raises: StoreInUse; StoreDamaged or StoreVersionError (nothing was changed then); StoreFull if there is no room
        for the first segment; OSError from the disk.
        """
        return MessageStore(recover(str(directory), options, files, clock=clock), options)

    @property
    def extent(self) -> Extent:
        """Where the log begins and ends, always as it is now; for who asks several times for each message."""
        return self._log

    @property
    def end_position(self) -> int:
        """End of everything appended (bytes)."""
        return self._log.end_position

    @property
    def min_position(self) -> int:
        """Lowest position that is kept."""
        return self._log.min_position

    @property
    def flushed_position(self) -> int:
        """End of everything that is durable; with flush "async" it lags behind committed_position."""
        return self._writer.flushed_position

    @property
    def unwritten_bytes(self) -> int:
        """Bytes appended and not yet taken by the writer; for back-pressure."""
        return self._log.end_position - self._log.taken_position

    def queue(self, topic: str, queue_id: int) -> QueueLog:
        """The queue's handle; made in memory if there is none. Keep it: handles are what is fast."""
        return self._derived.table.get(topic, queue_id)

    def find_queue(self, topic: str, queue_id: int) -> QueueLog | None:
        """The queue's handle, None if nothing ever asked for it or wrote to it."""
        return self._derived.table.find(topic, queue_id)

    def queues_of(self, topic: str) -> list[QueueLog]:
        """The handles of a topic's queues."""
        return self._derived.table.of_topic(topic)

    def queues(self) -> Iterator[QueueLog]:
        """All handles, in no promised order; do not create or delete queues meanwhile."""
        return iter(self._derived.table)

    def append(
        self, queue: QueueLog, body: bytes | memoryview, properties: bytes, *, born_timestamp: int, born_host: bytes,
        store_timestamp: int, flag: int = 0, sys_flag: int = 0, reconsume_times: int = 0, prepared_position: int = 0,
        reserve: bool = False,
    ) -> tuple[int, int]:  # fmt: skip
        """Append one message to the log in memory: its (queue offset, position in bytes).

        Shape:   `properties` as clients send them, without a checksum property; ends in 0x02 unless empty.
        Durable: no, nor readable; the first once the batch that holds it was flushed, the second by `advance`.
        Reserve: metadata may be appended when the disk is at its reserve; messages of clients may not.
        Raises:  StoreFull, StoreStopped, RecordTooLarge; then nothing was appended.
        """
        ensure(has_unit(sys_flag), "only whole messages are appended", queue)
        return self.append_plain(
            queue, body, properties, None, born_timestamp, born_host, store_timestamp, flag, sys_flag,
            reconsume_times, prepared_position, reserve,
        )[:2]  # fmt: skip

    def append_plain(
        self, queue: QueueLog, body: bytes | memoryview, properties: bytes, sole_key: bytes | None,
        born_timestamp: int, born_host: bytes, store_timestamp: int, flag: int, sys_flag: int, reconsume_times: int,
        prepared_position: int = 0, reserve: bool = False,
    ) -> tuple[int, int, int]:  # fmt: skip
        """`append` for the path that nearly all messages take: arguments by position, `sys_flag` without transaction
        bits. `sole_key` is the value of UNIQ_KEY where the caller knows that `properties` have neither
        TAGS nor KEYS, else None. Returns (queue offset, position, size in bytes)."""
        log = self._log
        if self._writer.failure is not None or self._writer.free_bytes < self._admission.least_free_bytes:
            self._refuse(reserve=reserve)
        if queue.deleted:
            raise InvariantError(f"only living queues get messages: {queue}")
        offset = queue.next_offset
        position = log.end_position
        while True:
            try:
                record = encode_record_for(
                    queue.topic_part, body, properties, queue.queue_id, offset, position, store_timestamp,
                    self._store_host, born_timestamp, born_host, flag, sys_flag, reconsume_times, prepared_position,
                )  # fmt: skip
            except RecordError as error:
                raise RecordTooLarge(str(error)) from error
            size = len(record)
            if position + size <= log.append_limit:
                break
            moved = log.make_room(size, reserve=reserve)
            if moved == position:
                break
            position = moved
        extract = self._extract
        if extract.outlines is not None:
            extract.outlines.add(queue, record, position, store_timestamp)
        tags_code = extract.extract(properties, sole_key, queue.topic_hash, position, store_timestamp)
        queue.tail += _pack_unit(position, size, tags_code)
        log.touched[queue] = queue.next_offset = offset + 1
        log.parts.append(record)
        log.end_position = position + size
        log.store_timestamp = store_timestamp
        return offset, position, size

    def append_run(self, messages: list[RunMessage], born_host: bytes, store_timestamp: int) -> list[tuple[int, int]]:
        """`append_plain` for messages to one topic that came together: (position, queue offset) of each.

        Ends before the first one that needs anything but to be appended, be it that it is refused; that one is for
        `append_plain`. Raises: nothing.
        """
        encode, writer = run_encoder(born_host, store_timestamp, self._store_host), self._writer
        if encode is None or writer.failure is not None or writer.free_bytes < self._admission.least_free_bytes:
            return []
        return append_run(self._log, self._extract, encode, messages, store_timestamp)

    def append_all(
        self, queue: QueueLog, messages: Sequence[BatchPart], *, born_timestamp: int,
        born_host: bytes, store_timestamp: int, sys_flag: int = 0, reconsume_times: int = 0,
    ) -> tuple[int, list[int]]:  # fmt: skip
        """Append messages, each (flag, body, properties) as for `append`, or none of them.

        The result is the first one's queue offset, and the position of each. Raises as `append` does; when StoreStopped
        comes in the middle, what was appended before never becomes durable.
        """
        self.ensure_room(queue, messages)
        ensure(has_unit(sys_flag) and not queue.deleted, "whole messages are appended to living queues", queue)
        first, positions, count = queue.next_offset, list[int](), len(messages)
        encode = run_encoder(born_host, store_timestamp, self._store_host)
        with self._uncommitted.all_or_none(self._log):
            while (at := len(positions)) < count:
                if encode is not None:
                    batch = BatchFacts(born_timestamp, store_timestamp, sys_flag, reconsume_times)
                    positions += append_batch(self._log, self._extract, encode, queue, messages[at:], batch)
                for flag, body, properties in messages[len(positions) : len(positions) + 1]:
                    # Needs a further batch or segment. There was room above: no change meanwhile may end this half-way.
                    _, position, _ = self.append_plain(
                        queue, body, properties, None, born_timestamp, born_host, store_timestamp, flag, sys_flag,
                        reconsume_times, reserve=True,
                    )  # fmt: skip
                    positions.append(position)
        return first, positions

    def ensure_room(self, queue: QueueLog, messages: Sequence[BatchPart], *, more: int = 0) -> None:
        """Prepare for `append_all`, and for `more` bytes of metadata before it. Raises as that does."""
        overhead = len(queue.topic_part) + _RECORD_OVERHEAD
        sizes = [overhead + len(body) + len(properties) for _, body, properties in messages]
        self._refuse(reserve=False)
        self._log.ensure_room(sum(sizes) + more, max(sizes))

    def take_batch(self) -> WriteBatch | None:
        """What was appended and not yet taken, oldest first, at most `batch_bytes_max`; None if there is nothing.

        Hand it to the writer thread, and after `write_and_flush` returned give it to `flushed`, in the order taken.
        """
        if self.outlines is not None:
            self.outlines.end_run()  # whoever reads it later reads batch by batch
        return self._log.take_batch()

    def flushed(self, batch: WriteBatch) -> None:
        """Note that a batch was written; what is in it becomes readable by `advance`."""
        pending = self._log.pending
        if not (batch.done and pending and pending[0] is batch):
            raise InvariantError(f"batches are flushed in order: {batch.start}")
        pending.popleft()
        batch.parts = _NO_PARTS  # read from the file from now on
        if batch.kept > batch.start:
            self._uncommitted.landed.append(batch)

    def readable_to(self, position: int) -> int:
        """What `advance` to this position would make of `committed_position`."""
        return max(self._uncommitted.landed_to(position), self.committed_position)

    def advance(self, position: int) -> list[QueueLog]:
        """Make readable, in whole batches, what was flushed up to `position`. The queues that have new messages."""
        uncommitted, checkpoint = self._uncommitted, self._writer.checkpoint
        touched: dict[QueueLog, int] = {}
        landed = uncommitted.landed
        if checkpoint.committed is not None and position > uncommitted.told:
            uncommitted.told = min(position, self._log.end_position)
        while landed and landed[0].kept <= position:
            batch = landed.popleft()
            for queue, end in batch.touched.items():
                if queue.deleted != DELETED:
                    queue.max_offset = end
            touched = touched | batch.touched if touched else batch.touched
            self.committed_position = batch.kept
            if checkpoint.committed is not None:
                checkpoint.committed = batch.kept
            uncommitted.bury(batch.kept)
            self._derived.committed(batch)
        return [queue for queue in touched if not queue.deleted]

    # ---- a replica's log -----------------------------------------------------------------------------------------

    def append_raw(self, data: Buffer, after: int, *, end: int | None = None, outlines: Sequence[Outline] = ()) -> int:
        """Append whole records as they lie in another replica's log, in one segment, from `after` = end_position on.

        The result is the new end, which is `end` where that is given. The blank record of a segment's end is of its
        head only; with it this log goes on in the next segment. What is appended may use the reserve. Outlines of parts
        of it, in order, spare reading those record by record.
        Durable: no; see `append`. `data` is kept until then if it is bytes, which nobody can change, else copied.
        Raises:  RawRefused for damage, for other segments than here, and for a record that is not its queue's next
                 one; StoreFull, StoreStopped. Nothing was appended then.
        """
        table, extract, uncommitted = self._derived.table, self._extract, self._uncommitted
        return append_raw(self._log, table, extract, uncommitted, data, after, end, outlines)

    def read_raw(self, after: int, bytes_max: int) -> tuple[Buffer, int]:
        """Whole records that begin at `after` < end_position, at least one and else at most `bytes_max` bytes, and
        their end; as `append_raw` takes them, flushed or not. Never waits for the writer.

        Raises: StoreDamaged for a record from before this process that is not as it was written.
        """
        return self._reader.read_raw(after, bytes_max)

    def lies_in_record(self, position: int) -> bool:
        """Whether a whole record is found to lie across a position that is flushed, so that none begins there and
        nothing is damaged. Looks at 1 MiB before it."""
        segment = self._log.segment_of(position)
        return segment is not None and lies_in_record(segment, position, self._log.bare_end)

    @property
    def outlines(self) -> Outlines | None:
        """Of what this process has appended lately, for who gets it by `read_raw`; None unless it is a replica."""
        return self._extract.outlines

    def committed_bytes(self, position: int, bytes_max: int) -> memoryview:
        """See CommitLog.bytes_at, for `position` < committed_position."""
        size = min(bytes_max, self.committed_position - position)
        self._reader.touch(position, size)
        return self._log.bytes_at(position, size)

    def truncate(self, at: int) -> None:
        """Drop every record at or above `at`, where one begins or the log ends; nothing that `advance` was told of is
        there.

        At once for this thread. On the disk it is the next batch, after those that were taken; until that is flushed a
        crash may bring back what was dropped, so nothing may be answered that relies on the cut.
        Raises: InvariantError for a committed position; it is the caller's error, and nothing was changed.
        """
        log = self._log
        ensure(self._writer.checkpoint.committed is not None, "only a replica's log is cut", at)
        told = max(self.committed_position, self._uncommitted.told)
        ensure(told <= at <= log.end_position, "only what is not committed is cut", at, told)
        if at == log.end_position:
            return
        ensure(log.begins_at(at), "a cut is where a record begins", at)
        self._uncommitted.cut(log, at)

    def uncommitted(self, queue: QueueLog, offset: int = 0) -> Iterator[tuple[int, Buffer]]:
        """(position, record) of a queue's messages from `offset` on that are not committed, oldest first."""
        for position, size, _ in UNIT.iter_unpack(queue.uncommitted_units(offset)):
            yield position, self._log.read_raw(position, size)[0]

    @property
    def start_epoch(self) -> int:
        """The epoch of the record before min_position, as `apply_retention` or `begin_again` was told; else 0."""
        return self._writer.checkpoint.value.start_epoch

    @property
    def has_room(self) -> bool:
        """Whether another run can be appended; it may need a further segment."""
        return self._writer.failure is None and self._log.has_room

    @property
    def has_room_to_lead(self) -> bool:
        """Whether the barrier of an epoch, and what a new group's leader appends behind it, finds room."""
        return self._writer.failure is None and self._log.has_room_to_lead

    @property
    def untaken(self) -> bool:
        """Whether `take_batch` has something to give."""
        return self._log.untaken

    def background_work(self) -> bool:
        """See LogWriter.background_work; writer thread only."""
        return self._writer.background_work()

    def read(
        self, queue: QueueLog, offset: int, *, messages_max: int, bytes_max: int,
        tag_codes: frozenset[int] | None = None,
    ) -> ReadResult:  # fmt: skip
        """Committed messages from `offset` on.

        At least one record is found if there is one, however large; then as many as fit both limits (bytes of whole
        records). With `tag_codes` only records with one of these codes; hash collisions are for the client to sort out.
        Never waits for the disk unless the pages are not cached.
        Raises: StoreDamaged for a record that is not as it was written; OSError if it cannot be read.
        """
        return self._reader.read(queue, offset, messages_max=messages_max, bytes_max=bytes_max, tag_codes=tag_codes)

    def record_at(self, position: int) -> memoryview | None:
        """The committed record that begins at `position`; None if none does."""
        return self._reader.record_at(position, self.committed_position)

    def damaged(self, position: int, what: str) -> StoreDamaged:
        """The error for a record that a reader found damaged: its file, offset and what to run."""
        return self._log.damaged(position, what)

    def unit(self, queue: QueueLog, offset: int) -> tuple[int, int, int] | None:
        """(position, size, tags code) of one committed message, None outside [min_offset, max_offset)."""
        if not queue.min_offset <= offset < queue.max_offset:
            return None
        return self._derived.table.unit(queue, offset)

    def store_timestamp(self, queue: QueueLog, offset: int) -> int | None:
        """When the message was stored (ms), None if the queue has no such message, or it is damaged."""
        return self._reader.store_timestamp(queue, offset)

    def offset_by_time(self, queue: QueueLog, timestamp: int, *, upper: bool) -> int:
        """The first offset stored at or after `timestamp` (max_offset if none is); with `upper` the last one stored at
        or before it (min_offset if none is)."""
        return self._reader.offset_by_time(queue, timestamp, upper=upper)

    def query_index(self, topic: str, key: str, *, max_count: int, begin: int, end: int) -> list[int]:
        """Positions of committed messages of `topic` whose key may be `key`, stored in [begin, end] (ms), newest first.

        The index knows hashes only: the caller compares the keys of the records. It knows the second of each, too, so
        that of a key of many messages only those of about that time are looked at, and INDEX_ENTRIES_MAX in all. A
        damaged record of that second is among them: it may be one that is meant, and who reads it meets the damage.
        """
        entries = self._derived.find_positions(topic_hash(topic), key.encode(), begin, end)
        return self._reader.stored_between(entries, begin, end, max_count=max_count)

    def delete_topic(self, topic: str, at: int | None = None) -> None:
        """Forget the topic's queues: at once in memory, their files in the background. The log keeps the records until
        retention; a topic of this name that is made again begins at offset 0.

        The record that tells of the deletion is appended before. Files go when that is committed: a crash before it, or
        a cut of a replica's log below it, brings the queues back. With `at` that record ends there: what another leader
        deleted, told to the replica that leads after it; queues with later messages stay.
        """
        table = self._derived.table
        if self._writer.checkpoint.committed is None and self._log.end_position == self.committed_position:
            self._derived.remove_topic(topic)
            return
        for queue in table.of_topic(topic):
            if at is None or table.ends_below(queue, at):
                self._uncommitted.doom(queue, self._log.end_position if at is None else at)

    def forget_deleted(self, deleted: Mapping[str, int]) -> list[str]:
        """Empty again the queues that hold only records below the position where their topic was deleted: deriving
        queues from the log brings them back, because the log does not know of deletions. Returns the topics.

        Call it after opening, before anything is appended to these topics; and on a follower when it learns that a
        deletion is committed.
        """
        return self._uncommitted.forget_below(deleted, replicated=self._writer.checkpoint.committed is not None)

    def queues_went_to(self, topic: str, ends: Sequence[int], below: int) -> None:
        """Queues go on at these offsets, [queue id, offset, ...], where the log holds no message of theirs; up to the
        position `below` their topic was not deleted since. Messages above it may be of another life of the topic."""
        self._uncommitted.went_to(topic, ends, below)

    def apply_retention(self, now_ms: int, pinned: int, epoch_before: Callable[[int], int] = lambda _: 0) -> int:
        """Delete segments that are older than the options allow, or too many, all of whose bytes are below `pinned`:
        the lowest position that a consumer reads or that metadata still needs. Returns how many segments went.

        At once for reads, in the background on disk. Slices that were handed out stay valid. A replica says of which
        epoch the record before a position was: the barrier that tells it may be among what goes.
        """
        checkpoint = self._writer.checkpoint.value
        derived_to = min(checkpoint.queues_dispatched, checkpoint.index_dispatched)
        count = self._log.expire(
            self.retention, now_ms=now_ms, pinned=min(pinned, derived_to, self.committed_position),
            stored_at=lambda at: self._reader.first_timestamp(at) if at < self.committed_position else None,
            derived=self._derived.remove_below, epoch_before=epoch_before,
        )  # fmt: skip
        self._derived.table.min_position = self._log.min_position
        return count

    def shut(self, reason: str) -> None:
        """Refuse messages with StoreFull for this reason until it is called with none; metadata is taken as before."""
        self._admission.shut(reason)

    def keep_free(self, reserve_bytes: int) -> None:
        """Refuse messages below so many free bytes from now on; the next append goes by it."""
        self._admission.keep_free(reserve_bytes)
        self._log.keep_free(reserve_bytes)

    def flush_every(self, milliseconds: int) -> None:
        """With flush "async": how often from now on. The wait that has begun ends as before."""
        self._writer.flush_every(milliseconds)

    def _refuse(self, *, reserve: bool) -> None:
        """Raise if an append of this kind is refused now."""
        if self._admission.reason and not reserve and self._writer.failure is None:
            raise StoreFull(self._admission.reason)
        self._log.refuse(reserve=reserve)

    @property
    def accepts_messages(self) -> bool:
        """Whether the disk works and its reserve is whole, as of the last look. What is left may be too little for a
        further segment, of which `disk` tells."""
        return self._writer.failure is None and self._writer.free_bytes >= self._admission.reserve_bytes

    @property
    def disk(self) -> DiskState:
        """Space and refusals as of the last look, for `status` and health."""
        free, reserve, lack = self._writer.free_bytes, self._admission.reserve_bytes, self._log.refusal
        return DiskState(
            free_bytes=free, reserve_bytes=reserve, accepts_messages=not lack, stopped=self._writer.failure,
            log_bytes=sum(segment.size for segment in self._log.segments), refusal=self._admission.reason or lack,
        )  # fmt: skip

    def tick(self) -> None:
        """Owner thread, about once a second: lets derived files follow when no batch comes by."""
        self._derived.tick()

    def close(self) -> None:
        """Write what is derived, mark the store as closed in order and let go of it. Blocks; the writer thread has
        ended, and what is not written is dropped. Raises: StoreStopped if the disk fails; it is let go of, too."""
        writer = self._writer
        try:
            if writer.failure is None:
                writer.run_tasks()
                self._derived.seal(final=True)
                writer.finish()
        finally:
            self._derived.close()
            self._log.close()
            writer.checkpoint.close()
            self._lock.release()

    def abandon(self) -> None:
        """Let go of the lock alone, for whoever heals this store. The writer thread has ended; nothing follows."""
        self._lock.release()
