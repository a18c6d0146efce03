"""What waits to leave on one connection: two lanes, so that a heartbeat does not wait behind megabytes of records.

Order is kept within a lane. Records and images are one lane; whatever says "I live" or "I have it" is the other.
"""

from collections import deque

__all__ = ["Outbox"]


class Outbox:
    """Invariants: 1. each lane holds at most its limit, or one frame; 2. a frame leaves once, urgent ones first."""

    __slots__ = ("_bulk", "_urgent", "bulk_bytes", "bulk_bytes_max", "urgent_bytes", "urgent_bytes_max")

    def __init__(self, *, bulk_bytes_max: int, urgent_bytes_max: int) -> None:
        self.bulk_bytes_max = bulk_bytes_max
        self.urgent_bytes_max = urgent_bytes_max
        self.bulk_bytes = 0
        self.urgent_bytes = 0
        self._bulk: deque[bytes] = deque()
        self._urgent: deque[bytes] = deque()

    @property
    def size(self) -> int:
        """Bytes that wait."""
        return self.bulk_bytes + self.urgent_bytes

    def has_bulk_room(self, size: int) -> bool:
        """Whether a frame of records of that size would be taken."""
        return not self.bulk_bytes or self.bulk_bytes + size <= self.bulk_bytes_max

    def add_bulk(self, frame: bytes) -> bool:
        """Queue a frame of records; False if too much waits."""
        size = len(frame)
        if not self.has_bulk_room(size):
            return False
        self._bulk.append(frame)
        self.bulk_bytes += size
        return True

    def add_urgent(self, frame: bytes) -> bool:
        """Queue any other frame; False if too much waits."""
        if self.urgent_bytes and self.urgent_bytes + len(frame) > self.urgent_bytes_max:
            return False
        self._urgent.append(frame)
        self.urgent_bytes += len(frame)
        return True

    def take(self, bytes_wanted: int) -> list[bytes]:
        """All urgent frames, then others until `bytes_wanted` are reached; none if nothing waits."""
        taken, size = list[bytes](), self.urgent_bytes
        if size:
            taken += self._urgent
            self._urgent.clear()
            self.urgent_bytes = 0
        while self._bulk and size < bytes_wanted:
            frame = self._bulk.popleft()
            size += len(frame)
            self.bulk_bytes -= len(frame)
            taken.append(frame)
        return taken

    def clear(self) -> None:
        """The connection is gone, and with it what waited."""
        self._bulk.clear()
        self._urgent.clear()
        self.bulk_bytes = self.urgent_bytes = 0
