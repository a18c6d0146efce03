"""What a leader tells its followers of a run of records: their units, index entries and a checksum over all of them.

The leader has derived these when it appended the run; a follower would find the same again by taking every record
apart, which is half of what a small record costs it. So they travel along, and a follower compares the checksum, which
was computed when the records were encoded, with the bytes that it got, and the units with the place that they tell of.
An outline that does not fit is nothing but ignored: then the records themselves are read.
"""

from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec

from logherd.kit.checksum import crc32
from logherd.store.consume_queue import UNIT, UNIT_SIZE, QueueLog
from logherd.store.key_index import PENDING

__all__ = ["OUTLINED_MIN", "Outline", "Outlines", "Share", "decode_outlines", "encode_outlines", "outline_run", "tiles"]

OUTLINED_MIN = 2
"""Records of a run; one is as quickly read."""
_KEPT_BYTES = 4 << 20


class Share(NamedTuple):
    """What one queue gets: its units in order, of which the first one belongs to `first_offset`."""

    queue_id: int
    first_offset: int
    units: bytes


class Outline(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Records of one topic that were stored in the same millisecond, [position, position + size) of the log.

    `checksum` is the CRC-32 of their bytes; `entries` are their entries of the key index, in order.
    """

    position: int
    size: int
    checksum: int
    stored_ms: int
    topic: str
    shares: list[Share]
    entries: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Outline]).decode


class Outlines:
    """Those of the newest runs that this process has appended, oldest first, of at most 4 MiB of the log."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: deque[Outline] = deque()

    def add(self, outline: Outline) -> None:
        """Keep it; those that are too old are forgotten."""
        kept = self._kept
        kept.append(outline)
        lowest = outline.position + outline.size - _KEPT_BYTES
        while kept[0].position < lowest and len(kept) > 1:
            kept.popleft()

    def between(self, start: int, end: int) -> list[Outline]:
        """Of the runs that lie wholly in [start, end)."""
        found = deque[Outline]()
        if not self._kept or self._kept[0].position >= end:  # of older records, for who is catching up
            return []
        for outline in reversed(self._kept):
            if outline.position < start:
                break
            if outline.position + outline.size <= end:
                found.appendleft(outline)
        return list(found)

    def forget(self) -> None:
        """The log was cut: other records may come to lie where those were."""
        self._kept.clear()


def outline_run(data: bytes, position: int, stored_ms: int, begun: dict[QueueLog, int], entries: bytes) -> Outline:
    """The outline of records that were just appended at `position`. `begun`: how long the tail of each of their queues
    was before."""
    shares, topic = list[Share](), ""
    for queue, length in begun.items():
        units = bytes(queue.tail[length:])
        topic = queue.topic
        shares.append(Share(queue.queue_id, queue.next_offset - len(units) // UNIT_SIZE, units))
    return Outline(position, len(data), crc32(data), stored_ms, topic, shares, entries)


def tiles(outline: Outline, data: memoryview) -> bool:
    """Whether `data` are the bytes of this outline, its units tell of every one of them once, and its entries of no
    others."""
    start, end, entries = outline.position, outline.position + outline.size, outline.entries
    units = b"".join([share.units for share in outline.shares])
    if len(data) != outline.size or not units or len(units) % UNIT_SIZE or len(entries) % PENDING.size:
        return False
    if crc32(data) != outline.checksum:
        return False
    if entries and not start <= _position(entries, 0) <= _position(entries, len(entries) - PENDING.size) < end:
        return False
    positions, sizes, _ = zip(*sorted(UNIT.iter_unpack(units)), strict=True)
    return min(sizes) > 0 and tuple(accumulate(sizes, initial=start)) == (*positions, end)


def _position(entries: bytes, at: int) -> int:
    position: int = PENDING.unpack_from(entries, at)[1]
    return position


def encode_outlines(outlines: Sequence[Outline]) -> bytes:
    """As one piece; empty for none."""
    return _encode(outlines) if outlines else b""


def decode_outlines(data: bytes | memoryview) -> list[Outline]:
    """The inverse; none if these bytes are no outlines, which nobody is to rely on."""
    if not len(data):
        return []
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
