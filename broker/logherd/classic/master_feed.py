"""Following a Java master: where to begin, whether its log is the one that is here, and which records to append.

The protocol compares nothing: a master that lost its end in a crash goes on from an earlier position, and whoever asks
for the bytes behind it gets those of other records. So a follower asks from before its own end on, compares (H8), and
appends only when every byte is the same. It never cuts by itself: which of two logs is right, no machine can tell here.

Source: apache/rocketmq: store/src/main/java/org/apache/rocketmq/store/ha/DefaultHAConnection.java
"""

from dataclasses import dataclass
from typing import Protocol

from logherd.classic.frames import ClassicError, Piece, TransferReader, encode_report
from logherd.classic.runs import Run, RunReader
from logherd.kit.errors import ensure
from logherd.model.record import BLANK_MAGIC

__all__ = ["FollowOptions", "FollowOutput", "MasterFeed", "OwnLog"]

Buffer = bytes | bytearray | memoryview

_READ_BYTES = 1 << 20


class OwnLog(Protocol):
    """The log that is here. All of it is committed when a connection begins."""

    @property
    def min_position(self) -> int:
        """Where it begins."""

    @property
    def committed_position(self) -> int:
        """Where it ends on the disk."""

    def committed_bytes(self, position: int, bytes_max: int) -> Buffer:
        """At least one byte from `position` < committed_position on, of one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowOptions:
    """Sizes in bytes, times in ms."""

    segment_bytes: int
    overlap_bytes: int
    """How much is compared before the first byte is appended. It covers whatever a crash here may have spoiled."""
    record_bytes_max: int
    report_ms: int = 5000
    silence_ms: int = 20_000


@dataclass(frozen=True, slots=True)
class FollowOutput:
    """Send `report`; append `runs`; then, if `fault` says why, end the connection."""

    report: bytes = b""
    runs: tuple[Run, ...] = ()
    fault: str = ""
    diverged: bool = False
    """The two logs are different: to try again is of no use."""


class MasterFeed:
    """One connection to a master. `begin` first; `step` takes what has arrived, or nothing, and the time in ms.

    1. Nothing is appended before all of [asked, end at the beginning) was compared.
    2. Positions of pieces have no gap and no repetition.
    3. After the first one a report names only what is on the disk.
    """

    __slots__ = (
        "_end", "_heard", "_log", "_next", "_options", "_padding_end", "_reader", "_reported", "_runs", "_told",
        "diverged", "fault",
    )  # fmt: skip

    def __init__(self, log: OwnLog, options: FollowOptions, now: int, *, master_begin: int = 0) -> None:
        """`master_begin`: where the master's log begins. Of what it has deleted it would send nothing, for ever."""
        self._log = log
        self._options = options
        self._reader = TransferReader()
        self._end = log.committed_position
        self._runs = RunReader(self._end, options.segment_bytes, options.record_bytes_max)
        self._next = max(self._first(), master_begin)
        self._padding_end = 0
        self._heard = self._told = now
        self._reported = self._end
        self.fault = ""
        self.diverged = False

    def _first(self) -> int:
        """Where to ask for the first byte.

        A report of 0 means the master's last file, so 1 stands for the log's beginning. The first byte of an empty log
        is then missing; it is the highest of a record's four-byte length, so it is 0, which the record itself proves.
        """
        log = self._log
        if self._end == 0:
            self._runs.feed(b"\0")
        return max(self._end - self._options.overlap_bytes, log.min_position, 1)

    @property
    def compared(self) -> bool:
        """Whether the master's log is known to continue the one that is here."""
        return self._next >= self._end and not self.fault

    @property
    def asked(self) -> int:
        """The position of the next byte that is expected."""
        return self._next

    def begin(self, now: int) -> FollowOutput:
        """Say where the master shall begin."""
        self._told = now
        return FollowOutput(encode_report(self._next))

    def written(self, now: int) -> bytes:
        """What to report, if anything, when records have reached the disk. Whether the master is silent is for `step`:
        what it says may wait to be read."""
        return b"" if self.fault else self._report(now)

    def step(self, received: bytes, now: int) -> FollowOutput:
        """`received` may be empty: time has passed. A fault is told once."""
        if self.fault:
            return FollowOutput()
        runs = list[Run]()
        if received:
            self._heard = now
            try:
                for piece in self._reader.feed(received):
                    self._take(piece, runs)
            except ClassicError as error:
                self.fault = str(error)
        elif now - self._heard > self._options.silence_ms:
            self.fault = f"the master said nothing for {now - self._heard} ms"
        return FollowOutput(self._report(now), tuple(runs), self.fault, self.diverged)

    def _take(self, piece: Piece, runs: list[Run]) -> None:
        """Compare what lies below our end, and add the records behind it that are complete now.

        Raises: ClassicError.
        """
        data = piece.data
        if piece.position != self._next:
            raise ClassicError(f"the master sends position {piece.position}, expected was {self._next}")
        self._compare(data)
        known = max(min(self._end - self._next, len(data)), 0)
        self._next += len(data)
        if known < len(data):
            runs += self._runs.feed(data[known:])

    def _report(self, now: int) -> bytes:
        """Before the comparison the time that has passed is no reason to claim anything but the place asked for."""
        if not self.compared:
            if now - self._told <= self._options.report_ms:
                return b""
            self._told = now
            return encode_report(self._next)
        position = self._log.committed_position
        if position <= self._reported and now - self._told <= self._options.report_ms:
            return b""
        self._told, self._reported = now, position
        return encode_report(max(position, 1))

    # ---- comparison

    def _compare(self, data: bytes) -> None:
        """Raises: ClassicError if the part of `data` that lies below our end is not what is here."""
        position, rest = self._next, memoryview(data)[: max(self._end - self._next, 0)]
        if rest and position < self._log.min_position:
            raise ClassicError(f"what lies at position {position} was deleted here before it was compared")
        while rest:
            if position < self._padding_end:
                skipped = min(self._padding_end - position, len(rest))
                position, rest = position + skipped, rest[skipped:]
                continue
            own = memoryview(self._log.committed_bytes(position, len(rest)))
            if own == rest[: len(own)]:
                position, rest = position + len(own), rest[len(own) :]
                continue
            at = position + _first_difference(own, rest)
            if not self._skip_padding(at):
                self.diverged = True
                raise ClassicError(
                    f"the master's log differs at position {at} from this one, which ends at {self._end}: it lost its "
                    "end in a crash, or is another log. Promote this store, or begin with an empty one"
                )
            rest = rest[at - position :]
            position = at

    def _skip_padding(self, at: int) -> bool:
        """Behind the blank record of a file anything may stand; here it is zeros. Whether that is where `at` is."""
        size = self._options.segment_bytes
        segment_end = at - at % size + size
        if segment_end > self._end:
            return False
        tail = self._own(at, segment_end)
        if tail.strip(b"\0"):
            return False
        first = max(segment_end - size, self._log.min_position, at - self._options.record_bytes_max)
        before = self._own(first, at)
        blank = before.rfind(BLANK_MAGIC.to_bytes(4))
        begins = first + blank - 4
        if blank < 4 or int.from_bytes(before[blank - 4 : blank]) != segment_end - begins:
            return False
        self._padding_end = segment_end
        return True

    def _own(self, start: int, end: int) -> bytes:
        parts, at = list[bytes](), start
        while at < end:
            part = bytes(self._log.committed_bytes(at, min(end - at, _READ_BYTES)))
            ensure(bool(part), "what is committed can be read", at)
            parts.append(part)
            at += len(part)
        return b"".join(parts)


def _first_difference(one: memoryview, other: memoryview) -> int:
    """The index of the first byte that is not the same; both begin at the same place, and differ."""
    low, high = 0, min(len(one), len(other))
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low
