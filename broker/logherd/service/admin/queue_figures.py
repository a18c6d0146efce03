"""What the store says of one queue, for queues that may not have been written yet."""

from typing import NamedTuple

from logherd.store import MessageStore

__all__ = ["QueueFigures", "Range"]


class Range(NamedTuple):
    """Kept and readable messages of a queue: [least, most). Both 0 for a queue without a message."""

    least: int
    most: int


class QueueFigures:
    """Ends of queues and store times, by topic and queue id."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def range(self, topic: str, queue_id: int) -> Range:
        queue = self._store.find_queue(topic, queue_id)
        return Range(0, 0) if queue is None else Range(queue.min_offset, queue.max_offset)

    def stored_at(self, topic: str, queue_id: int, offset: int) -> int:
        """Store time of one message, ms since 1970 UTC; 0 if there is none at that offset."""
        queue = self._store.find_queue(topic, queue_id)
        if queue is None or offset < 0:
            return 0
        return self._store.store_timestamp(queue, offset) or 0
