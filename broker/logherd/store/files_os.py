"""The Files protocol on a real disk. Linux; needs fallocate, SEEK_DATA, flock."""

import ctypes
import errno
import fcntl
import mmap
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from stat import S_ISREG

from logherd.kit.errors import ensure
from logherd.store.files import Buffer, Directory, File, Files, Lock

__all__ = ["OsFiles", "ReadOnlyFiles"]

_PARTS_MAX = 512  # well below IOV_MAX (1024)
_HERE, _RENAME_EXCHANGE = -100, 2  # AT_FDCWD, and the flag of renameat2


class _OsFile:
    """A descriptor, and the writable mapping if one was made."""

    __slots__ = ("_descriptor", "_mapping", "_path", "_writes_through")

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._mapping: mmap.mmap | None = None
        self._writes_through = True

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def block_bytes(self) -> int:
        return os.fstat(self._descriptor).st_blksize

    def read(self, at: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, at)
        while data and len(data) < size:
            more = os.pread(self._descriptor, size - len(data), at + len(data))
            if not more:
                break
            data += more
        return data

    def write(self, at: int, parts: Sequence[Buffer]) -> None:
        for first in range(0, len(parts), _PARTS_MAX):
            chunk = parts[first : first + _PARTS_MAX]
            total = sum(map(len, chunk))
            written = os.pwritev(self._descriptor, chunk, at)
            if written != total:
                self._write_rest(at + written, b"".join(chunk)[written:])
            at += total

    def write_through(self, at: int, parts: Sequence[Buffer]) -> None:
        written = 0
        if self._writes_through and len(parts) <= _PARTS_MAX:
            try:
                written = os.pwritev(self._descriptor, parts, at, os.RWF_DSYNC)
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP:
                    raise
                self._writes_through = False  # this file system has two calls for it only
        rest = sum(map(len, parts)) - written
        if rest:
            self.write(at + written, (b"".join(parts)[written:],) if written else parts)
            os.fdatasync(self._descriptor)

    def _write_rest(self, at: int, rest: bytes) -> None:
        while rest:
            written = os.pwrite(self._descriptor, rest, at)
            if written == 0:
                raise OSError(errno.EIO, "the system wrote no byte", self._path)
            at += written
            rest = rest[written:]

    def allocate(self, size: int) -> None:
        os.posix_fallocate(self._descriptor, 0, size)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def flush(self, at: int = 0, size: int | None = None) -> None:
        if size is None or self._mapping is None:
            os.fdatasync(self._descriptor)
            return
        start = at - at % mmap.ALLOCATIONGRANULARITY
        self._mapping.flush(start, min(at + size, len(self._mapping)) - start)

    def map(self, size: int) -> memoryview:
        return memoryview(mmap.mmap(self._descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ))

    def map_writable(self, size: int) -> memoryview:
        self._mapping = mmap.mmap(self._descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        return memoryview(self._mapping)

    def uncache(self, at: int, size: int) -> None:
        os.posix_fadvise(self._descriptor, at, size, os.POSIX_FADV_DONTNEED)

    def written_ranges(self, at: int) -> Iterator[tuple[int, int]]:
        end = self.size()
        while at < end:
            try:
                start = os.lseek(self._descriptor, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nothing but a hole follows
                    return
                raise
            at = os.lseek(self._descriptor, start, os.SEEK_HOLE)
            yield start, at

    def close(self) -> None:
        self._mapping = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class _OsDirectory:
    __slots__ = ("_descriptor",)

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class _OsLock:
    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class OsFiles:
    """Stateless; one instance serves a process."""

    def open(self, path: str, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return _OsFile(path, os.open(path, flags, 0o644))

    def size(self, path: str) -> int | None:
        try:
            found = os.stat(path)  # noqa: PTH116 - asked once per queue at start; Path costs twice as much
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_size if S_ISREG(found.st_mode) else None

    def list(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(directory))  # noqa: PTH208 - as above
        except (FileNotFoundError, NotADirectoryError):
            return []

    def make_directory(self, path: str) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        Path(old).replace(new)

    def exchange(self, one: str, other: str) -> None:
        renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
        if renameat2 is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), one, None, other)
        if renameat2(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _RENAME_EXCHANGE) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), one, None, other)

    def unlink(self, path: str) -> None:
        Path(path).unlink(missing_ok=True)

    def remove_directory(self, path: str) -> None:
        if Path(path).is_dir():
            shutil.rmtree(path)

    def sync_dir(self, path: str) -> None:
        directory = _OsDirectory(path)
        try:
            directory.sync()
        finally:
            directory.close()

    def open_directory(self, path: str) -> Directory:
        return _OsDirectory(path)

    def free_bytes(self, path: str) -> int:
        usage = os.statvfs(path)
        return usage.f_bavail * usage.f_frsize

    def lock(self, path: str) -> Lock | None:
        return _lock(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), fcntl.LOCK_EX)


class ReadOnlyFiles(OsFiles):
    """The same for who changes nothing, be it because the disk or its rights do not let him."""

    def open(self, path: str, *, create: bool = False) -> File:
        ensure(not create, "who only reads creates nothing", path)
        return _OsFile(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def lock(self, path: str) -> Lock | None:
        """The lock as the others take it, unless there is no file: then nobody has ever taken it."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return _OsLock(-1)
        return _lock(descriptor, fcntl.LOCK_SH)


def _lock(descriptor: int, kind: int) -> Lock | None:
    """`kind` of the POSIX lock: an exclusive one needs a descriptor for writing, and sees those of either kind."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # RocketMQ takes a POSIX lock on the first byte, which does not see flock; so hold both.
        fcntl.lockf(descriptor, kind | fcntl.LOCK_NB, 1, 0)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return None
        raise
    return _OsLock(descriptor)


def _fits(files: OsFiles) -> Files:
    """Fails type checking when the shape differs."""
    return files
