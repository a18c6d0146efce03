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
from logherd.store.key_index import PENDING, waiting_below

__all__ = ["Outline", "Outlines", "Share", "decode_outlines", "encode_outlines", "tiles"]

_OUTLINED_MIN = 2
"""Records of a run; one is as quickly read."""
_RUN_BYTES_MAX = 256 << 10
_KEPT_BYTES = 4 << 20


class Share(NamedTuple):
    """What one queue gets: its units in order, of which the first one belongs to `first_offset`."""

    queue_id: int
    first_offset: int
    units: bytes


class Outline(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Records of one topic, [position, position + size) of the log; the last one was stored at `stored_ms`.

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


class _Run:
    """Records that stand behind each other, as far as they have come. `begun`: the offset of each queue's first one."""

    __slots__ = ("begun", "checksum", "count", "end", "position", "stored_ms", "topic")

    def __init__(self, topic: str, position: int) -> None:
        self.topic = topic
        self.position = self.end = position
        self.begun: dict[QueueLog, int] = {}
        self.checksum = self.count = self.stored_ms = 0


class Outlines:
    """Those of the newest runs that this process has appended, oldest first, of at most 4 MiB of the log.

    A run is what was appended to one topic's queues without anything between: it ends when it is shipped or written, or
    at 256 KiB. Its checksum grows with each record, its units and entries are taken from where they wait.
    """

    __slots__ = ("_kept", "_pending", "_run")

    def __init__(self, pending: bytearray) -> None:
        """`pending` are the waiting index entries, always as they are now."""
        self._pending = pending
        self._kept: deque[Outline] = deque()
        self._run = _Run("", -1)

    def begin(self, topic: str, position: int) -> dict[QueueLog, int]:
        """Records for queues of this topic are about to be appended, of which neither units nor entries are there.

        To what this gives, the offset of each queue's first one is to be added where it has none.
        """
        run = self._run
        if run.end != position or run.topic != topic or run.end - run.position >= _RUN_BYTES_MAX:
            run = self._next_run(topic, position)
        return run.begun

    def add(self, queue: QueueLog, record: bytes, position: int, stored_ms: int) -> None:
        """The record that is about to be appended, which is the queue's next one."""
        run = self._run  # as `begin` and `extend`, without calls: most messages of many clients come here
        if run.end != position or run.topic != queue.topic or run.end - run.position >= _RUN_BYTES_MAX:
            run = self._next_run(queue.topic, position)
        if queue not in run.begun:
            run.begun[queue] = queue.next_offset
        run.checksum = crc32(record, run.checksum)
        run.end = position + len(record)
        run.count += 1
        run.stored_ms = stored_ms

    def extend(self, data: bytes, count: int, stored_ms: int) -> None:
        """The records for which `begin` was called."""
        run = self._run
        run.checksum = crc32(data, run.checksum)
        run.end += len(data)
        run.count += count
        run.stored_ms = stored_ms

    def between(self, start: int, end: int) -> list[Outline]:
        """Of the runs that lie wholly in [start, end)."""
        self.end_run()
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
        self._run = _Run("", -1)

    def _next_run(self, topic: str, position: int) -> _Run:
        self.end_run()
        run = self._run = _Run(topic, position)
        return run

    def end_run(self) -> None:
        """What is appended next is not read together with what was. If the run's units are not all there any more, or
        more are, it has no outline."""
        run, self._run = self._run, _Run("", -1)
        if run.count < _OUTLINED_MIN:
            return
        shares = [
            Share(queue.queue_id, first, bytes(queue.tail[(first - queue.tail_start) * UNIT_SIZE :]))
            for queue, first in run.begun.items()
            if first >= queue.tail_start
        ]
        if sum(len(share.units) for share in shares) != run.count * UNIT_SIZE:
            return
        size, kept, pending = run.end - run.position, self._kept, self._pending
        entries = bytes(pending[waiting_below(pending, run.position) : waiting_below(pending, run.end)])
        kept.append(Outline(run.position, size, run.checksum, run.stored_ms, run.topic, shares, entries))
        while kept[0].position < run.end - _KEPT_BYTES and len(kept) > 1:
            kept.popleft()


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
