"""Which client holds which queue for orderly consumption: the owners only, not until when.

Renewing a lock changes nothing here, so that records are as rare as rebalancing. Who leads next gives every owner a
whole lease anew, which ends no earlier than the one that the owner was told of.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from logherd.service.metadata.changes import QueueName, QueuesLocked
from logherd.service.metadata.journal import Journal

__all__ = ["Owners"]

_RECORD_BYTES: Final = 64 << 10
"""Of the queues that one change names: far less than the largest record of a log, whatever they are called."""
_CHARACTER_BYTES: Final = 6  # most that one takes as JSON
_QUEUE_BYTES: Final = 24

_Table = dict[str, dict[QueueName, str]]


class Owners:
    """Group -> queue -> client id. The returned positions are those to wait for before an answer."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._table: _Table = {}
        self._position = 0

    def __iter__(self) -> Iterator[tuple[str, Mapping[QueueName, str]]]:
        """(group, queue -> client id) of everything."""
        yield from tuple(self._table.items())

    def owned(self, group: str, client_id: str, queues: Iterable[QueueName]) -> list[QueueName]:
        """Those of the queues that are this client's already."""
        owners = self._table.get(group, {})
        return [queue for queue in queues if owners.get(queue) == client_id]

    def take(self, group: str, client_id: str, queues: Iterable[QueueName]) -> int:
        """These queues are this client's from now on; "" frees them. What is so already is not logged again.

        Raises: MetadataRefusedError; of very many queues the first may be this client's then.
        """
        self._journal.check()
        owners = self._table.get(group, {})
        changed = [queue for queue in queues if owners.get(queue, "") != client_id]
        for piece in _pieces(changed):
            change = QueuesLocked(group, client_id, piece)
            self._position = self._journal.append(change)
            self.apply(change)
        return self._position

    def apply(self, change: QueuesLocked) -> None:
        """Take a change that is in the log already."""
        owners = self._table.setdefault(change.group, {})
        for queue in change.queues:
            if change.client_id:
                owners[queue] = change.client_id
            else:
                owners.pop(queue, None)
        if not owners:
            del self._table[change.group]

    def become(self, other: "Owners") -> None:
        """Hold what another holds."""
        self._table = {group: dict(owners) for group, owners in other}
        self._position = 0

    def as_changes(self) -> Iterator[QueuesLocked]:
        """The state as changes that make it, one or more for each client."""
        for group, owners in self:
            clients: dict[str, list[QueueName]] = {}
            for queue, client_id in owners.items():
                clients.setdefault(client_id, []).append(queue)
            for client_id, queues in clients.items():
                for piece in _pieces(queues):
                    yield QueuesLocked(group, client_id, piece)


def _pieces(queues: list[QueueName]) -> Iterator[list[QueueName]]:
    piece, size = list[QueueName](), 0
    for queue in queues:
        more = _QUEUE_BYTES + _CHARACTER_BYTES * (len(queue.topic) + len(queue.broker))
        if size + more > _RECORD_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(queue)
        size += more
    if piece:
        yield piece
