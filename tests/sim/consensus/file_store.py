"""The store that controllers use, under the simulated cores: real records in segments, on a disk that loses power."""

from copy import copy
from random import Random

from logherd.raft.memory import MemoryLog
from logherd.raftlog import RaftLog, RaftLogOptions
from logherd.raftlog.log import Batch
from logherd.raftlog.recovery import Found
from logherd.store.files import Lock
from sim.consensus.disk import SimStore
from sim.consensus.observer import Violation
from sim.disk import SimDisk, SimulatedCrash

__all__ = ["FileStore"]

ROOT = "/raft"


class FileStore(SimStore, RaftLog):
    """A `RaftLog` with the handles that the simulation expects. `disk` says in memory what has been flushed.

    After a crash it says what recovery has found, so whatever was promised and is not found breaks an invariant.
    """

    def __init__(self, found: Found, options: RaftLogOptions, lock: Lock) -> None:
        self.pending = []
        self._recording = False
        self.on_truncate = lambda at, gone: None
        RaftLog.__init__(self, found, options, lock)
        self._recording = True
        self.disk = MemoryLog(found.segment_bytes)
        for name in ("_hard", "_history", "_base_seal", "_image", "_staged"):
            setattr(self.disk, name, getattr(self, name))
        self.disk._records, self.disk._ends = copy(self._records), copy(self._ends)
        self._batch: Batch | None = None
        self._next: FileStore | None = None
        self.files = SimDisk()
        self.draw = Random(0)

    @classmethod
    def on_empty_disk(cls, segment_bytes: int, draw: Random) -> "FileStore":
        """The store of a member that has never started."""
        return cls._opened(SimDisk(), segment_bytes, draw)

    @classmethod
    def _opened(cls, files: SimDisk, segment_bytes: int, draw: Random) -> "FileStore":
        options = RaftLogOptions(
            segment_bytes=segment_bytes, record_bytes_max=4096, window_bytes=draw.choice((1, 300, 4096)),
            spare_segments=draw.choice((0, 1)), reserve_bytes=0, mark_bytes=draw.choice((1, 300, 10_000)),
        )  # fmt: skip
        store = cls.open(files, ROOT, options)
        assert isinstance(store, FileStore)
        store.files, store.draw = files, draw
        return store

    # ---- the disk ----------------------------------------------------------------------------------------------

    def begin_flush(self) -> int:
        self._batch = self.take_batch(0)
        return super().begin_flush()

    def flush(self, changes: int) -> None:
        assert self._batch is not None
        self._batch.write_and_flush()
        self._batch = None
        super().flush(changes)

    def lose(self, draw: Random) -> None:
        self._next = self._found_by_the_next(power=True)
        self.disk = self._next.disk

    def reopened(self) -> "FileStore":
        return self._next or self._found_by_the_next(power=False)

    def _found_by_the_next(self, *, power: bool) -> "FileStore":
        """Stop somewhere in what waits to be written, perhaps again while recovering, and open what is left."""
        files, draw = self.files, self.draw
        files.crash_after(draw.randint(1, draw.choice((4, 12, 60))))
        try:
            if self._batch is not None:
                self._batch.write_and_flush()
            self.take_batch(0).write_and_flush()
        except SimulatedCrash:
            pass
        files = files.crash(draw, power=power)
        while True:
            files.crash_after(draw.choice((None, draw.randint(1, 20))))
            try:
                store = self._opened(files, self._segment_bytes, draw)
            except SimulatedCrash:
                files = files.crash(draw, power=draw.random() < 0.5)
                continue
            files.crash_after(None)
            self._must_be_kept(store)
            return store

    def _must_be_kept(self, found: "FileStore") -> None:
        """What was flushed is found again, or something that was changed later."""
        changes = [name for name, _ in self.pending]
        hard = [self.disk.hard_state(), *(given[0] for name, given in self.pending if name == "keep_hard_state")]
        if found.hard_state() not in hard:
            raise Violation(f"C2: the promise went back: {found.hard_state()} of {hard}")
        end = self.disk.end
        if "truncate" in changes or "install" in changes:
            return
        if found.end < end or (found.seal_at(end) != self.disk.seal_at(end) and end >= found.epochs.base.position):
            raise Violation(f"C2: flushed records are gone or others: {found.end} of {end}")
        added = sum(name == "_add_all" for name in changes)
        if len(found.records(end, found.end)) > added:
            raise Violation(f"C3: records that were cut are back: up to {found.end}")
