"""The store that controllers use, under the simulated cores: real records in segments, on a disk that loses power."""

from dataclasses import replace
from random import Random

from logherd.raft.store import HardState
from logherd.raftlog import RaftLog, RaftLogOptions
from logherd.raftlog.kept import decode_kept
from logherd.raftlog.log import Batch
from logherd.raftlog.recovery import Found
from logherd.raftlog.writer import log_directory, promises_path
from logherd.store.errors import ReplicaDamaged, StoreError
from logherd.store.files import Lock
from logherd.store.slots import SLOT_BYTES, SlotPair
from sim.consensus.disk import SimStore, copy_of
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
        self.disk = copy_of(self)
        self.hard_before = None
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

    full = RaftLog.full

    def begin_flush(self) -> int:
        self._batch = self.take_batch(0)
        return super().begin_flush()

    def flush(self, changes: int) -> None:
        """Raises: StoreFull: try again later; StoreStopped: the process must end."""
        assert self._batch is not None
        self._batch.write_and_flush()
        self._batch = None
        super().flush(changes)

    def lose(self, draw: Random) -> None:
        self._next = self._found_by_the_next(power=True)
        self.disk = self._next.disk

    def lose_and_damage(self, draw: Random) -> None:
        """Power loss, and the newest slot of the promises is damaged. Raises: ReplicaDamaged if it is refused."""
        self._next = self._found_by_the_next(power=True, spoiled=True)
        if self._next.hard_state() is None:
            raise ReplicaDamaged(promises_path(ROOT), 0, "the first promise is lost: nobody had heard of this member")
        self.disk = self._next.disk

    def reopened(self) -> "FileStore":
        return self._next or self._found_by_the_next(power=False)

    def fill(self, room: int) -> None:
        """From now on so many bytes are free."""
        self.files.capacity = self.files.used() + room

    def empty(self) -> None:
        """There is space again."""
        self.files.capacity = 1 << 30

    def _found_by_the_next(self, *, power: bool, spoiled: bool = False) -> "FileStore":
        """Stop somewhere in what waits to be written, perhaps again while recovering, and open what is left."""
        files, draw = self.files, self.draw
        files.crash_after(draw.randint(1, draw.choice((4, 12, 60))))
        try:
            if self._batch is not None:
                self._batch.write_and_flush()
            self.take_batch(0).write_and_flush()
        except (SimulatedCrash, StoreError):
            pass
        files = self._crashed(files, power=power)
        if spoiled:
            spoiled = self._spoil(files)
        while True:
            files.crash_after(draw.choice((None, draw.randint(1, 20))))
            try:
                store = self._opened(files, self._segment_bytes, draw)
            except SimulatedCrash:
                files = self._crashed(files, power=draw.random() < 0.5)
                continue
            files.crash_after(None)
            self._must_be_kept(store, spoiled=spoiled)
            return store

    def _spoil(self, files: SimDisk) -> bool:
        """Damage what was flushed: a record below the mark, which must be refused, or the newest slot (True)."""
        # As the disk has it: the mark that this process knows may have been on its way when it ended.
        draw, mark = self.draw, decode_kept(SlotPair.open(files, promises_path(ROOT)).value).mark_position
        marked = [record for record in self.disk._records if record.end <= mark]
        if marked and draw.random() < 0.4:
            record = draw.choice(marked)
            path = f"{log_directory(ROOT)}/{record.start // self._segment_bytes * self._segment_bytes:020}"
            if files.size(path) is not None:
                _flip(files, path, record.start % self._segment_bytes + draw.randrange(len(record.frame)))
                return False
        path = promises_path(ROOT)
        file = files.open(path)
        counters = [int.from_bytes(file.read(at + 12, 8)) for at in (0, SLOT_BYTES)]
        _flip(files, path, SLOT_BYTES * counters.index(max(counters)) + draw.randrange(8, 150))
        return True

    def _crashed(self, files: SimDisk, *, power: bool) -> SimDisk:
        """The next process has space and descriptors that answer; only what is on the disk stays."""
        files.failing_flush = None
        files = files.crash(self.draw, power=power, fine=(promises_path(ROOT),))
        files.capacity = 1 << 30
        return files

    def _must_be_kept(self, found: "FileStore", *, spoiled: bool) -> None:
        """What was flushed is found again, or something that was changed later; only damage is an excuse."""
        changes = [name for name, _ in self.pending]
        given = [self.disk.hard_state(), *(words[0] for name, words in self.pending if name == "keep_hard_state")]
        hard = [replace(state, doubtful=False) for state in given if isinstance(state, HardState)]
        kept = found.hard_state()
        if spoiled and kept is not None and not kept.doubtful:
            raise Violation(f"C2: a damaged promise was not noticed: {kept}")
        if not spoiled and (kept is None or replace(kept, doubtful=False) not in hard):
            raise Violation(f"C2: the promise went back: {kept} of {hard}")
        end = self.disk.end
        if "truncate" in changes or "install" in changes:
            return
        if spoiled and "copy finished" in found.recovered.rows:
            return  # The lost slot said where the log begins since a copy came: it begins there once more, in doubt.
        if found.end < end or (found.seal_at(end) != self.disk.seal_at(end) and end >= found.epochs.base.position):
            raise Violation(f"C2: flushed records are gone or others: {found.end} of {end}")
        added = sum(name == "_add_all" for name in changes)
        if len(found.records(end, found.end)) > added:
            raise Violation(f"C3: records that were cut are back: up to {found.end}")


def _flip(files: SimDisk, path: str, at: int) -> None:
    """Damage one byte, on the disk and not in a cache."""
    file = files.open(path)
    file.write(at, (bytes([file.read(at, 1)[0] ^ 0x20]),))
    file.flush()
