"""Who keeps up. Under load a follower that is quite well lacks what was committed a moment ago, at most times."""

from logherd.model.names import Position

__all__ = ["Lately", "Pace"]

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


class Pace:
    """Since when a follower lacks something, where it is looked at now and then (milliseconds).

    `in_step_at`: when it last had everything that was here then; None: not yet. It is found by a target, the end of the
    log at some moment: when that has been reached, it was in step at that moment.
    """

    __slots__ = ("_target", "in_step_at")

    def __init__(self) -> None:
        self.in_step_at: int | None = None
        self._target: tuple[Position, int] | None = None

    def keep(self, flushed: Position, end: Position, now: int) -> None:
        """It has flushed so far at `now`, while the log ends there."""
        if flushed >= end:
            self.in_step_at, self._target = now, None
        elif self._target is None:
            self._target = (end, now)
        elif flushed >= self._target[0]:
            self.in_step_at, self._target = self._target[1], (end, now)
