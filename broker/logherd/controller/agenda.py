"""When to look at which group again, so that ten thousand groups with living masters cost nothing in between."""

from heapq import heappop, heappush
from typing import Final

from logherd.controller.values import GroupKey

__all__ = ["Agenda"]

_SLACK: Final = 4
"""Stale entries per live one before the heap is built anew."""


class Agenda:
    """One time for each group; only the latest that was set counts."""

    def __init__(self) -> None:
        self._when: dict[GroupKey, int] = {}
        self._heap: list[tuple[int, GroupKey]] = []

    def put(self, key: GroupKey, when: int) -> None:
        """Look at this group at `when`, and not before."""
        self._when[key] = when
        heappush(self._heap, (when, key))
        if len(self._heap) > _SLACK * len(self._when) + _SLACK:
            self._heap = sorted((when, key) for key, when in self._when.items())

    def hasten(self, key: GroupKey, when: int) -> None:
        """Look at this group at `when`, or as early as was set before."""
        known = self._when.get(key)
        if known is None or when < known:
            self.put(key, when)

    def take_due(self, now: int) -> list[GroupKey]:
        """The groups whose time has come, which are then forgotten until they are put again."""
        due: list[GroupKey] = []
        while self._heap and self._heap[0][0] <= now:
            when, key = heappop(self._heap)
            if self._when.get(key) == when:
                del self._when[key]
                due.append(key)
        return due
