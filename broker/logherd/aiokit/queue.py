"""A queue between two tasks, bounded by weight (bytes, say), that can be closed."""

import asyncio
from collections import deque
from typing import Generic, TypeVar

from logherd.kit.errors import LogHerdError, ensure

__all__ = ["BoundedQueue", "QueueClosed"]

T = TypeVar("T")


class QueueClosed(LogHerdError):
    """The queue was closed: nothing can be put; everything that was put has been taken."""


class BoundedQueue(Generic[T]):
    """First in, first out, for one event loop.

    Invariants: 1. the weight of the queued items never exceeds `weight_max`, except that an item heavier than that
    passes alone; 2. after `close` nothing is added and nothing already queued is lost.
    """

    def __init__(self, weight_max: int) -> None:
        ensure(weight_max > 0, "a queue has room for something", weight_max)
        self.weight_max = weight_max
        self.weight = 0
        self._items: deque[tuple[T, int]] = deque()
        self._changed: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        return len(self._items)

    def try_put(self, item: T, weight: int = 1) -> bool:
        """Queue `item`; False, and nothing queued, when it does not fit. Raises: QueueClosed."""
        if self._closed:
            raise QueueClosed("the queue is closed")
        if self._items and self.weight + weight > self.weight_max:
            return False
        self._items.append((item, weight))
        self.weight += weight
        self._wake()
        return True

    async def put(self, item: T, weight: int = 1) -> None:
        """Queue `item`, waiting for room. Raises: QueueClosed, also while waiting."""
        while not self.try_put(item, weight):
            await self._change()

    def try_take(self) -> T | None:
        """The oldest item, or None when there is none now."""
        if not self._items:
            return None
        item, weight = self._items.popleft()
        self.weight -= weight
        self._wake()
        return item

    async def take(self) -> T:
        """The oldest item, waiting for one. Raises: QueueClosed when it is closed and empty."""
        while not self._items:
            if self._closed:
                raise QueueClosed("the queue is closed and empty")
            await self._change()
        item, weight = self._items.popleft()
        self.weight -= weight
        self._wake()
        return item

    def close(self) -> None:
        """Refuse further items and wake every waiter. Idempotent."""
        self._closed = True
        self._wake()

    async def _change(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changed.append(waiter)
        await waiter

    def _wake(self) -> None:
        # Every waiter looks again: there are few, and so a cancelled one cannot swallow the signal of another.
        while self._changed:
            waiter = self._changed.popleft()
            if not waiter.done():
                waiter.set_result(None)
