"""All queues of a store: handles by topic and id, units from memory or files, and the lowest readable offset."""

from collections.abc import Iterator
from typing import Protocol

from logherd.kit.errors import ensure
from logherd.model.record import encode_topic
from logherd.store.consume_queue import UNIT, UNIT_SIZE, QueueLog, topic_hash

__all__ = ["QueueTable", "UnitSource"]

_NOT_WRITTEN_SIZES = (0, 0x7FFFFFFF)  # a hole, and what RocketMQ writes before a queue's first unit


class UnitSource(Protocol):
    """Units that are no longer in memory."""

    def read_units(self, queue: QueueLog, offset: int, count: int) -> bytes:
        """Up to `count` units from `offset` on, fewer where a file ends."""


class QueueTable:
    """The owner thread's queues.

    `min_position` is the lowest position kept in the log; a queue's min_offset follows it when it is next asked for, so
    that a deleted segment costs nothing for the queues that nobody reads.
    """

    __slots__ = ("_source", "_topics", "min_position")

    def __init__(self, source: UnitSource, min_position: int) -> None:
        self._source = source
        self._topics: dict[str, dict[int, QueueLog]] = {}
        self.min_position = min_position

    def get(self, topic: str, queue_id: int) -> QueueLog:
        """The handle, made if there is none; makes no file."""
        queues = self._topics.get(topic)
        if queues is None:
            queues = self._topics[topic] = {}
        queue = queues.get(queue_id)
        if queue is None:
            sibling = next(iter(queues.values()), None)
            if sibling is None:
                queue = QueueLog(
                    self, topic, queue_id, topic_part=encode_topic(topic.encode()), hash_of_topic=topic_hash(topic)
                )
            else:
                queue = QueueLog(
                    self, sibling.topic, queue_id, topic_part=sibling.topic_part, hash_of_topic=sibling.topic_hash
                )
            queues[queue_id] = queue
        return queue

    def find(self, topic: str, queue_id: int) -> QueueLog | None:
        queues = self._topics.get(topic)
        return None if queues is None else queues.get(queue_id)

    def __iter__(self) -> Iterator[QueueLog]:
        for queues in self._topics.values():
            yield from queues.values()

    def remove_topic(self, topic: str) -> list[QueueLog]:
        """Forget a topic's handles; they answer reads as empty from now on."""
        removed = list(self._topics.pop(topic, {}).values())
        for queue in removed:
            queue.deleted = True
            queue.start_at(0, 0)
        return removed

    def clear(self) -> None:
        """Forget all handles."""
        self._topics.clear()

    def units(self, queue: QueueLog, offset: int, count: int) -> bytes | bytearray:
        """Committed units from `offset` on, at least one and up to `count`, as one buffer."""
        ensure(0 <= offset < queue.max_offset, "units are read below the committed end", offset, queue.max_offset)
        if offset >= queue.tail_start:
            return queue.tail_units(offset, count)
        data = self._source.read_units(queue, offset, min(count, queue.tail_start - offset))
        ensure(len(data) >= UNIT_SIZE, "a queue's files hold every unit below its tail", queue, offset)
        return data

    def unit(self, queue: QueueLog, offset: int) -> tuple[int, int, int]:
        """(position, size, tags code) of one committed message."""
        position, size, tags_code = UNIT.unpack_from(self.units(queue, offset, 1))
        return position, size, tags_code

    def lowest_offset(self, queue: QueueLog, low: int) -> int:
        """The first offset from `low` on whose record is still in the log; max_offset if none is.

        A unit that was never written is damage here. It counts as kept, so that a reader meets it instead of being led
        past it.
        """
        if low >= queue.max_offset or self._is_kept(queue, low):
            return low
        high = queue.max_offset
        while low < high:
            middle = (low + high) // 2
            if self._is_kept(queue, middle):
                high = middle
            else:
                low = middle + 1
        return low

    def _is_kept(self, queue: QueueLog, offset: int) -> bool:
        if offset >= queue.tail_start:
            data: bytes | bytearray = queue.tail_units(offset, 1)
        else:
            data = self._source.read_units(queue, offset, 1)
        if len(data) < UNIT_SIZE:  # its file was deleted with the records
            return False
        position, size, _ = UNIT.unpack(data)
        return size in _NOT_WRITTEN_SIZES or position >= self.min_position
