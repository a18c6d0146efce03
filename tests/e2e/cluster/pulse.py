"""When the machine itself stood still: a disk that flushes nothing for seconds, or processors that nobody gets.

Brokers then give up what they cannot flush in time, as they must; a send that fails meanwhile says nothing about them.
"""

import os
import time
from pathlib import Path
from threading import Event, Thread
from types import TracebackType

__all__ = ["Pulse"]

_BEAT = 0.1
_STILL = 1.5
"""Seconds from one beat to the next: half of a lease, and of a stock client's patience with a send."""


class Pulse:
    """Writes and flushes a byte ten times in a second, from entering to leaving."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._over = Event()
        self._gaps: list[tuple[float, float]] = []
        self._last = time.time()
        self._thread = Thread(target=self._beat)

    def __enter__(self) -> "Pulse":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _beat(self) -> None:
        file = os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            self._last = time.time()
            while not self._over.wait(_BEAT):
                os.pwrite(file, b"0", 0)
                os.fsync(file)
                now = time.time()
                if now - self._last > _STILL:
                    self._gaps.append((self._last, now))
                self._last = now
        finally:
            os.close(file)

    def still(self, begin: float, end: float) -> float:
        """For how long of the time from `begin` to `end`, in seconds since 1970, nothing went on."""
        last = (self._last, time.time())
        gaps = [*self._gaps, last] if last[1] - last[0] > _STILL else self._gaps
        return sum(max(0.0, min(end, until) - max(begin, since)) for since, until in gaps)
