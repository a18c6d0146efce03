"""Time as an argument: the protocols that shells implement, and simulations and tests replace."""

from collections.abc import Callable
from typing import Protocol

__all__ = ["Clock", "Later", "Timer"]


class Clock(Protocol):
    """Two clocks with two uses that must not be mixed."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970 UTC. May jump; only for timestamps that people or clients read."""

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back; for deadlines, leases and expiry."""


class Timer(Protocol):
    """What has been asked for later."""

    def cancel(self) -> None:
        """Do not do it."""


Later = Callable[[float, Callable[[], None]], Timer]
"""Calls back after so many seconds, as `call_later` of a loop."""
