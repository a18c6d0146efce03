"""What can be set about a store. Plain values; `settings` reads them from files and says their names in errors."""

from dataclasses import dataclass, field
from typing import Literal

from logherd.kit.errors import ensure

__all__ = ["FOLLOWER_CACHED_BYTES", "SEGMENT_PARTS", "DerivedOptions", "LogOptions", "RetentionOptions", "StoreOptions"]

_MIB = 1 << 20
SEGMENT_PARTS = 8
"""The next segment is made when no more than one of so many parts of a segment is left, or earlier."""
FOLLOWER_CACHED_BYTES = 256 * _MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """The commit log. Sizes in bytes, times in ms."""

    segment_bytes: int = 1 << 30
    """Length of a new segment; RocketMQ's default, and what it expects of every file of a store that it opens."""
    record_bytes_max: int = 4 * _MIB + 128 * 1024
    batch_bytes_max: int = 4 * _MIB
    """Most that one flush covers. It bounds how far a torn tail can reach, so recovery can tell it from damage."""
    flush: Literal["sync", "async"] = "sync"
    """`async` answers before the flush: an answered message is lost if the machine dies within `async_flush_ms`."""
    async_flush_ms: int = 500
    async_unflushed_bytes_max: int = 64 * _MIB
    zero_ahead_bytes: int = 64 * _MIB
    """How far ahead of the end a segment is kept written with zeros; a flush into such blocks costs a half."""
    zero_step_bytes: int = _MIB // 4
    """So many at once, with a flush behind them. All replicas come to it at about the same message, and a MiB took each
    of them 4 ms of a processor on a machine whose memory is dear, in which nothing was answered."""
    follower_cached_bytes: int | None = FOLLOWER_CACHED_BYTES
    """Newest part of a follower's log that stays in the system's file cache. None: as the system sees fit."""
    reserve_bytes: int = 512 * _MIB
    """Free space below which clients' messages are refused, so that derived files and metadata go on."""
    metadata_bytes: int = 8 * _MIB
    """Room near the end of the last segment that only metadata may use when no further segment can be created; of a
    small segment an eighth. See `kept_bytes`."""
    foreign_record_bytes_max: int = 16 * _MIB
    """No record that another replica appended is longer, as it travels in one frame. See `foreign_bytes`."""

    def __post_init__(self) -> None:
        ensure(self.segment_bytes >= 4096, "a segment has at least 4096 bytes", self.segment_bytes)

    @property
    def record_bytes_limit(self) -> int:
        """A record must leave room for others: at most half a segment."""
        return min(self.record_bytes_max, self.segment_bytes // 2)

    def foreign_bytes(self, segment_bytes: int) -> int:
        """Where more than so much is left of a segment of this length, no record that another replica appended can need
        a further one; of a small segment it is what the own settings say."""
        return min(self.foreign_record_bytes_max, max(segment_bytes // SEGMENT_PARTS, self.record_bytes_limit))

    def kept_bytes(self, segment_bytes: int) -> int:
        """What clients' messages leave of the last segment, if it is of this length. Followers on full disks take
        nothing in the last `foreign_bytes` of it, so what a group has for metadata lies before those."""
        return self.foreign_bytes(segment_bytes) + min(self.metadata_bytes, segment_bytes // SEGMENT_PARTS)

    @property
    def window_bytes(self) -> int:
        """Most bytes of log, blanks included, that can be written and not yet flushed at any time.

        A batch ends where a segment ends, so a batch of one record spans it alone; the blank before it belongs to the
        batch before and is shorter than the record that did not fit.
        """
        batch = max(self.batch_bytes_max, self.record_bytes_limit) + self.record_bytes_limit + 8
        return batch if self.flush == "sync" else batch + self.async_unflushed_bytes_max


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedOptions:
    """Consume queues and key index: what can be rebuilt from the log."""

    interval_ms: int = 5000
    bytes_max: int = 16 * _MIB
    """Derived files are written and flushed at least this often, in time and in bytes of log; bounds recovery. Each of
    them takes a flush for which a lone sender may have to wait."""
    behind_bytes: int = 64 * _MIB
    """How far behind the log derived files may be before batches wait for them; see LogWriter."""
    queue_file_units: int = 300_000
    index_slots: int = 5_000_000
    index_entries: int = 20_000_000
    index_write_entries: int = 65_536
    """Keys wait in memory until there are so many (or 30 s, 256 MiB of log, or the store closes): each write of the
    index touches nearly all pages of its 20 MB of slots."""
    open_files_max: int = 512
    tail_units_max: int = 1024
    """Newest units of a busy queue that stay in memory, so that consumers at the end need no system call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionOptions:
    """What may be deleted. None: no such limit."""

    age_ms: int | None = 72 * 3600 * 1000
    bytes_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """All of a store. `store_host` is the address written into records, 8 or 20 bytes (see model.host)."""

    store_host: bytes = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
    log: LogOptions = field(default_factory=LogOptions)
    derived: DerivedOptions = field(default_factory=DerivedOptions)
    retention: RetentionOptions = field(default_factory=RetentionOptions)
    replicated: bool = False
    """One replica of a group: only what the group has committed is readable, also after a restart."""
    bare: bool = False
    """Records are appended as a RocketMQ broker wrote them, so they may be without a checksum of the whole; when the
    store is opened without this, its end is where such records end."""
    checkpoint_sync_ms: int = 1000
    """How often the record of what was flushed reaches the disk itself; a killed process loses none of it. Ten times as
    often while `checkpoint_sync_bytes` of log are new: what is above it may be taken for torn when the machine dies."""
    checkpoint_sync_bytes: int = _MIB
    free_space_check_ms: int = 1000
