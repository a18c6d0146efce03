"""The system's clocks behind the `Clock` protocol."""

import time
from pathlib import Path

__all__ = ["SystemClock", "boot_id", "boot_ms"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Which start of the machine this is: another one has another `boot_ms`, and nothing cached. Raises: OSError."""
    return _BOOT_ID.read_text(encoding="ascii").strip()


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
