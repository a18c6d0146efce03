"""Requests that wait a moment for those that are about to come: one run for many senders.

A sender that waits for its answer asks again when it has it. Those who were answered together ask again within a
millisecond or so, each in its own moment and over its own connection. If a run leaves with the first of them, the
others wait for it, and they fall into groups that take turns for ever, if they are two as well as if they are many;
each run costs every replica a flush, and all of them together as much as thirty messages. So who has just been answered
is waited for, and who comes while others are under way waits for these, too: then they leave together.

A lone sender never waits. Nobody knows who will not ask again: that is a matter of `Patience`.

Source: PostgreSQL's `commit_delay` and `commit_siblings`, which wait for a set time; here it is known for how many.
"""

from collections.abc import Callable
from time import monotonic

from logherd.kit.clock import Later, Timer
from logherd.kit.patience import Patience

__all__ = ["LINGER_BYTES_MAX", "LINGER_CONNECTIONS_MIN", "LINGER_RUNS_MAX", "LINGER_SECONDS_MAX", "Linger"]

LINGER_BYTES_MAX = 128 * 1024
"""Larger runs gain nothing from more."""
LINGER_CONNECTIONS_MIN = 2
"""One is not waited for: what many senders on it ask comes in one piece already (`net/gathering.py`), and then waiting
once more costs a tenth of the rate."""
LINGER_RUNS_MAX = 3
"""Who was answered is waited for as long as so many runs like that one take."""
LINGER_SECONDS_MAX = 0.01
"""But no longer than this, and neither for those that are under way: a replica may not answer."""


class Linger:
    """Of one log at its leader. Loop thread only; `later` calls back after so many seconds.

    Invariants: (1) whenever `hold` says yes a timer runs, and `leave` is called when it has run out or the wait is over
    before; (2) nothing is held while there are fewer connections than LINGER_CONNECTIONS_MIN, nor from LINGER_BYTES_MAX
    on.
    """

    def __init__(self, leave: Callable[[], None], later: Later, clock: Callable[[], float] = monotonic) -> None:
        """`leave` lets the pass end that was held: `hold` is asked again then."""
        self._leave = leave
        self._later = later
        self._clock = clock
        self._patience = Patience()
        self._requests = _Requests()
        self._expected = 0
        """How many there will be when all that were answered have asked again; 0: nobody is waited for."""
        self._until = 0.0
        self._timer: Timer | None = None

    def asked(self, position: int, *, connections: int = 1) -> None:
        """A connection's requests wait until the log is committed up to `position`; 0 if it is counted already."""
        self._requests.waiting += connections
        self._requests.end = position

    def answered(self, connections: int) -> None:
        """So many of these have their answers, the oldest ones."""
        requests = self._requests
        requests.waiting -= connections
        requests.under_way = max(requests.under_way - connections, 0)
        # Answers in parts are waited for once: what is expected holds for all of them.
        expected = requests.waiting + connections
        wanted = connections > 0 and expected >= LINGER_CONNECTIONS_MIN
        if wanted and not self._expected and self._patience.left():
            now = self._clock()
            self._expected = expected
            self._until = now + min(LINGER_RUNS_MAX * (now - requests.left_at), LINGER_SECONDS_MAX)
        self._look_again()

    def left(self) -> None:
        """Everything that was appended so far is under way."""
        requests = self._requests
        if requests.waiting > requests.under_way:
            requests.under_way, requests.start = requests.waiting, requests.end
            requests.left_at = self._clock()
            self._expected = 0
            self._until = requests.left_at + LINGER_SECONDS_MAX

    def hold(self) -> bool:
        """Whether what was appended is to wait; `leave` is called when it need not any more."""
        if not self._waits():
            self._stop_timer()
            return False
        if self._timer is None:
            self._timer = self._later(max(self._until - self._clock(), 0.0), self._run_out)
        return True

    def forget(self) -> None:
        """Nobody waits for an answer any more."""
        self._requests = _Requests()
        self._expected = 0
        self._look_again()

    def _waits(self) -> bool:
        requests = self._requests
        if requests.waiting <= requests.under_way or requests.end - requests.start >= LINGER_BYTES_MAX:
            return False
        over = self._clock() >= self._until
        if requests.under_way:
            return not over
        if self._expected and requests.waiting >= self._expected:
            self._expected = 0
            self._patience.met()
        elif self._expected and over:
            self._expected = 0
            self._patience.missed()
        return self._expected > 0

    def _look_again(self) -> None:
        if self._timer is not None:
            self._stop_timer()
            if not self.hold():
                self._leave()

    def _run_out(self) -> None:
        self._timer = None
        self._until = 0.0  # by a clock that is a little behind the timer it might not be over
        self._leave()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Requests:
    """How many connections wait for a commit, how many of these are under way and since when; where the records of the
    others begin and end."""

    __slots__ = ("end", "left_at", "start", "under_way", "waiting")

    def __init__(self) -> None:
        self.waiting = 0
        self.under_way = 0
        self.left_at = 0.0
        self.start = 0
        self.end = 0
