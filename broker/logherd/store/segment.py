"""One file of the commit log: `commitlog/<20-digit start>`, all its blocks allocated when it is created.

Two threads use a segment, never the same part of it: the owner reads committed bytes through a read-only mapping, the
writer thread writes and flushes beyond them through the descriptor, over which the owner may read and give advice as
well. Both are coherent on Linux (one page cache). What the disk may have lost is read before it is touched in the
mapping (`readable`).
"""

from logherd.store.errors import StoreFull
from logherd.store.files import NO_SPACE, Directory, File, Files
from logherd.store.readable import Readable, Unreadable

__all__ = ["SEGMENT_NAME_DIGITS", "Segment", "allocate_segment", "segment_name", "segment_start"]

SEGMENT_NAME_DIGITS = 20


def segment_name(start: int) -> str:
    """The file name: the first byte's position with leading zeros."""
    return f"{start:0{SEGMENT_NAME_DIGITS}d}"


def segment_start(name: str) -> int | None:
    """The inverse; None if this is not a segment's name."""
    return int(name) if len(name) == SEGMENT_NAME_DIGITS and name.isascii() and name.isdigit() else None


def allocate_segment(files: Files, path: str, size: int, *, create: bool = False) -> None:
    """Give a file of a closed store all its blocks, and flush it; its name is not made durable. Blocks.

    Raises: StoreFull if there is no room for it; OSError.
    """
    file = files.open(path, create=create)
    try:
        file.allocate(size)
        file.flush()
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise StoreFull(f"no room for the rest of {path}, {size} bytes in all: {error.strerror}") from error
    finally:
        file.close()


class Segment:
    """A range of positions [start, end) and the file that holds it.

    `created` turns true when file and name are durable, `zeroed` is how far (bytes in the file) it was written: both
    belong to the writer thread.
    """

    __slots__ = (
        "_directory", "_file", "_files", "_readable", "_view", "created", "end", "path", "size", "start", "zeroed",
    )  # fmt: skip

    def __init__(self, files: Files, directory: str, start: int, size: int) -> None:
        self.start = start
        self.size = size
        self.end = start + size
        self.path = f"{directory}/{segment_name(start)}"
        self.created = True
        self.zeroed = 0
        self._files = files
        self._file: File | None = None
        self._directory: Directory | None = None
        self._view: memoryview | None = None
        self._readable: Readable | None = None

    @classmethod
    def create(cls, files: Files, directory: str, start: int, size: int) -> "Segment":
        """Allocate a new file of zeros. Not durable before `make_durable`. For that and for reading it no further
        descriptor is needed (a mapping has one of its own): that there is none may be met here, but not where messages
        wait.

        Raises: OSError, in particular ENOSPC; then no file is left.
        """
        segment = cls(files, directory, start, size)
        segment.created = False
        segment._directory = files.open_directory(directory)
        try:
            segment._file = files.open(segment.path, create=True)
            segment._file.allocate(size)
            segment._view = segment._file.map(size)
        except OSError:
            segment.close()
            files.unlink(segment.path)
            raise
        return segment

    def make_durable(self, directory: str) -> None:
        """Writer thread: make a new segment durable with its name, once, before anything in it is called flushed."""
        if not self.created:
            self.file.flush()
            if self._directory is None:
                self._files.sync_dir(directory)
            else:
                self._directory.sync()
            self.created = True
        if self._directory is not None:
            self._let_directory_go()

    def make_durable_for_next(self, directory: Directory) -> None:
        """The same for the owner thread, in a directory that it has opened itself: the writer may be at it, too."""
        self.file.flush()
        directory.sync()
        self.created = True

    def _let_directory_go(self) -> None:
        if self._directory is not None:
            self._directory.close()
            self._directory = None

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._files.open(self.path)
        return self._file

    @property
    def view(self) -> memoryview:
        """Read-only bytes of the whole file; slices stay valid after the segment is closed or deleted."""
        if self._view is None:
            self._view = self.file.map(self.size)
        return self._view

    @property
    def is_mappable(self) -> bool:
        """A file that was shortened has no view, unless it had one before. Raises: OSError."""
        return self._view is not None or self.file.size() >= self.size

    def ensure_mappable(self) -> None:
        """The same. Raises: Unreadable, OSError."""
        if not self.is_mappable:
            raise Unreadable(self.file.size(), "the file ends there")

    @property
    def readable(self) -> Readable:
        """What of the view may be touched, if it was not written lately: for the owner thread, that has to ask."""
        if self._readable is None:
            self._readable = Readable(self.file, self.size)
        return self._readable

    def uncache(self, at: int, size: int) -> None:
        """`File.uncache` of a part of the file, if it is open. Raises: OSError."""
        if self._file is not None:
            self._file.uncache(at, size)

    def close(self) -> None:
        """Drop descriptor and mapping; views that were handed out live on."""
        self._view = self._readable = None
        self._let_directory_go()
        if self._file is not None:
            self._file.close()
            self._file = None
