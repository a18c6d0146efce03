"""The system's clocks behind the `Clock` protocol."""

import time

__all__ = ["SystemClock"]


class SystemClock:
    """Wall time and monotonic time of this machine, in ms. Never blocks."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
