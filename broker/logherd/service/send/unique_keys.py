"""Ids for messages whose sender gave none: RocketMQ's layout, so that its tools can read time and address out of them.

    ip 4 or 16 bytes | process number u16 | start number u32 | ms since the month began u32 | counter u16, as hex

Source: apache/rocketmq: common/src/main/java/org/apache/rocketmq/common/message/MessageClientIDSetter.java
"""

from datetime import UTC, datetime
from struct import Struct

from logherd.kit.clock import Clock

__all__ = ["UniqueKeys"]

_NUMBERS = Struct(">HI")


class UniqueKeys:
    """Never gives the same id twice in a process; `start` should differ between starts of a process."""

    def __init__(self, clock: Clock, *, host: bytes, process: int, start: int) -> None:
        self._clock = clock
        self._prefix = (host[:-4] + _NUMBERS.pack(process & 0xFFFF, start & 0xFFFFFFFF)).hex().upper()
        self._counter = 0
        self._newest_ms = 0
        self._written_ms, self._written = -1, self._prefix

    def next(self) -> str:
        """A new id: upper-case hex, 32 or 56 characters."""
        self._counter += 1
        if not self._counter & 0xFFFF:
            # The counter starts again: a later millisecond keeps the ids apart.
            self._newest_ms += 1
        self._newest_ms = max(self._newest_ms, self._clock.now_ms())
        if self._newest_ms != self._written_ms:
            self._write_time()
        return f"{self._written}{self._counter & 0xFFFF:04X}"

    def _write_time(self) -> None:
        """Once for all ids of a millisecond."""
        now = datetime.fromtimestamp(self._newest_ms / 1000, UTC)
        month = datetime(now.year, now.month, 1, tzinfo=UTC)
        elapsed_ms = self._newest_ms - int(month.timestamp() * 1000)
        self._written = f"{self._prefix}{elapsed_ms & 0xFFFFFFFF:08X}"
        self._written_ms = self._newest_ms
