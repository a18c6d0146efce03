"""A replica's log in which a leadership can leave notes of its own: records of a system topic that nobody else reads.

Raft mode keeps there who belongs to the group. A note is asked for by its place, committed or not, after every write of
a follower; so the newest one's place is remembered, and nothing is read where there is none.
"""

from collections.abc import Sequence

from logherd.kit.clock import Clock
from logherd.kit.errors import ensure
from logherd.model.names import Epoch, Position
from logherd.model.record import decode_record
from logherd.replica.log import ReplicaStore
from logherd.store import MessageStore, QueueLog

__all__ = ["NOTES_TOPIC", "NotedStore"]

NOTES_TOPIC = "rmq_sys_LOGHERD_NOTES"


class NotedStore(ReplicaStore):
    """Fits `group.voting_log.NotedLog`. `host` is written as the sender of the records, in record form."""

    __slots__ = ("_clock", "_host", "_known")

    def __init__(self, store: MessageStore, barriers: Sequence[tuple[int, int]], *, clock: Clock, host: bytes) -> None:
        super().__init__(store, barriers)
        self._clock = clock
        self._host = host
        self._known: tuple[int, Position] | None = None
        """The queue's end, and the end of its newest note, since the log was cut last."""

    @property
    def _queue(self) -> QueueLog:
        return self.store.queue(NOTES_TOPIC, 0)

    def append_note(self, epoch: Epoch, note: bytes) -> Position:
        """Append a record that holds the note, from the reserve if need be. Raises: StoreFull, StoreStopped."""
        ensure(epoch == self.epochs.last_epoch, "a note stands behind its epoch's barrier", epoch, self.epochs)
        now_ms = self._clock.now_ms()
        self.store.append(
            self._queue, note, b"", born_timestamp=now_ms, born_host=self._host, store_timestamp=now_ms, reserve=True
        )
        self._known = None
        return self.end

    def notes(self, after: Position, upto: Position) -> list[tuple[Position, bytes]]:
        """The notes whose records end in (after, upto], oldest first. Raises: StoreDamaged."""
        queue, known = self._queue, self._known
        if known is not None and known[0] == queue.next_offset and known[1] <= after:
            return []
        found = [*self._committed(queue, after), *self._uncommitted(queue)]
        self._known = (queue.next_offset, found[-1][0]) if found else (queue.next_offset, after)
        return [(end, note) for end, note in found if after < end <= upto]

    def truncate(self, at: Position) -> None:
        """See ReplicaStore."""
        super().truncate(at)
        self._known = None

    def _uncommitted(self, queue: QueueLog) -> list[tuple[Position, bytes]]:
        found = []
        for position, data in self.store.uncommitted(queue):
            record = decode_record(bytes(data))
            found.append((Position(position + record.size), bytes(record.body)))
        return found

    def _committed(self, queue: QueueLog, after: Position) -> list[tuple[Position, bytes]]:
        """From the newest backwards, while they end above `after`."""
        found: list[tuple[Position, bytes]] = []
        offset = queue.max_offset - 1
        while (unit := self.store.unit(queue, offset)) is not None:
            position, size, _ = unit
            data = self.store.record_at(position)
            if position + size <= after or data is None:
                break
            found.append((Position(position + size), bytes(decode_record(data).body)))
            offset -= 1
        return found[::-1]
