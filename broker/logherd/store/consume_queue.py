"""One consume queue in memory: its handle, its newest units, and the codec of a unit.

    0 position i64 | 8 size i32 | 12 tags code i64        20 bytes, big-endian; unit n belongs to queue offset n

The units of committed records stay in `tail` until they were written to the queue's files by the writer thread, and the
newest of a busy queue some time longer; so consumers at the end of a queue are served without a system call.

Source: apache/rocketmq: store/src/main/java/org/apache/rocketmq/store/ConsumeQueue.java
"""

from struct import Struct
from typing import Protocol

from logherd.kit.errors import ensure
from logherd.kit.javahash import hash_ascii, java_hash

__all__ = ["ALIVE", "DELETED", "DOOMED", "UNIT", "UNIT_SIZE", "QueueLog", "topic_hash"]

UNIT = Struct(">qiq")
UNIT_SIZE = UNIT.size

ALIVE, DOOMED, DELETED = 0, 1, 2
"""What `QueueLog.deleted` may be. DOOMED: a deletion is in the log that is not committed yet."""


def topic_hash(topic: str) -> int:
    """Unsigned hash of `topic#`, which the index extends by each key."""
    if topic.isascii():
        return hash_ascii(topic.encode() + b"#")
    return java_hash(topic + "#") & 0xFFFFFFFF


class _Table(Protocol):
    min_position: int

    def lowest_offset(self, queue: "QueueLog", low: int) -> int: ...


class QueueLog:
    """Handle of one queue; made and changed only by MessageStore.

    1. min_offset <= max_offset <= next_offset: readable are [min, max), [max, next) is appended and not yet committed.
    2. `tail` holds the units [tail_start, next_offset); files hold, durably, those below `written` >= tail_start.
    3. `entry_at` is the queue's line in the list of queues, `stale_end` the end of units that files hold of an earlier
       queue of the same name; both belong to the writer thread.
    """

    __slots__ = (
        "_min_offset", "_min_position", "_table", "deleted", "entry_at", "first_offset", "max_offset", "next_offset",
        "queue_id", "stale_end", "tail", "tail_start", "topic", "topic_hash", "topic_part", "written",
    )  # fmt: skip

    def __init__(self, table: _Table, topic: str, queue_id: int, *, topic_part: bytes, hash_of_topic: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.topic_part = topic_part
        self.topic_hash = hash_of_topic
        self.max_offset = self.next_offset = self.written = self.tail_start = 0
        self.tail = bytearray()
        self.deleted = ALIVE
        self.entry_at = -1
        self.first_offset = 0
        self.stale_end = 0
        self._table = table
        self._min_offset = 0
        self._min_position = table.min_position

    def start_at(self, first: int, end: int) -> None:
        """Place an empty handle: the queue began at offset `first`, its files hold the units below `end`."""
        self._min_offset = self.first_offset = first
        self._min_position = -1
        self.max_offset = self.next_offset = self.written = self.tail_start = end
        self.tail = bytearray()

    def go_back(self, offset: int) -> None:
        """Forget the units from `offset` on: they are derived again, or a new queue of this name began there."""
        self.stale_end = max(self.stale_end, self.next_offset)
        if offset >= self.tail_start:
            del self.tail[(offset - self.tail_start) * UNIT_SIZE :]
        else:
            self.tail = bytearray()
            self.tail_start = offset
        self.written = min(self.written, offset)
        self.max_offset = self.next_offset = offset
        self.first_offset = min(self.first_offset, offset)
        self._min_offset = min(self._min_offset, offset)

    def cut(self, position: int) -> None:
        """Forget the uncommitted units whose records lie at or above a position of the log."""
        tail, end = self.tail, len(self.tail)
        while end and UNIT.unpack_from(tail, end - UNIT_SIZE)[0] >= position:
            end -= UNIT_SIZE
        del tail[end:]
        self.next_offset = self.tail_start + end // UNIT_SIZE
        ensure(self.next_offset >= self.max_offset, "committed units are never cut", self, position)

    def holds(self, position: int) -> bool:
        """Whether its newest unit is one in memory whose record lies at or above a position."""
        tail = self.tail
        return len(tail) > 0 and bool(UNIT.unpack_from(tail, len(tail) - UNIT_SIZE)[0] >= position)

    @property
    def min_offset(self) -> int:
        """The lowest offset whose record is in the log; equals max_offset when none is left. It is looked up after a
        retention, also in files. Raises: StoreDamaged, OSError then."""
        if self._min_position != self._table.min_position:
            self._min_offset = self._table.lowest_offset(self, self._min_offset)
            self._min_position = self._table.min_position
        return self._min_offset

    @property
    def known_min_offset(self) -> int:
        """`min_offset` as it was looked up last, which may be too low since. Reads nothing."""
        return self._min_offset

    def __repr__(self) -> str:
        return f"QueueLog({self.topic!r}, {self.queue_id}, {self._min_offset}..{self.max_offset})"

    def tail_units(self, offset: int, count: int) -> bytearray:
        """A copy of units from `offset` >= tail_start on; fewer than `count` at the committed end."""
        start = offset - self.tail_start
        end = min(start + count, self.max_offset - self.tail_start)
        return self.tail[start * UNIT_SIZE : end * UNIT_SIZE]

    def uncommitted_units(self, offset: int = 0) -> bytes:
        """A copy of the units [max_offset, next_offset), those from `offset` on."""
        return bytes(self.tail[(max(offset, self.max_offset) - self.tail_start) * UNIT_SIZE :])

    def drop_tail(self, keep: int) -> None:
        """Forget units that are in the files, down to the newest `keep`."""
        start = min(self.written, max(self.tail_start, self.max_offset - keep))
        del self.tail[: (start - self.tail_start) * UNIT_SIZE]
        self.tail_start = start
