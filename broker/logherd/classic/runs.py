"""From a stream of a log's bytes, cut anywhere, to whole records as `MessageStore.append_raw` takes them."""

from dataclasses import dataclass
from struct import Struct

from logherd.classic.frames import ClassicError
from logherd.model.record import BLANK_MAGIC, BLANK_SIZE_MIN, MAGIC_V1, MAGIC_V2

__all__ = ["Run", "RunReader"]

_U32X2 = Struct(">II")
_RECORD_SIZE_MIN = 91


@dataclass(frozen=True, slots=True)
class Run:
    """Whole records of one segment from position `after` to `end`; of the blank one at its end the head alone."""

    data: bytes
    after: int
    end: int


class RunReader:
    """Looks at lengths and magic only; whoever appends the run verifies what is in it."""

    __slots__ = ("_bytes", "_padding", "_position", "_record_bytes_max", "_segment_bytes")

    def __init__(self, position: int, segment_bytes: int, record_bytes_max: int) -> None:
        """`position`: where a record begins, and the next byte that is fed lies."""
        self._position = position
        self._bytes = bytearray()
        self._padding = 0
        self._segment_bytes = segment_bytes
        self._record_bytes_max = record_bytes_max

    def feed(self, data: bytes) -> list[Run]:
        """The records that are complete now. Raises: ClassicError where no record is."""
        runs = list[Run]()
        while data:
            if self._padding:
                skipped = min(self._padding, len(data))
                self._padding -= skipped
                data = data[skipped:]
                continue
            self._bytes += data
            data = self._take(runs)
        return runs

    def _take(self, runs: list[Run]) -> bytes:
        """Move whole records to `runs`; the bytes that follow a blank record's head."""
        held, at, start = self._bytes, 0, self._position
        while len(held) - at >= BLANK_SIZE_MIN:
            size, magic = _U32X2.unpack_from(held, at)
            if magic == BLANK_MAGIC and size >= BLANK_SIZE_MIN:
                return self._end_segment(runs, at, size)
            self._check(start + at, size, magic)
            if len(held) - at < size:
                break
            at += size
        if at:
            runs.append(Run(bytes(held[:at]), start, start + at))
            del held[:at]
            self._position += at
        return b""

    def _end_segment(self, runs: list[Run], at: int, size: int) -> bytes:
        position = self._position + at
        end = position + size
        if end % self._segment_bytes or size > self._segment_bytes:
            raise ClassicError(
                f"a file of the master ends at position {end}; here files have {self._segment_bytes} bytes: set "
                "store.segmentSize to the master's mappedFileSizeCommitLog"
            )
        head = at + BLANK_SIZE_MIN
        rest = bytes(self._bytes[head:])
        runs.append(Run(bytes(self._bytes[:head]), self._position, end))
        self._bytes.clear()
        self._position = end
        self._padding = size - BLANK_SIZE_MIN
        return rest

    def _check(self, position: int, size: int, magic: int) -> None:
        if magic not in (MAGIC_V1, MAGIC_V2) or size < _RECORD_SIZE_MIN:
            raise ClassicError(f"the master sends no record at position {position}: {size} bytes, magic {magic:#010x}")
        if size > self._record_bytes_max:
            raise ClassicError(
                f"the master sends a record of {size} bytes at position {position}, at most {self._record_bytes_max} "
                "are taken here: raise store.messageSizeMax"
            )
        left = self._segment_bytes - position % self._segment_bytes
        if size + BLANK_SIZE_MIN > left:
            raise ClassicError(
                f"the master's record at position {position} would cross the end of a file, which have "
                f"{self._segment_bytes} bytes here: set store.segmentSize to the master's mappedFileSizeCommitLog"
            )
