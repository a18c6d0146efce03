"""Which group is looked at when: each key once, one look at a time, after a rest, with back-off when a look fails."""

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

from logherd_operator.handlers.known import Key
from logherd_operator.spec.errors import OperatorError

__all__ = ["Desk", "DeskPace"]

_log = logging.getLogger("logherd.operator")

Work = Callable[[Key], Awaitable[float | None]]


@dataclass(frozen=True, slots=True)
class DeskPace:
    """In seconds: between two looks at a group at least `rest`; after failures from `first` up to `last`."""

    rest: float = 1.0
    first: float = 1.0
    last: float = 300.0
    parallel: int = 8


@dataclass(slots=True)
class _Entry:
    """One group. `due` is None while nothing is planned; `woken` while it is looked at: once more, at once."""

    due: float | None = None
    busy: bool = False
    woken: bool = False
    began: float = float("-inf")
    failures: int = 0


@dataclass(slots=True)
class Desk:
    """The queue. `clock` counts seconds and is never set back."""

    work: Work
    clock: Callable[[], float]
    pace: DeskPace = field(default_factory=DeskPace)
    random: Random = field(default_factory=Random)
    _entries: dict[Key, _Entry] = field(default_factory=dict)
    _heap: list[tuple[float, Key]] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self, key: Key) -> None:
        """Something about the group has changed."""
        entry = self._entries.setdefault(key, _Entry())
        if entry.busy:
            entry.woken = True
            return
        # A look that failed may have failed because of what has just changed; but nobody is to be hammered.
        rest = self.pace.rest if not entry.failures else min(self._back_off(entry), self.pace.rest * 10)
        self._plan(key, entry, max(self.clock(), entry.began + rest))

    @property
    def oldest(self) -> float:
        """For how many seconds the group that waits longest has been due."""
        late = [self.clock() - each.due for each in self._entries.values() if each.due is not None and not each.busy]
        return max([0.0, *late])

    @property
    def waiting(self) -> int:
        """Groups that are due now."""
        now = self.clock()
        return sum(each.due is not None and each.due <= now for each in self._entries.values())

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self.pace.parallel):
                group.create_task(self._serve())

    async def _serve(self) -> None:
        while True:
            key = await self._next()
            entry = self._entries[key]
            entry.busy, entry.woken, entry.due, entry.began = True, False, None, self.clock()
            again = await self._attempt(key, entry)
            entry.busy = False
            if entry.woken:
                self.wake(key)
            elif again is not None:
                self._plan(key, entry, max(self.clock() + again, entry.began + self.pace.rest))
            else:
                del self._entries[key]

    async def _attempt(self, key: Key, entry: _Entry) -> float | None:
        try:
            again = await self.work(key)
        except Exception as error:
            # One group's trouble, even a defect, is not the others'.
            entry.failures += 1
            pause = self._back_off(entry) * self.random.uniform(0.5, 1.0)
            _log.warning(
                "%s/%s: look %d failed, again in %.1f s: %s: %s", *key, entry.failures, pause,
                type(error).__name__, error, exc_info=not isinstance(error, OperatorError),
            )  # fmt: skip
            return pause
        entry.failures = 0
        return again

    def _back_off(self, entry: _Entry) -> float:
        return min(self.pace.last, self.pace.first * 2.0 ** min(entry.failures - 1, 16))

    async def _next(self) -> Key:
        """The key that is due, when it is."""
        while True:
            now = self.clock()
            while self._heap and not self._valid(*self._heap[0]):
                heapq.heappop(self._heap)
            if self._heap and self._heap[0][0] <= now:
                return heapq.heappop(self._heap)[1]
            pause = self._heap[0][0] - now if self._heap else None
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), pause)
            except TimeoutError:
                continue

    def _valid(self, due: float, key: Key) -> bool:
        entry = self._entries.get(key)
        return entry is not None and entry.due == due and not entry.busy

    def _plan(self, key: Key, entry: _Entry, due: float) -> None:
        if entry.due is not None and entry.due <= due:
            return
        entry.due = due
        heapq.heappush(self._heap, (due, key))
        self._changed.set()
