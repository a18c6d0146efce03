"""From a store that follows a RocketMQ master to a broker's own: what was kept beside the log is appended to it (H8).

By hand only, and while no process has the store open. Nothing tells here whether the master is gone, and what it had
not sent is lost; the report names how much that is, as far as it is known.
"""

from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from logherd.app.adopting import adopting_ends, open_metadata, replace_metadata
from logherd.app.classic.master import DELAY
from logherd.app.classic.side_files import FollowerFileError, Pulled, SideFiles
from logherd.kit.clock import Clock
from logherd.model.host import encode_host
from logherd.service.metadata.rocketmq import Adopted
from logherd.store import MessageStore
from logherd.store.files_os import OsFiles
from logherd.store.tools import options_of
from logherd.store.whole_file import replace_file

__all__ = ["Promotion", "promote"]


@dataclass(frozen=True, slots=True)
class Promotion:
    """What was made of the store. Positions in bytes, times in ms."""

    position: int
    """Where the master's log ends here."""
    missing_bytes: int
    """What the master had beyond that when it was last asked."""
    pulled_ms: int
    """When topics, groups and offsets were taken from it."""
    topics: int
    groups: int
    offsets: int


def promote(directory: Path, clock: Clock) -> Promotion:
    """Make the store a broker's own. Blocks; durable when it returns, and may be repeated until then.

    Raises: FollowerFileError if it follows nobody, or has no metadata yet; StoreInUse; what MessageStore.open and
    Metadata.open raise; AdoptionError, MetadataRefusedError, StoreFull, OSError.
    """
    files = OsFiles()
    side = SideFiles(files, directory)
    marker, pulled = side.marker(), side.pulled()
    if marker is None:
        raise FollowerFileError(f"{directory} follows no RocketMQ master")
    if pulled is None:
        raise FollowerFileError(
            f"{directory} has no topics, groups and offsets of its master: none were taken since it began to follow"
        )
    store = MessageStore.open(directory, options_of(directory), files, clock=clock)
    try:
        position = store.end_position if marker.end is None else marker.end  # known from an earlier try
        side.keep_marker(replace(marker, state="promoting", end=position))
        adopted = _append(store, pulled, clock)
    finally:
        store.close()
    if DELAY in pulled.files:
        files.make_directory(f"{directory}/config")
        replace_file(files, f"{directory}/config", DELAY, (pulled.files[DELAY].encode(),))
    adopting_ends(files, str(directory))
    side.end()
    missing = max(pulled.master_end - position, 0)
    return Promotion(position, missing, pulled.pulled_ms, adopted.topics, adopted.groups, adopted.offsets)


def _append(store: MessageStore, pulled: Pulled, clock: Clock) -> Adopted:
    """Put the master's topics, groups and offsets into the log, in place of what an earlier broker of ours left."""
    files = {name: text.encode() for name, text in pulled.files.items() if name != DELAY}
    metadata = open_metadata(store, clock, host=encode_host("127.0.0.1", 0))
    metadata.topics.forget_deletions(store.min_position)
    adopted = replace_metadata(store, metadata, files)
    metadata.end_pass()
    while (batch := store.take_batch()) is not None:
        batch.write_and_flush()
        store.flushed(batch)
        store.advance(batch.end)
    return adopted
