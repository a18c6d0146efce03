"""The metadata of one broker group: topics, groups, consumer offsets and epochs, as records of the log.

Writing: a change is appended first and then applied in memory, so that memory never holds what the log refused.
Reading: the newest complete snapshot, then all later changes.

Invariants:
  1. Memory is a pure function of the records (and of the pending offsets, which are written at the end of the pass).
  2. `pinned_position` never rises above the begin of the newest snapshot whose end is committed (H2).
  3. `epoch` is one more than any epoch in the log, and its barrier stands before anything written by this start.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from logherd.kit.clock import Clock
from logherd.service.metadata.changes import (
    FORMAT,
    Barrier,
    Change,
    GroupDeleted,
    GroupPut,
    OffsetsCommitted,
    OffsetsReset,
    ResetsTold,
    TopicDeleted,
    TopicPut,
    Version,
    decode_change,
)
from logherd.service.metadata.errors import MetadataDamagedError, MetadataRefusedError
from logherd.service.metadata.journal import CHANGES, Journal, MetadataLog
from logherd.service.metadata.offsets import Offsets
from logherd.service.metadata.snapshot import Snapshot, SnapshotWriter, find_snapshot
from logherd.service.metadata.tables import Groups, TopicChange, Topics
from logherd.service.metadata.writers import Writers

__all__ = ["Metadata", "MetadataOptions"]

_EPOCHS_KEPT = 4096


@dataclass(frozen=True, slots=True)
class MetadataOptions:
    """When a snapshot is written. Sizes in bytes.

    Metadata written since the last one exceeds `change_bytes` and twice that snapshot, or the whole log has grown by
    `log_bytes` and sixteen times that snapshot since: the second lets retention follow when metadata hardly changes.
    """

    change_bytes: int = 4 << 20
    log_bytes: int = 256 << 20


class Metadata:
    """Topics, groups and offsets; see the module's text for what holds. One owner thread; nothing here blocks."""

    def __init__(self, log: MetadataLog, clock: Clock, options: MetadataOptions) -> None:
        self._options = options
        self._clock = clock
        self._journal = Journal(log)
        self.offsets = Offsets(self._journal)
        self.topics = Topics(self._journal, self.offsets, clock)
        self.groups = Groups(self._journal, self.offsets, clock)
        self.writers = Writers(self._journal)
        self.topics.hooks.append(self._topic_changed)
        self.epochs: list[tuple[int, int]] = []
        """(epoch, position where it starts), oldest first."""
        self._writer: SnapshotWriter | None = None
        self._written: Snapshot | None = None
        self._committed: Snapshot | None = None
        self._snapshot_wanted = False

    @staticmethod
    def open(log: MetadataLog, clock: Clock, options: MetadataOptions | None = None) -> "Metadata":
        """Rebuild the state from the log, then append the barrier of a new epoch.

        Durable: the barrier not yet; nothing may be answered before the log is committed beyond it, which any later
            record's commit implies.
        Raises: MetadataDamagedError if the log holds no complete state; MetadataRefusedError if it takes no record.
        """
        metadata = Metadata(log, clock, options or MetadataOptions())
        metadata._rebuild()
        metadata._begin_epoch()
        return metadata

    @staticmethod
    def read(log: MetadataLog, clock: Clock) -> "Metadata":
        """Rebuild the state from a store that nobody runs, without a new epoch: for tools. Do not change it.

        Raises: MetadataDamagedError if the log holds no complete state.
        """
        metadata = Metadata(log, clock, MetadataOptions())
        metadata._rebuild()
        return metadata

    @property
    def epoch(self) -> int:
        """Of the newest barrier; 0 before the first."""
        return self.epochs[-1][0] if self.epochs else 0

    @property
    def on_topic_change(self) -> list[Callable[[TopicChange], None]]:
        """Hooks that hear each change of a topic right after it was appended (not yet durable)."""
        return self.topics.hooks

    @property
    def version(self) -> Version:
        """The DataVersion of the topics, for registration at the name service."""
        return self.topics.version

    @property
    def position(self) -> int:
        """End of the newest metadata record: what an answer about metadata waits for."""
        return self._journal.position

    @property
    def is_new(self) -> bool:
        """Whether the log held no topic: a first start, or a store that another broker wrote."""
        return not len(self.topics)

    # ---- snapshots and retention

    @property
    def pinned_position(self) -> int:
        """Retention may delete only below this position (H2)."""
        self._promote()
        return self._committed.begin if self._committed else 0

    def request_snapshot(self) -> None:
        """Retention wants to cut and is pinned: write one soon, unless the log has hardly grown since the last."""
        newest = self._written
        if self._writer is not None:
            return
        if newest is None or self._journal.log.end_position - newest.end > newest.size:
            self._snapshot_wanted = True

    def flush_pending(self) -> int:
        """Write the offsets committed in this pass as one record; returns its end. Raises MetadataRefusedError."""
        return self.offsets.flush()

    def end_pass(self) -> None:
        """What the app calls at the end of each loop pass, before it hands the batch to the writer.

        Never raises MetadataRefusedError: what the log does not take now stays pending for a later pass.
        """
        try:
            self.offsets.flush()
            self._step_snapshot()
        except MetadataRefusedError:
            # The store reports its own state, and everything pending is bounded by the number of queues.
            return

    def _step_snapshot(self) -> None:
        if self._writer is None:
            if not self._snapshot_due():
                return
            number = self._written.number + 1 if self._written else 1
            self._writer = SnapshotWriter(self._journal.log, number, self._state_as_changes())
            self._journal.bytes_since_snapshot = 0
            self._snapshot_wanted = False
        snapshot = self._writer.step()
        if snapshot is not None:
            self._promote()
            self._written = snapshot
            self._writer = None

    def _snapshot_due(self) -> bool:
        if self._snapshot_wanted:
            return True
        size = self._written.size if self._written else 0
        if self._journal.bytes_since_snapshot > max(self._options.change_bytes, 2 * size):
            return True
        grown = self._journal.log.end_position - (self._written.end if self._written else 0)
        return grown > max(self._options.log_bytes, 16 * size)

    def _promote(self) -> None:
        if self._written is not None and self._written.end <= self._journal.log.committed_position:
            self._committed = self._written

    def _state_as_changes(self) -> Iterator[Change]:
        # Lazy, over copies of the keys: what changes meanwhile is applied on top by whoever reads the snapshot.
        for epoch, start in tuple(self.epochs):
            yield Barrier(epoch, start, 0)
        for name, position in tuple(self.topics.deleted.items()):
            yield TopicDeleted(name, self.topics.version, position)
        for config in self.topics:
            yield TopicPut.of(config, self.topics.version)
        for group in self.groups:
            yield GroupPut.of(group, self.groups.version)
        for group_name, topic, queues in self.offsets:
            if queues:
                yield OffsetsCommitted([(group_name, topic, _flat(queues))])
        for group_name, topic, queues in self.offsets.resets():
            if queues:
                yield OffsetsReset([(group_name, topic, _flat(queues))])
        yield from self.writers.as_changes()

    # ---- start

    def _rebuild(self) -> None:
        log = self._journal.log
        snapshot = find_snapshot(log, self._apply)
        self._written = self._committed = snapshot
        first, end = log.bounds(CHANGES)
        start = snapshot.change_offset if snapshot else 0
        if start < first:
            raise MetadataDamagedError(f"metadata changes {start} to {first - 1} are gone, and no snapshot covers them")
        count = start
        for entry in log.read(CHANGES, start):
            self._apply(decode_change(entry.body, entry.queue_offset), entry.end)
            self._journal.bytes_since_snapshot += entry.end - entry.position
            count += 1
        if count != end:
            raise MetadataDamagedError(f"metadata changes {count} to {end - 1} are missing from the log")
        self._journal.position = self.offsets.position = log.committed_position

    def _begin_epoch(self) -> None:
        epoch = self.epochs[-1][0] + 1 if self.epochs else 1
        barrier = Barrier(epoch, self._journal.log.end_position, self._clock.now_ms())
        self._journal.append(barrier)
        self._apply_barrier(barrier)
        self.writers.begin_epoch(self._journal.log.queue_end)
        for table in (self.topics, self.groups):
            table.version = Version(epoch, table.version.timestamp or self._clock.now_ms(), table.version.counter)

    def _apply(self, change: Change, end: int) -> None:
        match change:
            case OffsetsCommitted():
                self.offsets.apply_committed(change)
            case TopicPut():
                self.topics.apply_put(change)
            case TopicDeleted():
                self.topics.apply_delete(change, end)
                self.writers.forget_topic(change.name)
            case GroupPut():
                self.groups.apply_put(change)
            case GroupDeleted():
                self.groups.apply_delete(change)
            case OffsetsReset():
                self.offsets.apply_reset(change)
            case ResetsTold():
                self.offsets.apply_told(change)
            case Barrier():
                self._apply_barrier(change)
            case _:
                self.writers.apply(change)

    def _topic_changed(self, change: TopicChange) -> None:
        if change.config is None:
            self.writers.forget_topic(change.name)

    def _apply_barrier(self, change: Barrier) -> None:
        if change.format > FORMAT:
            raise MetadataDamagedError(f"epoch {change.epoch} has metadata format {change.format}, this reads {FORMAT}")
        if not self.epochs or change.epoch > self.epochs[-1][0]:
            self.epochs.append((change.epoch, change.start_position))
            del self.epochs[:-_EPOCHS_KEPT]


def _flat(queues: Mapping[int, int]) -> list[int]:
    return [number for pair in queues.items() for number in pair]
