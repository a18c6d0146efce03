"""How long one connection may keep us waiting, decided from counters and the time of each sweep.

The hot path only counts bytes and frames; all clock readings are those of the sweep. A span therefore starts at the
sweep that first sees it, which makes every limit at most one sweep late and never early.
"""

from logherd.net.limits import PatienceLimits

__all__ = ["Patience"]


class Patience:
    """The clocks of one connection."""

    __slots__ = (
        "_begun_at", "_begun_bytes", "_frames", "_limits", "_opened_at", "_quiet_since", "_received", "_sent", "idle"
    )  # fmt: skip

    def __init__(self, limits: PatienceLimits, now: float) -> None:
        self._limits = limits
        self._opened_at = now
        self._quiet_since = now
        self._received = 0
        self._sent = 0
        self._frames = 0
        self._begun_at: float | None = None
        self._begun_bytes = 0
        self.idle = False
        """Whether the last step found that nothing came or went for the longest time, and no frame is begun."""

    def relimit(self, limits: PatienceLimits) -> None:
        """From the next sweep on."""
        self._limits = limits

    def step(
        self, now: float, *, received: int, sent: int, frames: int, buffered: int, held: bool
    ) -> str | None:  # fmt: skip
        """Why the connection must be closed, or None.

        `received`, `sent` (bytes) and `frames` (whole frames received) only grow; `buffered` is what has come of a
        frame that is not whole yet. While `held` we are the ones who do not read, and the clocks of frames stand still.
        It is not held while memory is used up: half frames may be what fills it.
        """
        if received != self._received or sent != self._sent:
            self._quiet_since = now
        elif now - self._quiet_since >= self._limits.idle_seconds:
            self.idle = not buffered
            return f"idle for {self._limits.idle_seconds:g} s"
        self._received, self._sent = received, sent
        if held:
            self._opened_at = now
        if frames == 0 and now - self._opened_at >= self._limits.first_frame_seconds:
            return f"no frame within {self._limits.first_frame_seconds:g} s"
        return self._step_frame(now, frames, buffered, held)

    def _step_frame(self, now: float, frames: int, buffered: int, held: bool) -> str | None:
        if not buffered or held or frames != self._frames or self._begun_at is None:
            self._frames = frames
            self._begun_at = now if buffered else None
            self._begun_bytes = buffered
            return None
        limits = self._limits
        waited = now - self._begun_at
        if waited >= limits.frame_seconds:
            return f"a begun frame was not whole after {limits.frame_seconds:g} s"
        arrived = buffered - self._begun_bytes
        if waited >= limits.frame_rate_grace_seconds and arrived < waited * limits.frame_bytes_per_second_min:
            return f"a begun frame grew by {arrived} bytes in {waited:g} s"
        return None
