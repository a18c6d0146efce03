"""A log that begins in the middle of another one: `begin_again` gives up a replica's log, to go on in the middle of its
group's, because the others have deleted what it would need next; `begin_at` is for a store that is not there yet; and
`begin_later` gives up a replica's oldest segments only, which others have deleted. And `accept_bare`, for a log that
begins with another product's records.

The order makes a crash harmless: the checkpoint promises only what was committed, before a segment goes; what the old
log's queues were derived from is forgotten, before the checkpoint says that the log begins elsewhere; what lies below
is deleted when the store is opened, which also derives its queues, of nothing, anew.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from logherd.kit.errors import ensure
from logherd.store.checkpoint import SLOT_OFFSETS, Checkpoint, encode_slot
from logherd.store.errors import RawRefused, StoreInUse
from logherd.store.files import Files
from logherd.store.mending import replica_checkpoint
from logherd.store.segment import segment_start
from logherd.store.writer import CheckpointFile

__all__ = ["accept_bare", "begin_again", "begin_at", "begin_later"]


def begin_at(directory: Path, files: Files, *, position: int) -> None:
    """Let a store that has no log yet begin at `position`, where a segment of another log begins. Then open it.
    Blocks; durable when it returns, and may be repeated.

    Raises: StoreInUse; InvariantError if there is a log.
    """
    root = str(directory)
    files.make_directory(root)
    with _locked(files, root):
        ensure(not files.list(f"{root}/commitlog"), "a log that is there is not moved", root)
        CheckpointFile.create(files, root).close()
        begun = Checkpoint(log_start=position, flushed=position, queues_dispatched=position, index_dispatched=position)
        _put(files, root, begun)
        files.sync_dir(root)


def begin_again(directory: Path, files: Files, *, position: int, epoch: int) -> None:
    """Let the closed store of a replica begin, empty, at `position`, where a segment of the group's log begins; `epoch`
    is that of the record before. Then open it. Blocks; durable when it returns, and may be repeated.

    Raises: StoreInUse; StoreDamaged without a whole checkpoint; RawRefused if the segments here are of another length;
    InvariantError for a position that is committed here.
    """
    with _locked(files, str(directory)):
        _begin_again(files, str(directory), position, epoch)


def begin_later(files: Files, root: str, *, position: int, epoch: int) -> None:
    """Let the closed store of a replica begin at `position`, inside of what is committed here and at the start of a
    segment; `epoch` is that of the record before. What lies below is deleted when the store is opened; where queues or
    index do not go so far yet, which a killed process leaves, they are derived anew then. The caller holds the store's
    lock. Blocks; durable when it returns, and may be repeated.

    Raises: StoreDamaged without a whole checkpoint; RawRefused if the log cannot begin there, and nothing was changed.
    """
    checkpoint = replica_checkpoint(files, root)
    start, committed = checkpoint.log_start, checkpoint.committed or 0
    if not start < position <= committed:
        raise RawRefused(f"the log cannot begin at {position}: it begins at {start}, and is committed to {committed}")
    if position not in map(segment_start, files.list(f"{root}/commitlog")):
        raise RawRefused(f"no segment begins at {position} here: all replicas of a group need the same segment size")
    if min(checkpoint.queues_dispatched, checkpoint.index_dispatched) < position:
        files.unlink(f"{root}/queues")
        files.sync_dir(root)
        checkpoint = _nothing_derived(checkpoint, position)
    _put(files, root, replace(checkpoint, log_start=position, start_epoch=epoch))


def accept_bare(directory: Path, files: Files, *, end: int) -> None:
    """Let the closed store of a replica take records without a checksum of the whole below `end`, as another replica
    has them. Blocks; durable when it returns, and may be repeated.

    Raises: StoreInUse; StoreDamaged without a whole checkpoint.
    """
    root = str(directory)
    with _locked(files, root):
        checkpoint = replica_checkpoint(files, root)
        _put(files, root, replace(checkpoint, bare_end=max(checkpoint.bare_end, end)))


@contextmanager
def _locked(files: Files, root: str) -> Iterator[None]:
    lock = files.lock(f"{root}/lock")
    if lock is None:
        raise StoreInUse(f"another process holds {root}/lock")
    try:
        yield
    finally:
        lock.release()


def _begin_again(files: Files, root: str, position: int, epoch: int) -> None:
    checkpoint = replica_checkpoint(files, root)
    committed = checkpoint.committed or 0
    ensure(position >= committed, "what is committed is never given up", position, committed)
    directory = f"{root}/commitlog"
    starts = sorted(start for name in files.list(directory) if (start := segment_start(name)) is not None)
    ends = {start: start + (files.size(f"{directory}/{start:020d}") or 0) for start in starts}
    if any(start < position < end for start, end in ends.items()):
        raise RawRefused(f"no segment begins at {position} here: all replicas of a group need the same segment size")
    checkpoint = _put(files, root, replace(checkpoint, flushed=committed, loose=max(ends.values(), default=0)))
    for start in reversed(starts):
        if start >= position:
            files.unlink(f"{directory}/{start:020d}")
            files.sync_dir(directory)
    files.unlink(f"{root}/queues")
    files.sync_dir(root)
    begun = replace(checkpoint, log_start=position, flushed=position, committed=position, loose=0, start_epoch=epoch)
    _put(files, root, _nothing_derived(begun, position))


def _nothing_derived(checkpoint: Checkpoint, position: int) -> Checkpoint:
    """As if a log had begun at `position`; that the list of queues is gone says that they are to be derived."""
    return replace(
        checkpoint, queues_dispatched=position, index_dispatched=position, index_name=0, index_count=0,
        index_used_slots=0, index_files=0,
    )  # fmt: skip


def _put(files: Files, root: str, value: Checkpoint) -> Checkpoint:
    """Write both slots, durably, one after the other."""
    file = files.open(f"{root}/checkpoint")
    for _ in SLOT_OFFSETS:
        value = replace(value, counter=value.counter + 1, closed=False)
        file.write(SLOT_OFFSETS[value.counter % 2], (encode_slot(value),))
        file.flush()
    file.close()
    return value
