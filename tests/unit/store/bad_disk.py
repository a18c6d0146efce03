"""Real files on a disk that has lost some of its blocks, as the system shows them: a read of one is an error, and so is
a write of a part of one, for which the rest is read; a write of all of it makes it good again. Whoever touches it in a
mapping ends the process: by SIGSEGV here (the page may not be accessed), by SIGBUS on a disk."""

import ctypes
import errno
import mmap
import os
import traceback
from collections.abc import Callable, Sequence

from logherd.store.files import Buffer, File
from logherd.store.files_os import OsFiles

BLOCK = 4096
_libc = ctypes.CDLL(None, use_errno=True)


class BadFiles(OsFiles):
    """`lost`: (path, number of the block). `reads`: (path, at, size) of all that were refused, with this error.
    Without `mends` a write of a whole lost block is taken, and is there until the system gives up its memory for it."""

    def __init__(self, error: int = errno.EIO, *, mends: bool = True) -> None:
        self.error = error
        self.mends = mends
        self.cached = set[tuple[str, int]]()
        self.lost = set[tuple[str, int]]()
        self.reads = list[tuple[str, int, int]]()

    def lose(self, path: str, at: int) -> None:
        """Lose the block with this byte."""
        self.lost.add((path, at // BLOCK))

    def open(self, path: str, *, create: bool = False) -> File:
        return _BadFile(self, path, create=create)

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self.lost = {(new if path == old else path, block) for path, block in self.lost if path != new}

    def unlink(self, path: str) -> None:
        super().unlink(path)
        self.lost = {(each, block) for each, block in self.lost if each != path}

    def remove_directory(self, path: str) -> None:
        super().remove_directory(path)
        self.lost = {(each, block) for each, block in self.lost if not each.startswith(f"{path}/")}


class _BadFile:
    def __init__(self, files: BadFiles, path: str, *, create: bool) -> None:
        self._files = files
        self._path = path
        self._file = OsFiles().open(path, create=create)

    def __getattr__(self, name: str):
        return getattr(self._file, name)

    def read(self, at: int, size: int) -> bytes:
        size = min(size, max(self._file.size() - at, 0))
        if self._lost(at, at + size):
            self._files.reads.append((self._path, at, size))
            raise OSError(self._files.error, os.strerror(self._files.error))
        return self._file.read(at, size)

    def write(self, at: int, parts: Sequence[Buffer]) -> None:
        end = at + sum(map(len, parts))
        for block in self._lost(at, end):
            if block * BLOCK < at or min(block * BLOCK + BLOCK, self._file.size()) > end:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        written = {(self._path, block) for block in self._lost(at, end)}
        if self._files.mends:
            self._files.lost -= written
        else:
            self._files.cached |= written
        self._file.write(at, parts)

    def uncache(self, at: int, size: int) -> None:
        blocks = range(-(-at // BLOCK), (at + size) // BLOCK)
        self._files.cached -= {(self._path, block) for block in blocks}

    def map(self, size: int) -> memoryview:
        return self.map_writable(size).toreadonly()

    def map_writable(self, size: int) -> memoryview:
        mapping = mmap.mmap(self._file._descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
        for block in self._lost(0, size):
            assert _libc.mprotect(ctypes.c_void_p(address + block * BLOCK), BLOCK, 0) == 0
        return memoryview(mapping)

    def _lost(self, at: int, end: int) -> list[int]:
        lost = [block for path, block in self._files.lost - self._files.cached if path == self._path]
        return [block for block in lost if block * BLOCK < end and at < (block + 1) * BLOCK]


def survives(what: Callable[[], None]) -> None:
    """Do it in a process of its own, which it may end; pass on that it failed."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            what()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == 0, f"the process ended with {status}"
