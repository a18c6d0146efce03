"""Files of the consume queues: `consumequeue/<topic>/<queue id>/<20-digit first byte>`, each of so many 20-byte units.

A file is exactly as long as its units: it grows by plain writes, so deriving it again gives the same bytes. The writer
thread writes (UnitWriter), the owner thread reads (UnitReader); each has descriptors of its own, the least recently
used of which are closed when there are too many.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

from logherd.store.background import Task
from logherd.store.consume_queue import UNIT_SIZE, QueueLog
from logherd.store.errors import StoreDamaged
from logherd.store.files import File, Files
from logherd.store.readable import is_unreadable
from logherd.store.writer import with_descriptor

__all__ = ["FileCache", "UnitReader", "UnitWriter", "queue_directory", "queue_file_name", "queues_directory"]


def queues_directory(root: str) -> str:
    return f"{root}/consumequeue"


def queue_directory(root: str, topic: str, queue_id: int) -> str:
    return f"{root}/consumequeue/{topic}/{queue_id}"


def queue_file_name(first_unit: int) -> str:
    """RocketMQ names the file by the byte that its first unit has in the queue."""
    return f"{first_unit * UNIT_SIZE:020d}"


class FileCache:
    """Open files by path, the least recently used closed first. One thread."""

    __slots__ = ("_files", "_limit", "_open")

    def __init__(self, files: Files, limit: int) -> None:
        self._files = files
        self._limit = limit
        self._open: dict[str, File] = {}

    def get(self, path: str, *, create: bool = False) -> File:
        """Raises FileNotFoundError unless `create`."""
        file = self._open.pop(path, None)
        if file is None:
            file = self._files.open(path, create=create)
            while len(self._open) >= self._limit:
                self._open.pop(next(iter(self._open))).close()
        self._open[path] = file
        return file

    def forget(self, prefix: str) -> None:
        """Close whatever is open below a directory, before it is removed."""
        for path in [path for path in self._open if path.startswith(prefix)]:
            self._open.pop(path).close()

    def __iter__(self) -> Iterator[str]:
        """Paths, of a moment: meanwhile they may be forgotten."""
        return iter(tuple(self._open))

    def __len__(self) -> int:
        return len(self._open)


class UnitReader:
    """Reads units that are no longer in memory. Owner thread."""

    __slots__ = ("_root", "_units", "cache")

    def __init__(self, files: Files, root: str, *, units_per_file: int, open_files_max: int) -> None:
        self._root = root
        self._units = units_per_file
        self.cache = FileCache(files, open_files_max)

    def directory(self, topic: str) -> str:
        """Where a topic's files are."""
        return f"{queues_directory(self._root)}/{topic}"

    def read_units(self, queue: QueueLog, offset: int, count: int) -> bytes:
        """Up to `count` units from `offset` on, fewer where a file ends; none if the file is gone.

        Raises: StoreDamaged if the disk does not give them; OSError.
        """
        within = offset % self._units
        directory = queue_directory(self._root, queue.topic, queue.queue_id)
        path = f"{directory}/{queue_file_name(offset - within)}"
        try:
            file = self.cache.get(path)
            return file.read(within * UNIT_SIZE, min(count, self._units - within) * UNIT_SIZE)
        except FileNotFoundError:
            return b""
        except OSError as error:
            if not is_unreadable(error):
                raise
            what = f"units cannot be read: {error.strerror}"
            raise StoreDamaged(path, within * UNIT_SIZE, what, self._root) from error

    def forget(self, queue: QueueLog) -> None:
        """Its files are to be deleted, or to be cut: others will have their names."""
        self.cache.forget(f"{queue_directory(self._root, queue.topic, queue.queue_id)}/")

    def forget_deleted(self, find: Callable[[str, int], QueueLog | None]) -> None:
        """Keep no file open that retention has deleted: it would take space for as long. `find` knows the queues."""
        for path in self.cache:
            _, topic, queue_id, name = path.rsplit("/", 3)
            queue = find(topic, int(queue_id))
            if queue is None or int(name) + self._units * UNIT_SIZE <= queue.first_offset * UNIT_SIZE:
                self.cache.forget(path)


class UnitWriter:
    """Writes and flushes units. Writer thread."""

    __slots__ = ("_files", "_new_directories", "_root", "_units", "cache", "distrusts_names")

    def __init__(self, files: Files, root: str, *, units_per_file: int, open_files_max: int) -> None:
        self._files = files
        self._root = root
        self._units = units_per_file
        self.cache = FileCache(files, open_files_max)
        self._new_directories: dict[str, None] = {}
        self.distrusts_names = False
        """Files that exist may have names that are not durable: the process that made them was killed."""

    def parts(self, offset: int, units: bytes | bytearray) -> Iterator[tuple[int, memoryview]]:
        """Cut units from `offset` on where files end: (offset, units) of each part."""
        at = 0
        while at < len(units):
            part = memoryview(units)[at : at + (self._units - offset % self._units) * UNIT_SIZE]
            yield offset, part
            at += len(part)
            offset += len(part) // UNIT_SIZE

    def write(self, topic: str, queue_id: int, offset: int, part: memoryview) -> File:
        """Write units of one file from `offset` on; flush the file that is returned. May be repeated.

        Names are durable after `sync_names`.
        """
        within = offset % self._units
        directory = queue_directory(self._root, topic, queue_id)
        file = self._open(directory, f"{directory}/{queue_file_name(offset - within)}", topic)
        file.write(within * UNIT_SIZE, (part,))
        return file

    def _open(self, directory: str, path: str, topic: str) -> File:
        if self.distrusts_names:
            self._note_new(directory, topic)
        try:
            return self.cache.get(path)
        except FileNotFoundError:
            self._files.make_directory(directory)
            self._note_new(directory, topic)
            return self.cache.get(path, create=True)

    def _note_new(self, directory: str, topic: str) -> None:
        parents = (directory, f"{queues_directory(self._root)}/{topic}", queues_directory(self._root), self._root)
        self._new_directories.update(dict.fromkeys(parents))

    def sync_names(self) -> Task:
        """Make the names of new files durable, one directory a step."""
        while self._new_directories:
            directory = next(iter(self._new_directories))
            yield from with_descriptor(partial(self._files.sync_dir, directory))
            del self._new_directories[directory]
            yield None

    def cut(self, topic: str, queue_id: int, units: int) -> None:
        """Drop all units from number `units` on."""
        directory = queue_directory(self._root, topic, queue_id)
        self.cache.forget(f"{directory}/")
        kept = queue_file_name(units - units % self._units)
        for name in reversed(self._files.list(directory)):
            path = f"{directory}/{name}"
            if name > kept or (name == kept and units % self._units == 0):
                self._files.unlink(path)
            elif name == kept:
                file = self.cache.get(path)
                file.truncate(units % self._units * UNIT_SIZE)
                file.flush()
        if self._files.list(directory):
            self._files.sync_dir(directory)

    def remove_topic(self, topic: str) -> None:
        """Delete all files of a topic's queues."""
        directory = f"{queues_directory(self._root)}/{topic}"
        self.cache.forget(f"{directory}/")
        for name in self._files.list(directory):
            self._files.remove_directory(f"{directory}/{name}")
        self._files.remove_directory(directory)
        if self._files.list(queues_directory(self._root)):
            self._files.sync_dir(queues_directory(self._root))

    def remove_queue(self, topic: str, queue_id: int) -> None:
        """Delete all files of one queue, and its topic's directory if no other queue has files in it."""
        directory = queue_directory(self._root, topic, queue_id)
        self.cache.forget(f"{directory}/")
        self._files.remove_directory(directory)
        if self._files.list(f"{queues_directory(self._root)}/{topic}"):
            self._files.sync_dir(f"{queues_directory(self._root)}/{topic}")
        else:
            self.remove_topic(topic)

    def first_kept(self, topic: str, queue_id: int, min_position: int, end: int) -> int:
        """The first unit of the first file that has a record at or above `min_position`, or of the last file. Files
        from unit `end` on are what is left of an earlier queue of this name.

        Of a file of which the disk does not give that the one behind it tells: no record is newer than its first. If
        that is kept, or not to be had either, the file stays, though readers find no beginning of the queue then."""
        directory = queue_directory(self._root, topic, queue_id)
        names = [name for name in self._files.list(directory) if name < queue_file_name(end)]
        unknown = ""
        for name, behind in pairwise(names):
            last = self._record_of(f"{directory}/{name}", self._units - 1)
            if last is None:
                first = self._record_of(f"{directory}/{behind}", 0)
                unknown = "" if first is not None and first <= min_position else unknown or name
            elif last >= min_position:
                return int(unknown or name) // UNIT_SIZE
            else:
                unknown = ""
        return int(unknown or names[-1]) // UNIT_SIZE if names else 0

    def _record_of(self, path: str, unit: int) -> int | None:
        """Where the record of one of a file's units is; None if the disk does not give it. Below 0: it has no such."""
        try:
            found = self.cache.get(path).read(unit * UNIT_SIZE, 8)
        except OSError as error:
            if not is_unreadable(error):
                raise
            return None
        return int.from_bytes(found) if len(found) == 8 else -1

    def remove_before(self, topic: str, queue_id: int, unit: int) -> None:
        """Delete the queue's files before the one that begins with `unit`."""
        directory = queue_directory(self._root, topic, queue_id)
        for name in self._files.list(directory):
            if name < queue_file_name(unit):
                self.cache.forget(f"{directory}/{name}")
                self._files.unlink(f"{directory}/{name}")
