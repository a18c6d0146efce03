"""The clock of leases: it runs on while the host is suspended, and is the same for every process of the host."""

import time

__all__ = ["clock_ms"]


def clock_ms() -> int:
    """Milliseconds on CLOCK_BOOTTIME."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
