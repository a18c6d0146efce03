"""A small store on a simulated disk or a directory, and the few calls that every test makes."""

import errno
import os
from pathlib import Path

from logherd.store import DerivedOptions, LogOptions, MessageStore, RetentionOptions, StoreOptions
from sim.disk import SimDisk
from sim.history import HOST, SimClock

ROOT = Path("/data")
__all__ = [
    "HOST", "ROOT", "SimClock", "SimDisk", "append", "bodies", "disk_of", "flush", "kept_copies", "none_left",
    "open_store", "settle", "small_options",
]  # fmt: skip


def small_options(*, log=None, derived=None, retention=None) -> StoreOptions:
    return StoreOptions(
        log=LogOptions(**{"segment_bytes": 8192, "record_bytes_max": 2000, "reserve_bytes": 0, "zero_ahead_bytes": 0,
                          "batch_bytes_max": 2000, **(log or {})}),
        derived=DerivedOptions(**{"queue_file_units": 16, "index_slots": 32, "index_entries": 20, "interval_ms": 0,
                                  "index_write_entries": 1, **(derived or {})}),
        retention=RetentionOptions(**{"age_ms": None, **(retention or {})}),
        free_space_check_ms=0,
    )  # fmt: skip


def none_left(*_: object, **__: object) -> int:
    """In place of what makes a descriptor: the process has as many as it may."""
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def open_store(disk, directory=ROOT, clock=None, **options) -> MessageStore:
    return MessageStore.open(directory, small_options(**options), disk, clock=clock or SimClock())


def append(store, topic="T", queue_id=0, *, body=b"x" * 100, properties=b"", at=1000, **more):
    queue = store.queue(topic, queue_id)
    return store.append(queue, body, properties, born_timestamp=1, born_host=HOST, store_timestamp=at, **more)


def flush(store) -> None:
    """Write and commit all that was appended."""
    while (batch := store.take_batch()) is not None:
        batch.write_and_flush()
        store.flushed(batch)
        store.advance(batch.end)


def settle(store) -> None:
    """Let background work finish: what is being written, what came meanwhile, and the trimming after both."""
    for _ in range(3):
        store.tick()
        while store.background_work():
            pass
    store.tick()


def bodies(store, topic="T", queue_id=0):
    """Bodies of all readable messages of a queue."""
    from logherd.model.record import decode_record

    queue = store.find_queue(topic, queue_id)
    if queue is None:
        return []
    found = []
    offset = queue.min_offset
    while offset < queue.max_offset:
        result = store.read(queue, offset, messages_max=32, bytes_max=1 << 20)
        data = b"".join(result.slices)
        at = 0
        while at < len(data):
            record = decode_record(data, at)
            found.append(bytes(record.body))
            at += record.size
        offset = result.next_offset
    return found


def disk_of(content):
    """A disk on which these files, by path, are durable."""
    disk = SimDisk()
    for path, data in content.items():
        disk.make_directory(path.rpartition("/")[0])
        file = disk.open(path, create=True)
        file.write(0, (data,))
        file.flush()
    for directory in list(disk.directories):
        disk.sync_dir(directory)
    return disk


def kept_copies(disk):
    """What a repair has moved away, by path."""
    return {path: inode.content() for path, inode in disk.names.items() if path.startswith("/data/dropped/")}
