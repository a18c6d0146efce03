"""What follows from the log and is kept beside it: consume queues and key index."""

from logherd.store.consume_queue import UNIT, QueueLog
from logherd.store.extract import Extractor, has_unit
from logherd.store.queues import QueueTable
from logherd.store.scan import Scanned
from logherd.store.writer import WriteBatch

__all__ = ["Derived"]


class _NoFiles:
    def read_units(self, queue: QueueLog, offset: int, count: int) -> bytes:
        raise LookupError((queue, offset, count))


class Derived:
    """The owner thread's side of all derived files."""

    __slots__ = ("extract", "table")

    def __init__(self, min_position: int) -> None:
        self.table = QueueTable(_NoFiles(), min_position)
        self.extract = Extractor()

    def committed(self, batch: WriteBatch) -> None:
        """Note what a batch added."""

    def seal(self, *, final: bool) -> None:
        """Hand what waits to the writer thread."""

    def replay(self, record: Scanned) -> None:
        """Derive again from a record of the log."""
        topic = record.topic.decode()
        queue = self.table.get(topic, record.queue_id)
        marked = b"\x02" + record.properties
        self.extract.add_keys(marked, queue.topic_hash, record.position, record.store_timestamp)
        if not has_unit(record.sys_flag):
            return
        if queue.next_offset != record.queue_offset:
            queue.start_at(record.queue_offset, record.queue_offset)
        code = self.extract.replayed_tags_code(topic, marked, record.store_timestamp)
        queue.tail += UNIT.pack(record.position, record.size, code)
        queue.next_offset = queue.max_offset = record.queue_offset + 1
