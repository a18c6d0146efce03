"""For how long each group has been in its phase, and how soon its master is relieved again for want of space."""

from typing import Final

from logherd.controller.values import GroupKey
from logherd.kit.recurrence import Recurrence

__all__ = ["Phases"]

_DOUBLINGS_MAX: Final = 3
"""All the while messages are refused, though somebody has space."""


class Phases:
    """Kept by one office: the next one begins anew. `now` is milliseconds of its clock."""

    def __init__(self) -> None:
        self._since: dict[GroupKey, tuple[str, int]] = {}
        self._reliefs: dict[GroupKey, Recurrence] = {}

    def lasting(self, key: GroupKey, phase: str, now: int) -> int:
        """For how long this group has been in this phase; another one begins anew."""
        current, since = self._since.get(key, ("", now))
        if current != phase:
            since = now
            self._since[key] = (phase, now)
        return now - since

    def end(self, key: GroupKey) -> None:
        """The group is in no phase now."""
        self._since.pop(key, None)

    def relieved(self, key: GroupKey, now: int) -> None:
        """A master without space has handed over to who had some."""
        self._reliefs.setdefault(key, Recurrence(doublings_max=_DOUBLINGS_MAX)).come(now)

    def patience_ms(self, key: GroupKey, first_ms: int, now: int) -> int:
        """How long a master must have had no space before it is relieved: twice as long after each time, so that
        brokers whose space comes and goes in turn do not pass leadership around for ever."""
        relieved = self._reliefs.get(key)
        return relieved.wait_ms(first_ms, now) if relieved is not None else first_ms
