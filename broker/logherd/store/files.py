"""How the store reaches a disk: two protocols, so that a simulation can lose power at any call.

Durability is the protocol's whole point. What `File.write` wrote, or a writable mapping took, survives the process but
not the machine until `File.flush` returned (`File.write_through` is both); a name that was created, renamed or unlinked
survives the machine only after `Files.sync_dir` of its directory. Every call raises OSError as the system does. A
failed flush must not be repeated: the system may have dropped the pages and would answer the second one with success.
"""

import errno
from collections.abc import Iterator, Sequence
from typing import Protocol

__all__ = ["NO_SPACE", "Buffer", "Directory", "File", "Files", "Lock"]

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a file system that is full, for all or for this user."""

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """One open file. Used by one thread at a time, except for `read` and the views of `map`: those by any."""

    def size(self) -> int: ...

    def block_bytes(self) -> int:
        """Of a part of such a block the system writes the rest, too, for which it reads that first."""

    def read(self, at: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file. Bytes that the disk has lost are an OSError here, and
        SIGBUS in the views of a mapping: see store.readable."""

    def write(self, at: int, parts: Sequence[Buffer]) -> None:
        """Write all parts one after the other from byte `at`, whole, or raise. Not durable before `flush`."""

    def write_through(self, at: int, parts: Sequence[Buffer]) -> None:
        """`write`, and make these bytes durable; of whatever else was written nothing is promised. After an error it is
        not known what of them is durable, as after that of a flush."""

    def allocate(self, size: int) -> None:
        """Make the file at least `size` bytes long with all its blocks reserved; new bytes read as zero."""

    def truncate(self, size: int) -> None: ...

    def flush(self, at: int = 0, size: int | None = None) -> None:
        """Make the bytes and the size durable; with a range at least that part of a writable mapping."""

    def map(self, size: int) -> memoryview:
        """A read-only view of the first bytes that follows later writes. Valid until the last reference to it goes,
        also after `close` and `unlink`."""

    def map_writable(self, size: int) -> memoryview:
        """The same, for writing; only over allocated blocks, since a hole on a full disk kills the process."""

    def uncache(self, at: int, size: int) -> None:
        """Wish that no memory be spent on these bytes, which are flushed. Any thread; changes nothing that is read."""

    def written_ranges(self, at: int) -> Iterator[tuple[int, int]]:
        """(start, end) of parts from `at` on that may hold something other than zeros, in order."""

    def close(self) -> None: ...


class Directory(Protocol):
    """An open directory: `sync` is `Files.sync_dir` of it, for which the process needs no descriptor then."""

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Lock(Protocol):
    """A held lock; a second `release` does nothing."""

    def release(self) -> None: ...


class Files(Protocol):
    """A tree of directories. Paths are absolute text with `/`."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. Raises FileNotFoundError unless `create`."""

    def size(self, path: str) -> int | None:
        """Length of a file, None if there is none."""

    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted; empty if it does not exist."""

    def make_directory(self, path: str) -> None:
        """Create it and its parents; nothing if it exists."""

    def rename(self, old: str, new: str) -> None: ...

    def exchange(self, one: str, other: str) -> None:
        """Let two files of one directory change names, both at once. Raises OSError (EINVAL, ENOSYS) where the file
        system or the system cannot."""

    def unlink(self, path: str) -> None:
        """Remove a file; nothing if it is gone already."""

    def remove_directory(self, path: str) -> None:
        """Remove a directory with all files in it; nothing if it is gone already."""

    def sync_dir(self, path: str) -> None: ...

    def open_directory(self, path: str) -> Directory: ...

    def free_bytes(self, path: str) -> int:
        """Space that this process may still use on the file system of `path`."""

    def lock(self, path: str) -> Lock | None:
        """Take the lock file for this process; None if another process holds it."""
