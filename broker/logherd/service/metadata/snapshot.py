"""Snapshots: the whole state as records, so that start reads a bounded tail and retention may cut below it (H2).

A snapshot is begin, parts, end in queue 1. It is written in slices, one per loop pass, while changes go on: begin names
the first change that it may miss, and reading applies all changes from there on top. Since every change states a value,
the result is the state at the end. A crash in the middle leaves parts without an end, which reading passes over.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain

from logherd.service.metadata.changes import (
    FORMAT,
    Change,
    SnapshotBegin,
    SnapshotEnd,
    SnapshotPart,
    decode_snapshot_record,
    digest_parts,
    encode,
)
from logherd.service.metadata.errors import MetadataDamagedError
from logherd.service.metadata.journal import CHANGES, METADATA_TOPIC, SNAPSHOTS, Entry, MetadataLog

__all__ = ["Snapshot", "SnapshotReader", "SnapshotWriter", "find_snapshot"]

_CHANGES_PER_PART = 500
_PART_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A complete snapshot in the log. Positions and sizes in bytes; `end` is exclusive.

    `size` is never too small: after a start it counts what other records stand between begin and end.
    """

    number: int
    change_offset: int
    begin: int
    end: int
    size: int
    end_offset: int
    """Queue offset of the record that ends it."""


class SnapshotWriter:
    """Writes one snapshot, one record per `step`.

    `changes` yields, lazily, the state as changes; it must tolerate that the state changes between two values.
    """

    def __init__(self, log: MetadataLog, number: int, changes: Iterator[Change]) -> None:
        self._log = log
        self._number = number
        self._changes = changes
        self._unwritten: bytes | None = None
        self._next: list[Change] = []
        self._digest = sha256()
        self._parts = 0
        self._size = 0
        self._change_offset = -1
        self._begin = -1

    def step(self) -> Snapshot | None:
        """Write the next record; the snapshot once its end is written. Its records are not durable yet.

        Raises: MetadataRefusedError when the log takes nothing; the same record is tried again by the next step.
        """
        if self._begin < 0:
            change_offset = self._log.queue_end(METADATA_TOPIC, CHANGES)  # whose `bounds` may read a file
            self._begin = self._append(encode(SnapshotBegin(self._number, change_offset)))[0]
            self._change_offset = change_offset
            return None
        body = self._unwritten or self._encode_part()
        if body is None:
            end_offset = self._log.queue_end(METADATA_TOPIC, SNAPSHOTS)
            _, end = self._append(encode(SnapshotEnd(self._number, self._parts, self._digest.hexdigest())))
            return Snapshot(self._number, self._change_offset, self._begin, end, self._size, end_offset)
        self._unwritten = body
        self._append(body)
        self._unwritten = None
        self._digest.update(body)
        self._parts += 1
        return None

    def _encode_part(self) -> bytes | None:
        # A record far below the largest that any log takes, whatever the topics are like.
        batch: list[Change] = []
        size = 0
        taken, self._next = self._next, []
        for change in chain(taken, self._changes):
            change_bytes = len(encode(change))
            if batch and size + change_bytes > _PART_BYTES:
                self._next = [change]  # it was small enough for a record of its own
                break
            batch.append(change)
            size += change_bytes
            if len(batch) == _CHANGES_PER_PART or size >= _PART_BYTES:
                break
        return encode(SnapshotPart(self._number, batch)) if batch else None

    def _append(self, body: bytes) -> tuple[int, int]:
        start, end = self._log.append(SNAPSHOTS, body)
        self._size += end - start
        return start, end


class SnapshotReader:
    """Finds the complete snapshots among records that are shown to it one after the other, and keeps nothing of them.

    What lacks its beginning, because the log begins later, is passed over, as is what lacks its end.
    """

    def __init__(self) -> None:
        self._begin: tuple[Entry, SnapshotBegin] | None = None
        self._digest = sha256()
        self._parts = 0

    def see(self, entry: Entry) -> Snapshot | None:
        """Take the next record; the snapshot that it completes. Raises: MetadataDamagedError as `find_snapshot`."""
        record = decode_snapshot_record(entry.body, entry.queue_offset)
        match record:
            case SnapshotBegin():
                _check_format(record)
                self._begin, self._digest, self._parts = (entry, record), sha256(), 0
            case SnapshotPart():
                self._digest.update(entry.body)
                self._parts += 1
            case SnapshotEnd() if self._begin is not None:
                begin_entry, begin = self._begin
                self._begin = None
                found = (begin.number, self._parts, self._digest.hexdigest())
                if found != (record.number, record.parts, record.digest):
                    raise MetadataDamagedError(f"snapshot {record.number} differs from the digest in its end")
                return _snapshot(begin, begin_entry, entry)
        return None


def find_snapshot(log: MetadataLog, apply: Callable[[Change, int], None], below: int) -> Snapshot | None:
    """Find the newest complete snapshot that ends at or below a position and apply its parts, with the snapshot's end.

    None if there is none, or if the log begins inside it: every earlier one is gone then, too.
    Raises: MetadataDamagedError if a snapshot has an end but not what the end promises.
    """
    committed = log.committed_position
    first, at = log.bounds(SNAPSHOTS)
    while at > first:
        at -= 1
        entry = next(log.read(SNAPSHOTS, at, below), None)
        if entry is None:
            if below >= committed and at < log.committed_end(SNAPSHOTS):
                raise MetadataDamagedError(f"snapshot record {at} is missing from the log")
            continue
        record = decode_snapshot_record(entry.body, at)
        if isinstance(record, SnapshotEnd):
            return _read_snapshot(log, record, entry, apply) if at - record.parts > first else None
    return None


def _read_snapshot(
    log: MetadataLog, end: SnapshotEnd, end_entry: Entry, apply: Callable[[Change, int], None]
) -> Snapshot:
    begin_offset = end_entry.queue_offset - end.parts - 1
    entries = log.read(SNAPSHOTS, begin_offset, end_entry.end)
    begin_entry = next(entries, None)
    begin = decode_snapshot_record(begin_entry.body, begin_offset) if begin_entry is not None else None
    if begin_entry is None or not isinstance(begin, SnapshotBegin):
        raise MetadataDamagedError(f"snapshot {end.number} has an end ({end_entry.queue_offset}) but no beginning")
    _check_format(begin)
    bodies: list[bytes] = []
    parts: list[SnapshotPart] = []
    for entry in entries:
        if entry.queue_offset == end_entry.queue_offset:
            break
        part = decode_snapshot_record(entry.body, entry.queue_offset)
        if not isinstance(part, SnapshotPart) or part.number != end.number:
            raise MetadataDamagedError(f"record {entry.queue_offset} stands inside snapshot {end.number}")
        bodies.append(entry.body)
        parts.append(part)
    if begin.number != end.number or digest_parts(bodies) != end.digest:
        raise MetadataDamagedError(f"snapshot {end.number} differs from the digest in its end")
    for part in parts:
        for change in part.changes:
            apply(change, end_entry.end)
    return _snapshot(begin, begin_entry, end_entry)


def _check_format(begin: SnapshotBegin) -> None:
    if begin.format != FORMAT:
        raise MetadataDamagedError(f"snapshot {begin.number} has format {begin.format}, this LogHerd reads {FORMAT}")


def _snapshot(begin: SnapshotBegin, begin_entry: Entry, end: Entry) -> Snapshot:
    size = end.end - begin_entry.position
    return Snapshot(begin.number, begin.change_offset, begin_entry.position, end.end, size, end.queue_offset)
