"""The store of a broker, opened and recovered as its settings want it."""

import shutil
from dataclasses import replace

from logherd.app.classic.side_files import SideFiles
from logherd.app.data_dir import make_data_dir
from logherd.app.group.replica_file import refuse_alone
from logherd.app.option_values import store_options
from logherd.kit.clock import Clock
from logherd.settings.options import BrokerOptions
from logherd.store import MessageStore
from logherd.store.files_os import OsFiles
from logherd.telemetry.log import Log

__all__ = ["open_store"]

_log = Log("logherd.store")


def open_store(
    options: BrokerOptions, *, store_host: bytes, clock: Clock, cached_files: int, bare: bool = False
) -> MessageStore:
    """Open and recover the store; blocks. `bare`: it follows a RocketMQ master.

    Raises: NoDataDir, StoreError, OSError; FollowerFileError for a store that follows a RocketMQ master, unless it is
    opened so; ReplicaFileError for a replica's, if this broker is to be alone.
    """
    directory = make_data_dir(options.data_dir)
    if options.replication.mode == "alone":
        refuse_alone(OsFiles(), str(directory))
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
