"""What can be set about a member's log."""

from dataclasses import dataclass

from logherd.kit.errors import ensure
from logherd.raft.record import HEADER_SIZE

__all__ = ["RaftLogOptions"]

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftLogOptions:
    """Sizes in bytes. All members of a group need the same `segment_bytes`; an existing log keeps the one it has."""

    segment_bytes: int = 8 * _MIB
    record_bytes_max: int = 4 * _MIB
    """Longest record, header included; with `window_bytes` it bounds how far a torn tail can reach."""
    window_bytes: int = 4 * _MIB
    """Written and not yet flushed at any time, at most; one record may exceed it."""
    spare_segments: int = 2
    """Made ahead, so that a disk that fills up still takes what is under way, and votes."""
    reserve_bytes: int = 64 * _MIB
    """Free space below which the log calls itself full."""
    mark_bytes: int = _MIB
    """After so many flushed bytes the position that was flushed is itself noted durably."""

    def __post_init__(self) -> None:
        ensure(self.segment_bytes > HEADER_SIZE, "a segment holds a record", self.segment_bytes)

    @property
    def torn_bytes_max(self) -> int:
        """Farthest place behind the flushed end that unflushed bytes can have reached: a roll may leave a gap."""
        return self.window_bytes + 2 * self.record_bytes_max
