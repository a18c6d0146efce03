"""Metadata's view of the message store: two queues of one system topic."""

from collections.abc import Iterator, Mapping, Sequence

from logherd.kit.clock import Clock
from logherd.model.record import Record, RecordError, decode_record
from logherd.service.metadata.errors import MetadataRefusedError
from logherd.service.metadata.journal import CHANGES, METADATA_TOPIC, SNAPSHOTS, Entry
from logherd.store import MessageStore, QueueLog, RecordTooLarge, StoreFull, StoreStopped

__all__ = ["StoreLog"]

_READ_MESSAGES = 256
_READ_BYTES = 1 << 20


class StoreLog:
    """A `MetadataLog` over a `MessageStore`. `host` is written as the sender of the records, in record form."""

    def __init__(self, store: MessageStore, clock: Clock, *, host: bytes) -> None:
        self._store = store
        self._clock = clock
        self._host = host
        self._queues = {queue_id: store.queue(METADATA_TOPIC, queue_id) for queue_id in (CHANGES, SNAPSHOTS)}

    @property
    def end_position(self) -> int:
        return self._store.end_position

    @property
    def committed_position(self) -> int:
        return self._store.committed_position

    @property
    def start_epoch(self) -> int:
        return self._store.start_epoch

    def append(self, queue_id: int, body: bytes) -> tuple[int, int]:
        """See MetadataLog. The store's reserve is there for these records (H4)."""
        now_ms = self._clock.now_ms()
        try:
            _, position = self._store.append(
                self._queues[queue_id], body, b"", born_timestamp=now_ms, born_host=self._host, store_timestamp=now_ms,
                reserve=True,
            )  # fmt: skip
        except (StoreFull, StoreStopped, RecordTooLarge) as error:
            raise MetadataRefusedError(f"the store takes no metadata now: {error}") from error
        return position, self._store.end_position

    def bounds(self, queue_id: int) -> tuple[int, int]:
        queue = self._queues[queue_id]
        return queue.min_offset, queue.next_offset

    def queue_ends(self, topic: str) -> Sequence[int]:
        """See MetadataLog."""
        queues = sorted(self._store.queues_of(topic), key=lambda each: each.queue_id)
        return [number for queue in queues if queue.next_offset for number in (queue.queue_id, queue.next_offset)]

    def queues_went_to(self, topic: str, ends: Sequence[int], below: int) -> None:
        """See MetadataLog."""
        self._store.queues_went_to(topic, ends, below)

    def queue_end(self, topic: str, queue_id: int) -> int:
        queue = self._store.find_queue(topic, queue_id)
        return queue.next_offset if queue is not None else 0

    def committed_end(self, queue_id: int) -> int:
        return self._queues[queue_id].max_offset

    def read(self, queue_id: int, queue_offset: int, below: int) -> Iterator[Entry]:
        """See MetadataLog. Raises StoreDamaged for a damaged record, OSError from the disk."""
        queue = self._queues[queue_id]
        for entry in self._committed(queue, queue_offset):
            if entry.end > below:
                return
            yield entry
        if below > self._store.committed_position:
            for position, data in self._store.uncommitted(queue, queue_offset):
                if position + len(data) > below:
                    return
                try:
                    yield _entry(decode_record(memoryview(data)))
                except RecordError as error:
                    raise self._store.damaged(position, f"a metadata record is damaged: {error}") from error

    def _committed(self, queue: QueueLog, queue_offset: int) -> Iterator[Entry]:
        while queue_offset < queue.max_offset:
            result = self._store.read(
                queue, queue_offset, messages_max=_READ_MESSAGES, bytes_max=_READ_BYTES, tag_codes=None
            )
            reading = queue_offset
            for view in result.slices:
                at = 0
                while at < len(view):
                    record = self._decode(queue, reading, view, at)
                    at += record.size
                    yield _entry(record)
                    reading += 1
            if result.next_offset <= queue_offset:
                return
            queue_offset = result.next_offset

    def forget_topics(self, deleted: Mapping[str, int]) -> None:
        """See MetadataLog."""
        committed = self._store.committed_position
        self._store.forget_deleted({topic: end for topic, end in deleted.items() if end <= committed})
        for topic, end in deleted.items():
            if end > committed:
                self._store.delete_topic(topic, end)

    def _decode(self, queue: QueueLog, queue_offset: int, view: memoryview, at: int) -> Record:
        try:
            return decode_record(view, at)
        except RecordError as error:
            unit = self._store.unit(queue, queue_offset)
            position = unit[0] if unit is not None else self._store.min_position
            what = f"metadata record {queue_offset} is damaged: {error}"
            raise self._store.damaged(position, what) from error


def _entry(record: Record) -> Entry:
    return Entry(record.queue_offset, record.position, record.position + record.size, bytes(record.body))
