"""How much of a follower's log stays in the system's file cache: its newest part, for consumers after a failover.

A follower's records are written once and hardly ever read. Left to itself the system keeps them all, at the cost of
what others on that machine would read, or of this process' own limit of memory; and each page that it takes afresh
must be found first. A page that was given back a moment ago is the cheapest there is.

Source: posix_fadvise(2), POSIX_FADV_DONTNEED; Apache BookKeeper does so with its journal (journalRemoveFromPageCache).
"""

from collections.abc import Callable
from contextlib import suppress

from logherd.store.segment import Segment

__all__ = ["UNCACHED_AT_ONCE", "CachedTail"]

UNCACHED_AT_ONCE = 2 << 20
"""Most bytes of one call, for which a loop waits a tenth of a millisecond. Pieces begin at multiples of it in a
segment's file: the system drops no page that is asked for in part."""


class CachedTail:
    """Owner thread only. Everything below `position` was given back, or was there before this process."""

    __slots__ = ("_bytes_max", "position")

    def __init__(self, bytes_max: int | None, segment_start: int, end: int) -> None:
        """`bytes_max` of the log stay, all of it with None. It ends at `end` now, in the segment with that start."""
        self._bytes_max = bytes_max
        self.position = end - (end - segment_start) % UNCACHED_AT_ONCE

    def trim(self, flushed: int, min_position: int, segment_of: Callable[[int], Segment | None]) -> None:
        """Give a piece back, if there is one to spare below `flushed`; to be called for each run that is appended.

        It is a wish: whoever reads there finds the bytes. Never raises.
        """
        position = max(self.position, min_position)
        if self._bytes_max is None or flushed - position < self._bytes_max + UNCACHED_AT_ONCE:
            return
        segment = segment_of(position)
        if segment is None:
            return
        at = position - segment.start
        size = min(UNCACHED_AT_ONCE - at % UNCACHED_AT_ONCE, segment.size - at)
        with suppress(OSError):  # not every file system takes advice
            segment.uncache(at, size)
        self.position = position + size
