"""Snapshots: the whole state as records, so that start reads a bounded tail and retention may cut below it (H2).

A snapshot is begin, parts, end in queue 1. It is written in slices, one per loop pass, while changes go on: begin names
the first change that it may miss, and reading applies all changes from there on top. Since every change states a value,
the result is the state at the end. A crash in the middle leaves parts without an end, which reading passes over.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256

from logherd.service.metadata.changes import (
    FORMAT,
    Change,
    SnapshotBegin,
    SnapshotEnd,
    SnapshotPart,
    SnapshotRecord,
    decode_snapshot_record,
    digest_parts,
    encode,
)
from logherd.service.metadata.errors import MetadataDamagedError
from logherd.service.metadata.journal import CHANGES, SNAPSHOTS, Entry, MetadataLog

__all__ = ["Snapshot", "SnapshotWriter", "find_snapshot"]

_CHANGES_PER_PART = 500


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


class SnapshotWriter:
    """Writes one snapshot, one record per `step`.

    `changes` yields, lazily, the state as changes; it must tolerate that the state changes between two values.
    """

    def __init__(self, log: MetadataLog, number: int, changes: Iterator[Change]) -> None:
        self._log = log
        self._number = number
        self._changes = changes
        self._unwritten: bytes | None = None
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
            change_offset = self._log.bounds(CHANGES)[1]
            self._begin = self._append(encode(SnapshotBegin(self._number, change_offset)))[0]
            self._change_offset = change_offset
            return None
        body = self._unwritten or self._encode_part()
        if body is None:
            _, end = self._append(encode(SnapshotEnd(self._number, self._parts, self._digest.hexdigest())))
            return Snapshot(self._number, self._change_offset, self._begin, end, self._size)
        self._unwritten = body
        self._append(body)
        self._unwritten = None
        self._digest.update(body)
        self._parts += 1
        return None

    def _encode_part(self) -> bytes | None:
        batch: list[Change] = []
        for change in self._changes:
            batch.append(change)
            if len(batch) == _CHANGES_PER_PART:
                break
        return encode(SnapshotPart(self._number, batch)) if batch else None

    def _append(self, body: bytes) -> tuple[int, int]:
        start, end = self._log.append(SNAPSHOTS, body)
        self._size += end - start
        return start, end


def find_snapshot(log: MetadataLog, apply: Callable[[Change, int], None]) -> Snapshot | None:
    """Find the newest complete snapshot and apply its parts, with the snapshot's end; None if there is none.

    Raises: MetadataDamagedError if a snapshot has an end but not what the end promises.
    """
    first, end = log.bounds(SNAPSHOTS)
    at = end - 1
    while at >= first:
        entry, record = _record_at(log, at)
        if isinstance(record, SnapshotEnd):
            return _read_snapshot(log, record, entry, apply)
        at -= 1
    return None


def _record_at(log: MetadataLog, queue_offset: int) -> tuple[Entry, SnapshotRecord]:
    entry = next(log.read(SNAPSHOTS, queue_offset), None)
    if entry is None:
        raise MetadataDamagedError(f"snapshot record {queue_offset} is missing from the log")
    return entry, decode_snapshot_record(entry.body, queue_offset)


def _read_snapshot(
    log: MetadataLog, end: SnapshotEnd, end_entry: Entry, apply: Callable[[Change, int], None]
) -> Snapshot | None:
    begin_offset = end_entry.queue_offset - end.parts - 1
    begin_entry, begin = _record_at(log, begin_offset) if begin_offset >= log.bounds(SNAPSHOTS)[0] else (None, None)
    if begin_entry is None or not isinstance(begin, SnapshotBegin):
        raise MetadataDamagedError(f"snapshot {end.number} has an end ({end_entry.queue_offset}) but no beginning")
    if begin.format != FORMAT:
        raise MetadataDamagedError(f"snapshot {end.number} has format {begin.format}, this LogHerd reads {FORMAT}")
    bodies: list[bytes] = []
    parts: list[SnapshotPart] = []
    for entry in log.read(SNAPSHOTS, begin_offset + 1):
        if entry.queue_offset == end_entry.queue_offset:
            break
        part = decode_snapshot_record(entry.body, entry.queue_offset)
        if not isinstance(part, SnapshotPart) or part.number != end.number:
            raise MetadataDamagedError(f"record {entry.queue_offset} stands inside snapshot {end.number}")
        bodies.append(entry.body)
        parts.append(part)
    if begin.number != end.number or len(parts) != end.parts or digest_parts(bodies) != end.digest:
        raise MetadataDamagedError(f"snapshot {end.number} differs from the digest in its end")
    for part in parts:
        for change in part.changes:
            apply(change, end_entry.end)
    size = end_entry.end - begin_entry.position
    return Snapshot(end.number, begin.change_offset, begin_entry.position, end_entry.end, size)
