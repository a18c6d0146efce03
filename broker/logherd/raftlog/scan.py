"""Reading the records of a journal back: what continues the log, and where that ends."""

from collections.abc import Iterator

from logherd.model.names import Position
from logherd.raft.record import Record, decode_records
from logherd.replication.log import SpanDamagedError
from logherd.store.journal import Journal

__all__ = ["next_start", "read_records", "whole_records_in"]

_MAGIC = b"LH"
_START = slice(8, 16)


def next_start(end: int, segment_bytes: int) -> int:
    """Where a record begins that does not fit behind `end`."""
    return end + segment_bytes - end % segment_bytes if end % segment_bytes else end


def read_records(journal: Journal, base: Position, seal: int) -> list[Record]:
    """The records behind `base`, whose checksum is `seal`, up to the first place that does not continue them."""
    view = memoryview(journal.read(base, max(journal.end - base, 0)))
    found: list[Record] = []
    end = base
    progress = True
    while progress:
        progress = False
        for start in {end: None, next_start(end, journal.segment_bytes): None}:
            for record in _in_place(view[start - base :], start, end, seal):
                found.append(record)
                end, seal, progress = record.end, record.checksum, True
            if progress:
                break
    return found


def _in_place(view: memoryview, start: int, end: Position, seal: int) -> Iterator[Record]:
    """Records one behind the other from `start` on, each where it says it is."""
    try:
        for record in decode_records(view, after=end, seal=seal):
            if record.start != start:
                return
            yield record
            start = record.end
    except SpanDamagedError:
        return


def whole_records_in(data: bytes, position: int) -> bool:
    """Whether something in `data`, which lies at `position`, looks like a record in its own place.

    A guess by header alone: the checksum is seeded by the record before, which is not readable.
    """
    at = data.find(_MAGIC)
    while at >= 0:
        if int.from_bytes(data[at : at + _START.stop][_START]) == position + at:
            return True
        at = data.find(_MAGIC, at + 1)
    return False
