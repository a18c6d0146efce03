"""All files of the key index: adding entries on the writer thread, looking keys up on the owner thread.

The writer has the newest file open, which takes two descriptors, and the owner, for itself, the newest few in which it
has looked. There may be very many files, as there are many keys and a setting says how few are in each.
"""

from array import array
from collections.abc import Generator, Iterator
from functools import partial

from msgspec.structs import replace

from logherd.store.background import NoSpace, Task
from logherd.store.checkpoint import Checkpoint
from logherd.store.files import Files
from logherd.store.index_file import HEADER_SIZE, IndexFile, index_name, index_timestamp
from logherd.store.key_index import PENDING
from logherd.store.readable import Unreadable, ensure_readable, is_unreadable
from logherd.store.writer import LogWriter, patiently, with_descriptor

__all__ = ["INDEX_FILES_OPEN_MAX", "IndexDamaged", "IndexSet", "index_directory"]

_CHUNK_ENTRIES = 512  # about 0.5 ms of work between two looks at the queue of batches
_CHUNK_BYTES = _CHUNK_ENTRIES * PENDING.size
_REGION_SLOTS = 1 << 18  # 1 MiB
_KEPT_OPEN = 8
INDEX_FILES_OPEN_MAX = _KEPT_OPEN + 2
"""The writer's, those that the owner keeps open, and one in which it looks only now."""


def index_directory(root: str) -> str:
    return f"{root}/index"


class IndexDamaged(Exception):
    """The index's files are not what the checkpoint says; they are derived again."""


class IndexSet:
    """The index's files, oldest first; only the newest is open.

    Entries of one `add` are all visible at its end; until then their owner keeps them in memory.
    """

    __slots__ = ("_directory", "_entries", "_files", "_looked_in", "_root", "_slots", "_touched", "_writer", "files")

    def __init__(self, files: Files, root: str, writer: LogWriter, *, slots: int, entries: int) -> None:
        self._files = files
        self._writer = writer
        self._root = root
        self._directory = index_directory(root)
        self._slots = slots
        self._entries = entries
        self.files: list[IndexFile] = []
        self._looked_in: dict[int, IndexFile] = {}
        """By name, the owner's own."""
        self._touched: set[int] = set()
        """What of the newest file's slots was read (`IndexFile.ensure_slots`); once is enough, unless the system has
        taken the memory for something else since."""

    def load(self, checkpoint: Checkpoint) -> None:
        """Open what the checkpoint names; later files, which hold only what is derived again, are deleted.

        Raises: IndexDamaged if a file is missing or shorter than it was.
        """
        names = [name for text in self._files.list(self._directory) if (name := index_timestamp(text)) is not None]
        for name in names:
            if name > checkpoint.index_name:
                self._files.unlink(f"{self._directory}/{name:017d}")
        names = [name for name in names if name <= checkpoint.index_name]
        if len(names) < checkpoint.index_files or (checkpoint.index_name and checkpoint.index_name not in names):
            raise IndexDamaged(f"{checkpoint.index_files} index files should be there, found are {names}")
        for name in names:
            newest = name == checkpoint.index_name
            count = checkpoint.index_count if newest else self._entries
            size = self._files.size(f"{self._directory}/{name:017d}") or 0
            if size < 40 + 4 * self._slots + (count * 20 if count > 1 else 0):
                raise IndexDamaged(f"index file {name:017d} has {size} bytes, too few for {count} entries")
            file = self._load_file(name, writable=newest, suspect=not checkpoint.closed)
            if file.count < count or (count > 1 and not file.begin_timestamp):
                raise IndexDamaged(f"index file {name:017d} has no header for {count} entries")
            if newest:
                file.restart(checkpoint.index_count, checkpoint.index_used_slots)
            else:
                file.close()

    def _load_file(self, name: int, *, writable: bool, suspect: bool) -> IndexFile:
        """`suspect`: the process before may have ended because the disk cannot read what is mapped."""
        path, size = f"{self._directory}/{name:017d}", HEADER_SIZE + 4 * self._slots
        try:
            if writable and suspect:
                ensure_readable(self._files, path, size)
            file = IndexFile.open(self._files, self._directory, name, slots=self._slots, writable=writable)
        except Unreadable as error:
            raise IndexDamaged(f"index file {name:017d}: {error}") from error
        except OSError as error:
            if not is_unreadable(error):
                raise
            raise IndexDamaged(f"index file {name:017d} cannot be read: {error.strerror}") from error
        self.files.append(file)
        return file

    def clear(self) -> None:
        """Delete all files."""
        self.close()
        self._files.remove_directory(self._directory)

    def add(self, data: bytes | bytearray) -> Task:
        """Add waiting entries (PENDING, in order of position), durably, in small steps."""
        at = 0
        while at < len(data):
            if not self.files or self.files[-1].count >= self._entries:
                yield from self._begin_file(PENDING.unpack_from(data, at)[2])
            file = self.files[-1]
            end = min(len(data), at + (self._entries - file.count) * PENDING.size)
            added = yield from self._add_to(file, data[at:end])
            at += added
            if at < end:
                yield from self._begin_file(PENDING.unpack_from(data, at)[2])

    def _add_to(self, file: IndexFile, data: bytes | bytearray) -> Generator[NoSpace | None, None, int]:
        """Add entries to a file that has room for them: how many bytes of them, fewer where it met what the disk has
        lost. To such a file nothing is added any more: the rest comes into the next one, and since it is not full all
        are derived again at the next start."""
        first, overlay, parts, at = file.count, dict[int, int](), list[bytes](), 0
        try:
            for at in range(0, len(data), _CHUNK_BYTES):
                waiting = list(PENDING.iter_unpack(data[at : at + _CHUNK_BYTES]))
                file.ensure_slots(waiting, self._touched)
                parts.append(file.encode(waiting, overlay))
                yield None
            at = len(data)
        except OSError as error:
            if not is_unreadable(error) or first == 1:  # a new file would fare no better
                raise
        if not parts:
            return 0
        try:
            yield from patiently(self._writer, partial(file.write_entries, first, b"".join(parts)))
        except OSError as error:  # of a part of a block the system reads the rest
            if not is_unreadable(error) or first == 1:
                raise
            return 0
        file.file.flush()
        yield from _name_entries(file, overlay)
        return at

    def _begin_file(self, timestamp: int) -> Task:
        if not self.files:
            yield from patiently(self._writer, partial(self._files.make_directory, self._directory))
            yield from with_descriptor(partial(self._files.sync_dir, self._root))
        name = max(int(index_name(timestamp)), self.files[-1].name + 1 if self.files else 0)
        create = partial(IndexFile.open, self._files, self._directory, name, slots=self._slots, writable=True)
        self.files.append((yield from patiently(self._writer, create)))
        self._touched = set()
        for full in self.files[-2:-1]:
            full.close()
        yield from with_descriptor(partial(self._files.sync_dir, self._directory))
        yield None

    def recorded(self, checkpoint: Checkpoint) -> Checkpoint:
        """The checkpoint with what it should say of the index after `add`."""
        if not self.files:
            return replace(checkpoint, index_name=0, index_count=0, index_used_slots=0, index_files=0)
        newest = self.files[-1]
        return replace(
            checkpoint, index_name=newest.name, index_count=newest.count, index_used_slots=newest.used_slots,
            index_files=len(self.files),
        )  # fmt: skip

    def find(self, key_hash: int, begin: int, end: int) -> Iterator[int | None]:
        """See IndexFile.find, over all files. Owner thread. Raises: StoreDamaged, OSError."""
        files = self.files[::-1]
        for name in set(self._looked_in).difference(file.name for file in files[:_KEPT_OPEN]):
            self._looked_in.pop(name).close()
        for number, written in enumerate(files):
            file = self._looked_in.get(written.name)
            if file is None:
                file = IndexFile.open(self._files, self._directory, written.name, slots=self._slots, writable=False)
            # What was read of the header may be older than the file's first entry.
            file.begin_timestamp = written.begin_timestamp
            if number < _KEPT_OPEN:
                self._looked_in[written.name] = file
                yield from file.find(key_hash, begin, end)
                continue
            try:
                yield from file.find(key_hash, begin, end)
            finally:
                file.close()

    def take_below(self, min_position: int) -> list[IndexFile]:
        """Forget files, never the newest, all of whose records are below `min_position`; give each to `delete`."""
        taken = [file for file in self.files[:-1] if file.end_position < min_position]
        for file in taken:
            self.files.remove(file)
            if (looked_in := self._looked_in.pop(file.name, None)) is not None:
                looked_in.close()
        return taken

    def delete(self, file: IndexFile) -> None:
        """Delete a file that was taken; nobody reads it any more."""
        file.close()
        self._files.unlink(file.path)

    def close(self) -> None:
        for file in (*self.files, *self._looked_in.values()):
            file.close()
        self.files = []
        self._looked_in, self._touched = {}, set()


def _name_entries(file: IndexFile, overlay: dict[int, int]) -> Task:
    """Let the slots name the new entries, durably: region by region, so that one flush has little to write."""
    regions: dict[int, array[int]] = {}
    for count, slot in enumerate(overlay, 1):
        region = slot // _REGION_SLOTS
        if region not in regions:
            regions[region] = array("I")
        regions[region].append(slot)
        if count % _CHUNK_ENTRIES == 0:
            yield None
    file.write_header()
    for _, slots in sorted(regions.items()):
        for at in range(0, len(slots), _CHUNK_ENTRIES):
            chunk = slots[at : at + _CHUNK_ENTRIES]
            file.name_entries(chunk, map(overlay.__getitem__, chunk))
            yield None
        # Not the mapping's own flush: that would hold the interpreter until the disk is done.
        file.file.flush()
        yield None
