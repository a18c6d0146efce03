"""The file that keeps the name service's configuration values over restarts: one JSON object, replaced as a whole."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from logherd.kit.errors import LogHerdError

__all__ = ["KeyValueFile", "KeyValuesDamaged"]

Table = Mapping[str, Mapping[str, str]]


class KeyValuesDamaged(LogHerdError):
    """The file holds something else. A person decides: nothing else knows what was in it."""


class KeyValueFile:
    """Reads and writes block for as long as the disk takes; values change when a person changes them."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> Table:
        """What was saved last; nothing if there is no file. Raises KeyValuesDamaged, OSError."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, dict[str, str]])
        except FileNotFoundError:
            return {}
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise KeyValuesDamaged(
                f"{self._path}: holds no configuration values of the name service ({error}); move it away to start "
                "without them"
            ) from error

    def save(self, table: Table) -> None:
        """Replace the file; durable when this returns. Raises OSError, and then the old content stays."""
        part = self._path.with_name(self._path.name + ".part")
        with part.open("wb") as file:
            file.write(msgspec.json.encode(table))
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._path)
        descriptor = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
