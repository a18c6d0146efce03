"""The store of a broker, opened and recovered as its settings want it."""

import shutil
from dataclasses import replace
from pathlib import Path

from logherd.app.classic.side_files import SideFiles
from logherd.app.data_dir import make_data_dir
from logherd.app.group.replica_file import ReplicaFileError, refuse_alone
from logherd.app.option_values import store_options
from logherd.kit.clock import Clock
from logherd.settings.options import BrokerOptions
from logherd.store import MessageStore
from logherd.store.files_os import OsFiles
from logherd.store.format_file import newest_segment_size
from logherd.telemetry.log import Log

__all__ = ["open_store"]

_log = Log("logherd.store")


def open_store(
    options: BrokerOptions, *, store_host: bytes, clock: Clock, cached_files: int, bare: bool = False
) -> MessageStore:
    """Open and recover the store; blocks. `bare`: it follows a RocketMQ master.

    Raises: NoDataDir, StoreError, OSError; FollowerFileError for a store that follows a RocketMQ master, unless it is
    opened so; ReplicaFileError for a replica's, if this broker is to be alone or have segments of another length.
    """
    directory = make_data_dir(options.data_dir)
    if options.replication.mode == "alone":
        refuse_alone(OsFiles(), str(directory))
    else:
        _refuse_other_segments(directory, options.store.segment_bytes)
    if not bare:
        SideFiles(OsFiles(), directory).refuse()
    disk_bytes = shutil.disk_usage(directory).total
    values = store_options(options, store_host=store_host, disk_bytes=disk_bytes, cached_files=cached_files)
    store = MessageStore.open(directory, replace(values, bare=bare), OsFiles(), clock=clock)
    found = store.recovery
    _log.info(
        "store opened",
        found=found.store,
        tail=found.tail,
        derived=found.derived,
        end_position=found.end_position,
        dropped_bytes=found.dropped_bytes,
        notes="; ".join(found.notes) or None,
    )
    return store


def _refuse_other_segments(directory: Path, wanted: int) -> None:
    """All replicas must roll at the same positions. A setting that was changed everywhere parts them later: where one
    has prepared its next file already, and another one makes it with the new length."""
    found = newest_segment_size(OsFiles(), str(directory))
    if found not in (None, wanted):
        raise ReplicaFileError(
            f"store.segmentSize: {wanted} is not right: files of this log have {found} bytes, and all replicas of a "
            "group need the same length"
        )
