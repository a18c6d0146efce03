"""The record of the controllers' log.

    magic u16 | kind u8 | flags u8 | length u32 | start u64 | epoch u64 | crc u32 | body     big-endian, 28 bytes + body

`start` is the position of the first byte, so that a range of records keeps its gaps (a record never crosses a segment;
what is left of the segment is not sent). The checksum covers everything but itself and is seeded with the checksum of
the record before: one comparison ties a record to the whole log below it, so equal checksums at equal places mean equal
logs, and a range that does not continue a log fails at its first record.

Source: raft-log rules 5.4; the broker's message log keeps RocketMQ's layout instead (design 5.1, H1).
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from struct import Struct

import msgspec

from logherd.kit.checksum import crc32
from logherd.kit.errors import ensure
from logherd.model.names import Epoch, Position
from logherd.replication.log import SpanDamagedError

__all__ = ["HEADER_SIZE", "Kind", "Record", "decode_records", "encode_record", "encode_run"]

_MAGIC = 0x4C48
_HEADER = Struct(">HBBIQQI")
_CHECKED_HEADER = Struct(">HBBIQQ")
_CHECKED = _CHECKED_HEADER.size
HEADER_SIZE = _HEADER.size


class Kind(IntEnum):
    """What a record is for."""

    DATA = 0
    NOOP = 1
    MEMBERS = 2
    RESET = 3


_KINDS = tuple(Kind)


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record with its raw bytes. `end` is the position after its last byte.

    The whole retained log consists of these, and a struct without references back is not walked by the collector.
    """

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
    return encode_run(kind, epoch, start, (body,), seal=seal, room=HEADER_SIZE + len(body))[0]


def encode_run(
    kind: Kind, epoch: Epoch, start: Position, bodies: Sequence[bytes], *, seal: int, room: int
) -> list[Record]:
    """As many of `bodies`, from the first on, as `room` bytes hold as records one behind the other from `start` on."""
    records: list[Record] = []
    pack, add = _CHECKED_HEADER.pack, records.append
    limit = start + room
    for body in bodies:
        length = len(body)
        end = start + HEADER_SIZE + length
        if end > limit:
            break
        checked = pack(_MAGIC, kind, 0, length, start, epoch)
        seal = crc32(body, crc32(checked, seal))
        add(Record(kind, epoch, start, Position(end), seal, checked + seal.to_bytes(4, "big") + body))
        start = Position(end)
    return records


def decode_records(data: bytes | memoryview, *, after: Position, seal: int) -> Iterator[Record]:
    """The records in `data` that end above `after`, checked against the log that ends there with checksum `seal`.

    Raises: SpanDamagedError naming the first record that is cut short, damaged or does not continue the log.
    """
    view, at, end, limit, unpack = memoryview(data), 0, after, len(data), _HEADER.unpack_from
    while at < limit:
        if limit - at < HEADER_SIZE:
            raise SpanDamagedError(f"{limit - at} bytes after position {end} are no record header")
        magic, kind, flags, length, start, epoch, checksum = unpack(view, at)
        size = HEADER_SIZE + length
        if magic != _MAGIC or flags != 0 or kind >= len(_KINDS) or limit - at < size:
            raise SpanDamagedError(f"no whole record of a known kind follows position {end}")
        if start + size > after:
            body = at + HEADER_SIZE
            continues = crc32(view[body : at + size], crc32(view[at : at + _CHECKED], seal)) == checksum
            if start < end or not continues:
                raise SpanDamagedError(f"the record at position {start} does not continue the log that ends at {end}")
            seal, end = checksum, Position(start + size)
            yield Record(_KINDS[kind], epoch, start, end, checksum, bytes(view[at : at + size]))
        at += size
    ensure(at == limit, "records fill the range", at, limit)
