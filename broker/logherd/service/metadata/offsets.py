"""Consumer offsets in memory, their coalesced commits and their pending resets.

Invariants:
  1. What `get` returns is in the log or in the pending batch, never elsewhere.
  2. A pending batch holds, per queue, only the newest offset of this pass.
  3. Of each queue in the pending batch `_before` has the offset that the log has, if it has one.
  4. A pending reset's queue takes no commit until the consumer was told and has heard it, or was told often enough.
"""

from collections.abc import Iterator, Mapping
from itertools import islice

from logherd.service.metadata.changes import OffsetRow, OffsetsCommitted, OffsetsReset, ResetsTold
from logherd.service.metadata.errors import MetadataRefusedError
from logherd.service.metadata.journal import Journal

__all__ = ["Offsets"]

_RECORD_BYTES = 64 << 10
_TOLD_MAX = 3
_ROW_BYTES, _QUEUE_BYTES = 16, 24  # beside its names; and of an offset with its queue, about

_Queues = dict[int, int]
_Table = dict[str, dict[str, _Queues]]


class Offsets:
    """Group -> topic -> queue -> next queue offset to consume."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._table: _Table = {}
        self._resets: _Table = {}
        self._pending: dict[tuple[str, str], _Queues] = {}
        self._before: dict[tuple[str, str], _Queues] = {}
        self._told: dict[tuple[str, str, int], int] = {}
        self.position = 0
        """End of the newest offset record: an answer that tells an offset waits for it. See `flush`."""

    @property
    def is_pending(self) -> bool:
        """Whether anything was committed that no record tells of yet."""
        return bool(self._pending)

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """The newest committed or reset offset; None if the group never committed this queue."""
        topics = self._table.get(group)
        if topics is None:
            return None
        queues = topics.get(topic)
        return None if queues is None else queues.get(queue_id)

    def logged(self, group: str, topic: str, queue_id: int) -> int | None:
        """As `get`, without what no record tells of yet."""
        key = group, topic
        if queue_id in self._pending.get(key, ()):
            return self._before.get(key, {}).get(queue_id)
        return self.get(group, topic, queue_id)

    def queues(self, group: str, topic: str) -> Mapping[int, int]:
        """Queue -> offset of one group in one topic; empty if none. Do not change it."""
        return self._table.get(group, {}).get(topic, {})

    def for_group(self, group: str) -> Mapping[str, Mapping[int, int]]:
        """Topic -> queue -> offset; empty if none. Do not change it."""
        return self._table.get(group, {})

    def for_topic(self, topic: str) -> list[str]:
        """Groups with an offset in this topic."""
        return [group for group, topics in self._table.items() if topic in topics]

    def __iter__(self) -> Iterator[tuple[str, str, Mapping[int, int]]]:
        """(group, topic, queue -> offset) of everything."""
        for group, topics in tuple(self._table.items()):
            for topic, queues in tuple(topics.items()):
                yield group, topic, queues

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Remember an offset for the record of this pass; an unchanged one costs nothing.

        Returns whether it was taken: False while a reset of this queue is pending.
        Durable: no; after `flush` and a commit of the log up to the position that it returns.
        Raises: NotLeading.
        """
        if not self._journal.leading:
            self._journal.check()
        if self._resets and self.pending_reset(group, topic, queue_id) is not None:
            return False
        queues = self._table.setdefault(group, {}).setdefault(topic, {})
        known = queues.get(queue_id)
        if known != offset:
            pending = self._pending.setdefault((group, topic), {})
            if known is not None and queue_id not in pending:
                self._before.setdefault((group, topic), {})[queue_id] = known
            queues[queue_id] = pending[queue_id] = offset
        return True

    def replace(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """As `commit`, in place of whatever was so: a reset that the consumer was not told of is no longer pending.

        Raises: MetadataRefusedError.
        """
        if self.pending_reset(group, topic, queue_id) is not None:
            self.take_reset(group, topic, queue_id)
        self.commit(group, topic, queue_id, offset)

    @property
    def pending(self) -> bool:
        """Whether `flush` has something to write."""
        return bool(self._pending)

    def flush(self) -> int:
        """Write the pending commits as few records; returns the position to wait for. Raises MetadataRefusedError.

        After MetadataRefusedError the rest stays pending and is written by the next call.
        """
        while self._pending:
            batch = self._next_batch()
            self.position = self._journal.append(OffsetsCommitted(_rows(batch)))
            for key, written in batch.items():
                pending = self._pending[key]
                if len(written) == len(pending):
                    del self._pending[key]
                    self._before.pop(key, None)
                else:
                    self._pending[key] = dict(islice(pending.items(), len(written), None))
        return self.position

    def _next_batch(self) -> dict[tuple[str, str], _Queues]:
        # Keeps a record far below the largest that the log takes, whatever one pass brings.
        batch: dict[tuple[str, str], _Queues] = {}
        size = 0
        for key, pending in self._pending.items():
            size += _ROW_BYTES + len(key[0]) + len(key[1])
            most = max(1, (_RECORD_BYTES - size) // _QUEUE_BYTES)
            batch[key] = pending if len(pending) <= most else dict(islice(pending.items(), most))
            size += _QUEUE_BYTES * len(pending)
            if size >= _RECORD_BYTES:
                break
        return batch

    def reset(self, group: str, topic: str, offsets: Mapping[int, int]) -> int:
        """Set offsets whatever they were, and keep them pending for the consumer.

        Raises: MetadataRefusedError; of very many queues the first may be reset then.
        """
        self.flush()
        queues = iter(offsets.items())
        while piece := dict(islice(queues, _RECORD_BYTES // _QUEUE_BYTES)):
            change = OffsetsReset(_rows({(group, topic): piece}))
            self.position = self._journal.append(change)
            self.apply_reset(change)
        return self.position

    def pending_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The offset that the consumer has not been told yet; None if there is none."""
        if not self._resets:
            return None
        return self._resets.get(group, {}).get(topic, {}).get(queue_id)

    def tell_reset(self, group: str, topic: str, queue_id: int, asked: int) -> bool:
        """Whether the consumer that asks for what is at the offset `asked` is to be told of its pending reset.

        An answer that tells it may be lost, and a commit then undo the reset. So it is told again until it asks from
        there, but no more than three times: not everyone goes where he is told. Then the reset is no longer
        pending, or told to nobody any more while the log takes nothing.
        """
        key = group, topic, queue_id
        told = self._told.get(key, 0)
        heard = told >= _TOLD_MAX or (told > 0 and asked == self._resets[group][topic][queue_id])
        if heard or told + 1 >= _TOLD_MAX:
            try:
                self.take_reset(group, topic, queue_id)
            except MetadataRefusedError:
                self._told[key] = _TOLD_MAX
        else:
            self._told[key] = told + 1
        return not heard

    def take_reset(self, group: str, topic: str, queue_id: int) -> int:
        """The consumer knows: the reset is no longer pending. Raises MetadataRefusedError."""
        self._journal.check()
        offset = self._resets[group][topic][queue_id]
        change = ResetsTold([(group, topic, [queue_id, offset])])
        self.position = self._journal.append(change)
        self.apply_told(change)
        return self.position

    def resets(self) -> Iterator[tuple[str, str, Mapping[int, int]]]:
        """(group, topic, queue -> offset) of all pending resets."""
        for group, topics in tuple(self._resets.items()):
            for topic, queues in tuple(topics.items()):
                yield group, topic, queues

    def forget_topic(self, topic: str) -> None:
        """Drop the topic's offsets and resets of all groups."""
        self._told.clear()  # who was told of another one is told anew
        for table in (self._table, self._resets):
            for group in [group for group, topics in table.items() if topic in topics]:
                del table[group][topic]
                if not table[group]:
                    del table[group]
        self._forget_pending([key for key in self._pending if key[1] == topic])

    def forget_group(self, group: str) -> None:
        """Drop the group's offsets and resets in all topics."""
        self._table.pop(group, None)
        self._resets.pop(group, None)
        self._told.clear()
        self._forget_pending([key for key in self._pending if key[0] == group])

    def become(self, other: "Offsets") -> None:
        """Hold what another holds; what is pending here is forgotten."""
        self._table, self._resets = other.tables
        self._pending, self._before, self._told = {}, {}, {}
        self.position = other.position

    @property
    def tables(self) -> tuple[_Table, _Table]:
        """The offsets and the pending resets themselves, for `become`."""
        return self._table, self._resets

    def apply_committed(self, change: OffsetsCommitted) -> None:
        """Take a change that is in the log already."""
        _set(self._table, change.rows)

    def apply_reset(self, change: OffsetsReset) -> None:
        """Take a change that is in the log already."""
        _set(self._table, change.rows)
        _set(self._resets, change.rows)
        self._forget_told(change.rows)

    def apply_told(self, change: ResetsTold) -> None:
        """Take a change that is in the log already."""
        self._forget_told(change.rows)
        for group, topic, numbers in change.rows:
            topics = self._resets.get(group, {})
            queues = topics.get(topic, {})
            for queue_id in numbers[::2]:
                queues.pop(queue_id, None)
            if not queues:
                topics.pop(topic, None)
            if not topics:
                self._resets.pop(group, None)

    def _forget_pending(self, keys: list[tuple[str, str]]) -> None:
        for key in keys:
            del self._pending[key]
            self._before.pop(key, None)

    def _forget_told(self, rows: list[OffsetRow]) -> None:
        for group, topic, numbers in rows if self._told else ():
            for queue_id in numbers[::2]:
                self._told.pop((group, topic, queue_id), None)


def _rows(offsets: Mapping[tuple[str, str], Mapping[int, int]]) -> list[OffsetRow]:
    rows: list[OffsetRow] = []
    for (group, topic), queues in offsets.items():
        numbers: list[int] = []
        for pair in queues.items():
            numbers.extend(pair)
        rows.append((group, topic, numbers))
    return rows


def _set(table: _Table, rows: list[OffsetRow]) -> None:
    for group, topic, numbers in rows:
        queues = table.setdefault(group, {}).setdefault(topic, {})
        for at in range(0, len(numbers), 2):
            queues[numbers[at]] = numbers[at + 1]
