"""What the API server refuses of a group's objects, or fails at: it is told, tried again after a while, and in nobody
else's way."""

import logging
from collections.abc import Awaitable, Callable

from logherd_operator.clients.errors import Conflict, FailedAt, NotFound, NotNow, Refused
from logherd_operator.cluster.look import NotSettled
from logherd_operator.handlers.memory import Memory

__all__ = ["Tries"]

_REST = 30.0
"""Seconds until what was refused is tried again: it stays refused until a person changes the spec or our rights."""
_PASSING = (NotFound, FailedAt)
"""What may be over at the next look."""

_log = logging.getLogger("logherd.operator")


class Tries:
    """Those of one look, each at an object that is named by its kind and name. `now` counts seconds."""

    def __init__(self, memory: Memory, now: float) -> None:
        self._memory = memory
        self._now = now
        self._wanted: set[str] = set()
        self.held: list[str] = []

    async def at(self, what: str, attempt: Callable[[], Awaitable[list[str]]]) -> list[str]:
        """What the attempt returns; nothing if it is refused, or was a moment ago. Raises: as the attempt, if the look
        is out of date or nobody answers."""
        self._wanted.add(what)
        before = self._memory.refusals.get(what)
        if before is not None and self._now - before[1] < _REST:
            return []
        try:
            found = await attempt()
        except (Conflict, NotNow):
            raise
        except (Refused, FailedAt) as refusal:
            if isinstance(refusal, _PASSING) and before is None:
                self._memory.refusals[what] = ("", float("-inf"))
                return []
            verb = "fails at" if isinstance(refusal, FailedAt) else "refuses"
            words = f"the API server {verb} the {what}: {refusal}"
            if before is None or before[0] != words:
                _log.warning("%s", words)
            self._memory.refusals[what] = (words, self._now)
            return []
        self._memory.refusals.pop(what, None)
        return found

    def hold(self, what: str) -> None:
        """It is wanted, and not to be tried now: that it was refused before stays so, but not that it failed once."""
        self._wanted.add(what)
        self.held.append(what)
        words, _ = self._memory.refusals.get(what, ("", 0.0))
        if not words:
            self._memory.refusals.pop(what, None)

    @property
    def failed(self) -> bool:
        """Was any of them refused so far?"""
        return not self._wanted.isdisjoint(self._memory.refusals)

    def refused(self) -> tuple[str, ...]:
        """A clause for each, at the end of a look: what nobody tried to keep in it is not wanted any more, or gone.

        Raises: NotSettled for what is missing once, as it may have been deleted after it was looked at, or failed once:
        what is missing again was never to be found.
        """
        self._memory.refusals = {what: each for what, each in self._memory.refusals.items() if what in self._wanted}
        clauses = tuple(words for words, _ in self._memory.refusals.values())
        if not all(clauses):
            raise NotSettled("what was looked at is there no more, or was not to be changed now")
        return clauses
