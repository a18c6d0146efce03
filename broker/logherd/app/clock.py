"""The system's clocks behind the `Clock` protocol."""

import time

__all__ = ["SystemClock", "boot_ms"]


def boot_ms() -> int:
    """Milliseconds of a clock that never goes back and counts suspension (leases and elections need both)."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class SystemClock:
    """Wall time and monotonic time of this machine, in ms. Never blocks."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
