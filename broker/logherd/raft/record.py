"""The record of the controllers' log.

    magic u16 | kind u8 | flags u8 | length u32 | start u64 | epoch u64 | crc u32 | body     big-endian, 28 bytes + body

`start` is the position of the first byte, so that a range of records keeps its gaps (a record never crosses a segment;
what is left of the segment is not sent). The checksum covers everything but itself and is seeded with the checksum of
the record before: one comparison ties a record to the whole log below it, so equal checksums at equal places mean equal
logs, and a range that does not continue a log fails at its first record.

Source: raft-log rules 5.4; the broker's message log keeps RocketMQ's layout instead (design 5.1, H1).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from zlib import crc32

from logherd.kit.errors import ensure
from logherd.model.names import Epoch, Position
from logherd.replication.log import SpanDamagedError

__all__ = ["HEADER_SIZE", "Kind", "Record", "decode_records", "encode_record"]

_MAGIC = 0x4C48
_HEADER = Struct(">HBBIQQI")
_CHECKED = _HEADER.size - 4
HEADER_SIZE = _HEADER.size


class Kind(IntEnum):
    """What a record is for."""

    DATA = 0
    NOOP = 1
    MEMBERS = 2
    RESET = 3


_KINDS = frozenset(int(kind) for kind in Kind)


@dataclass(frozen=True, slots=True)
class Record:
    """One record with its raw bytes. `end` is the position after its last byte."""

    kind: Kind
    epoch: Epoch
    start: Position
    end: Position
    checksum: int
    frame: bytes

    @property
    def body(self) -> bytes:
        """What was proposed."""
        return self.frame[HEADER_SIZE:]


def encode_record(kind: Kind, epoch: Epoch, start: Position, body: bytes, *, seal: int) -> Record:
    """Frame `body` as the record that begins at `start`; `seal` is the checksum of the record before it."""
    checked = _HEADER.pack(_MAGIC, kind, 0, len(body), start, epoch, 0)[:_CHECKED]
    checksum = crc32(body, crc32(checked, seal))
    frame = b"".join((checked, checksum.to_bytes(4, "big"), body))
    return Record(kind, epoch, start, Position(start + len(frame)), checksum, frame)


def decode_records(data: bytes | memoryview, *, after: Position, seal: int) -> Iterator[Record]:
    """The records in `data` that end above `after`, checked against the log that ends there with checksum `seal`.

    Raises: SpanDamagedError naming the first record that is cut short, damaged or does not continue the log.
    """
    view, at, end = memoryview(data), 0, after
    while at < len(view):
        if len(view) - at < HEADER_SIZE:
            raise SpanDamagedError(f"{len(view) - at} bytes after position {end} are no record header")
        magic, kind, flags, length, start, epoch, checksum = _HEADER.unpack_from(view, at)
        size = HEADER_SIZE + length
        if magic != _MAGIC or flags != 0 or kind not in _KINDS or len(view) - at < size:
            raise SpanDamagedError(f"no whole record of a known kind follows position {end}")
        if start + size > after:
            frame = bytes(view[at : at + size])
            if start < end or crc32(frame[HEADER_SIZE:], crc32(frame[:_CHECKED], seal)) != checksum:
                raise SpanDamagedError(f"the record at position {start} does not continue the log that ends at {end}")
            seal, end = checksum, Position(start + size)
            yield Record(Kind(kind), Epoch(epoch), Position(start), end, checksum, frame)
        at += size
    ensure(at == len(view), "records fill the range", at, len(view))
