"""What the sessions of one server share: the handler, the limits, the budget, and the end of the loop pass."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from logherd.net.admission import Admission
from logherd.net.intake import Budget
from logherd.net.limits import NetLimits
from logherd.telemetry.log import Log
from logherd.telemetry.sparing import SparingLog
from logherd.wire.frame import Frame

if TYPE_CHECKING:
    from logherd.net.session import NetSession

__all__ = ["FrameHandler", "Hub"]


class FrameHandler(Protocol):
    """Who answers. All calls come on the loop thread, return at once and must not raise."""

    def on_open(self, session: "NetSession") -> None:
        """A connection was accepted."""

    def on_frames(self, session: "NetSession", frames: list[Frame]) -> None:
        """Requests (never responses), in order of arrival, 1 to 32 of them.

        Each that is not oneway must be answered once with `session.reply`, now or later; one that is kept for long must
        be reported with `session.park`, because only few may run at a time while many may be parked.
        """

    def on_close(self, session: "NetSession") -> None:
        """The connection is gone. Comes once for each `on_open`; replies to its requests are dropped from now on."""


class Hub:
    """State of a server that its sessions work on. Owned by `Server`.

    `now` reads a monotonic clock in seconds; `defer` runs a callback at the end of the loop pass.
    """

    def __init__(
        self, handler: FrameHandler, limits: NetLimits, *,
        now: Callable[[], float], defer: Callable[[Callable[[], None]], object], log: Log,
        typed_sends: bool = False, peers: int = 0,
    ) -> None:  # fmt: skip
        self.handler = handler
        self.limits = limits
        self.typed_sends = typed_sends
        self.now = now
        self.log = SparingLog(log, now)
        self.admission = Admission(limits.admission, peers=peers)
        self.budget = Budget(limits.flow.total_bytes_max)
        self.sessions: set[NetSession] = set()
        self.starved: dict[NetSession, None] = {}
        """Who is not read because the memory of all is used up, in the order in which they go on."""
        self.stopping = False
        self.defer = defer
        self._dirty: list[NetSession] = []
        self._last_id = 0
        self._on_quiet: Callable[[], None] | None = None

    def relimit(self, limits: NetLimits) -> None:
        """Go by these limits from now on, also on open connections."""
        self.limits = limits
        self.admission.relimit(limits.admission)
        self.budget.bytes_max = limits.flow.total_bytes_max
        for session in tuple(self.sessions):
            session.relimit(limits.flow, limits.patience)
        self.feed_starved()

    def next_id(self) -> int:
        """The id of a new session; never used again."""
        self._last_id += 1
        return self._last_id

    def mark_dirty(self, session: "NetSession") -> None:
        """`session` has something to write; it is flushed at the end of this loop pass together with all others."""
        if not self._dirty:
            self.defer(self.flush)
        self._dirty.append(session)

    def write(self) -> None:
        """Write what was collected so far; all else that `flush` does waits for the end of the pass."""
        for session in self._dirty:
            session.write()

    def flush(self) -> None:
        """Write what was collected in this pass, once per connection, and go on reading where that made room."""
        dirty, self._dirty = self._dirty, []
        for session in dirty:
            session.flush()
        if self.starved:
            self.feed_starved()
        if self._on_quiet is not None:
            self._on_quiet()

    def feed_starved(self) -> None:
        """Let connections read again that were stopped by the budget, as many as it allows now, in turn."""
        budget = self.budget
        if budget.exhausted:
            for session in self.sessions:
                session.count_unsent()
        waiting, self.starved = list(self.starved), {}
        resumed = 0
        while resumed < len(waiting) and not budget.exhausted:
            waiting[resumed].resume()
            resumed += 1
        self.starved = dict.fromkeys(waiting[resumed:]) | self.starved
        if budget.full and not budget.held and self._stands():
            self._give_turn()

    def _stands(self) -> bool:
        """Whether nothing is on its way that makes room by itself: requests that run are answered, and answers are
        taken, or whoever takes none of them is given up."""
        unsent = 0
        for session in self.sessions:
            if session.running:
                return False
            unsent += session.unsent
        return self.budget.used - unsent >= self.budget.bytes_max

    def _give_turn(self) -> None:
        """What waits for its turn takes memory already, and may be all that does: somebody has some of it handled."""
        for session in self.starved:
            if session.take_turn():
                del self.starved[session]
                self.starved[session] = None
                if not self._dirty:
                    self.defer(self.flush)
                return

    def sweep(self, now: float) -> None:
        """Look at every clock of every connection. Called each `sweep_seconds`."""
        for session in tuple(self.sessions):
            session.sweep(now)
        if self.budget.full:
            self._relieve(now)
        if self.starved:
            self.feed_starved()
        self.log.tell()

    def _relieve(self, now: float) -> None:
        """Give up clients that take nothing, who keeps the most first, until a quarter of the memory is free."""
        budget = self.budget
        excess = budget.used - budget.bytes_max * 3 // 4
        for session in sorted(self.sessions, key=lambda each: each.unsent, reverse=True):
            if excess <= 0:
                return
            if session.takes_nothing(now):
                excess -= session.unsent
                session.give_up()

    def forget(self, session: "NetSession") -> None:
        """The connection of `session` is gone."""
        self.sessions.discard(session)
        self.starved.pop(session, None)
        if self._on_quiet is not None:
            self._on_quiet()

    def watch_quiet(self, on_quiet: Callable[[], None] | None) -> None:
        """Call `on_quiet` after each flush and each closed connection, so that a stop can see when all is answered."""
        self._on_quiet = on_quiet
