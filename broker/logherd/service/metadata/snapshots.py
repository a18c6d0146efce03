"""Which snapshots the log holds, when a leader writes the next one, and what retention must keep (H2).

A leader writes and knows what it wrote; a follower looks at the records of the snapshots' queue as they are committed.

Invariants:
  1. `pinned_position` is the begin of a complete snapshot whose end is committed, or 0.
  2. On a follower, the newest snapshot that is known is committed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from logherd.service.metadata.changes import Change
from logherd.service.metadata.journal import SNAPSHOTS, Journal
from logherd.service.metadata.snapshot import Snapshot, SnapshotReader, SnapshotWriter

__all__ = ["MetadataOptions", "Snapshots"]


@dataclass(frozen=True, slots=True)
class MetadataOptions:
    """When a snapshot is written. Sizes in bytes.

    Metadata written since the last one exceeds `change_bytes` and twice that snapshot, or the whole log has grown by
    `log_bytes` and sixteen times that snapshot since: the second lets retention follow when metadata hardly changes.
    """

    change_bytes: int = 4 << 20
    log_bytes: int = 256 << 20


class Snapshots:
    """Belongs to a `Metadata`, as the journal does."""

    def __init__(self, journal: Journal, options: MetadataOptions) -> None:
        self._journal = journal
        self._options = options
        self._writer: SnapshotWriter | None = None
        self._newest: Snapshot | None = None
        self._committed: Snapshot | None = None
        self._wanted = False
        self._reader = SnapshotReader()
        self._seen = 0

    @property
    def newest(self) -> Snapshot | None:
        """The newest complete snapshot that is known; a leader's may not be committed yet."""
        return self._newest

    @property
    def pinned_position(self) -> int:
        """Retention may delete only below it."""
        self._settle()
        return self._committed.begin if self._committed else 0

    def _settle(self) -> None:
        if self._newest is not None and self._newest.end <= self._journal.log.committed_position:
            self._committed = self._newest

    # ---- a leader's

    def request(self) -> None:
        """See Metadata.request_snapshot."""
        newest = self._newest
        if self._writer is not None or not self._journal.leading:
            return
        if newest is None or self._journal.log.end_position - newest.end > newest.size:
            self._wanted = True

    @property
    def writing(self) -> bool:
        """Whether a snapshot is begun and not whole."""
        return self._writer is not None

    def step(self, as_changes: Callable[[], Iterator[Change]]) -> None:
        """Write one record of a snapshot if one is due or being written. Raises MetadataRefusedError."""
        if self._writer is None:
            if not self._is_due():
                return
            number = self._newest.number + 1 if self._newest else 1
            self._writer = SnapshotWriter(self._journal.log, number, as_changes())
            self._journal.bytes_since_snapshot = 0
            self._wanted = False
        snapshot = self._writer.step()
        if snapshot is not None:
            self._settle()
            self._newest = snapshot
            self._writer = None

    def _is_due(self) -> bool:
        if self._wanted:
            return True
        size = self._newest.size if self._newest else 0
        if self._journal.bytes_since_snapshot > max(self._options.change_bytes, 2 * size):
            return True
        grown = self._journal.log.end_position - (self._newest.end if self._newest else 0)
        return grown > max(self._options.log_bytes, 16 * size)

    # ---- a follower's

    @property
    def is_behind(self) -> bool:
        """Whether there is a committed record that `see` has not looked at."""
        return self._seen < self._journal.log.committed_end(SNAPSHOTS)

    def see(self, below: int) -> None:
        """Look at the further records that end at or below a position. Raises: MetadataDamagedError."""
        for entry in self._journal.log.read(SNAPSHOTS, self._seen, below):
            self._seen = entry.queue_offset + 1
            snapshot = self._reader.see(entry)
            if snapshot is not None:
                self._settle()
                self._newest = snapshot
                self._journal.bytes_since_snapshot = 0

    def forget_uncommitted(self) -> None:
        """No more a leader: what it was writing stays without an end, and what is not committed may be cut."""
        self._settle()
        self.begin(self._committed)

    def begin(self, snapshot: Snapshot | None) -> None:
        """Start from the newest snapshot that was found in the log."""
        self._writer = None
        self._wanted = False
        self._newest, self._committed = snapshot, None
        self._reader = SnapshotReader()
        self._seen = snapshot.end_offset + 1 if snapshot else 0
