"""When a store asks the system how much space is free. Where inodes or descriptors lack the system says that there is
space, and no file can be made all the same; the answer is believed ever later then."""

from typing import Final

from logherd.kit.patience import Patience

__all__ = ["Looks"]

_LEFT_OUT_MAX: Final = 15
_FORGOTTEN_MS: Final = 60_000
"""Longer than all looks that are left out in a row: what lacks after so long lacks anew."""


class Looks:
    """Times in ms, all by one clock. The writer's thread looks; any thread tells what came of it, and at the worst a
    look more or less is left out."""

    __slots__ = ("_due", "_forgets", "_interval", "_patience")

    def __init__(self, interval_ms: int) -> None:
        self._interval = interval_ms
        self._due = self._forgets = 0
        self._patience = Patience(_LEFT_OUT_MAX)

    def due(self, now: int) -> bool:
        """Whether to look now. Counts those that are left out."""
        if now < self._due:
            return False
        self._due = now + self._interval
        return self._patience.left()

    def misled(self, now: int) -> None:
        """A file could not be made although there was to be space for it."""
        if now >= self._forgets:
            self._patience = Patience(_LEFT_OUT_MAX)
        self._forgets = now + _FORGOTTEN_MS
        self._patience.missed()

    def met(self) -> None:
        """A segment could be made."""
        self._patience.met()

    def anew(self) -> None:
        """What lacked is there: look at once."""
        self._due, self._patience = 0, Patience(_LEFT_OUT_MAX)
