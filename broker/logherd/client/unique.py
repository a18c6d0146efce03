"""Unique message keys and client ids in the form that RocketMQ's tools can read.

    key: 0 ip 4 | 4 process id 2 | 6 random 4 | 10 ms since the start of the month 4 | 14 counter 2, as upper-case hex

Source: apache/rocketmq: common/src/main/java/org/apache/rocketmq/common/message/MessageClientIDSetter.java
"""

import os
import secrets
import time
from datetime import UTC, datetime
from struct import Struct

__all__ = ["UniqueKeys", "new_client_id"]

_TAIL = Struct(">IH")
_HOST = bytes((127, 0, 0, 1))


class UniqueKeys:
    """Makes keys; two instances never make the same one, as each draws its random part."""

    def __init__(self) -> None:
        self._prefix = (_HOST + (os.getpid() & 0xFFFF).to_bytes(2) + secrets.token_bytes(4)).hex().upper()
        self._counter = secrets.randbelow(0x10000)
        self._month_start_ms = 0
        self._month_end_ms = 0

    def next(self) -> str:
        """32 hex digits. Unique up to 65,536 a millisecond."""
        now = time.time_ns() // 1_000_000
        if now >= self._month_end_ms:
            self._set_month(now)
        self._counter = (self._counter + 1) & 0xFFFF
        return self._prefix + _TAIL.pack((now - self._month_start_ms) & 0xFFFFFFFF, self._counter).hex().upper()

    def _set_month(self, now_ms: int) -> None:
        today = datetime.fromtimestamp(now_ms / 1000, UTC)
        start = datetime(today.year, today.month, 1, tzinfo=UTC)
        following = datetime(today.year + today.month // 12, today.month % 12 + 1, 1, tzinfo=UTC)
        self._month_start_ms = int(start.timestamp() * 1000)
        self._month_end_ms = int(following.timestamp() * 1000)


def new_client_id(ip: str = "127.0.0.1") -> str:
    """A client id as heartbeats carry it: ip@process#number."""
    return f"{ip}@{os.getpid()}#{time.time_ns()}"
