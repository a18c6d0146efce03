"""Since when a follower lacks something of its leader's log."""

from logherd.model.names import Position

__all__ = ["Pace"]


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
