"""What lies behind the first byte of the log that is no record: looked at before anything is cut, then zeroed."""

from collections.abc import Iterator

from logherd.store.readable import write_over
from logherd.store.recovery_rows import Seen
from logherd.store.scan import Scanned, find_record
from logherd.store.segment import Segment

__all__ = ["cut_tail", "last_written_byte", "look_behind", "write_again"]

_CHUNK_BYTES = 16 << 20
_NO_RECORD = b"\xff" * 8
"""Length and magic number of nothing."""


def _parts(segments: list[Segment], position: int, end: int) -> Iterator[tuple[Segment, int, int]]:
    """(segment, first, last) bytes in files from `position` to `end` that may not be zeros, in pieces."""
    for segment in segments:
        if segment.end <= position or segment.start >= end:
            continue
        limit = min(end - segment.start, segment.size)
        for start, stop in segment.file.written_ranges(max(position - segment.start, 0)):
            for first in range(start, min(stop, limit), _CHUNK_BYTES):
                yield segment, first, min(first + _CHUNK_BYTES, stop, limit)


def find_record_from(segments: list[Segment], position: int, bare_end: int) -> Scanned | None:
    """The first whole record in its own place at or behind `position`."""
    for segment, first, last in _parts(segments, position, segments[-1].end):
        record = find_record(
            segment.view, segment.start, first, last, bare_end=bare_end, readable=segment.readable
        )  # fmt: skip
        if record is not None:
            return record
    return None


def last_written_byte(segments: list[Segment], position: int, end: int) -> int:
    """The position behind the last byte in [position, end) that is not zero; `position` if all are. What cannot be read
    may have been anything."""
    found = position
    for segment, first, last in _parts(segments, position, end):
        readable = first
        for start, stop in segment.readable.parts(first, last):
            used = len(bytes(segment.view[start:stop]).rstrip(b"\0"))
            if used or start > readable:
                found = segment.start + start + used
            readable = stop
        if readable < last:
            found = segment.start + last
    return found


def look_behind(segments: list[Segment], position: int, window: int, *, bare_end: int) -> tuple[Seen, int]:
    """What is there, and the position (bytes) that settles it: of the record found, or behind the last byte written.

    Without a window (nobody knows how much was unflushed) any record is one too many, and all else is remains.
    """
    record = find_record_from(segments, position + window, bare_end)
    if record is not None:
        return Seen.RECORDS, record.position
    end = last_written_byte(segments, position, position + window if window else segments[-1].end)
    return (Seen.REMAINS if end > position else Seen.NOTHING), end


def cut_tail(segments: list[Segment], position: int, end: int) -> None:
    """Zero the log from `position` to `end`. First, durably, no record begins at `position` any more, which is the cut;
    then the rest becomes zeros; only when these are durable, what tells that they may not be goes.

    After a crash, or a failed flush whose zeros are in the cache only, the log ends at `position` all the same, and as
    that is no end in order, it is cut again when it is opened. Raises OSError.
    """
    segment = next((each for each in segments if each.start <= position < each.end), None)
    if segment is None:
        return
    at, size = position - segment.start, min(len(_NO_RECORD), segment.end - position)
    write_over(segment.file, at, _NO_RECORD[:size])
    segment.file.flush()
    for each, first, last in list(_parts(segments, position + size, end)):
        write_over(each.file, first, bytes(last - first))
    for each in segments:
        if each.end > position and each.start < end:
            each.file.flush()
    segment.file.write(at, (bytes(size),))
    segment.file.flush()


def write_again(segments: list[Segment], position: int, end: int) -> None:
    """Write the log from `position` to `end` once more as it is read, so that a flush has something to write there.

    The process before may have ended at a failed flush: its bytes are then read from the cache, count as clean there,
    and are not on the disk. The same bytes over the same bytes cannot be torn. Raises OSError.
    """
    for segment in segments:
        first, last = max(position, segment.start), min(end, segment.end)
        for at in range(first - segment.start, last - segment.start, _CHUNK_BYTES):
            stop = min(at + _CHUNK_BYTES, last - segment.start)
            segment.file.write(at, (bytes(segment.view[at:stop]),))
