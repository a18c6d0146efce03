"""One Java slave of a log that is led here: what it is sent, and when it is sent away.

A slave takes any bytes that begin where its own log ends; it compares nothing, and nothing that it says proves what it
holds. So: committed bytes only, and of these what a crash leaves here, in order, from where it says; a slave that is
further than the committed log, or whose next bytes are gone, is refused, because only a person can say what shall
become of its log.
"""

from dataclasses import dataclass
from typing import Protocol

from logherd.classic.frames import ClassicError, ReportReader, encode_head
from logherd.kit.errors import LogHerdError

__all__ = ["CommittedLog", "SlaveFeed", "SlaveOptions", "SlaveOutput", "UnreadableError"]

Buffer = bytes | bytearray | memoryview


class UnreadableError(LogHerdError):
    """What lies at a position is damaged, or out of reach. The text is for whoever looks after this broker."""


class CommittedLog(Protocol):
    """The committed part of a log, as it lies in its files."""

    @property
    def min_position(self) -> int:
        """Where it begins."""

    @property
    def committed_position(self) -> int:
        """Where it ends."""

    @property
    def durable_position(self) -> int:
        """Up to where it is on the disk here, too. With what lies behind, a slave would have more than its master after
        a crash, and then the end of one log and what follows in another."""

    def committed_bytes(self, position: int, bytes_max: int) -> Buffer:
        """At least one byte from `position` < committed_position on, of one file. Raises: UnreadableError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlaveOptions:
    """Sizes in bytes, times in ms; RocketMQ's own, but for the window."""

    chunk_bytes: int = 32 << 10
    """Most bytes behind one head. A slave's buffer holds 4 MiB, and what does not fit it waits for ever."""
    window_bytes: int = 4 << 20
    """Most bytes that are on their way."""
    heartbeat_ms: int = 5000
    silence_ms: int = 20_000


@dataclass(frozen=True, slots=True)
class SlaveOutput:
    """Send `data`, in order; then, if `refusal` says why, end the connection."""

    data: tuple[Buffer, ...] = ()
    refusal: str = ""


_NOTHING = SlaveOutput()


class SlaveFeed:
    """One connection of a slave. `step` takes what has arrived, or nothing, and the time in ms.

    1. `sent` - `acknowledged` <= window; nothing is sent that is not committed and on the disk.
    2. Nothing is sent before the first report, nor before `admit`.
    """

    __slots__ = ("_admitted", "_heard", "_log", "_options", "_reports", "_told", "acknowledged", "refusal", "sent")

    def __init__(self, log: CommittedLog, options: SlaveOptions, now: int) -> None:
        self._log = log
        self._options = options
        self._reports = ReportReader()
        self._heard = self._told = now
        self._admitted = False
        self.sent: int | None = None
        """Where the next byte for the slave is; None before its first report."""
        self.acknowledged = 0
        """What the slave says it has, on its disk or not."""
        self.refusal = ""

    def admit(self) -> None:
        """The slave's files are known to be as long as ours: it may be given bytes."""
        self._admitted = True

    def refuse(self, reason: str) -> SlaveOutput:
        """End this connection, for a reason that the log tells."""
        self.refusal = reason
        return SlaveOutput((), reason)

    def step(self, received: bytes, now: int, *, room: bool = True) -> SlaveOutput:
        """`received` may be empty: the log may have grown, or time passed. `room`: whether the connection takes more;
        what a slave acknowledges says nothing of what it has read."""
        if self.refusal:
            return _NOTHING
        if received:
            self._heard = now
            try:
                positions = self._reports.feed(received)
            except ClassicError as error:
                return self.refuse(str(error))
            refusal = self._hear(positions)
            if refusal:
                return self.refuse(refusal)
        elif now - self._heard > self._options.silence_ms:
            return self.refuse(f"the slave said nothing for {now - self._heard} ms")
        return self._give(now) if room else _NOTHING

    def _hear(self, positions: list[int]) -> str:
        """Why what the slave reports cannot be, or ""."""
        if not positions:
            return ""
        if self.sent is None:
            self.sent = self.acknowledged = positions[0] or self._log.min_position
        self.acknowledged = max(self.acknowledged, positions[-1])
        if self.acknowledged > self.sent:
            return f"the slave reports position {self.acknowledged}, and was sent what lies before {self.sent}"
        return ""

    def _give(self, now: int) -> SlaveOutput:
        log, options, sent = self._log, self._options, self.sent
        if sent is None:
            return _NOTHING
        end = log.committed_position
        if sent > end:
            return self.refuse(
                f"the slave's log ends at {sent}, what is committed here at {end}: it followed another master, or its "
                "log is older than this one. Let it begin with an empty store"
            )
        if sent < log.min_position:
            return self.refuse(
                f"the slave's log ends at {sent}, and what follows was deleted here; the log begins at "
                f"{log.min_position}. Let it begin with an empty store"
            )
        if not self._admitted:
            return _NOTHING
        data = list[Buffer]()
        limit = min(log.durable_position, self.acknowledged + options.window_bytes)
        while sent < limit:
            try:
                part = log.committed_bytes(sent, min(options.chunk_bytes, limit - sent))
            except UnreadableError as error:
                if not data:
                    return self.refuse(str(error))
                break  # what lies before it goes out first
            data += (encode_head(sent, len(part)), part)
            sent += len(part)
        self.sent = sent
        if not data and now - self._told > options.heartbeat_ms:
            data.append(encode_head(sent, 0))
        if data:
            self._told = now
        return SlaveOutput(tuple(data))
