"""The folder of one group on this machine.

DIR/group.json           what is remembered (`state.py`); it stays after `down`, so that the folder keeps its owner
DIR/group.boot           since which start of the machine the processes in it are what they are called
DIR/group.lock           held by the `logherd up` that keeps the group, and while `down` works
DIR/spec.json            the BrokerGroup that is in force
DIR/now.json             what the keeper saw and is doing, for `logherd status`
DIR/admin-token          the secret of the controllers' admin port
DIR/up.log               what a keeper says that nobody watches
DIR/broker-N/ ...        the store of broker N, from 1 on; controller-N/ the log of controller N, from 0 on
DIR/broker-N.json        its rendered configuration; .ready its real addresses and pid; .log its output
"""

import errno
import fcntl
import json
import os
import secrets
from pathlib import Path
from typing import IO, Any

from logherd_operator.local.errors import LocalError
from logherd_operator.local.processes import boot_id
from logherd_operator.local.state import FORMAT, GroupState, PlaceState, from_json, to_json

__all__ = ["DEFAULT_PARENT", "Folder"]

DEFAULT_PARENT = Path(".logherd")
_TOKEN_BYTES = 24


class Folder:
    """One group's folder on this machine. Reads and writes block; writes are atomic."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._boot_written = ""

    def of(self, place: PlaceState, suffix: str = "") -> Path:
        """A file of a place; without a suffix the folder of its data."""
        number = place.ordinal + 1 if place.component == "broker" else place.ordinal
        return self.path / f"{place.component}-{number}{suffix}"

    @property
    def token_file(self) -> Path:
        """The secret for changes at the controllers."""
        return self.path / "admin-token"

    @property
    def own_log(self) -> Path:
        """Of a keeper that nobody watches."""
        return self.path / "up.log"

    @property
    def _state(self) -> Path:
        return self.path / "group.json"

    @property
    def _boot(self) -> Path:
        return self.path / "group.boot"

    def prepare(self) -> None:
        """Make the folder. Raises LocalError if that is not possible."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LocalError(f"{self.path}: cannot be made: {error.strerror}; choose another with --data") from error
        if not os.access(self.path, os.R_OK | os.W_OK | os.X_OK):
            raise LocalError(f"{self.path}: you may not write here; choose another folder with --data")

    def make_token(self) -> None:
        """Make the secret, if there is none. For who has the lock. Raises LocalError if that is not possible."""
        if not self.token_file.exists() or not self.token():  # a loss of power leaves empty what was not flushed
            fresh = self.token_file.with_suffix(".new")
            self._guarded(fresh, lambda: fresh.unlink(missing_ok=True))
            self._guarded(fresh, lambda: fresh.touch(mode=0o600))
            self._guarded(fresh, lambda: fresh.write_text(secrets.token_urlsafe(_TOKEN_BYTES)))
            self._guarded(fresh, lambda: fresh.replace(self.token_file))

    @staticmethod
    def _guarded(path: Path, act: Any) -> None:
        try:
            act()
        except OSError as error:
            raise LocalError(f"{path}: cannot be written: {error.strerror}") from error

    def token(self) -> str:
        """The secret. Raises: LocalError."""
        try:
            return self.token_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise LocalError(f"{self.token_file}: the secret cannot be read: {error}") from error

    def read(self) -> GroupState | None:
        """What is remembered; None for a folder without a group. Of a former start of the machine no process is left.

        Raises: LocalError if the file is there and cannot be understood.
        """
        outdated = self._is_of_former_boot()  # looked at first: who writes meanwhile is read as nobody
        try:
            document = json.loads(self._state.read_bytes())
            format_number = document.pop("format")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LocalError(f"{self._state}: cannot be read: {error.strerror}") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._unreadable(error) from error
        if format_number != FORMAT:
            raise LocalError(f"{self._state}: has format {format_number}; this version knows {FORMAT}")
        try:
            state = from_json(document)
            return state.with_nobody() if outdated else state
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> LocalError:
        return LocalError(f"{self._state}: is not a group's state ({error}); move it away to start anew")

    def write(self, state: GroupState) -> None:
        """Remember `state` in place of what was there, also over a loss of power. Raises LocalError if that is not
        possible."""
        now = boot_id()
        if self._boot_written != now:
            if self._written_boot() != now:
                # Until nobody stands there from before, no file may say that who stands there is of now.
                self.write_text(self._state, to_json(state.with_nobody()), flush=True)
                self.write_text(self._boot, now, flush=True)
            self._boot_written = now
        self.write_text(self._state, to_json(state), flush=True)

    def _is_of_former_boot(self) -> bool:
        """Where nothing is known of boots, everything is believed. Who keeps a group now with a former release, which
        writes none down, is not found after another boot; its guardians are, by their command lines."""
        written, now = self._written_boot(), boot_id()
        return bool(written and now) and written != now

    def _written_boot(self) -> str:
        try:
            return self._boot.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return ""

    def document(self, name: str) -> dict[str, Any] | None:
        """A JSON file of this folder; None if there is none that can be understood."""
        try:
            document = json.loads((self.path / name).read_bytes())
        except (OSError, ValueError):
            return None
        return document if isinstance(document, dict) else None

    def write_document(self, name: str, document: dict[str, Any]) -> None:
        """Replace a JSON file of this folder at once. Raises LocalError if that is not possible."""
        self.write_text(self.path / name, json.dumps(document, indent=2))

    def write_text(self, path: Path, text: str, *, flush: bool = False) -> None:
        """Replace a file of this folder at once; `flush`: durably. Raises LocalError if that is not possible."""
        fresh = path.with_name(path.name + ".new")
        try:
            fresh.write_text(text + "\n")
            if flush:
                _flush(fresh)
            fresh.replace(path)
            if flush:
                _flush(path.parent)
        except OSError as error:
            raise LocalError(f"{path}: cannot be written: {error.strerror}") from error

    def lock(self) -> IO[str] | None:
        """Keep others from keeping or stopping this group until the file is closed; None if somebody has it.

        Whoever inherits the descriptor holds the lock, too. Raises: LocalError.
        """
        try:
            file = self._lock_file()
        except OSError as error:
            raise LocalError(f"{self.path}: cannot be locked: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        return file

    def _lock_file(self) -> IO[str]:
        path = self.path / "group.lock"
        try:
            return path.open("w")
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            return path.open()  # what runs on a disk that the kernel made read-only is to be stopped all the same


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
