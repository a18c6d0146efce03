"""A broker's volume: a log and an epoch, of which only what was flushed is sure to outlive the process."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from random import Random

from logherd.group.output import Promise
from logherd.model.names import Epoch, Position
from logherd.raft.memory import MemoryLog
from logherd.raft.record import Kind, Record
from logherd.raft.store import HardState
from logherd.replication.epochs import ORIGIN, Point
from logherd.replication.log import Image
from logherd.replication.messages import ClusterId, ReplicaId
from sim.consensus.disk import SimStore
from sim.leases.volume import Entry

__all__ = ["Bases", "GroupStore", "GroupVolume"]

_SEGMENT = 1 << 12

Bases = dict[Point, list[Entry]]
"""What stood below the points from which some log is not kept any more: the simulation's memory, not a replica's."""


def entry_of(record: Record) -> Entry:
    """(epoch, number in the whole run); what a leadership notes for itself has no number, but a place."""
    return (record.epoch, int(record.body) if record.kind is Kind.DATA else -record.start - 1)


def _base_image(point: Point, seal: int) -> Image:
    """Where a broker's log begins, as who has nothing of it is told."""
    return Image(f"base-{point.epoch}-{point.position}", point, seal, 0, 0, b"")


class GroupStore(SimStore):
    """A store that also lists its records, dropped ones too, and tells before it cuts."""

    def __init__(self, bases: Bases) -> None:
        self.bases = bases
        self.entries: list[Entry] = []
        self.before_cut: Callable[[int], None] = lambda count: None
        super().__init__(_SEGMENT)

    @property
    def dropped(self) -> int:
        """How many records are not kept any more."""
        return len(self.entries) - len(self._ends)

    def count_at(self, position: Position) -> int:
        """How many records end at or below a position."""
        return self.dropped + bisect_right(self._ends, position)

    def truncate(self, at: Position) -> None:
        count = self.count_at(at)
        self.before_cut(count)
        super().truncate(at)
        del self.entries[count:]

    def install(self, image: Image) -> None:
        if not self.epochs.matches(image.point, self.end):
            self.entries = list(self.bases[image.point])
        super().install(image)

    def drop(self, count: int) -> None:
        """Keep nothing of the first records, which are committed and flushed."""
        at = self._ends[count - self.dropped - 1]
        point = self.epochs.point_at(at)
        self.bases[point] = self.entries[:count]
        self.keep_image(_base_image(point, self.seal_at(at)), b"")
        self.compact(at)

    def _add_all(self, records: Sequence[Record]) -> None:
        super()._add_all(records)
        self.entries += [entry_of(record) for record in records]

    def append_note(self, epoch: Epoch, note: bytes) -> Position:
        return self.append(Kind.MEMBERS, epoch, note)

    def notes(self, after: Position, upto: Position) -> list[tuple[Position, bytes]]:
        return [(record.end, record.body) for record in self.records(after, upto) if record.kind is Kind.MEMBERS]

    def keep(self, promise: Promise) -> None:
        """Written in order with everything else."""
        self.keep_hard_state(HardState(ClusterId("bg"), ReplicaId("b"), promise.epoch, promise.vote))


class GroupVolume:
    """What `sim.leases` knows a volume by. Whoever asks what it holds is told what is flushed."""

    def __init__(self, store_id: str, bases: Bases) -> None:
        self.store_id = store_id
        self.store = GroupStore(bases)
        self.told_ms = 0
        """How long others may believe that it waits for a leader (raft mode)."""
        self.committed = 0
        """Records that are shown as committed; a process that starts finds this, or less."""

    @property
    def log(self) -> list[Entry]:
        """All records, flushed or not, kept or not."""
        return self.store.entries

    @property
    def disk(self) -> MemoryLog:
        """What is flushed."""
        return self.store.disk

    @property
    def flushed(self) -> list[Entry]:
        """The same as records; made anew each time."""
        return [*self._base, *map(entry_of, self.disk._records)]

    @property
    def _base(self) -> list[Entry]:
        base = self.disk.epochs.base
        return [] if base == ORIGIN else self.store.bases[base]

    @property
    def kept(self) -> Promise:
        """What was promised durably."""
        hard = self.disk.hard_state()
        return Promise(hard.term, hard.vote) if hard is not None else Promise()

    @property
    def end(self) -> Point:
        """The end of the log."""
        return self.store.epochs.point_at(self.store.end)

    def position_of(self, count: int) -> Position:
        """Where so many records end."""
        kept = count - self.store.dropped
        return self.store._ends[kept - 1] if kept > 0 else self.store.epochs.base.position

    def point(self, count: int) -> Point:
        """The place after so many records."""
        return self.store.epochs.point_at(self.position_of(count))

    def holds(self, log: list[Entry]) -> bool:
        """Whether all of that log is here, flushed."""
        base, records = self._base, self.disk._records
        kept = len(log) - len(base)
        if kept <= 0:
            return not log or base[len(log) - 1] == log[-1]
        return len(records) >= kept and entry_of(records[kept - 1]) == log[-1]

    def same_as(self, log: list[Entry]) -> int:
        """How many first records both have, flushed here."""
        same = 0
        for ours, theirs in zip(self.flushed, log, strict=False):
            if ours != theirs:
                break
            same += 1
        return same

    def cut(self, count: int) -> None:
        """A fault: everything after so many records is gone, flushed or not. The process is not running."""
        ends = [self.disk.epochs.base.position, *self.disk._ends]
        self.disk.truncate(ends[min(max(count - len(self._base), 0), len(ends) - 1)])
        self.reopen()

    def lose(self, draw: Random) -> None:
        """The process is gone, and anything that was not flushed with it."""
        self.store.lose(draw)
        self.reopen()

    def reopen(self) -> None:
        """The store as the next process finds it."""
        fresh = GroupStore(self.store.bases)
        disk = self.disk
        for store in (fresh, fresh.disk):
            for name in ("_hard", "_history", "_base_seal", "_staged"):
                setattr(store, name, getattr(disk, name))
            # What is told of the beginning is no file that could outlive it: it is where the log that is left begins.
            base = disk.epochs.base
            store._image = None if base == ORIGIN else (_base_image(base, disk._base_seal), b"")
            store._records, store._ends = list(disk._records), list(disk._ends)
        fresh.entries = self.flushed
        self.store = fresh
        self.committed = max(min(self.committed, len(fresh.entries)), fresh.dropped)
