"""Who is told of an exit, and when again. Pure; the shell asks and says what came of it.

All controllers are asked at once, because the one that is paused or cut off may be the first in the list; the report is
a compare-and-set, so hearing it twice does no harm. Each is asked again with bounded back-off. A leader that a
controller names is asked too. Times are milliseconds.
"""

from logherd_guardian.frames import Answer, Exit
from logherd_guardian.values import Value

__all__ = ["Ask", "Reporter"]

_ACKNOWLEDGED = 0
_NOT_LEADER = 2007
_AGAIN = frozenset({1, 2, _NOT_LEADER})
"""Outcome unknown, busy, not the leader: ask again. Any other refusal is the controllers' last word."""
_FIRST_MS = 50
_LONGEST_MS = 1_000
_DOUBLINGS_MAX = 5
_LEARNED_MAX = 8
_EXITS_MAX = 16
_REST_MS = 5_000
"""How long an exit is still reported when the next child is registered. That ends a leadership of the process before,
but the controllers wait for its lease, from when the leading one began to lead: also if that process had none any more.
Not for ever: most exits are of no interest then, and the addresses may be old ones at which nobody answers."""


class Ask(Value):
    """Send this exit's report to `address` now; say `answered` or `unanswered` in bounded time."""

    __slots__ = ("address", "exit")

    def __init__(self, address: str, exited: Exit) -> None:
        self.address = address
        self.exit = exited


class _Controller:
    def __init__(self) -> None:
        self.asked = False
        self.failures = 0
        self.not_before = 0


class Reporter:
    """Exits are reported one after the other, the oldest first."""

    def __init__(self, controllers: tuple[str, ...]) -> None:
        self._configured = len(controllers)
        self._controllers = {address: _Controller() for address in controllers}
        self._exits: dict[Exit, int | None] = {}
        """Each with the time until which it is reported; None before the next child is registered."""

    @property
    def is_done(self) -> bool:
        return not self._exits

    def add(self, exited: Exit) -> None:
        """An exit to be reported from now on. The oldest is forgotten if too many wait: its lease is long over."""
        self._exits[exited] = None
        if len(self._exits) > _EXITS_MAX:
            del self._exits[next(iter(self._exits))]
        self._begin_anew()

    def superseded(self, now: int) -> None:
        """The next child is registered, so a controller leads: what waits is asked at once, and not for long."""
        self._exits = {each: now + _REST_MS if until is None else until for each, until in self._exits.items()}
        self._begin_anew()

    def due(self, now: int) -> list[Ask]:
        """Whom to ask now. Each counts as asked until it has answered, or is said not to."""
        self._exits = {each: until for each, until in self._exits.items() if until is None or now < until}
        if not self._exits:
            return []
        oldest, asks = next(iter(self._exits)), []
        for address, controller in self._controllers.items():
            if not controller.asked and now >= controller.not_before:
                controller.asked = True
                asks.append(Ask(address, oldest))
        return asks

    def unanswered(self, ask: Ask, now: int) -> None:
        """It could not be reached, or did not answer in time, or with something that is no answer."""
        controller = self._controllers.get(ask.address)
        if controller is not None:
            controller.asked = False
            controller.not_before = now + min(_FIRST_MS << min(controller.failures, _DOUBLINGS_MAX), _LONGEST_MS)
            controller.failures += 1

    def withdrawn(self, ask: Ask) -> None:
        """The question was taken back; nothing is known of that controller."""
        controller = self._controllers.get(ask.address)
        if controller is not None:
            controller.asked = False

    def answered(self, ask: Ask, answer: Answer, now: int) -> str | None:
        """It has answered. The result is what to say if that was the last word on this exit."""
        if answer.code in _AGAIN:
            self.unanswered(ask, now)
            if answer.code == _NOT_LEADER and answer.leader is not None:
                self._learn(answer.leader)
            return None
        controller = self._controllers[ask.address]
        controller.asked, controller.failures = False, 0
        if ask.exit not in self._exits:
            return None
        del self._exits[ask.exit]
        for each in self._controllers.values():
            each.not_before = 0
        if answer.code == _ACKNOWLEDGED:
            return f"the controllers know of the exit: {ask.address}"
        return f"the controllers refuse the report: code={answer.code} {answer.remark!a}"

    def _begin_anew(self) -> None:
        for controller in self._controllers.values():
            controller.failures = controller.not_before = 0

    def _learn(self, leader: str) -> None:
        """Ask the leader that was named, unless it is being asked; its back-off stands, so that two cannot spin it."""
        if leader not in self._controllers and len(self._controllers) < self._configured + _LEARNED_MAX:
            self._controllers[leader] = _Controller()
