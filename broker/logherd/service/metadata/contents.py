"""What the records of the log add up to: topics, groups, offsets, locked queues, idempotent writers and epochs."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from logherd.kit.clock import Clock
from logherd.service.metadata.changes import (
    FORMAT,
    Barrier,
    Change,
    GroupDeleted,
    GroupPut,
    OffsetsCommitted,
    OffsetsReset,
    QueuesLocked,
    ResetsTold,
    TopicDeleted,
    TopicPut,
)
from logherd.service.metadata.errors import MetadataDamagedError
from logherd.service.metadata.journal import Journal
from logherd.service.metadata.offsets import Offsets
from logherd.service.metadata.owners import Owners
from logherd.service.metadata.tables import Groups, TopicChange, Topics
from logherd.service.metadata.writers import Writers

__all__ = ["Contents", "tell_all_epochs"]

_EPOCHS_KEPT = 4096
_QUEUES_PER_CHANGE = 1000
"""A topic may have 16,384, and a log takes records of 128 KiB at least."""


class Contents:
    """A pure function of the changes that were applied, in their order."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self.offsets = Offsets(journal)
        self.topics = Topics(journal, self.offsets, clock)
        self.groups = Groups(journal, self.offsets, clock)
        self.owners = Owners(journal)
        self.writers = Writers(journal)
        self.topics.hooks.append(self._topic_changed)
        self.epochs: list[tuple[int, int]] = []
        """(epoch, position where it starts), oldest first."""

    @property
    def epoch(self) -> int:
        """The newest epoch; 0 before the first barrier."""
        return self.epochs[-1][0] if self.epochs else 0

    def apply(self, change: Change, end: int) -> None:
        """Take a change from the record that ends at `end`. No hook hears of it."""
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
            case QueuesLocked():
                self.owners.apply(change)
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
        if change.epoch > self.epoch:
            self.epochs.append((change.epoch, change.start_position))
            del self.epochs[:-_EPOCHS_KEPT]
        self.topics.begin_epoch(change.epoch, change.started_ms)
        self.groups.begin_epoch(change.epoch, change.started_ms)

    def as_changes(self) -> Iterator[Change]:
        """The state as changes that make it. Lazy, over copies of the keys: what changes meanwhile is applied on top by
        whoever reads the snapshot."""
        for epoch, start in tuple(self.epochs):
            yield Barrier(epoch, start, 0)
        for name, position in tuple(self.topics.deleted.items()):
            yield TopicDeleted(name, self.topics.version, position)
        for config in self.topics:
            for ends in _pieces(self.topics.reached(config.name)) or [[]]:
                yield TopicPut.of(config, self.topics.version, ends)
        if not len(self.groups) and self.groups.version.counter:
            yield GroupDeleted("", clean_offsets=False, version=self.groups.version)  # nothing else would tell it
        for group in self.groups:
            yield GroupPut.of(group, self.groups.version)
        for group_name, topic, queues in self.offsets:
            for numbers in _pieces(_flat(queues)):
                yield OffsetsCommitted([(group_name, topic, numbers)])
        for group_name, topic, queues in self.offsets.resets():
            for numbers in _pieces(_flat(queues)):
                yield OffsetsReset([(group_name, topic, numbers)])
        yield from self.owners.as_changes()
        yield from self.writers.as_changes()

    def become(self, other: "Contents", position: int) -> None:
        """Hold what another holds, with pending offsets forgotten; hooks hear of each topic that differs, and the
        position."""
        differing = self.topics.become(other.topics)
        self.groups.become(other.groups)
        self.offsets.become(other.offsets)
        self.owners.become(other.owners)
        self.writers.become(other.writers)
        self.epochs = other.epochs
        for name in differing:
            self.topics.tell(name, position)


def tell_all_epochs(epochs: Collection[int], start_epoch: int) -> bool:
    """Whether these, of a snapshot, are all that began in a log before it; `start_epoch` is that of what stood before
    the log's first record."""
    return len(epochs) < _EPOCHS_KEPT or min(epochs) <= start_epoch


def _flat(queues: Mapping[int, int]) -> list[int]:
    return [number for pair in queues.items() for number in pair]


def _pieces(pairs: Sequence[int]) -> list[list[int]]:
    """[queue, offset, queue, offset, ...] in parts of so many queues as one change tells of."""
    return [list(pairs[at : at + 2 * _QUEUES_PER_CHANGE]) for at in range(0, len(pairs), 2 * _QUEUES_PER_CHANGE)]
