"""What one replica must remember beside its log.

    replica.json {"format":1,"group":"DefaultCluster/orders","brokerId":2,"storeId":"9f0c...","epoch":7,"vote":null,
                  "doubtful":false}

`storeId` is drawn with the directory: a wiped replica comes back as another store, and the controllers do not count
what the former one acknowledged. `epoch` is the highest one that this replica has seen, `vote` whom it has voted for in
it (raft mode); what it says in an epoch, and the vote, wait until that is in the file (R4).
"""

from dataclasses import dataclass
from secrets import token_hex

import msgspec

from logherd.controller.values import GroupKey
from logherd.group.output import Promise
from logherd.kit.errors import LogHerdError
from logherd.model.names import Epoch
from logherd.replication.messages import ReplicaId
from logherd.store.files import Files
from logherd.store.whole_file import replace_file

__all__ = ["ReplicaFile", "ReplicaFileError"]

_FORMAT = 1
_NAME = "replica.json"


class ReplicaFileError(LogHerdError):
    """The directory is another replica's, or its file cannot be believed."""


class _Content(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    format: int
    group: str
    broker_id: int
    store_id: str
    epoch: int
    vote: str | None = None
    doubtful: bool = False


@dataclass(slots=True)
class ReplicaFile:
    """The file as it was read or made. `keep` may run on another thread; nothing else writes."""

    files: Files
    directory: str
    group: GroupKey
    broker_id: int
    store_id: str
    promise: Promise

    @staticmethod
    def open(files: Files, directory: str, group: GroupKey, broker_id: int, *, log_empty: bool) -> "ReplicaFile":
        """Read the file, or make it, durably, in a directory whose log is empty. Blocks.

        Raises: ReplicaFileError, StoreFull, OSError.
        """
        path = f"{directory}/{_NAME}"
        size = files.size(path)
        if size is None:
            if not log_empty:
                raise ReplicaFileError(
                    f"{path} is not there, but the log beside it has records: a broker alone, or another program, "
                    "wrote them. Start this replica with an empty dataDir"
                )
            made = ReplicaFile(files, directory, group, broker_id, token_hex(16), Promise())
            made.keep(Promise())
            return made
        files.sync_dir(directory)
        file = files.open(path)
        try:
            content = _decode(path, file.read(0, size))
        finally:
            file.close()
        if content.group != str(group):
            raise ReplicaFileError(f"{path} belongs to the group {content.group}, not to {group}")
        if content.broker_id != broker_id:
            raise ReplicaFileError(f"{path} belongs to the broker {content.broker_id}, not to {broker_id}")
        vote = ReplicaId(content.vote) if content.vote is not None else None
        promise = Promise(Epoch(content.epoch), vote, content.doubtful)
        return ReplicaFile(files, directory, group, broker_id, content.store_id, promise)

    def keep(self, promise: Promise) -> None:
        """Make a promise durable. Blocks. Raises: StoreFull, OSError."""
        self.promise = promise
        self._write()

    def renew(self) -> None:
        """Become another store: what the former one acknowledged counts no more. Blocks. Raises: StoreFull, OSError."""
        self.store_id = token_hex(16)
        self._write()

    def _write(self) -> None:
        content = _Content(
            format=_FORMAT, group=str(self.group), broker_id=self.broker_id, store_id=self.store_id,
            epoch=self.promise.epoch, vote=self.promise.vote, doubtful=self.promise.doubtful,
        )  # fmt: skip
        replace_file(self.files, self.directory, _NAME, (msgspec.json.encode(content),))


def _decode(path: str, data: bytes) -> _Content:
    try:
        content = msgspec.json.decode(data, type=_Content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReplicaFileError(f"{path} is damaged: {error}") from error
    if content.format != _FORMAT:
        raise ReplicaFileError(f"{path} is of format {content.format}; this release knows {_FORMAT}")
    return content
