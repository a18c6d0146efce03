"""How much may be under way to one follower: messages and bytes, and one shared allowance for catching up."""

from collections import deque
from dataclasses import dataclass, field

from logherd.kit.errors import broken, ensure
from logherd.model.names import Position

__all__ = ["TokenBucket", "Window"]


@dataclass(slots=True)
class Window:
    """Sent and not yet flushed by the follower. Bounded in messages and in bytes; one large message travels alone."""

    messages_max: int
    bytes_max: int
    _sent: deque[tuple[Position, int]] = field(default_factory=deque)
    _bytes: int = 0

    def __post_init__(self) -> None:
        ensure(self.messages_max > 0 and self.bytes_max > 0, "a window has room", self.messages_max, self.bytes_max)

    @property
    def messages(self) -> int:
        """How many are under way."""
        return len(self._sent)

    @property
    def room(self) -> int:
        """Bytes that may still be sent; all of them if nothing is under way."""
        return self.bytes_max - self._bytes if len(self._sent) < self.messages_max else 0

    def add(self, end: Position, size: int) -> None:
        """Note a message of `size` bytes that ends at `end`."""
        if self._sent and end <= self._sent[-1][0]:
            broken("messages are sent in order", end)
        self._sent.append((end, size))
        self._bytes += size

    def release(self, upto: Position) -> None:
        """Everything that ends at or below `upto` has arrived for good."""
        while self._sent and self._sent[0][0] <= upto:
            self._bytes -= self._sent.popleft()[1]

    def clear(self) -> None:
        """Forget what is under way: it will be asked for again."""
        self._sent.clear()
        self._bytes = 0


@dataclass(slots=True)
class TokenBucket:
    """Bytes that followers far behind may take together, so that they never crowd out those in step.

    It may go into debt by one message, which then delays the next; so a message larger than the burst still moves.
    """

    bytes_per_second: int
    burst: int
    _level: int = field(init=False)
    _filled_at: int | None = None

    def __post_init__(self) -> None:
        self._level = self.burst

    def fill(self, now: int) -> None:
        """Add what the time since the last call is worth; `now` is in milliseconds and never falls."""
        if self._filled_at is not None:
            earned = self.bytes_per_second * (now - self._filled_at) // 1000
            if earned == 0:
                return
            self._level = min(self.burst, self._level + earned)
        self._filled_at = now

    def grant(self, size: int) -> None:
        """Add what is not earned by time; so much may be saved beyond the burst."""
        self._level = min(self.burst, self._level) + size

    @property
    def open(self) -> bool:
        """Whether another message may be sent."""
        return self._level > 0

    def take(self, size: int) -> None:
        """Spend `size` bytes."""
        self._level -= size
