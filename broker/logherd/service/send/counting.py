"""Where sends are counted."""

from typing import Protocol

__all__ = ["PutCounter"]


class PutCounter(Protocol):
    """Fitted by the broker's statistics."""

    def count_put(self, topic: str, messages: int, size: int, requests: int = 1) -> None:
        """These requests appended this many messages of together `size` bytes."""
