"""What one machine remembers of a group: the folder's layout, and which processes were started when.

DIR/group.json        this file's content; it stays after `down`, so that the folder keeps its owner
DIR/group.lock        held while processes are started or stopped
DIR/broker-N/         the store of broker N
DIR/broker-N.json     its rendered configuration
DIR/broker-N.ready    written by broker N when it serves: its real ports
DIR/broker-N.log      its output, when it was started with --detach
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from logherd_operator.local.errors import LocalError, NotRunning

__all__ = ["Folder", "GroupState", "ProcessState", "find_folder"]

FORMAT = 1
DEFAULT_PARENT = Path(".logherd")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """One started broker. `started_ticks` is the kernel's start time: with the pid it names one process for good."""

    broker_id: int
    pid: int
    started_ticks: int
    address: str
    admin_address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """The group that owns a folder, and its processes; none after `down`."""

    group: str
    name_server: str = ""
    processes: tuple[ProcessState, ...] = ()


class Folder:
    """One group's folder on this machine. Reads and writes block; writes are atomic."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def store(self, broker_id: int) -> Path:
        """The data folder of one broker."""
        return self.path / f"broker-{broker_id}"

    def config(self, broker_id: int) -> Path:
        """The rendered configuration of one broker."""
        return self.path / f"broker-{broker_id}.json"

    def ready_file(self, broker_id: int) -> Path:
        """What one broker writes when it serves."""
        return self.path / f"broker-{broker_id}.ready"

    def log(self, broker_id: int) -> Path:
        """The output of one detached broker."""
        return self.path / f"broker-{broker_id}.log"

    @property
    def _state(self) -> Path:
        return self.path / "group.json"

    def prepare(self) -> None:
        """Make the folder. Raises LocalError if that is not possible."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LocalError(f"{self.path}: cannot be made: {error.strerror}; choose another with --data") from error
        if not os.access(self.path, os.R_OK | os.W_OK | os.X_OK):
            raise LocalError(f"{self.path}: you may not write here; choose another folder with --data")

    def read(self) -> GroupState | None:
        """What is remembered; None for a folder without a group.

        Raises: LocalError if the file is there and cannot be understood.
        """
        try:
            document = json.loads(self._state.read_bytes())
            format_number = document.pop("format")
            processes = tuple(ProcessState(**each) for each in document.pop("processes"))
            state = GroupState(**document, processes=processes)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LocalError(f"{self._state}: cannot be read: {error.strerror}") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise LocalError(f"{self._state}: is not a group's state ({error}); move it away to start anew") from error
        if format_number != FORMAT:
            raise LocalError(f"{self._state}: has format {format_number}; this version knows {FORMAT}")
        return state

    def write(self, state: GroupState) -> None:
        """Remember `state` in place of what was there. Raises LocalError if that is not possible."""
        text = json.dumps({"format": FORMAT, **asdict(state)}, indent=2)
        self.write_text(self._state, text)

    def write_text(self, path: Path, text: str) -> None:
        """Replace a file of this folder at once. Raises LocalError if that is not possible."""
        fresh = path.with_suffix(".new")
        try:
            fresh.write_text(text + "\n")
            fresh.replace(path)
        except OSError as error:
            raise LocalError(f"{path}: cannot be written: {error.strerror}") from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other `up` and `down` of this folder away. Raises LocalError if one is at work."""
        try:
            file = (self.path / "group.lock").open("w")
        except OSError as error:
            raise LocalError(f"{self.path}: cannot be locked: {error.strerror}") from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LocalError(f"{self.path}: another logherd up or down is at work here; try again") from None
            yield


def find_folder(data: Path | None) -> tuple[Folder, GroupState]:
    """The folder that `down` and `status` mean: the given one, or the only one under `.logherd`.

    Raises: NotRunning if there is none; LocalError if there are several.
    """
    if data is None:
        known = sorted(path.parent for path in DEFAULT_PARENT.glob("*/group.json"))
        if not known:
            raise NotRunning("no group was started from this folder; say where with --data DIR")
        if len(known) > 1:
            raise LocalError(f"several groups are here ({', '.join(map(str, known))}); choose one with --data DIR")
        data = known[0]
    folder = Folder(data)
    state = folder.read()
    if state is None:
        raise NotRunning(f"{data}: no group was started in this folder")
    return folder, state
