"""A small file that is replaced whole: temporary name, flush, rename, directory."""

import errno
from collections.abc import Sequence

from logherd.store.errors import StoreFull
from logherd.store.files import Buffer, File, Files

__all__ = ["TEMPORARY", "read_file", "replace_file"]

TEMPORARY = ".new"


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
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
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
