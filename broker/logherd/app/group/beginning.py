"""When a replica's log cannot go on from what it holds, and how it begins anew.

What it would need next is deleted everywhere: it begins where the others' logs begin. Or an operator has given up
records that are committed here, or what is here is damaged: everything is set aside, and it begins with nothing, to be
copied from the leader; what is damaged is never cut. In each case it is another store from then on, so that nothing it
ever acknowledged is counted; and another process than one that had the log open, so that nothing in memory survives.

One exception: who votes (raft mode) and begins at a point keeps its name, for its vote may be needed to have a leader
at all. Everything that it acknowledged and that counts is below that point; only while the files are replaced the log
may be shorter than that, so for this time it is in doubt (raft/doubt.py), also after a crash.
"""

from pathlib import Path

from logherd.app.engine import BrokerFailed
from logherd.app.group.damages import MustHeal
from logherd.app.group.replica_file import ReplicaFile
from logherd.kit.errors import LogHerdError
from logherd.replica import LogStartGone
from logherd.replication.epochs import Point
from logherd.replication.messages import ReplicaId
from logherd.store import StoreDamaged, begin_again
from logherd.store.files import Files
from logherd.store.recovery import look
from logherd.store.recovery_rows import StoreAction
from logherd.telemetry.log import Log

__all__ = [
    "LogContradicted", "MustAcceptBare", "MustStartAgain", "begin_anew", "failure_of", "renew_if_lost", "set_aside",
]  # fmt: skip

_log = Log("logherd.group")

_KEPT = ("replica.json", "replica.json.spare", "roles.json", "roles.json.spare", "roster.json", "lock", "lost+found")
"""The last is the file system's, where the directory is all of a volume; only root may move it."""


class LogContradicted(LogHerdError):
    """An operator has made somebody the leader who lacks what is committed here."""

    def __init__(self, committed: Point, leader: ReplicaId) -> None:
        self.committed = committed
        super().__init__(
            f"{leader} leads without what is committed here up to {committed.position} in epoch {committed.epoch}"
        )


class MustStartAgain(BrokerFailed):
    """This replica begins anew: at `point`, or with nothing."""

    starts_again = True

    def __init__(self, reason: str, point: Point | None) -> None:
        self.point = point
        super().__init__(reason)


class MustAcceptBare(BrokerFailed):
    """The group's log begins with what RocketMQ wrote: the next process takes it."""

    starts_again = True

    def __init__(self, end: int, peer: ReplicaId) -> None:
        self.end = end
        super().__init__(f"below {end} records of {peer} may be without a checksum of the whole: RocketMQ wrote them")


def failure_of(error: BaseException) -> BrokerFailed:
    """What ends the process, by what went wrong."""
    if isinstance(error, LogStartGone):
        return MustStartAgain(str(error), error.point)
    if isinstance(error, LogContradicted):
        return MustStartAgain(str(error), None)
    if isinstance(error, StoreDamaged):
        return MustHeal(str(error))
    if isinstance(error, MustHeal | MustAcceptBare):
        return error
    if not isinstance(error, LogHerdError):  # its words alone do not say what was being done
        _log.error("the replica failed", cause=error)
    return BrokerFailed(f"{type(error).__name__}: {error}")


def begin_anew(files: Files, file: ReplicaFile, why: MustStartAgain) -> None:
    """Prepare the directory of a closed store; blocks. It may be repeated after a crash half-way.

    Durable: the new identity before anything of the old log goes. Raises: StoreError, OSError.
    """
    if why.point is not None:
        doubtful = file.promise.doubtful
        if file.mode == "raft":
            file.doubt(doubtful=True)
        else:
            file.renew()
        _log.warning("this replica begins anew", position=why.point.position, reason=why)
        begin_again(Path(file.directory), files, position=why.point.position, epoch=why.point.epoch)
        if file.mode == "raft":
            file.doubt(doubtful=doubtful)
        return
    set_aside(files, file, str(why))


def renew_if_lost(files: Files, directory: str) -> None:
    """A replica whose log is gone with all that tells of it is another store, as one whose disk was lost: log and
    checkpoint are made, durably, before its file is, so that only a deletion takes them. Call it before the store is
    opened, which makes them anew. Blocks; durable.

    Raises: StoreDamaged, StoreVersionError, ReplicaFileError, StoreFull, OSError.
    """
    if ReplicaFile.is_there(files, directory):
        found = look(files, directory)
        if found.row.action is StoreAction.CREATE and found.checkpoint is None:
            _log.warning("this replica has neither log nor checkpoint: it is another store from now on")
            ReplicaFile.renew_at(files, directory)


def set_aside(files: Files, file: ReplicaFile, reason: str) -> None:
    """Move all that is in the directory of a closed store out of the way and become another store; blocks.

    It may be repeated after a crash half-way. Raises: OSError, StoreFull.
    """
    file.renew()
    aside = Path(file.directory) / f"aside-{file.store_id[:8]}"
    _log.warning("this replica begins with nothing; what it held is set aside", aside=aside.name, reason=reason)
    aside.mkdir()
    for path in sorted(Path(file.directory).iterdir()):
        if path.name not in _KEPT and not path.name.startswith("aside-"):
            path.rename(aside / path.name)
    files.sync_dir(str(aside))  # first: else a crash of the machine may leave what was moved in neither
    files.sync_dir(file.directory)
