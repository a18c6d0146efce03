"""Runs of whole records as they lie in the log: what one replica reads from its log and another appends to its own.

A run lies in one segment. The blank record at the segment's end is part of it, of which only the eight bytes of its
head are carried; then the run ends where the segment ends.
"""

from collections.abc import Sequence
from struct import Struct

from logherd.kit.checksum import crc32
from logherd.model.record import BLANK_MAGIC, BLANK_SIZE_MIN, MAGIC_V1, RecordError, SysFlag
from logherd.store.files import Buffer
from logherd.store.scan import Scanned, read_record

__all__ = ["RawRun", "decode_run", "newest_bytes", "trim_parts", "whole_records"]

_U32X2 = Struct(">II")
_U32 = Struct(">I")
_HOSTS_V6 = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6
_BODY_AT = 88
_RECORD_SIZE_MIN = 91
_MASK = 0x7FFFFFFF


def whole_records(
    data: Buffer, start: int, end: int, bytes_max: int, *, segment_end: int = -1
) -> tuple[Buffer, int]:  # fmt: skip
    """The records in front of `data`, which begins at position `start` and whose last record ends at `end`: at least
    one, else at most `bytes_max` bytes. Their bytes and the position where they end.

    Raises: RecordError where no record is.
    """
    if len(data) > end - start:
        data = memoryview(data)[: end - start]
    if end != segment_end and len(data) <= bytes_max:
        return data, start + len(data)
    at, available = 0, len(data)
    while at < available and (not at or at < bytes_max):
        size, magic = _U32X2.unpack_from(data, at) if available - at >= BLANK_SIZE_MIN else (0, 0)
        if magic == BLANK_MAGIC and start + at + size == segment_end:
            if at and at + BLANK_SIZE_MIN > bytes_max:
                break
            return memoryview(data)[: at + BLANK_SIZE_MIN], segment_end
        if size < _RECORD_SIZE_MIN or size > available - at:
            raise RecordError(f"at position {start + at} a record of {size} bytes, {available - at} are left")
        if at and at + size > bytes_max:
            break
        at += size
    return memoryview(data)[:at], start + at


def newest_bytes(parts: Sequence[Buffer], end: int, after: int, *, segment_end: int = -1) -> Buffer:
    """The bytes from position `after` to `end`, where the last of the parts ends. Looks at no older part."""
    place, start = len(parts), end
    if end == segment_end:
        place -= 1
        start -= int.from_bytes(parts[place][:4])  # the blank record is longer than its head
    while start > after:
        place -= 1
        start -= len(parts[place])
    if place == len(parts) - 1:
        return parts[place] if start == after else memoryview(parts[place])[after - start :]
    data = b"".join(parts[place:])
    return data if start == after else memoryview(data)[after - start :]


def trim_parts(parts: list[Buffer], start: int, end: int) -> None:
    """Shorten parts that begin at position `start` to what lies below `end`."""
    count = 0
    while start < end:
        start += len(parts[count])
        count += 1
    del parts[count:]
    if start > end:
        parts[-1] = memoryview(parts[-1])[: end - start]


class RawRun:
    """A verified run: its records, where they end, and where a blank record begins, -1 if there is none."""

    __slots__ = ("blank_at", "end", "records")

    def __init__(self, records: list[Scanned], end: int, blank_at: int) -> None:
        self.records = records
        self.end = end
        self.blank_at = blank_at


def decode_run(data: Buffer, start: int, segment_end: int, *, bare_end: int = 0) -> RawRun:
    """Verify a run that begins at position `start`: lengths, magic, place, and both checksums of every record; those
    below `bare_end` may lack that of the whole. How long a record may be is for whoever appended it first to say.

    Raises: RecordError; the message says where.
    """
    view, at, records = memoryview(data), 0, list[Scanned]()
    if not data:
        raise RecordError(f"position {start}: no record")
    while at < len(view):
        position = start + at
        size, magic = _U32X2.unpack_from(view, at) if len(view) - at >= BLANK_SIZE_MIN else (0, 0)
        if magic == BLANK_MAGIC:
            if at + BLANK_SIZE_MIN != len(view):
                raise RecordError(f"position {position}: bytes follow the blank record that ends a segment")
            if position + size != segment_end:
                raise RecordError(
                    f"position {position}: a segment ends at {position + size}, here it ends at {segment_end}: "
                    "all replicas of a group need the same segment size"
                )
            return RawRun(records, segment_end, position)
        if position + size + BLANK_SIZE_MIN > segment_end:
            raise RecordError(
                f"position {position}: a record of {size} bytes would cross {segment_end}, where a segment ends here: "
                "all replicas of a group need the same segment size"
            )
        try:
            record = read_record(view, at, position, bare_end)
            if magic == MAGIC_V1 and not record.sys_flag & _HOSTS_V6:  # of others both checksums were compared
                _check_body(view, at)
        except RecordError as error:
            raise RecordError(f"position {position}: {error}") from error
        records.append(record)
        at += record.size
    return RawRun(records, start + at, -1)


def _check_body(view: memoryview, at: int) -> None:
    """A client compares the body's own checksum, so one that differs must not spread."""
    (length,) = _U32.unpack_from(view, at + _BODY_AT - 4)
    (written,) = _U32.unpack_from(view, at + 8)
    if length and crc32(view[at + _BODY_AT : at + _BODY_AT + length]) & _MASK != written:
        raise RecordError("the body checksum differs")
