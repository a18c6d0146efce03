"""The store of a broker that was alone becomes the first replica of a new group (controller mode).

Nothing of its log changes: the barriers of its starts are epochs, and what it had flushed was committed. It gets the
file by which a replica is known, and says with its registration how far its log goes. The controllers elect whoever has
most when the group is founded, alone in the in-sync set; the others, who have nothing, then copy its log as any replica
does that was wiped. By hand only, and for one store of a group: two logs that began apart have nothing in common.
"""

from dataclasses import dataclass
from pathlib import Path

from logherd.app.adopting import adopt_files, adopting_ends, expect_adoption, open_metadata
from logherd.app.classic.side_files import SideFiles
from logherd.app.group.replica_file import ReplicaFile, ReplicaFileError
from logherd.app.group.roster import Roster
from logherd.controller.values import GroupKey
from logherd.group.output import Promise
from logherd.kit.clock import Clock
from logherd.model.host import encode_host
from logherd.model.names import Epoch
from logherd.settings.options import BrokerOptions
from logherd.store import MessageStore
from logherd.store.files_os import OsFiles
from logherd.store.tools import options_of, segment_sizes

__all__ = ["FirstReplica", "make_first_replica"]


@dataclass(frozen=True, slots=True)
class FirstReplica:
    """What became a replica. Positions in bytes."""

    group: str
    broker_id: int
    position: int
    """Where its log ends."""
    bare_end: int
    """Below it lie records that RocketMQ wrote."""
    epoch: int
    """The last one in its log."""
    topics: int


def make_first_replica(options: BrokerOptions, clock: Clock) -> FirstReplica:
    """Prepare the store in `data_dir` for the replica that these settings describe. Blocks; durable when it returns,
    and may be repeated until then. A store that RocketMQ wrote is adopted first.

    Raises: ReplicaFileError if it cannot be one; FollowerFileError for a store that follows a RocketMQ master;
    StoreInUse; what MessageStore.open and Metadata.open raise; AdoptionError, MetadataRefusedError, StoreFull, OSError.
    """
    files, directory = OsFiles(), Path(options.data_dir)
    group = GroupKey(options.cluster_name, options.broker_group)
    _refuse(options, files, directory)
    expect_adoption(files, options.data_dir)
    store = MessageStore.open(directory, options_of(directory), files, clock=clock)
    try:
        metadata = open_metadata(store, clock, host=encode_host("127.0.0.1", 0))
        metadata.topics.forget_deletions(store.min_position)
        adopt_files(files, options.data_dir, store, metadata)
        metadata.end_pass()
        while (batch := store.take_batch()) is not None:
            batch.write_and_flush()
            store.flushed(batch)
            store.advance(batch.end)
        made = FirstReplica(
            str(group),
            options.broker_id,
            store.end_position,
            store.recovery.bare_end,
            metadata.epoch,
            len(metadata.topics),
        )
    finally:
        store.close()
    adopting_ends(files, options.data_dir)
    file = ReplicaFile.open(files, str(directory), group, options.broker_id, log_empty=True)
    Roster(files, str(directory)).begin(options.broker_id)  # nobody else has anything of this log
    file.keep(Promise(Epoch(made.epoch)))
    return made


def _refuse(options: BrokerOptions, files: OsFiles, directory: Path) -> None:
    mode, root = options.replication.mode, str(directory)
    if mode != "controller":
        raise ReplicaFileError(f"replication.mode: {mode} cannot begin with a log that is there; controller can")
    if not files.list(f"{root}/commitlog"):
        raise ReplicaFileError(f"dataDir: {root} holds no log: a replica that has nothing is simply started")
    if ReplicaFile.is_there(files, root):
        raise ReplicaFileError(f"dataDir: {root} is a replica's already")
    SideFiles(files, directory).refuse()
    other = [size for size in segment_sizes(directory) if size != options.store.segment_bytes]
    if other:
        raise ReplicaFileError(
            f"store.segmentSize: {options.store.segment_bytes} is not right: files of this log have {other[0]} bytes, "
            "and all replicas of a group need the same length"
        )
