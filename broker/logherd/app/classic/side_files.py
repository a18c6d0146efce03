"""What a follower of a RocketMQ master keeps beside the log, in `classic/` (rule H8).

    follower.json {"format":1,"group":"DefaultCluster/orders","state":"following"}
    metadata.json {"format":1,"pulledMs":...,"masterEnd":...,"files":{"topics.json":"{...}",...}}

While `follower.json` stands, the log is another broker's: no broker of ours serves it, and its topics, groups and
offsets are what the master said last. A promotion appends them to the log and takes the file away.
"""

from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from logherd.kit.errors import LogHerdError
from logherd.store.files import Files
from logherd.store.state_file import StateFileError, read_state
from logherd.store.whole_file import replace_file

__all__ = ["FollowerFileError", "Marker", "Pulled", "SideFiles"]

_FORMAT = 1
_FOLLOWER = "follower.json"
_METADATA = "metadata.json"


class FollowerFileError(LogHerdError):
    """The directory is no follower's, or is one that something else was asked of."""


class _Kept(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    format: int = _FORMAT


class Marker(_Kept, frozen=True, kw_only=True):
    """Whose log it is. `promoting`: records of ours may stand in it from `end` on, so it can follow no more."""

    group: str
    state: Literal["following", "promoting"]
    end: int | None = None


class Pulled(_Kept, frozen=True, kw_only=True):
    """What the master said at `pulled_ms`, as files that RocketMQ would keep, and where its log ended then."""

    pulled_ms: int
    master_end: int
    files: dict[str, str]


_KindT = TypeVar("_KindT", bound=_Kept)


class SideFiles:
    """The folder. Writing blocks, and is durable when it returns; raises StoreFull, OSError."""

    def __init__(self, files: Files, data_dir: Path) -> None:
        self._files = files
        self._root = str(data_dir)
        self._directory = f"{data_dir}/classic"

    def marker(self) -> Marker | None:
        """None: no follower's store. Raises: FollowerFileError."""
        return self._read(_FOLLOWER, Marker)

    def pulled(self) -> Pulled | None:
        """None: nothing was pulled yet. Raises: FollowerFileError."""
        return self._read(_METADATA, Pulled)

    def keep_marker(self, marker: Marker) -> None:
        self._files.make_directory(self._directory)
        self._files.sync_dir(self._root)
        replace_file(self._files, self._directory, _FOLLOWER, (msgspec.json.encode(marker),))

    def keep_pulled(self, pulled: Pulled) -> None:
        replace_file(self._files, self._directory, _METADATA, (msgspec.json.encode(pulled),))

    def end(self) -> None:
        """The store follows nobody any more."""
        self._files.unlink(f"{self._directory}/{_FOLLOWER}")
        self._files.sync_dir(self._directory)

    def begin(self, group: str) -> None:
        """Make the directory a follower's of this group, or find that it is one.

        Raises: FollowerFileError if it holds a store of ours, another group's, or one that was to be promoted.
        """
        marker = self.marker()
        if marker is None:
            if self._files.size(f"{self._root}/store.json") is not None:
                raise FollowerFileError(
                    f"{self._root} holds a LogHerd store that follows nobody: its log cannot become another's. Follow "
                    "with an empty dataDir, or with a copy of a RocketMQ store"
                )
            self.keep_marker(Marker(group=group, state="following"))
        elif marker.group != group:
            raise FollowerFileError(f"{self._root} follows a master of {marker.group}, not of {group}")
        elif marker.state != "following":
            raise FollowerFileError(f"{self._root} was to be promoted: `logherd store promote {self._root}` ends that")

    def refuse(self) -> None:
        """Raises: FollowerFileError if a broker that serves clients must not open this store."""
        if self.marker() is not None:
            raise FollowerFileError(
                f"{self._root} follows a RocketMQ master, so it has the master's messages and none of its topics, "
                f"groups and offsets yet: `logherd store promote {self._root}` makes it a broker's own store"
            )

    def _read(self, name: str, kind: type[_KindT]) -> _KindT | None:
        try:
            return read_state(self._files, f"{self._directory}/{name}", kind, known=_FORMAT)
        except StateFileError as error:
            raise FollowerFileError(str(error)) from error
