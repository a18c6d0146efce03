"""The text of a file that somebody named on a command line."""

from pathlib import Path

from logherd_operator.spec.errors import SpecError

__all__ = ["read_given"]

_BYTES_MAX = 4 << 20
"""Of a BrokerGroup's million characters, whatever they are."""


def read_given(file: Path) -> str:
    """All of it. Blocks. Raises: SpecError, which names the file, if it cannot be read, is no text, or has no end."""
    try:
        with file.open("rb") as source:
            data = source.read(_BYTES_MAX + 1)
    except OSError as error:
        raise SpecError(f"{file}: cannot be read: {error.strerror}") from error
    if len(data) > _BYTES_MAX:
        raise SpecError(f"{file}: has more than {_BYTES_MAX} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SpecError(f"{file}: is not UTF-8 text: {error.reason} at byte {error.start}") from error
