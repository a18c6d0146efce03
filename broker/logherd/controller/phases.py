"""For how long each group has been in its phase, and how soon its master is relieved again for want of space."""

from typing import Final

from logherd.controller.values import GroupKey

__all__ = ["Phases"]

_DOUBLINGS_MAX: Final = 6
_CALM_MS: Final = 3_600_000
"""After this time without a relief the next one comes as soon as the first did."""


class Phases:
    """Kept by one office: the next one begins anew. `now` is milliseconds of its clock."""

    def __init__(self) -> None:
        self._since: dict[GroupKey, tuple[str, int]] = {}
        self._reliefs: dict[GroupKey, tuple[int, int]] = {}

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
        self._reliefs[key] = (self._lately(key, now) + 1, now)

    def patience_ms(self, key: GroupKey, first_ms: int, now: int) -> int:
        """How long a master must have had no space before it is relieved: twice as long after each time, so that
        brokers whose space comes and goes in turn do not pass leadership around for ever."""
        return first_ms << min(self._lately(key, now), _DOUBLINGS_MAX)

    def _lately(self, key: GroupKey, now: int) -> int:
        count, at = self._reliefs.get(key, (0, now))
        return count if now - at < _CALM_MS else 0
