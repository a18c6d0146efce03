"""A broker's volume: a log and an epoch, of which only what was flushed is sure to outlive the process."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from random import Random

from logherd.model.names import Epoch, Position
from logherd.raft.memory import MemoryLog
from logherd.raft.record import Record
from logherd.raft.store import HardState
from logherd.replication.epochs import ORIGIN, Point
from logherd.replication.messages import ClusterId, ReplicaId
from sim.consensus.disk import SimStore
from sim.leases.volume import Entry

__all__ = ["GroupStore", "GroupVolume"]

_SEGMENT = 1 << 12


def entry_of(record: Record) -> Entry:
    """(epoch, number in the whole run)."""
    return (record.epoch, int(record.body))


class GroupStore(SimStore):
    """A store that also lists its records, and tells before it cuts."""

    def __init__(self, segment_bytes: int = _SEGMENT) -> None:
        self.entries: list[Entry] = []
        self.before_cut: Callable[[int], None] = lambda count: None
        super().__init__(segment_bytes)

    def truncate(self, at: Position) -> None:
        count = bisect_right(self._ends, at)
        self.before_cut(count)
        super().truncate(at)
        del self.entries[count:]

    def _add_all(self, records: Sequence[Record]) -> None:
        super()._add_all(records)
        self.entries += [entry_of(record) for record in records]

    def keep_epoch(self, epoch: Epoch) -> None:
        """Written in order with everything else."""
        self.keep_hard_state(HardState(ClusterId("bg"), ReplicaId("b"), epoch))


class GroupVolume:
    """What `sim.leases` knows a volume by. Whoever asks what it holds is told what is flushed."""

    def __init__(self, store_id: str) -> None:
        self.store_id = store_id
        self.store = GroupStore()
        self.committed = 0
        """Records that are shown as committed; a process that starts finds this, or less."""

    @property
    def log(self) -> list[Entry]:
        """All records, flushed or not."""
        return self.store.entries

    @property
    def disk(self) -> MemoryLog:
        """What is flushed."""
        return self.store.disk

    @property
    def kept_epoch(self) -> Epoch:
        """The highest epoch that was promised durably."""
        hard = self.disk.hard_state()
        return hard.term if hard is not None else Epoch(0)

    @property
    def end(self) -> Point:
        """The end of the log."""
        return self.store.epochs.point_at(self.store.end)

    def count_at(self, position: Position) -> int:
        """How many records end at or below a position."""
        return bisect_right(self.store._ends, position)

    def position_of(self, count: int) -> Position:
        """Where so many records end."""
        return self.store._ends[count - 1] if count else Position(0)

    def point(self, count: int) -> Point:
        """The place after so many records."""
        return self.store.epochs.point_at(self.position_of(count)) if count else ORIGIN

    def holds(self, log: list[Entry]) -> bool:
        """Whether all of that log is here, flushed."""
        records = self.disk._records
        return len(records) >= len(log) and (not log or entry_of(records[len(log) - 1]) == log[-1])

    def same_as(self, log: list[Entry]) -> int:
        """How many first records both have, flushed here."""
        same = 0
        for record, entry in zip(self.disk._records, log, strict=False):
            if entry_of(record) != entry:
                break
            same += 1
        return same

    def cut(self, count: int) -> None:
        """A fault: everything after so many records is gone, flushed or not. The process is not running."""
        ends = [Position(0), *self.disk._ends]
        self.disk.truncate(ends[min(count, len(ends) - 1)])
        self.reopen()

    def lose(self, draw: Random) -> None:
        """The process is gone, and anything that was not flushed with it."""
        self.store.lose(draw)
        self.reopen()

    def reopen(self) -> None:
        """The store as the next process finds it."""
        fresh = GroupStore()
        disk = self.disk
        for store in (fresh, fresh.disk):
            for name in ("_hard", "_history", "_base_seal", "_image", "_staged"):
                setattr(store, name, getattr(disk, name))
            store._records, store._ends = list(disk._records), list(disk._ends)
        fresh.entries = [entry_of(record) for record in disk._records]
        self.store = fresh
        self.committed = min(self.committed, len(fresh.entries))
