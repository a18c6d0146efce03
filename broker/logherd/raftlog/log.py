"""The owner's side of a member's log: `raft.LogStore`, whose changes leave in batches for the writer thread.

    batch = log.take_batch(token)      owner: everything changed so far; `token` is the newest that the core asked for
    batch.write_and_flush()            writer thread: blocks
    core.step(Flushed(batch.token))    owner again; then DiskFull if log.full has changed

One batch at a time. After StoreFull the same batch is tried again later; after StoreStopped the process ends.
"""

from collections import deque
from collections.abc import Sequence

from logherd.kit.errors import ensure
from logherd.model.names import Position
from logherd.raft.memory import MemoryLog
from logherd.raft.record import HEADER_SIZE, Record
from logherd.raft.store import HardState
from logherd.raftlog.changes import Change, Compacted, Cut, ImageKept, Restarted
from logherd.raftlog.options import RaftLogOptions
from logherd.raftlog.recovery import Found, Recovered, recover
from logherd.raftlog.writer import LogFiles
from logherd.replication.epochs import EpochHistory
from logherd.replication.log import Image, SpanDamagedError
from logherd.store.errors import StoreInUse
from logherd.store.files import Files, Lock

__all__ = ["Batch", "RaftLog"]


class Batch:
    """Changes that become durable together. Made by the owner, written by the writer thread."""

    __slots__ = ("_changes", "_files", "_hard", "done", "token")

    def __init__(self, files: LogFiles, changes: deque[Change], hard: HardState | None, token: int) -> None:
        self._files = files
        self._changes = changes
        self._hard = hard
        self.token = token
        self.done = False

    def write_and_flush(self) -> None:
        """Make all of it durable; everything changed before it is then durable too. Blocks; writer thread only.

        Raises: StoreFull: nothing of it may be called durable, call again when there may be space; StoreStopped: a
        write or flush failed now or earlier, the process must end.
        """
        self._files.run(self._changes, self._hard)
        self.done = True


class RaftLog(MemoryLog):
    """A memory log that notes every change for the disk. All records above the base are in memory.

    Made by `open`. Every method is the owner's, at once and without a system call, but for `tend` and `close`.
    """

    def __init__(self, found: Found, options: RaftLogOptions, lock: Lock) -> None:
        super().__init__(found.segment_bytes)
        self._options = options
        self._lock = lock
        self._files = found.files
        self._changes: deque[Change] = deque()
        self._taken: Batch | None = None
        self._noting = False
        self.recovered: Recovered = found.recovered
        self._hard = found.kept.hard_state
        self._history = EpochHistory(found.kept.base)
        self._base_seal = found.kept.base_seal
        self._add_all(found.records)
        self._image = found.image
        self._noting = True

    @classmethod
    def open(cls, files: Files, directory: str, options: RaftLogOptions) -> "RaftLog":
        """Lock the directory, recover what is in it, or make a new log. Blocks; everything found is durable then.

        The directory is made if need be; that the one above it outlasts the machine is the caller's matter.

        Raises: StoreInUse, ReplicaDamaged (rejoin as a new member), StoreVersionError, StoreFull, OSError.
        """
        files.make_directory(directory)
        lock = files.lock(f"{directory}/lock")
        if lock is None:
            raise StoreInUse(f"{directory}: another process holds the lock of this log")
        try:
            return cls(recover(files, directory, options), options, lock)
        except BaseException:
            lock.release()
            raise

    @property
    def full(self) -> bool:
        """Whether the core is to be told `DiskFull(True)`; as the last batch or `tend` found it."""
        return self._files.full

    @property
    def lack(self) -> str:
        """Why it is full, for a person: no space, or no descriptor; empty if it is not."""
        return self._files.lack

    @property
    def body_bytes_max(self) -> int:
        """The longest body that a record may have here; a longer one must not be proposed."""
        return self._options.record_bytes_max - HEADER_SIZE

    def take_batch(self, token: int) -> Batch:
        """Everything changed since the last batch, which must have been written, or have failed for good."""
        before = self._taken
        ensure(before is None or before.done or self._files.failure is not None, "batches are written in order", token)
        changes, self._changes = self._changes, deque()
        self._taken = Batch(self._files, changes, self._hard, token)
        return self._taken

    def tend(self) -> bool:
        """Work ahead for some ms; writer thread only, while no batch waits. True if there is more.

        For a timer (100 ms will do), not for every pause between batches: its last step, now and then, is a flush of
        its own, which notes how far the log is flushed and so narrows what a start has to take for torn.

        Raises: StoreStopped.
        """
        return self._files.tend()

    def close(self) -> None:
        """Close files and lock; no batch is being written. What was never in a batch is lost, as in a crash.

        Raises: StoreStopped if the last mark cannot be written; the lock is released all the same.
        """
        try:
            self._files.close()
        finally:
            self._lock.release()

    # ---- changes: as in memory, and noted ----------------------------------------------------------------------

    def truncate(self, at: Position) -> None:
        """Drop the records above `at`."""
        gone = self.records(at, self.end)
        super().truncate(at)
        if gone:
            self._note(Cut(at, self.seal_at(at), gone[0].start, gone[-1].end))

    def compact(self, at: Position) -> None:
        """Drop the records up to `at`."""
        super().compact(at)
        self._note(Compacted(self._history.base, self._base_seal))

    def keep_image(self, image: Image, data: bytes) -> None:
        """Keep an own image; the one before stays on the disk until this one is durable."""
        super().keep_image(image, data)
        self._note(ImageKept(image, data, needed=image.point.position == 0))

    def install(self, image: Image) -> None:
        """Start from the staged image; records that continue it stay."""
        old_end, matches, place = self.end, self._history.matches(image.point, self.end), len(self._changes)
        super().install(image)
        ensure(self._image is not None, "an installed image is kept", image)
        data = self._image[1] if self._image else b""
        self._changes.insert(place, ImageKept(image, data, needed=True))
        if not matches:
            self._note(Restarted(image.point, image.seal, old_end))

    def _add_all(self, records: Sequence[Record]) -> None:
        """Take records if each begins where this log's geometry has it begin.

        Raises: SpanDamagedError if not: another segment length, or a length that recovery could not judge.
        """
        if self._noting:
            self._check(records)
            self._changes.extend(records)
        super()._add_all(records)

    def _check(self, records: Sequence[Record]) -> None:
        end, segment_bytes, record_bytes_max = self.end, self._segment_bytes, self._options.record_bytes_max
        for record in records:
            start, size = record.start, len(record.frame)
            ensure(size <= record_bytes_max, "a record keeps the limit", size, HEADER_SIZE)
            room = segment_bytes - end % segment_bytes
            fits = size <= room or room == segment_bytes
            if start != (end if fits else end + room):
                raise SpanDamagedError(
                    f"a record at {start} after {end}: the leader's segments are not of {segment_bytes} bytes"
                )
            end = record.end

    def _note(self, change: Change) -> None:
        if self._noting:
            self._changes.append(change)
