"""Which brokers of its group a replica knows of, kept beside its log for the time when it heals.

    roster.json {"format":1,"brokers":[1,2,3]}

`replication.peers` may name places at which no broker has ever been. Whoever heals has no links, and must not wait for
those; `muster.py` says what the roster is good for, and what it is not. It may name brokers that were removed. It must
not lack one: where it cannot be written it is deleted, and tried again each minute; until then a process that begins
knows nothing.

In mode raft the configuration names them all, so that a list that is missing is made again. In mode controller nobody
could say whom it named, not even the controllers, whose record may have begun anew. So only a new replica begins one;
where it is missing later, as in a group of a release before this file, nothing is known from then on.
"""

import errno
from collections.abc import Iterable

import msgspec

from logherd.app.clock import boot_ms
from logherd.store import StoreFull
from logherd.store.files import NO_SPACE, Files
from logherd.store.state_file import StateFileError, read_state
from logherd.store.whole_file import replace_file
from logherd.store.writer import NO_DESCRIPTOR
from logherd.telemetry.log import Log

__all__ = ["Roster", "read_roster"]

_log = Log("logherd.group")

_AGAIN_MS = 60_000
_NOT_NOW = (*NO_DESCRIPTOR, *NO_SPACE, errno.ENOMEM)
"""No reason to end a broker for a file that only helps."""
_FORMAT = 1
_NAME = "roster.json"


class _Content(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int
    brokers: tuple[int, ...]


def read_roster(files: Files, directory: str) -> frozenset[int] | None:
    """What an earlier process knew; None if that is not known. Blocks. Raises: OSError."""
    try:
        content = read_state(files, f"{directory}/{_NAME}", _Content, known=_FORMAT)
    except StateFileError as error:
        _log.warning("it is not known which brokers belong to the group", reason=error)
        return None
    return frozenset(content.brokers) if content is not None else None


class Roster:
    """Belongs to the loop; a write blocks for some flushes, and is rare: when a broker is heard of for the first time,
    or members are changed."""

    def __init__(self, files: Files, directory: str) -> None:
        """Read what is kept. Blocks. Raises: OSError."""
        self._files = files
        self._directory = directory
        self._brokers = read_roster(files, directory)
        self._kept = self._brokers is not None
        self._again_at = 0
        """When what cannot be kept is tried again, in milliseconds of `boot_ms`: each time costs flushes."""

    @property
    def brokers(self) -> tuple[int, ...] | None:
        """As others are told; None while nothing is known."""
        return tuple(sorted(self._brokers)) if self._brokers is not None else None

    def begin(self, broker_id: int) -> None:
        """Know of this broker itself, which has heard of nobody else in all its life. Raises: OSError."""
        if self._brokers is None:
            self.follow({broker_id})

    def meet(self, broker_id: int) -> None:
        """Know of this one from now on, durably before anything that it says is taken; unless a list is missing: it
        may have named others. Raises: OSError."""
        if self._brokers is not None:
            self.follow({*self._brokers, broker_id})

    def follow(self, brokers: Iterable[int]) -> None:
        """Know of these, and of nobody else. Raises: OSError."""
        wanted = frozenset(brokers)
        unchanged, self._brokers = wanted == self._brokers, wanted
        if (unchanged and self._kept) or (not self._kept and boot_ms() < self._again_at):
            return
        content = _Content(format=_FORMAT, brokers=tuple(sorted(wanted)))
        try:
            replace_file(self._files, self._directory, _NAME, (msgspec.json.encode(content),))
            self._kept = True
        except (StoreFull, OSError) as error:
            if isinstance(error, OSError) and error.errno not in _NOT_NOW:
                raise
            self._forget()

    def _forget(self) -> None:
        """It cannot be written now: what was kept lacks somebody."""
        self._kept = False
        self._files.unlink(f"{self._directory}/{_NAME}")
        try:
            self._files.sync_dir(self._directory)
        except OSError as error:
            if error.errno not in _NOT_NOW:
                raise
            return  # the machine must not go down before the next attempt, which is made as soon as anybody asks
        self._again_at = boot_ms() + _AGAIN_MS
