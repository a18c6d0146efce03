"""A broker's volume: what outlives its process. A log of (epoch, number), all of it flushed."""

from itertools import pairwise

from logherd.model.names import Epoch, Position
from logherd.replication.epochs import ORIGIN, Point

__all__ = ["Entry", "Volume"]

Entry = tuple[int, int]
"""(epoch, number in the whole run): two records are the same if these are.

A record is made once, at the end of one log, and is only ever copied behind what stood before it there. So if two logs
have the same record at one place, all before it is the same, too.
"""


class Volume:
    """`committed` counts records that are known here to be committed; `epoch_seen` is kept before it is acted on."""

    def __init__(self, store_id: str) -> None:
        self.store_id = store_id
        self.log: list[Entry] = []
        self.committed = 0
        self.epoch_seen = 0

    @property
    def end(self) -> Point:
        """The end of the log; the position is the count."""
        return self.point(len(self.log))

    @property
    def epoch_ends(self) -> tuple[Point, ...]:
        """The ends of all epochs but the newest, and where the log begins."""
        pairs = enumerate(pairwise(epoch for epoch, _ in self.log), 1)
        return (ORIGIN, *(self.point(count) for count, (one, other) in pairs if one != other))

    def point(self, count: int) -> Point:
        """The place after so many records."""
        return Point(Epoch(self.log[count - 1][0]), Position(count)) if count else ORIGIN

    def same_as(self, log: list[Entry]) -> int:
        """How many first records both have."""
        shorter = min(len(self.log), len(log))
        if shorter == 0 or self.log[shorter - 1] == log[shorter - 1]:
            return shorter
        low, high = 0, shorter - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self.log[middle - 1] == log[middle - 1]:
                low = middle
            else:
                high = middle - 1
        return low

    def holds(self, log: list[Entry]) -> bool:
        """Whether all of that log is here."""
        return len(self.log) >= len(log) and (not log or self.log[len(log) - 1] == log[-1])

    def cut(self, count: int) -> None:
        """Lose everything after so many records."""
        del self.log[count:]
        self.committed = min(self.committed, count)
