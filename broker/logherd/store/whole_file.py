"""A small file that is replaced whole: temporary name, flush, rename, directory.

One that must be replaced also on a disk without a free block has a spare beside it, `NAME.spare`: a file of the same
blocks, which is written in place and changes names with it. No block is asked for, no name is made.
"""

import errno
from collections.abc import Sequence
from contextlib import closing

from logherd.store.errors import StoreFull
from logherd.store.files import NO_SPACE, Buffer, File, Files

__all__ = ["SPARE", "TEMPORARY", "read_file", "replace_file", "replace_in_spare", "reserve_spare"]

TEMPORARY = ".new"
SPARE = ".spare"
_CANNOT_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)
_ROOM_BYTES = 4096


def read_file(files: Files, path: str, bytes_max: int) -> bytes | None:
    """What a file begins with, at most so many bytes; None if there is none. Raises: OSError."""
    if files.size(path) is None:
        return None
    file = files.open(path)
    try:
        return file.read(0, bytes_max)
    finally:
        file.close()


def replace_file(files: Files, directory: str, name: str, parts: Sequence[Buffer]) -> None:
    """Make `directory/name` hold `parts`, durably; whenever the power goes, the old file or the new one is there.

    Raises: StoreFull if there is no room for it, and the old one is untouched; OSError, which is final.
    """
    path = f"{directory}/{name}"
    files.unlink(path + TEMPORARY)
    file: File | None = None
    try:
        file = files.open(path + TEMPORARY, create=True)
        file.allocate(sum(map(len, parts)))
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        files.unlink(path + TEMPORARY)
        raise StoreFull(f"no space for {path}: {error.strerror}") from error
    else:
        file.write(0, parts)
        file.flush()
    finally:
        if file is not None:
            file.close()
    files.sync_dir(directory)  # else the old file of this name could be renamed, and this one be lost
    files.rename(path + TEMPORARY, path)
    files.sync_dir(directory)


def reserve_spare(files: Files, directory: str, name: str) -> None:
    """Have a spare for `directory/name`, unless there is no room for one now. Raises: OSError."""
    path = f"{directory}/{name}"
    try:
        with closing(files.open(path + SPARE, create=True)) as file:
            if file.size() < _room_of(files.size(path) or 0):
                file.allocate(_room_of(files.size(path) or 0))
                file.flush()
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        return
    files.sync_dir(directory)


def replace_in_spare(files: Files, directory: str, name: str, data: bytes) -> None:
    """Like `replace_file`, but of a spare that is there no block is asked. Of a text: spaces fill its blocks.

    Raises: StoreFull if there is no spare and no room for it, and the old one is untouched; OSError, which is final.
    """
    path = f"{directory}/{name}"
    files.sync_dir(directory)  # else what is the spare here may be what bears the name on the disk, and be torn there
    made = files.size(path + SPARE) is None
    try:
        file = files.open(path + SPARE, create=True)
    except OSError as error:
        raise _of_room(error, path) from error
    with closing(file):
        room = max(_room_of(len(data)), file.size())
        try:
            file.allocate(room)
        except OSError as error:
            raise _of_room(error, path) from error
        file.write(0, (data.ljust(room),))
        file.flush()
    if made:
        files.sync_dir(directory)  # as above: the old file of this name could be renamed, and this one be lost
    if files.size(path) is None or not _exchanged(files, path + SPARE, path):
        files.rename(path + SPARE, path)
    files.sync_dir(directory)
    reserve_spare(files, directory, name)


def _exchanged(files: Files, one: str, other: str) -> bool:
    try:
        files.exchange(one, other)
    except OSError as error:
        if error.errno not in _CANNOT_EXCHANGE:
            raise
        return False
    return True


def _room_of(size: int) -> int:
    return max(-(-size // _ROOM_BYTES), 1) * _ROOM_BYTES


def _of_room(error: OSError, path: str) -> Exception:
    return StoreFull(f"no space for {path}: {error.strerror}") if error.errno in NO_SPACE else error
