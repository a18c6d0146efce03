"""All queues of a store: handles by topic and id, units from memory or files, and the lowest readable offset."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Protocol

from logherd.kit.errors import ensure
from logherd.model.record import encode_topic
from logherd.store.consume_queue import ALIVE, DELETED, DOOMED, UNIT, UNIT_SIZE, QueueLog, topic_hash

__all__ = ["QueueTable", "UnitSource"]

_NOT_WRITTEN_SIZES = (0, 0x7FFFFFFF)  # a hole, and what RocketMQ writes before a queue's first unit


class UnitSource(Protocol):
    """Units that are no longer in memory."""

    def read_units(self, queue: QueueLog, offset: int, count: int) -> bytes:
        """Up to `count` units from `offset` on, fewer where a file ends."""

    def forget(self, queue: QueueLog) -> None:
        """Keep no file of this queue open."""


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
            queue = queues[queue_id] = self.make(topic, queue_id)
        return queue

    def make(self, topic: str, queue_id: int) -> QueueLog:
        """A handle of no queue yet; `put` makes it one."""
        sibling = next(iter(self._topics.get(topic, {}).values()), None)
        if sibling is None:
            return QueueLog(
                self, topic, queue_id, topic_part=encode_topic(topic.encode()), hash_of_topic=topic_hash(topic)
            )
        return QueueLog(
            self, sibling.topic, queue_id, topic_part=sibling.topic_part, hash_of_topic=sibling.topic_hash
        )  # fmt: skip

    def put(self, queue: QueueLog) -> None:
        """Add a handle that was made, in place of one that was taken out."""
        queues = self._topics.setdefault(queue.topic, {})
        ensure(queue.queue_id not in queues, "the queue before was taken out", queue)
        queues[queue.queue_id] = queue

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
            queue.deleted = DELETED
            queue.start_at(0, 0)
        return removed

    def take_out(self, queue: QueueLog) -> None:
        """Let go of a handle whose queue is to be deleted; the next one of its name begins at offset 0."""
        queues = self._topics.get(queue.topic, {})
        ensure(queues.get(queue.queue_id) is queue, "only a queue of this table is taken out", queue)
        del queues[queue.queue_id]
        if not queues:
            del self._topics[queue.topic]
        queue.deleted = DOOMED

    def put_back(self, queue: QueueLog) -> None:
        """Undo `take_out`; a handle that was made since is no queue's any more."""
        queues = self._topics.setdefault(queue.topic, {})
        later = queues.pop(queue.queue_id, None)
        if later is not None:
            later.deleted = DELETED
            later.start_at(0, 0)
        queues[queue.queue_id] = queue
        queue.deleted = ALIVE

    def empty(self, queue: QueueLog) -> None:
        """Let a living queue begin anew at offset 0."""
        self._go_back(queue, 0)

    def _go_back(self, queue: QueueLog, offset: int) -> None:
        """Units from `offset` on come from memory until its files hold them, which may be new ones of the same name."""
        queue.go_back(offset)
        self._source.forget(queue)

    def go_back(self, topic: str, queue_id: int, position: int) -> None:
        """Let a queue forget the units of records at or above a position of the log."""
        queue = self.find(topic, queue_id)
        if queue is None or not queue.max_offset or self.unit(queue, queue.max_offset - 1)[0] < position:
            return
        offsets = range(queue.min_offset, queue.max_offset)
        at = bisect_left(offsets, position, key=lambda offset: self.unit(queue, offset)[0])
        self._go_back(queue, offsets.start + at)

    def ends_below(self, queue: QueueLog, position: int) -> bool:
        """Whether all records of a queue lie below a position of the log, or are gone while the log begins below it."""
        if queue.next_offset > queue.max_offset:
            return not queue.holds(position)
        if queue.min_offset == queue.max_offset:  # retention took its records, and `position` is above that
            return self.min_position < position
        return self.unit(queue, queue.max_offset - 1)[0] < position

    def of_topic(self, topic: str) -> list[QueueLog]:
        """The topic's handles."""
        return list(self._topics.get(topic, {}).values())

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

        A unit that was never written, or that names no place, is damage here. It counts as kept, so that a reader meets
        it instead of being led past it.
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
        return size in _NOT_WRITTEN_SIZES or not 0 <= position < self.min_position
