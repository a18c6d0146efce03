"""The BrokerGroup's file while the group runs: read again when it was saved, taken over only whole and only if this
machine can do what it says.
"""

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

from logherd_operator.local.checking import complaint
from logherd_operator.local.errors import LocalError
from logherd_operator.local.files import Files
from logherd_operator.local.folder import Folder
from logherd_operator.local.given import read_given
from logherd_operator.local.state import PlaceState
from logherd_operator.local.support import refusals
from logherd_operator.spec.document import parse_group
from logherd_operator.spec.errors import SpecError
from logherd_operator.spec.group import BrokerGroup, BrokerGroupSpec

__all__ = ["GroupFile", "check_change", "check_settings", "read_group"]

_CHECK_SECONDS = 30


def read_group(file: Path) -> BrokerGroup:
    """The group in `file`, if this version can run it.

    Raises: SpecError if it cannot be read, is wrong or asks for more.
    """
    group = parse_group(read_given(file), source=str(file))
    refused = refusals(group)
    if refused:
        raise SpecError("\n".join([f"{file}: this version cannot run it", *refused]))
    return group


class GroupFile:
    """Notices when the file was saved."""

    def __init__(self, path: Path, *, seen: bool = True) -> None:
        """`seen`: what stands in it now is known."""
        self.path = path
        self._seen = self._mark() if seen else None

    def read_again(self) -> None:
        """What stands in it could not be taken over now."""
        self._seen = None

    def overtaken(self) -> bool:
        """Was it saved once more while it was read? That may have been half of it, so it is read again."""
        mark = self._mark()
        if mark is None or mark == self._seen:
            return False
        self._seen = None
        return True

    def _mark(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        if not stat.S_ISREG(
            found.st_mode
        ):  # what a pipe or a terminal said is gone, and who reads again may wait for ever
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def saved(self) -> bool:
        """Was it saved since the last question? A file that is away was not: editors write a new one."""
        mark = self._mark()
        if mark is None or mark == self._seen:
            return False
        self._seen = mark
        return True


_KEPT_KEYS = ("mappedFileSizeCommitLog",)


def check_change(before: BrokerGroup, after: BrokerGroup, *, source: str) -> None:
    """What may never change, because data or other processes depend on it.

    Raises: SpecError that names each field, what it is and what it should be again.
    """
    old, new = before.spec, after.spec
    owners = (old.controllers.embedded, new.controllers.embedded)
    counts = tuple(each.replicas if each is not None else None for each in owners)
    pairs = (
        ("metadata.name", before.metadata.name, after.metadata.name),
        ("spec.clusterName", old.cluster_name, new.cluster_name),
        ("spec.replication.mode", old.replication.mode, new.replication.mode),
        ("spec.replication.static", _roles(old), _roles(new)),
        ("spec.controllers.embedded.replicas", *counts),
        # Replicas with segments of different lengths cannot copy from each other.
        *((f"spec.config.{key}", old.config.get(key), new.config.get(key)) for key in _KEPT_KEYS),
    )
    faults = [f"{path}: {now} cannot stand here; it was {was}, and it stays" for path, was, now in pairs if was != now]
    if faults:
        raise SpecError("\n".join([f"{source}: this cannot be changed", *faults]))


def _roles(spec: BrokerGroupSpec) -> object:
    """As they were written: what is in force by now was told by promotion."""
    roles = spec.replication.static
    return None if roles is None else roles.model_dump(by_alias=True, exclude_unset=True)


def check_settings(files: Files, folder: Folder, *, source: str) -> None:
    """Would a broker start with these settings? Asked of the program itself, before anything running is touched.

    Raises: SpecError with what it says; LocalError if it could not be asked now.
    """
    document: dict[str, Any] = files.render(PlaceState(component="broker", ordinal=0, revision=""))
    path = folder.path / "wanted.json"
    folder.write_text(path, json.dumps(document))
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "logherd.settings", "broker", str(path)], capture_output=True,
            text=True, check=False, timeout=_CHECK_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise SpecError(f"{source}: the settings could not be checked in {_CHECK_SECONDS} s") from error
    except OSError as error:  # as without room for another process, or a descriptor for its pipes
        raise LocalError(f"{source}: no process to check it in: {error.strerror}") from error
    if done.returncode != 0:
        raise SpecError(f"{source}: a broker would not start with this\n{complaint(done.stderr, [path])}")
