"""Waiting for what may not come: after a wait in vain the next ones are left out, twice as many each time."""

__all__ = ["SKIPPED_MAX", "Patience"]

SKIPPED_MAX = 64


class Patience:
    """How often it was waited in vain lately."""

    __slots__ = ("_misses", "_most", "_skipped")

    def __init__(self, most: int = SKIPPED_MAX) -> None:
        """`most`: so many are left out at most."""
        self._most = most
        self._misses = 0
        self._skipped = 0

    def left(self) -> bool:
        """Whether to wait this time. Counts those that are left out."""
        if self._skipped:
            self._skipped -= 1
            return False
        return True

    def met(self) -> None:
        """What was waited for has come."""
        self._misses //= 2

    def missed(self) -> None:
        """It has not come in time."""
        self._misses = min(2 * self._misses + 1, self._most)
        self._skipped = self._misses
