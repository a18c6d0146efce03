"""What one replica must remember beside its log.

    replica.json {"format":1,"group":"DefaultCluster/orders","brokerId":2,"storeId":"9f0c...","epoch":7,"vote":null,
                  "doubtful":false,"mode":"controller","founders":null,"starts":0,"reset":0,"electionMs":0}

`storeId` is drawn with the directory: a wiped replica comes back as another store, and the controllers do not count
what the former one acknowledged. `epoch` is the highest one that this replica has seen, `vote` whom it has voted for in
it (raft mode); what it says in an epoch, and the vote, wait until that is in the file (R4). `founders` of its group are
kept for good once they are known, and `reset` counts how often it was rebuilt (raft mode); `starts` is the number of
the latest process (static mode). `electionMs` is how long this replica has told others that it waits for a leader at
least (raft mode): whoever trusted that before a restart does so after it.

All of it is kept also on a disk without a free block: replica.json.spare is its room.
"""

from dataclasses import dataclass, replace
from secrets import token_hex

import msgspec

from logherd.controller.values import GroupKey
from logherd.group.output import Promise
from logherd.kit.errors import LogHerdError
from logherd.model.names import Epoch
from logherd.replication.messages import ReplicaId
from logherd.store.files import Files
from logherd.store.state_file import StateFileError, read_state
from logherd.store.whole_file import replace_in_spare, reserve_spare

__all__ = ["ReplicaFile", "ReplicaFileError", "refuse_alone"]

_FORMAT = 1
_NAME = "replica.json"


class ReplicaFileError(LogHerdError):
    """The directory is another replica's, or its file cannot be believed."""


class _Content(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    format: int
    group: str
    broker_id: int
    store_id: str
    epoch: int
    vote: str | None = None
    doubtful: bool = False
    mode: str = "controller"
    founders: tuple[str, ...] | None = None
    starts: int = 0
    reset: int = 0
    election_ms: int = 0


@dataclass(slots=True)
class ReplicaFile:
    """The file as it was read or made. `keep` may run on another thread once the replica runs; nothing else then
    writes."""

    files: Files
    directory: str
    group: GroupKey
    broker_id: int
    store_id: str
    promise: Promise
    mode: str = "controller"
    founders: tuple[ReplicaId, ...] | None = None
    starts: int = 0
    election_ms: int = 0

    @staticmethod
    def is_there(files: Files, directory: str) -> bool:
        """Whether the directory is some replica's."""
        return files.size(f"{directory}/{_NAME}") is not None

    @staticmethod
    def open(
        files: Files, directory: str, group: GroupKey, broker_id: int, *, log_empty: bool, mode: str = "controller"
    ) -> "ReplicaFile":
        """Read the file, or make it, durably, in a directory whose log is empty. Blocks.

        Raises: ReplicaFileError, StoreFull, OSError.
        """
        path = f"{directory}/{_NAME}"
        content = _read(files, path)
        if content is None:
            if not log_empty:
                raise ReplicaFileError(
                    f"{path} is not there, but the log beside it has records: a broker alone, or another program, "
                    "wrote them. Start this replica with an empty dataDir, or make its log that of a new group: "
                    "logherd store found"
                )
            made = ReplicaFile(files, directory, group, broker_id, token_hex(16), Promise(), mode)
            made.keep(Promise())
            return made
        files.sync_dir(directory)
        reserve_spare(files, directory, _NAME)
        if content.group != str(group):
            raise ReplicaFileError(f"{path} belongs to the group {content.group}, not to {group}")
        if content.broker_id != broker_id:
            raise ReplicaFileError(f"{path} belongs to the broker {content.broker_id}, not to {broker_id}")
        if content.mode != mode:
            raise ReplicaFileError(
                f"{path} belongs to a group in mode {content.mode}, replication.mode is {mode}: a group keeps its mode"
            )
        founders = tuple(map(ReplicaId, content.founders)) if content.founders is not None else None
        vote = ReplicaId(content.vote) if content.vote is not None else None
        promise = Promise(Epoch(content.epoch), vote, content.doubtful, content.reset)
        return ReplicaFile(
            files, directory, group, broker_id, content.store_id, promise, mode, founders, content.starts,
            content.election_ms,
        )  # fmt: skip

    @staticmethod
    def renew_at(files: Files, directory: str) -> None:
        """Make the replica of a closed store another one, see `renew`, whatever group it is of. Nothing if it is none.
        Blocks. Raises: ReplicaFileError, StoreFull, OSError."""
        content = _read(files, f"{directory}/{_NAME}")
        if content is not None:
            renewed = msgspec.structs.replace(content, store_id=token_hex(16))
            replace_in_spare(files, directory, _NAME, msgspec.json.encode(renewed))

    def keep(self, promise: Promise) -> None:
        """Make a promise durable. Blocks. Raises: StoreFull, OSError."""
        self.promise = promise
        self._write()

    def renew(self) -> None:
        """Become another store: what the former one acknowledged counts no more. Blocks. Raises: StoreFull, OSError."""
        self.store_id = token_hex(16)
        self._write()

    def found(self, founders: tuple[ReplicaId, ...], reset: int = 0) -> None:
        """Know the group's founders, and how often it was rebuilt, from now on. Blocks. Raises: StoreFull, OSError."""
        self.founders = founders
        self.promise = replace(self.promise, reset=reset)
        self._write()

    def count_start(self, now_ms: int) -> int:
        """A number for this process, above that of any earlier one, also of one with a store that was lost: so it is
        the time if that is more. Blocks. Raises: StoreFull, OSError."""
        self.starts = max(self.starts + 1, now_ms)
        self._write()
        return self.starts

    def count_on(self, election_ms: int) -> int:
        """From now on others may be told that this replica waits so long for a leader at least; how long to wait before
        the first vote, for they may have been told of more. Blocks. Raises: StoreFull, OSError."""
        owed_ms = max(self.election_ms, election_ms)
        if owed_ms != self.election_ms:
            self.election_ms = owed_ms
            self._write()
        return owed_ms

    def wait_less(self, election_ms: int) -> None:
        """Whatever others were told by an earlier process is over. The file says it once it is written again."""
        self.election_ms = election_ms

    def doubt(self, *, doubtful: bool) -> None:
        """Whether what was acknowledged may be gone although this stays the same store. Blocks. Raises: StoreFull,
        OSError."""
        self.keep(replace(self.promise, doubtful=doubtful))

    def _write(self) -> None:
        content = _Content(
            format=_FORMAT, group=str(self.group), broker_id=self.broker_id, store_id=self.store_id,
            epoch=self.promise.epoch, vote=self.promise.vote, doubtful=self.promise.doubtful, mode=self.mode,
            founders=self.founders, starts=self.starts, reset=self.promise.reset, election_ms=self.election_ms,
        )  # fmt: skip
        replace_in_spare(self.files, self.directory, _NAME, msgspec.json.encode(content))


def refuse_alone(files: Files, directory: str) -> None:
    """A broker alone takes all of its log for committed, and writes the next epoch. In a replica's log that would be
    another one than its group's of the same number, which nothing could tell apart. Raises: ReplicaFileError."""
    if ReplicaFile.is_there(files, directory):
        raise ReplicaFileError(
            f"{directory}/{_NAME} says that this is the store of a replica, and replication.mode is alone: a group "
            "keeps its mode. To go on alone with what it holds start the broker on a copy: logherd store export "
            "--rocketmq DIR --to OUT"
        )


def _read(files: Files, path: str) -> _Content | None:
    try:
        return read_state(files, path, _Content, known=_FORMAT)
    except StateFileError as error:
        raise ReplicaFileError(str(error)) from error
