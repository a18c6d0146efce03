"""The mode of a group, made by its settings."""

from typing import NamedTuple

from logherd.app.group.by_controllers import ByControllers
from logherd.app.group.by_roles import ByRoles, first_roles
from logherd.app.group.mode import Mode
from logherd.app.group.replica_file import ReplicaFile
from logherd.app.group.roles_file import RolesFile
from logherd.app.group.roster import Roster
from logherd.app.guarded.keeper import LeaseKeeper
from logherd.group.seat import Seat
from logherd.kit.clock import Clock
from logherd.kit.errors import ensure
from logherd.replica import NotedStore, ReplicaStore
from logherd.settings.options import BrokerOptions
from logherd.store import MessageStore

__all__ = ["Made", "Opened", "make_mode"]


class Opened(NamedTuple):
    """A replica's store as it was opened, its barriers, and what records of its own are written with."""

    store: MessageStore
    barriers: list[tuple[int, int]]
    clock: Clock
    host: bytes


class Made(NamedTuple):
    """A mode, and the log that its machine goes by."""

    mode: Mode
    log: ReplicaStore


def make_mode(
    options: BrokerOptions, seat: Seat, file: ReplicaFile, opened: Opened, *, keeper: LeaseKeeper
) -> Made:  # fmt: skip
    """Blocks: a start in static mode is counted in the replica's file. Raises: ReplicaFileError, StoreFull, OSError."""
    replication, store, found = options.replication, opened.store, opened.barriers
    if replication.mode == "raft":
        from logherd.app.group.by_votes import ByVotes  # a seventh of what a broker imports, for this mode only

        noted = NotedStore(store, found, clock=opened.clock, host=opened.host)
        return Made(ByVotes(seat, replication, noted, file), noted)
    log = ReplicaStore(store, found)
    if replication.static is None:
        roster = Roster(file.files, file.directory)
        if not file.promise.epoch:  # it has not belonged to any leadership yet
            roster.begin(seat.broker_id)
        mode = ByControllers(seat, replication, log, epoch=file.promise.epoch, keeper=keeper, roster=roster)
        return Made(mode, log)
    ensure(replication.mode == "static", "roles are for static mode", replication.mode)
    file.count_start(opened.clock.now_ms())
    first = first_roles(replication.static)
    roles = RolesFile.open(file.files, file.directory, file.store_id, first, log_empty=log.end == 0)
    if not seat.trusted:
        roles.doubt()
    return Made(ByRoles(seat, replication, log, file, roles), log)
