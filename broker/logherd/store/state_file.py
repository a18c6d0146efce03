"""Reading the JSON files in which a process keeps what it is: strictly, so that nothing of a later release is lost.

Such a file is written whole, from what its reader knows. A reader that passed over a field of a later release would
drop it with the next write, and with it what that release had promised there.
"""

from typing import TypeVar

import msgspec

from logherd.kit.errors import LogHerdError
from logherd.store.files import Files
from logherd.store.readable import is_unreadable
from logherd.store.whole_file import read_file

__all__ = ["StateFileError", "read_state"]

_BYTES_MAX = 1 << 26
_ContentT = TypeVar("_ContentT", bound=msgspec.Struct)


class StateFileError(LogHerdError):
    """The file cannot be believed: it names the file, and what is missing, wrong, unknown or of a later format."""


def read_state(files: Files, path: str, kind: type[_ContentT], *, known: int) -> _ContentT | None:
    """The content of a file whose field `format` is `known`; None if there is none. Blocks.

    `kind` forbids unknown fields. At most 64 MiB are read. Raises: StateFileError, OSError.
    """
    try:
        data = read_file(files, path, _BYTES_MAX)
    except OSError as error:
        if not is_unreadable(error):
            raise
        raise StateFileError(f"{path} cannot be read: {error.strerror}") from error
    if data is None:
        return None
    try:
        head = msgspec.json.decode(data)
        found = head.get("format") if isinstance(head, dict) else None
        if isinstance(found, int) and found != known:
            raise StateFileError(f"{path} is of format {found}; this release knows {known}")
        return msgspec.convert(head, kind)
    except msgspec.ValidationError as error:
        raise StateFileError(f"{path} is damaged, or of a later release: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StateFileError(f"{path} is damaged: {error}") from error
