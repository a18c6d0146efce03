"""How far one replica's own log is flushed, when flushes end later than writes and cuts come between."""

from collections import deque
from dataclasses import dataclass, field

from logherd.kit.errors import broken
from logherd.model.names import Position
from logherd.replication.epochs import NOWHERE

__all__ = ["DurableEnd"]


@dataclass(slots=True)
class DurableEnd:
    """Turns "everything up to token n is flushed" into a position.

    Tokens are given in the order of the writes and the shell flushes in that order. Invariants: (1) `position` never
    exceeds the end of the log; (2) a completion of bytes that have been cut since counts only up to the cut, so a
    record rewritten at the same place needs its own token.
    """

    position: Position
    token: int = 0
    flushed_token: int = 0
    _replaced: Position = NOWHERE
    _waiting: deque[tuple[int, Position, int]] = field(default_factory=deque)

    def wrote(self, end: Position, now: int) -> int:
        """Note a write (of any kind) after which the log ends at `end`; gives the token that covers it."""
        self.token += 1
        self._waiting.append((self.token, end, now))
        return self.token

    def cut(self, at: Position) -> None:
        """Forget every completion beyond a cut."""
        self.position = min(self.position, at)
        self._waiting = deque((token, min(end, at), since) for token, end, since in self._waiting)

    def replace(self, committed: Position, begin: Position) -> None:
        """The log begins at `begin` now, with an image: of the old tail nothing counts beyond what was committed."""
        # A log that reached further without that point was another's from somewhere before it.
        self._replaced = min(self.lasting, Position(begin - 1))
        self.cut(committed)

    @property
    def lasting(self) -> Position:
        """How far a loss of power leaves what was acknowledged, in the log or in files that an image replaces.

        Those stay until the image is flushed, and everything acknowledged of them lies before its point.
        """
        return max(self.position, self._replaced)

    def flushed(self, token: int) -> bool:
        """Take a completion; True if the durable end moved."""
        if token > self.token:
            broken("a flush ends after its write", token, self.token)
        before, self.flushed_token = self.position, max(token, self.flushed_token)
        while self._waiting and self._waiting[0][0] <= token:
            self.position = max(self.position, self._waiting.popleft()[1])
        return self.position > before

    @property
    def waiting_since(self) -> int | None:
        """When the oldest write was made that is not flushed yet, in the caller's milliseconds."""
        return self._waiting[0][2] if self._waiting else None
