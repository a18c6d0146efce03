"""Requests that we sent and that are not answered yet, by opaque, with deadlines that one sweep looks at."""

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Pending"]

T = TypeVar("T")
OPAQUE_MAX = 0x7FFFFFFF


class Pending(Generic[T]):
    """Open requests of one connection. Times are seconds of any one monotonic clock.

    Invariant: the callback of every request that was added runs or is returned exactly once, by `take`, `expire` or
    `drain`.
    """

    __slots__ = ("_next_opaque", "_open")

    def __init__(self, first_opaque: int = 0) -> None:
        self._next_opaque = first_opaque
        self._open: dict[int, tuple[float, Callable[[T], None]]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def reserve(self) -> int:
        """An opaque that no open request uses, for a message that gets no answer."""
        opaque = self._next_opaque
        while opaque in self._open:
            opaque = (opaque + 1) & OPAQUE_MAX
        self._next_opaque = (opaque + 1) & OPAQUE_MAX
        return opaque

    def add(self, deadline: float, on_answer: Callable[[T], None]) -> int:
        """Register a request; the result is its opaque, 0 .. 2**31 - 1, not used by another open request."""
        opaque = self.reserve()
        self._open[opaque] = (deadline, on_answer)
        return opaque

    def take(self, opaque: int) -> Callable[[T], None] | None:
        """The callback of an answered request, which is closed by this; None for an unknown or repeated opaque."""
        entry = self._open.pop(opaque, None)
        return None if entry is None else entry[1]

    def expire(self, now: float) -> list[tuple[int, Callable[[T], None]]]:
        """Close the requests whose deadline has come, oldest first."""
        late = [(opaque, callback) for opaque, (deadline, callback) in self._open.items() if deadline <= now]
        for opaque, _ in late:
            del self._open[opaque]
        return late

    def drain(self) -> list[tuple[int, Callable[[T], None]]]:
        """Close all requests, because the connection is gone."""
        everything = [(opaque, callback) for opaque, (_, callback) in self._open.items()]
        self._open.clear()
        return everything
