"""A log store in memory, for tests and for groups that keep nothing. The same contract as the mapped one."""

from bisect import bisect_right
from collections.abc import Sequence

from logherd.kit.checksum import crc32
from logherd.kit.errors import ensure
from logherd.model.names import Epoch, Position
from logherd.raft.record import HEADER_SIZE, Kind, Record, decode_records, encode_run
from logherd.raft.store import HardState
from logherd.replication.epochs import EpochHistory
from logherd.replication.log import Image, Span, SpanDamagedError

__all__ = ["MemoryLog"]


class MemoryLog:
    """Records in a list. Positions are bytes of imagined segments, so that they have gaps as real ones do."""

    def __init__(self, segment_bytes: int = 1 << 20) -> None:
        ensure(segment_bytes > HEADER_SIZE, "a segment holds a record", segment_bytes)
        self._segment_bytes = segment_bytes
        self._hard: HardState | None = None
        self._history = EpochHistory()
        self._base_seal = 0
        self._records: list[Record] = []
        self._ends: list[Position] = []
        self._image: tuple[Image, bytes] | None = None
        self._staged: tuple[str, bytes] = ("", b"")
        self._last_read: tuple[tuple[Position, int], Record, Span] | None = None

    @property
    def end(self) -> Position:
        """The end of the last record."""
        return self._ends[-1] if self._ends else self._history.base.position

    @property
    def epochs(self) -> EpochHistory:
        """The epoch table."""
        return self._history

    @property
    def shown(self) -> Position:
        """Nothing is kept back."""
        return self.end

    def hard_state(self) -> HardState | None:
        """The newest hard state."""
        return self._hard

    def keep_hard_state(self, state: HardState) -> None:
        """Replace it."""
        self._hard = state

    def seal_at(self, position: Position) -> int:
        """The checksum of the record that ends at `position`."""
        place = bisect_right(self._ends, position)
        return self._records[place - 1].checksum if place else self._base_seal

    def append(self, kind: Kind, epoch: Epoch, body: bytes) -> Position:
        """Append one record, in the next segment if this one has no room for it."""
        return self.append_all(kind, epoch, (body,))[-1]

    def append_all(self, kind: Kind, epoch: Epoch, bodies: Sequence[bytes]) -> list[Position]:
        """Append records, as many to each segment as it has room for; one longer than a segment gets its own place."""
        start, seal = self.end, self._records[-1].checksum if self._records else self._base_seal
        records: list[Record] = []
        while len(records) < len(bodies):
            rest = bodies[len(records) :] if records else bodies
            room = self._segment_bytes - start % self._segment_bytes
            size = HEADER_SIZE + len(rest[0])
            if size > room and room < self._segment_bytes:
                start = Position(start + room)
                room = self._segment_bytes
            records += encode_run(kind, epoch, start, rest, seal=seal, room=max(room, size))
            start, seal = records[-1].end, records[-1].checksum
        self._add_all(records)
        return [record.end for record in records]

    def read(self, after: Position, bytes_max: int) -> Span:
        """Whole records after `after`, one at least. Followers in step ask for the same: it is put together once."""
        records, frames, size = self._records, list[bytes](), 0
        ensure(bool(records), "there is something to read", after)
        known = self._last_read
        if known is not None and known[0] == (after, bytes_max) and known[1] is records[-1]:
            return known[2]
        first = bisect_right(self._ends, after)
        ensure(first < len(records), "there is something to read", after, self.end)
        for last in range(first, len(records)):
            frame = records[last].frame
            size += len(frame)
            if size > bytes_max and frames:
                break
            frames.append(frame)
        end = self._ends[first + len(frames) - 1]
        data = b"".join(frames)
        span = Span(self._history.point_at(after), end, self._history.runs_between(after, end), data)
        self._last_read = ((after, bytes_max), records[-1], span)
        return span

    def records(self, after: Position, upto: Position) -> list[Record]:
        """The records that end in (after, upto]."""
        return self._records[bisect_right(self._ends, after) : bisect_right(self._ends, upto)]

    def write(self, span: Span, after: Position) -> None:
        """Append what of the span lies above `after`, the end of this log."""
        ensure(after == self.end, "a range continues the log", after, self.end)
        fresh = list(decode_records(span.data, after=after, seal=self.seal_at(after)))
        if not fresh or fresh[-1].end != span.end:
            raise SpanDamagedError(f"the range was to end at {span.end}")
        self._add_all(fresh)

    def truncate(self, at: Position) -> None:
        """Drop the records above `at`."""
        keep = bisect_right(self._ends, at)
        ensure((self._ends[keep - 1] if keep else self._history.base.position) == at, "a cut is at a record's end", at)
        del self._records[keep:], self._ends[keep:]
        self._history = self._history.truncated(at)

    def compact(self, at: Position) -> None:
        """Drop the records up to `at`."""
        ensure(self._image is not None and self._image[0].point.position >= at, "an image covers what is dropped", at)
        keep, seal = bisect_right(self._ends, at), self.seal_at(at)
        self._history = self._history.compacted(at, self.end)
        del self._records[:keep], self._ends[:keep]
        self._base_seal = seal

    def image(self) -> Image | None:
        """The newest image."""
        return self._image[0] if self._image else None

    def image_chunk(self, image: Image, offset: int, bytes_max: int) -> bytes | None:
        """Bytes of the newest image; None for another one."""
        if self._image is None or self._image[0] != image:
            return None
        return self._image[1][offset : offset + bytes_max]

    def keep_image(self, image: Image, data: bytes) -> None:
        """Keep an own image instead of the one before."""
        ensure(image.size == len(data) and image.checksum == crc32(data), "an image is described truly", image)
        self._image = (image, data)

    def staged(self, image: Image) -> int:
        """How much of a foreign image is here."""
        return len(self._staged[1]) if self._staged[0] == image.identity else 0

    def stage(self, image: Image, offset: int, data: bytes | memoryview) -> None:
        """Add to a foreign image; another image replaces what was staged."""
        have = self._staged[1] if self._staged[0] == image.identity else b""
        ensure(offset == len(have), "a copy has no hole", offset, len(have))
        self._staged = (image.identity, have + bytes(data))

    def install(self, image: Image) -> None:
        """Start from the staged image; records that continue it stay."""
        data = self._staged[1] if self._staged[0] == image.identity else b""
        self._staged = ("", b"")
        if len(data) != image.size or crc32(data) != image.checksum:
            raise SpanDamagedError(f"the staged copy of image {image.identity} is not that image")
        self._image = (image, data)
        if self._history.matches(image.point, self.end):
            self.compact(image.point.position)
            return
        self._history, self._base_seal = EpochHistory(image.point), image.seal
        self._records.clear()
        self._ends.clear()

    def _add_all(self, records: Sequence[Record]) -> None:
        """Take records that continue the log; the one way in which it grows."""
        history, end = self._history, self.end
        for record in records:
            if record.epoch != history.last_epoch or not history.runs:
                history = history.extended(record.epoch, end)
            end = record.end
        self._history = history
        self._records += records
        self._ends += [record.end for record in records]
