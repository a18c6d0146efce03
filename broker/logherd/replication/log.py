"""What shipping needs from a log: spans of raw bytes in and out, cut at records that only the log itself can see.

The protocols here are met by the memory log of `raft`, later by mapped segments, and by the brokers' message log.
"""

from dataclasses import dataclass
from typing import Protocol

import msgspec

from logherd.kit.errors import LogHerdError
from logherd.model.names import Position
from logherd.replication.epochs import EpochHistory, Point, Run

__all__ = ["Image", "ReplicaLog", "ReplicationError", "Span", "SpanDamagedError", "UnreadableError"]


class ReplicationError(LogHerdError):
    """Base of the errors of shipping."""


class SpanDamagedError(ReplicationError):
    """Received bytes fail their checksum or do not continue the log they claim to continue. Nothing was written.

    Either the network changed them or one of the two logs is corrupt; the receiver stops and reports, it never cuts.
    """


class UnreadableError(ReplicationError):
    """What lies here cannot be read now, and may be asked for again: it is damaged, of which the log's owner has heard,
    and may be whole elsewhere; or the process has no descriptor left for its file."""


class Span(msgspec.Struct, frozen=True, gc=False):
    """Whole records in one piece: those that end in (previous.position, end], as the raw bytes of the leader's log.

    Invariants: (1) without data, end is previous.position and there are no runs; (2) with data, the first run starts
    at previous.position. The bytes are not decoded on their way; len(data) says nothing about end - previous.position.
    `outline` is what the log that gave the data tells the one that takes them, to spare it work; it may be empty.
    """

    previous: Point
    end: Position
    runs: tuple[Run, ...]
    data: bytes | memoryview
    outline: bytes | memoryview = b""

    @property
    def history(self) -> EpochHistory:
        """The span seen as a small log of its own that begins at `previous`."""
        return EpochHistory(self.previous, self.runs)


@dataclass(frozen=True, slots=True)
class Image:
    """A full copy of the state as of `point`, sent to a replica whose place in the log is no longer kept.

    `identity` names the exact bytes, so that a copy can be resumed with whoever holds the same image. `size` is in
    bytes and may be 0: a message log sends no state, only the point at which its kept part begins, and the ranges
    follow as ordinary spans. `seal` is what the log needs to continue after the point (its running checksum);
    `checksum` is the CRC-32 of the image's own bytes; `note` belongs to the owner (Raft keeps the configuration there).
    """

    identity: str
    point: Point
    seal: int
    checksum: int
    size: int
    note: bytes


class ReplicaLog(Protocol):
    """A position-addressed log held in memory or in mapped files by one owner, and never waited for.

    Everything here changes what the owner sees at once and the disk later: it is durable only when the shell has
    flushed it, in the order of the calls, and has said so with a token (see durable.py).
    """

    @property
    def end(self) -> Position:
        """The end of the last record."""

    @property
    def epochs(self) -> EpochHistory:
        """The epoch table, with the base below which nothing is kept."""

    @property
    def shown(self) -> Position:
        """Up to where whoever reads here sees what is committed, where that may be less than is; else the end."""

    def read(self, after: Position, bytes_max: int) -> Span:
        """At least one whole record after `after`, then as many as fit into bytes_max bytes and one segment.

        Raises: UnreadableError if they are damaged here, each time anew and at no cost.
        """

    def write(self, span: Span, after: Position) -> None:
        """Append the records of `span` that end above `after`, which is the end of this log.

        Raises: SpanDamagedError if a checksum fails or the bytes do not continue this log.
        """

    def truncate(self, at: Position) -> None:
        """Drop every record that ends above `at`. A later flush makes the cut durable before anything after it."""

    def image(self) -> Image | None:
        """The newest image that can be sent to others."""

    def image_chunk(self, image: Image, offset: int, bytes_max: int) -> bytes | None:
        """Bytes of the image from `offset`; None if that image is no longer kept."""

    def staged(self, image: Image) -> int:
        """How many bytes of this foreign image are already here, counted without a hole from its start."""

    def stage(self, image: Image, offset: int, data: bytes | memoryview) -> None:
        """Keep the bytes of a foreign image that begin at `offset`, which is what staged() said."""

    def install(self, image: Image) -> None:
        """Make the completely staged image the base of the log; records above its point stay if they match it.

        Raises: SpanDamagedError if the staged bytes are not the image that was named.
        """
