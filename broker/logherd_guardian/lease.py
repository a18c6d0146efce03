"""H16: whether a child has kept a lease for too long. Pure; times are milliseconds on CLOCK_BOOTTIME."""

from logherd_guardian.page import Page

__all__ = ["GAP_MS", "STEADY_MS", "LeaseWatch"]

GAP_MS = 500
"""Ticks further apart than this are a gap: the guardian was paused, or its host was suspended or starved."""

STEADY_MS = 1000
"""How long a lease must have been over, and the guardian must have run without a gap, before the child is killed."""


class LeaseWatch:
    """Sees each tick. A host that wakes wakes everybody at once; the child then gets the time to see it for itself."""

    def __init__(self, now: int) -> None:
        self._ticked = now
        self._steady_since = now

    def is_overdue(self, page: Page | None, now: int) -> bool:
        """Note a tick at `now`; whether the child must be killed. A lease that was released is never overdue."""
        if not 0 <= now - self._ticked <= GAP_MS:
            self._steady_since = now
        self._ticked = now
        if page is None or page.lease_end_ms == 0:
            return False
        return now - max(page.lease_end_ms, self._steady_since) >= STEADY_MS
