"""The committed log for a RocketMQ slave: bytes from any position on, after their records were compared.

A slave compares nothing, and so would keep what has changed on the disk here as if it had been written so.
"""

from collections.abc import Callable

from logherd.classic.slave_feed import UnreadableError
from logherd.store import MessageStore, StoreDamaged
from logherd.store.scan import find_record

__all__ = ["ComparedLog"]

_SEARCH_BYTES = 1 << 20
_WIDER = 8


class ComparedLog:
    """For one slave, which goes on from where it was. Loop thread only.

    Invariant: what lies in [`_from`, `_to`) was compared with its checksums as far as it may come from the disk; both
    are where records begin.
    """

    __slots__ = ("_from", "_on_damage", "_store", "_to")

    def __init__(self, store: MessageStore, on_damage: Callable[[StoreDamaged], None]) -> None:
        """`on_damage` hears of what a slave is not given."""
        self._store = store
        self._on_damage = on_damage
        self._from = self._to = -1

    @property
    def min_position(self) -> int:
        return self._store.min_position

    @property
    def committed_position(self) -> int:
        return self._store.committed_position

    @property
    def durable_position(self) -> int:
        return min(self._store.committed_position, self._store.flushed_position)

    def committed_bytes(self, position: int, bytes_max: int) -> memoryview:
        """See CommittedLog. Blocks for pages that are not cached; the first call, and one that does not go on where the
        last one ended, for a search of a MiB or a few. Raises: UnreadableError."""
        try:
            if not self._from <= position < self._to:
                start = position if position == self._to else self._record_start(position)
                self._from, self._to = start, self._store.read_raw(start, bytes_max)[1]
            return self._store.committed_bytes(position, min(bytes_max, self._to - position))
        except StoreDamaged as error:
            self._on_damage(error)
            raise UnreadableError(f"the log is damaged here, behind position {position}: {error.what}") from error
        except OSError as error:  # no descriptor or no memory for a file of the log: no reason to end the broker
            raise UnreadableError(f"the log cannot be read here, behind position {position}: {error}") from error

    def _record_start(self, position: int) -> int:
        """Where the record, or blank record, begins that holds the byte at `position`: a slave may have got the half of
        it. Raises: StoreDamaged if it is not as it was written."""
        begin, back = self._store.min_position, _SEARCH_BYTES
        while (found := self._whole_record(position - back, position)) is None and position - back > begin:
            back *= _WIDER
        at = begin if found is None else found
        while True:
            try:
                end = self._store.read_raw(at, 0)[1]
                if end > position:
                    return at
                at = end
            except StoreDamaged:
                behind = self._whole_record(at + 1, position)
                if behind is None:
                    raise
                at = behind

    def _whole_record(self, first: int, last: int) -> int | None:
        """The position of the first record that begins in [first, last] and is whole; None if none is, or nothing from
        `first` on is kept."""
        store = self._store
        while store.min_position <= first <= last:
            piece = store.committed_bytes(first, 2 * (last - first) + _SEARCH_BYTES)
            found = find_record(
                piece, first, 0, min(last + 1 - first, len(piece)), bare_end=store.recovery.bare_end
            )  # fmt: skip
            if found is not None:  # the search looks a few bytes further than it is told
                return found.position if found.position <= last else None
            first += len(piece)
        return None
