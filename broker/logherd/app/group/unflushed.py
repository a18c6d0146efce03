"""Whether a store that answers before it flushes still holds all that it has acknowledged.

    unflushed.json {"format":1,"cache":"5d0c... 27"}

is there while records may be in the machine's cache alone: from before the first acknowledgement with `flush: async`
until an orderly stop has flushed everything. `cache` names that cache: this start of the machine, and this mount of the
directory. A process that finds the same cache has lost nothing, however the one before ended; any other may have, and
must not count for what it acknowledged earlier (R11) until the controllers have let it in anew. Once they know of that,
what it acknowledges from then on counts, so `cache` becomes the present one: else a process that crashed later, while
the machine goes on, would pass for one that had lost its end.

While it is not there unflushed.json.spare is its room: a broker that was stopped in order starts on a full disk, too.
"""

import ctypes
import os
import sys
import threading
from dataclasses import dataclass, field

import msgspec

from logherd.app.clock import boot_id
from logherd.app.group.replica_file import ReplicaFileError
from logherd.store.files import Files
from logherd.store.state_file import StateFileError, read_state
from logherd.store.whole_file import SPARE, replace_in_spare

__all__ = ["Unflushed"]

_FORMAT = 1
_NAME = "unflushed.json"
_STATX_BYTES, _MOUNT_AT = 256, 144
_EMPTY_PATH, _UNIQUE_MOUNT = 0x1000, 0x4000


class _Content(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int
    cache: str


@dataclass(slots=True)
class Unflushed:
    """What was found when the store was opened. `trusted`: nothing that was acknowledged is missing."""

    files: Files
    directory: str
    trusted: bool
    flush: str
    cache: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    ended: bool = False

    @staticmethod
    def open(files: Files, directory: str, *, flush: str, cache: str | None = None) -> "Unflushed":
        """Judge an opened store and, with `flush: async`, note that from now on it is ahead of its disk. Blocks.

        `cache`: as the file names it; None: look. What an earlier process left of the log is flushed here, so that it
        is not forgotten. Durable when this returns.
        Raises: ReplicaFileError, StoreFull, OSError.
        """
        here = _cache_of(directory) if cache is None else cache
        found = _read(files, f"{directory}/{_NAME}")
        trusted = found is None or (found == here and here != "")
        if found is not None:
            _flush_log(files, f"{directory}/commitlog")
        if trusted:
            if flush == "async" and found == here:
                files.sync_dir(directory)  # written once, for a later process may find a disk without a free block
            elif flush == "async":
                _note(files, directory, here)
            elif found is not None:
                _forget(files, directory)
        return Unflushed(files, directory, trusted, flush, here)

    def account(self) -> None:
        """Note that it is known by now what this store was worth when it was opened (see `Mode.accounted`), if it may
        have lost something: what is acknowledged later is in the present cache, or flushed. Blocks; durable when this
        returns. Raises: StoreFull, OSError; a later process is not trusted then, unless all has been done.
        """
        with self.lock:
            if self.trusted or self.ended:
                return
            if self.flush == "async":
                _note(self.files, self.directory, self.cache)
            else:
                _forget(self.files, self.directory)

    def end(self, *, accounted: bool) -> None:
        """After an orderly stop with everything flushed; `accounted`: see Mode. Blocks. Raises: OSError."""
        with self.lock:  # a thread may be about to write the mark anew
            self.ended = True
            if self.trusted or accounted:
                _forget(self.files, self.directory)


def _note(files: Files, directory: str, cache: str) -> None:
    replace_in_spare(files, directory, _NAME, msgspec.json.encode(_Content(format=_FORMAT, cache=cache)))


def _forget(files: Files, directory: str) -> None:
    path = f"{directory}/{_NAME}"
    if files.size(path) is not None:
        files.rename(path, path + SPARE)
        files.sync_dir(directory)


def _read(files: Files, path: str) -> str | None:
    try:
        content = read_state(files, path, _Content, known=_FORMAT)
    except StateFileError as error:
        raise ReplicaFileError(str(error)) from error
    return content.cache if content is not None else None


def _flush_log(files: Files, directory: str) -> None:
    for name in filter(str.isdecimal, files.list(directory)):
        file = files.open(f"{directory}/{name}")
        try:
            file.flush()
        finally:
            file.close()


def _cache_of(directory: str) -> str:
    """Empty where the system does not tell: then nothing outlives a process for sure."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        mount = _mount_of(descriptor)
        return f"{boot_id()} {mount}" if mount else ""
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def _mount_of(descriptor: int) -> int:
    """A number that no other mount since this start of the machine has had: statx, of Linux 6.8 and newer. Before that
    numbers are given again, so it is 0 there: not known."""
    statx = getattr(ctypes.CDLL(None), "statx", None)
    found = ctypes.create_string_buffer(_STATX_BYTES)
    if statx is None or statx(descriptor, b"", _EMPTY_PATH, _UNIQUE_MOUNT, found) != 0:
        return 0
    unique = int.from_bytes(found.raw[:4], sys.byteorder) & _UNIQUE_MOUNT
    return int.from_bytes(found.raw[_MOUNT_AT : _MOUNT_AT + 8], sys.byteorder) if unique else 0
