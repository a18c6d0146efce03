"""The state that a log holds up to some position: the newest complete snapshot, then all later changes."""

from dataclasses import dataclass

from logherd.service.metadata.changes import Barrier, decode_change
from logherd.service.metadata.contents import Contents, tell_all_epochs
from logherd.service.metadata.errors import MetadataDamagedError
from logherd.service.metadata.journal import CHANGES, MetadataLog
from logherd.service.metadata.snapshot import Snapshot, find_snapshot

__all__ = ["Found", "barriers", "rebuild"]

_BARRIER = b'["epoch",'


@dataclass(frozen=True, slots=True)
class Found:
    """`snapshot` is the one that was read, `next_offset` the first change that was not, `bytes` those of the changes
    after the snapshot. Not `whole`: the log begins in the middle, and no snapshot in it is complete below the position.
    """

    snapshot: Snapshot | None
    next_offset: int
    bytes: int
    whole: bool


def rebuild(log: MetadataLog, contents: Contents, below: int) -> Found:
    """Fill empty contents with what the records say that end at or below a position, committed or not.

    Raises: MetadataDamagedError if one of them is none of ours, or is committed and missing.
    """
    snapshot = find_snapshot(log, contents.apply, below)
    first, end = log.bounds(CHANGES)
    start = snapshot.change_offset if snapshot else 0
    # A log that lost its start has a snapshot in what is left of it; of one that was begun in the middle to receive
    # another's, it comes later. One that RocketMQ wrote has neither, and begins anywhere.
    if snapshot is None and (first > 0 or (not end and log.start_epoch)):
        return Found(None, first, 0, whole=False)
    if start < first:
        raise MetadataDamagedError(f"metadata changes {start} to {first - 1} are gone, and no snapshot covers them")
    count, size = start, 0
    for entry in log.read(CHANGES, start, below):
        if entry.queue_offset != count:
            break
        contents.apply(decode_change(entry.body, entry.queue_offset), entry.end)
        size += entry.end - entry.position
        count += 1
    expected = log.committed_end(CHANGES)
    if below >= log.committed_position and count < expected:
        raise MetadataDamagedError(f"metadata changes {count} to {expected - 1} are missing from the log")
    return Found(snapshot, count, size, whole=True)


def barriers(log: MetadataLog) -> list[tuple[int, int]]:
    """(epoch, end of the log before its barrier) of all barriers that are known of in the log, committed or not, oldest
    first; as `ReplicaStore` wants them. Those before the newest committed snapshot are taken from it, unless it leaves
    out some: records would pass for those of an earlier epoch, and another log that has others there for the same.

    Raises: MetadataDamagedError.
    """
    found: dict[int, int] = {}

    def note(change: object, _end: int) -> None:
        if isinstance(change, Barrier):
            found[change.epoch] = change.start_position

    snapshot = find_snapshot(log, note, log.committed_position)
    told = snapshot is not None and tell_all_epochs(found, log.start_epoch)
    start = snapshot.change_offset if snapshot is not None and told else log.bounds(CHANGES)[0]
    for entry in log.read(CHANGES, start, log.end_position):
        if entry.body.startswith(_BARRIER):
            note(decode_change(entry.body, entry.queue_offset), entry.end)
    return sorted(found.items())
