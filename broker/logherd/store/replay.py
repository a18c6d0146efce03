"""Deriving queues and index again from records of the log, when a store is opened."""

from logherd.store.consume_queue import UNIT, QueueLog, topic_hash
from logherd.store.derived import Derived
from logherd.store.extract import batch_words, has_unit
from logherd.store.scan import Scanned

__all__ = ["QueueJump", "Replay"]


class QueueJump(Exception):
    """A record's queue offset leaves a gap after what the queue's files hold."""

    def __init__(self, queue: QueueLog, record: Scanned) -> None:
        self.position = record.position
        super().__init__(
            f"the record at position {record.position} has offset {record.queue_offset} in queue "
            f"{queue.topic}/{queue.queue_id}, which ends at {queue.next_offset}{batch_words(record.sys_flag)}"
        )


class Replay:
    """Takes records in order of position.

    `queues_from` and `index_from` are where each kind begins to lack records. `emptied` are queues that were deleted or
    began anew: records that were stored just before may still come, with any offset. With `complete` the queues are
    derived from the first kept record, so every queue may begin at any offset.
    """

    __slots__ = ("_complete", "_derived", "_emptied", "_index_from", "_queues_from", "_topic_hashes", "records")

    def __init__(
        self, derived: Derived, *, queues_from: int, index_from: int, complete: bool,
        emptied: frozenset[tuple[str, int]],
    ) -> None:  # fmt: skip
        self._derived = derived
        self._queues_from = queues_from
        self._index_from = index_from
        self._complete = complete
        self._topic_hashes: dict[str, int] = {}
        self._emptied = emptied
        self.records = 0

    def take(self, record: Scanned) -> None:
        """Derive from one record. Raises QueueJump."""
        self.records += 1
        derived = self._derived
        derived.position = record.position + record.size
        topic = record.topic.decode()
        marked = b"\x02" + record.properties
        if record.position >= self._index_from:
            hash_of_topic = self._topic_hashes.get(topic)
            if hash_of_topic is None:
                hash_of_topic = self._topic_hashes[topic] = topic_hash(topic)
            derived.extract.add_keys(marked, hash_of_topic, record.position, record.store_timestamp)
        if record.position >= self._queues_from and has_unit(record.sys_flag):
            queue = derived.table.get(topic, record.queue_id)
            if record.queue_offset != queue.next_offset:
                self._jump(queue, record)
            code = derived.extract.replayed_tags_code(topic, marked, record.store_timestamp)
            queue.tail += UNIT.pack(record.position, record.size, code)
            queue.next_offset = queue.max_offset = record.queue_offset + 1
            derived.replayed(queue)

    def _jump(self, queue: QueueLog, record: Scanned) -> None:
        """The record is not the queue's next one: it was derived before, or the queue begins here."""
        if record.queue_offset < queue.next_offset:
            queue.go_back(record.queue_offset)
            return
        begins = self._complete or (queue.topic, queue.queue_id) in self._emptied
        if queue.next_offset or not begins:
            raise QueueJump(queue, record)
        queue.start_at(record.queue_offset, record.queue_offset)
