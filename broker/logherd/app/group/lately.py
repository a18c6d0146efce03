"""Who keeps up. Under load a follower that is quite well lacks what was committed a moment ago, at most times."""

from logherd.model.names import Position

__all__ = ["Lately"]

_GAP_MS = 1_000


class Lately:
    """Up to where the log was committed a second ago or two."""

    def __init__(self) -> None:
        self._noted: tuple[int, Position] | None = None
        self.position: Position | None = None
        """Whoever has this keeps up. None until a second has passed."""

    def note(self, now: int, committed: Position) -> None:
        """It is committed up to here at `now` (milliseconds). To be called about every second, or more often."""
        if self._noted is None:
            self._noted = (now, committed)
        elif now - self._noted[0] >= _GAP_MS:
            self.position, self._noted = self._noted[1], (now, committed)
