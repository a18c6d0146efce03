"""Time as an argument: the protocol that shells implement and simulations replace."""

from typing import Protocol

__all__ = ["Clock"]


class Clock(Protocol):
    """Two clocks with two uses that must not be mixed."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970 UTC. May jump; only for timestamps that people or clients read."""

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back; for deadlines, leases and expiry."""
