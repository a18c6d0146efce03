"""Static mode's table of roles as one replica knows it, and whether this store has what its group has acknowledged.

    roles.json {"format":1,"roles":{"table":{...},"eligible":[1,2]},"complete":"9f0c..."}

`complete` is the store that once had, durably, everything that was committed: from then on nothing counts without it as
long as its table waits for it. A store that was lost comes back without that, whatever its table says of the broker,
and so does one whose machine went down before it had flushed what it acknowledged.
"""

import msgspec

from logherd.app.group.about import RolesShape, recorded_of, shape_of
from logherd.app.group.replica_file import ReplicaFileError
from logherd.group.table import Recorded
from logherd.store.files import Files
from logherd.store.state_file import StateFileError, read_state
from logherd.store.whole_file import replace_in_spare, reserve_spare

__all__ = ["RolesFile"]

_FORMAT = 1
_NAME = "roles.json"


class _Content(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int
    roles: RolesShape
    complete: str | None


class RolesFile:
    """The loop thread reads and writes it; a write blocks for a flush, and is rare."""

    def __init__(self, files: Files, directory: str, store_id: str, recorded: Recorded, complete: str | None) -> None:
        self._files = files
        self._directory = directory
        self._store_id = store_id
        self._complete = complete
        self.recorded = recorded

    @staticmethod
    def open(files: Files, directory: str, store_id: str, first: Recorded, *, log_empty: bool) -> "RolesFile":
        """Read the file; without one `first` is what is known, durably and for good: the settings may say something
        else at the next start, and count only while nothing is in the log.

        Blocks. Raises: ReplicaFileError, StoreFull, OSError.
        """
        path = f"{directory}/{_NAME}"
        try:
            content = read_state(files, path, _Content, known=_FORMAT)
        except StateFileError as error:
            raise ReplicaFileError(str(error)) from error
        if content is None:
            made = RolesFile(files, directory, store_id, first, None)
            made.record(first)
            return made
        files.sync_dir(directory)
        reserve_spare(files, directory, _NAME)
        try:
            recorded = recorded_of(content.roles)
        except ValueError as error:
            raise ReplicaFileError(f"{path} is damaged: {error}") from error
        opened = RolesFile(files, directory, store_id, recorded, content.complete)
        if log_empty and recorded.table.number == first.table.number and recorded.table != first.table:
            opened.record(first)
        return opened

    @property
    def complete(self) -> bool:
        """Whether this store has had everything that was committed."""
        return self._complete == self._store_id

    def record(self, recorded: Recorded) -> None:
        """Know this table from now on, durably. Blocks. Raises: StoreFull, OSError."""
        self.recorded = recorded
        self._write()

    def be_complete(self) -> None:
        """This store has everything, durably. Blocks. Raises: StoreFull, OSError."""
        self._complete = self._store_id
        self._write()

    def doubt(self) -> None:
        """This store may lack the end of what it had, durably. Blocks. Raises: StoreFull, OSError."""
        if self.complete:
            self._complete = None
            self._write()

    def _write(self) -> None:
        content = _Content(format=_FORMAT, roles=shape_of(self.recorded), complete=self._complete)
        replace_in_spare(self._files, self._directory, _NAME, msgspec.json.encode(content))
