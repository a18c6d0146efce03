"""Clients that are not read for a moment: what they send now would only wait for the run that is under way.

A message that comes while a small run is under way cannot leave before that run is acknowledged. Taken one by one such
messages wake the broker each; left in their sockets they come in one piece, and become one run.
"""

from collections.abc import Callable
from typing import Protocol

__all__ = ["REST_ANSWERS_MIN", "REST_BYTES_MAX", "REST_SECONDS_MAX", "Resting"]

REST_ANSWERS_MIN = 8
"""Fewer waiting answers are of few clients: these gain nothing."""
REST_BYTES_MAX = 64 * 1024
"""Runs of more do not wait for each other (`ShipOptions.small_bytes`)."""
REST_SECONDS_MAX = 0.01
"""Then clients are read again, and go on being read until this log is committed to its end once: heartbeats and pulls
must not stand behind a replica that does not answer."""


class Restful(Protocol):
    """A connection that can be left alone."""

    def rest(self) -> bool:
        """Read nothing until `wake`; whether that is new."""

    def wake(self) -> None:
        """Read on."""


class Timer(Protocol):
    """What has been asked for later."""

    def cancel(self) -> None:
        """Do not do it."""


class Resting:
    """Those that rest. Loop thread only; `later` calls back after so many seconds.

    Invariant: while somebody rests a timer runs, and nobody rests when it has run out.
    """

    def __init__(self, later: Callable[[float, Callable[[], None]], Timer]) -> None:
        self._later = later
        self._sessions: list[Restful] = []
        self._timer: Timer | None = None
        self._overdue = False

    def add(self, session: Restful) -> None:
        """Its requests have been taken, and wait."""
        if not self._overdue and session.rest():
            self._sessions.append(session)
            if self._timer is None:
                self._timer = self._later(REST_SECONDS_MAX, self._run_out)

    def end(self) -> None:
        """Nothing waits any more."""
        self._overdue = False
        if self._timer is not None:
            self._timer.cancel()
            self._wake()

    def _run_out(self) -> None:
        self._overdue = True
        self._wake()

    def _wake(self) -> None:
        self._timer = None
        sessions, self._sessions = self._sessions, []
        for session in sessions:
            session.wake()
