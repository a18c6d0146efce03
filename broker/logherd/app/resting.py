"""Clients that are not read for a moment: what they send now would only wait for the run that is under way.

A message that comes while a small run is under way cannot leave before that run is acknowledged. Taken one by one such
messages wake the broker each; left in their sockets they come in one piece, and become one run.
"""

from typing import Protocol

from logherd.kit.clock import Later, Timer

__all__ = ["REST_BYTES_MAX", "REST_REQUESTS_MIN", "REST_SECONDS_MAX", "Resting"]

REST_BYTES_MAX = 64 * 1024
"""Runs of more do not wait for each other (`ShipOptions.small_bytes`)."""
REST_REQUESTS_MIN = 8
"""Of one connection. Fewer unanswered ones are of few senders, and stopping to read costs more than it saves: with one
request on each of 64 connections a tenth of the brokers' time."""
REST_SECONDS_MAX = 0.01
"""Then clients are read again, and go on being read until more is committed: heartbeats and pulls must not stand
behind a replica that does not answer."""


class Restful(Protocol):
    """A connection that can be left alone."""

    @property
    def running(self) -> int:
        """Its unanswered requests."""

    def rest(self) -> bool:
        """Read nothing until `wake`; whether that is new."""

    def wake(self) -> None:
        """Read on."""


class Resting:
    """Those that rest, until all that they asked for is answered. Loop thread only; `later` calls back after so many
    seconds.

    Invariant: while somebody rests a timer runs, and nobody rests when it has run out.
    """

    def __init__(self, later: Later) -> None:
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

    def answered(self) -> None:
        """Answers have left: whoever has all of them is read again."""
        self._overdue = False
        if self._sessions:
            woken = [session for session in self._sessions if not session.running]
            self._sessions = [session for session in self._sessions if session.running]
            if not self._sessions and self._timer is not None:
                self._timer.cancel()
                self._timer = None
            for session in woken:
                session.wake()

    def _run_out(self) -> None:
        self._overdue, self._timer = True, None
        sessions, self._sessions = self._sessions, []
        for session in sessions:
            session.wake()
