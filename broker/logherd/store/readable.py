"""What a disk does not give: met by reading a file before its mapping is touched.

A read of a sector that the disk has lost is an error; an access to a mapping there is SIGBUS, which ends the process,
and the next one at the same place. So whoever looks at much of the log, or at what nobody has read for long, reads it
first. That brings it into the page cache, where the mapping has it, and waits for the disk without the interpreter's
lock, which a mapping does not. A file that was shortened is met in the same way.

An unreadable block is mended by writing over it: the disk then stores it elsewhere. But the system writes blocks, and
first reads one of which only a part is new; so such a block is written whole (`write_over`).

Source: mmap(2), SIGBUS; Linux: drivers/md/raid1.c, fix_read_error, writes over what a disk could not read.
"""

import errno
from collections.abc import Iterator
from contextlib import suppress

from logherd.model.record import RecordError
from logherd.store.files import Buffer, File, Files
from logherd.store.whole_file import read_file

__all__ = ["LatelyRead", "Readable", "Unreadable", "ensure_readable", "is_unreadable", "read_or_empty",
           "read_or_zeros", "read_unless_lost", "write_over"]  # fmt: skip

_CHUNK_BYTES = 256 << 10
_BLOCK_BYTES = 4096
_PIECE_BYTES = 32 << 10
"""Read for each access that nobody has made: a few microseconds where it is in memory, what a disk reads anyway."""
_KNOWN_MAX = 8 << 10
_ERRORS = (errno.EIO, errno.ENODATA, errno.EILSEQ)
"""A disk's medium error is the first of them to most readers, and any of them to some file systems' writers."""


class Unreadable(RecordError):
    """The disk does not give bytes of a file from byte `at` on."""

    def __init__(self, at: int, what: str) -> None:
        self.at = at
        super().__init__(f"byte {at} cannot be read: {what}")


def is_unreadable(error: OSError) -> bool:
    """Does it say that bytes are lost, and not that the process may not, or cannot now?"""
    return error.errno in _ERRORS


class Readable:
    """The part of one file, `size` bytes long, that was just found readable. One thread."""

    __slots__ = ("_chunk_bytes", "_file", "_from", "_size", "_to")

    def __init__(self, file: File, size: int, chunk_bytes: int = _CHUNK_BYTES) -> None:
        self._file = file
        self._size = size
        self._chunk_bytes = chunk_bytes
        self._from = self._to = 0

    def ensure(self, at: int, end: int) -> int:
        """Bytes [at, end) may be touched; so may those up to the result. Blocks for the disk.

        Raises: Unreadable for the first one that may not; OSError.
        """
        if not self._from <= at <= self._to:
            self._from = self._to = at
        while self._to < end:
            self._go_on()
        return self._to

    def ensure_block_before(self, at: int) -> None:
        """The same of what lies in one block with byte `at`, before it. Raises: Unreadable, OSError."""
        block = max(self._file.block_bytes(), _BLOCK_BYTES)
        if at % block:
            self.ensure(at - at % block, at)

    def _go_on(self) -> None:
        """Read a piece more. Raises: Unreadable if nothing of it was readable."""
        at = self._to
        stop = min(at - at % self._chunk_bytes + self._chunk_bytes, self._size)
        try:
            got = len(self._file.read(at, stop - at))
        except OSError as error:
            if not is_unreadable(error):
                raise
            self._to = self._first_unreadable(at, stop)
            if self._to == at:
                raise Unreadable(at, error.strerror or str(error)) from error
            return
        self._to = at + got
        if not got:
            raise Unreadable(at, "the file ends there")

    def _first_unreadable(self, at: int, stop: int) -> int:
        while at < stop:
            end = min(at - at % _BLOCK_BYTES + _BLOCK_BYTES, stop)
            if read_unless_lost(self._file, at, end - at) is None:
                return at
            at = end
        return stop

    def parts(self, at: int, end: int) -> Iterator[tuple[int, int]]:
        """(start, stop) of all that may be touched of [at, end), in order. Blocks. Raises: OSError."""
        while at < end:
            stop = self._reach(at, end)
            if stop > at:
                yield at, stop
            at = stop + _BLOCK_BYTES - stop % _BLOCK_BYTES

    def _reach(self, at: int, end: int) -> int:
        try:
            self.ensure(at, end)
        except Unreadable as error:
            return error.at
        return end


class LatelyRead:
    """Which pieces of the files of an open log were read without an error, for reads here and there. One thread."""

    __slots__ = ("_end", "_known", "_lost", "_start")

    def __init__(self) -> None:
        self._known = set[int]()
        self._lost = dict[int, Unreadable]()
        self._start = self._end = 0

    def has_just(self, position: int, size: int) -> bool:
        """Whether the latest piece holds these bytes of the log: mostly it does."""
        return self._start <= position and position + size <= self._end

    def ensure(self, file: File, start: int, size: int, at: int, end: int) -> None:
        """Bytes [at, end) of a file that holds positions [start, start + size) may be touched. Blocks for the disk, the
        first time. What it did not give is not asked for again: a disk may try for seconds, each time.

        Raises: Unreadable, OSError.
        """
        for first in range(at - at % _PIECE_BYTES, end, _PIECE_BYTES):
            stop = min(first + _PIECE_BYTES, size)
            if start + first in self._known or self._read(file, start, first, stop):
                self._start, self._end = start + first, start + stop
            else:
                self._ensure_part(file, start, max(at, first), min(end, stop))

    def _read(self, file: File, start: int, first: int, stop: int) -> bool:
        """Read a piece; False if a part of it is lost."""
        if self._lost and any(start + block in self._lost for block in range(first, stop, _BLOCK_BYTES)):
            return False
        if len(read_unless_lost(file, first, stop - first) or b"") < stop - first:
            with suppress(Unreadable):
                self._ask(file, start, first, stop)
            return False
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        self._known.add(start + first)
        return True

    def _ensure_part(self, file: File, start: int, at: int, end: int) -> None:
        """The same of a part of a piece."""
        for block in range(at - at % _BLOCK_BYTES, end, _BLOCK_BYTES):
            if start + block in self._lost:
                raise self._lost[start + block]
        self._ask(file, start, at, end)

    def _ask(self, file: File, start: int, at: int, end: int) -> None:
        try:
            Readable(file, end, _PIECE_BYTES).ensure(at, end)
        except Unreadable as error:
            if len(self._lost) >= _KNOWN_MAX:  # Then a disk is asked for some of it again.
                self._lost.clear()
            self._lost[start + error.at - error.at % _BLOCK_BYTES] = error
            raise


def ensure_readable(files: Files, path: str, size: int) -> None:
    """The first `size` bytes of the file may be touched in a mapping. Blocks. Raises: Unreadable, OSError."""
    file = files.open(path)
    try:
        Readable(file, size).ensure(0, size)
    finally:
        file.close()


def read_unless_lost(file: File, at: int, size: int) -> bytes | None:
    """None if the disk does not give it. Raises: OSError."""
    try:
        return file.read(at, size)
    except OSError as error:
        if not is_unreadable(error):
            raise
        return None


def read_or_empty(files: Files, path: str, bytes_max: int) -> bytes | None:
    """`read_file`, and nothing where the disk does not give it: damage, as an empty file is. Raises: OSError."""
    try:
        return read_file(files, path, bytes_max)
    except OSError as error:
        if not is_unreadable(error):
            raise
        return b""


def read_or_zeros(file: File, at: int, size: int) -> bytes:
    """`size` bytes, zeros for what the disk or the file lacks: what is kept of a damaged file. Raises: OSError."""
    data = read_unless_lost(file, at, size)
    if data is None:
        pieces = []
        while size:
            length = min(_BLOCK_BYTES - at % _BLOCK_BYTES, size)
            pieces.append((read_unless_lost(file, at, length) or b"").ljust(length, b"\0"))
            at, size = at + length, size - length
        data = b"".join(pieces)
    return data.ljust(size, b"\0")


def write_over(file: File, at: int, data: Buffer) -> None:
    """Write as `File.write`, also over what cannot be read: if a block at an end of it cannot, its other bytes, which
    are lost, become zeros. Raises: OSError."""
    try:
        file.write(at, (data,))
    except OSError as error:
        if not is_unreadable(error):
            raise
        block, end = max(file.block_bytes(), _BLOCK_BYTES), at + len(data)
        first, stop = at - at % block, min(-(-end // block) * block, max(file.size(), end))
        file.write(first, (read_or_zeros(file, first, at - first), data, read_or_zeros(file, end, stop - end)))
