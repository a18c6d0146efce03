"""Waits that double each time that what they put off has come again, and are short again after an hour without it."""

from typing import Final

__all__ = ["Recurrence"]

_CALM_MS: Final = 3_600_000


class Recurrence:
    """How often something has come lately. `now` is milliseconds of any one clock that does not go back."""

    __slots__ = ("_at", "_count", "_doublings_max")

    def __init__(self, *, doublings_max: int) -> None:
        self._doublings_max = doublings_max
        self._count = 0
        self._at = 0

    def come(self, now: int) -> None:
        """It has come once more."""
        self._count, self._at = self.count(now) + 1, now

    def forget(self) -> None:
        """Whatever came does not count any more."""
        self._count = 0

    def count(self, now: int) -> int:
        """How often it has come, each time within an hour of the time before; 0 after an hour without it."""
        return self._count if now - self._at < _CALM_MS else 0

    def wait_ms(self, first_ms: int, now: int) -> int:
        """How long to wait this time, if it was `first_ms` at first."""
        return first_ms << min(self.count(now), self._doublings_max)
