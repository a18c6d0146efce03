"""A store with a disk under it: what is written is seen at once, lasts only once flushed, and may last before that."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from random import Random

from logherd.model.names import Position
from logherd.raft.memory import MemoryLog
from logherd.raft.record import Record
from logherd.raft.store import HardState
from logherd.raftlog import Recovered
from logherd.replication.log import Image
from sim.consensus.observer import Violation
from sim.disk import SimDisk

__all__ = ["SimStore", "copy_of"]

_Change = tuple[str, tuple[object, ...]]


class SimStore(MemoryLog):
    """A memory log that remembers every change, with `disk` holding what has been flushed.

    Records are the unit of tearing: a torn record fails its checksum at recovery, so the log ends before it.
    """

    full = False
    files: SimDisk | None = None
    recovered = Recovered(())

    def __init__(self, segment_bytes: int) -> None:
        super().__init__(segment_bytes)
        self.disk = MemoryLog(segment_bytes)
        self.pending: list[_Change] = []
        self.on_truncate: Callable[[Position, list[Record]], None] = lambda at, gone: None
        self.hard_before: HardState | None = None
        """The flushed hard state before the newest flushed one: what the other slot holds."""
        self._recording = True

    # ---- the changes -------------------------------------------------------------------------------------------

    def keep_hard_state(self, state: HardState) -> None:
        super().keep_hard_state(state)
        self._remember("keep_hard_state", state)

    def keep_image(self, image: Image, data: bytes) -> None:
        super().keep_image(image, data)
        self._remember("keep_image", image, data)

    def truncate(self, at: Position) -> None:
        self.on_truncate(at, self.records(at, self.end))
        super().truncate(at)
        self._remember("truncate", at)

    def compact(self, at: Position) -> None:
        super().compact(at)
        self._remember("compact", at)

    def stage(self, image: Image, offset: int, data: bytes | memoryview) -> None:
        super().stage(image, offset, data)
        self._remember("stage", image, offset, bytes(data))

    def install(self, image: Image) -> None:
        if not self.epochs.matches(image.point, self.end):
            self.on_truncate(image.point.position, self.records(image.point.position, self.end))
        longer = self.epochs.matches(image.point, self.end) and self.end
        self._recording = False
        super().install(image)
        self._recording = True
        if longer and self.end != longer:
            raise Violation(f"C3: an image drops a log that agrees with it: {image.point.position}, {longer}")
        self._remember("install", image)

    def _add_all(self, records: Sequence[Record]) -> None:
        super()._add_all(records)
        for record in records:
            self._remember("_add_all", (record,))

    def _remember(self, name: str, *arguments: object) -> None:
        if self._recording:
            self.pending.append((name, arguments))

    # ---- the disk ----------------------------------------------------------------------------------------------

    def begin_flush(self) -> int:
        """A flush begins; gives how many changes it will have made durable when it ends."""
        return len(self.pending)

    def flush(self, changes: int) -> None:
        """The oldest `changes` changes are now durable."""
        before = self.disk.hard_state()
        for change in self.pending[:changes]:
            _apply(self.disk, change)
        if self.disk.hard_state() != before:
            self.hard_before = before
        del self.pending[:changes]

    def lose(self, draw: Random) -> None:
        """Power loss: of the log and of the hard state each, any prefix of what was not flushed has made it."""
        log = [change for change in self.pending if change[0] != "keep_hard_state"]
        hard = [change for change in self.pending if change[0] == "keep_hard_state"]
        for changes in (log, hard):
            for change in changes[: draw.randint(0, len(changes))]:
                _apply(self.disk, change)
        self.pending.clear()

    def lose_and_damage(self, draw: Random) -> None:
        """Power loss, and damage to what had been flushed: the newest promise, the last records, or both."""
        self.lose(draw)
        kind = draw.randrange(3)
        self.damage(hard=self.hard_before if kind != 1 else None, records=draw.randint(1, 6) if kind else 0)

    def damage(self, *, hard: HardState | None = None, records: int = 0) -> None:
        """Flushed things are lost, and recovery notices that something is wrong: the store is doubtful from now on."""
        disk = self.disk
        for change in self.pending:
            _apply(disk, change)
        self.pending.clear()
        found = hard or disk.hard_state()
        if found is not None:
            disk.keep_hard_state(replace(found, doubtful=True))
        if records:
            # An image was kept only once everything below it was marked as flushed: damage there is refused by name.
            low = disk._image[0].point.position if disk._image else disk.epochs.base.position
            ends = [low, *(end for end in disk._ends if end > low)]
            disk.truncate(ends[max(0, len(ends) - 1 - records)])

    def reopened(self) -> "SimStore":
        """The store as a new process finds and flushes it."""
        fresh = SimStore(self._segment_bytes)
        for change in self.pending:
            _apply(self.disk, change)
        self.pending.clear()
        for store in (fresh, fresh.disk):
            _copy_into(store, self.disk)
        fresh.hard_before = self.hard_before
        return fresh


def copy_of(log: MemoryLog) -> MemoryLog:
    """The same content, now."""
    copied = MemoryLog(log._segment_bytes)
    _copy_into(copied, log)
    return copied


def _copy_into(store: MemoryLog, log: MemoryLog) -> None:
    for name in ("_hard", "_history", "_base_seal", "_image", "_staged"):
        setattr(store, name, getattr(log, name))
    store._records, store._ends = copy(log._records), copy(log._ends)


def _apply(disk: MemoryLog, change: _Change) -> None:
    getattr(disk, change[0])(*change[1])
