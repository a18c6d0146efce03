"""Topics and groups in memory; every change goes to the journal first."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from logherd.kit.clock import Clock
from logherd.model.topic import GroupConfig, TopicConfig
from logherd.service.metadata.changes import GroupDeleted, GroupPut, TopicDeleted, TopicPut, Version
from logherd.service.metadata.journal import Journal
from logherd.service.metadata.offsets import Offsets

__all__ = ["DELETIONS_KEPT", "Groups", "TopicChange", "Topics"]

DELETIONS_KEPT = 1000


class TopicChange(NamedTuple):
    """What a hook hears: the new config, or None after a deletion, and the position that makes it durable."""

    name: str
    config: TopicConfig | None
    position: int


class Topics:
    """Topics by name. The returned positions are those to wait for before a change is answered."""

    def __init__(self, journal: Journal, offsets: Offsets, clock: Clock) -> None:
        self._journal = journal
        self._offsets = offsets
        self._clock = clock
        self._table: dict[str, TopicConfig] = {}
        self._position = 0
        self.version = Version()
        self.deleted: dict[str, int] = {}
        """Topics that were deleted, and the position below which their messages are: the log still holds them."""
        self.ends: dict[str, Sequence[int]] = {}
        """How far queues went, as a snapshot that was read has it; see `TopicPut`."""
        self.hooks: list[Callable[[TopicChange], None]] = []
        self.get = self._table.get
        """`get(name)` -> TopicConfig | None. The dict's own method: every send asks it."""

    def __iter__(self) -> Iterator[TopicConfig]:
        return iter(tuple(self._table.values()))

    def __len__(self) -> int:
        return len(self._table)

    def __contains__(self, name: object) -> bool:
        return name in self._table

    @property
    def unsettled(self) -> int:
        """End of the newest change made here, which what is told of topics waits for; 0 once it is committed."""
        return self._journal.unsettled(self._position)

    def deletion_unsettled(self, name: str) -> int:
        """End of the newest deletion of a topic, which may stand again since; 0 if there is none, or it is committed.
        What is told of its queues waits for it: they begin behind all that they held before."""
        return self._journal.unsettled(self.deleted.get(name, 0))

    def put(self, config: TopicConfig) -> int:
        """Create or replace; an equal config is not logged again. Raises MetadataRefusedError."""
        self._journal.check()
        if self._table.get(config.name) == config:
            return self._journal.position
        change = TopicPut.of(config, self._next_version())
        position = self._position = self._journal.append(change)
        self.apply_put(change)
        self.tell(config.name, position)
        return position

    def delete(self, name: str) -> int:
        """Forget the topic and every group's offsets in it; nothing happens if unknown. Raises MetadataRefusedError."""
        self._journal.check()
        if name not in self._table:
            return self._journal.position
        change = TopicDeleted(name, self._next_version())
        position = self._position = self._journal.append(change)
        self.apply_delete(change, position)
        self.tell(name, position)
        return position

    def reached(self, name: str) -> Sequence[int]:
        """How far the log's queues of a topic went, as `TopicPut` has it."""
        return self._journal.log.queue_ends(name)

    def apply_put(self, change: TopicPut) -> None:
        """Take a change that is in the log already."""
        self._table[change.name] = change.config()
        if change.ends:
            self.ends[change.name] = [*self.ends.get(change.name, ()), *change.ends]
        self.version = change.version

    def apply_delete(self, change: TopicDeleted, end: int) -> None:
        """Take a change that is in the log already, in the record that ends at `end`."""
        self._table.pop(change.name, None)
        self.ends.pop(change.name, None)
        self._offsets.forget_topic(change.name)
        self.deleted[change.name] = change.position or end
        self.version = change.version

    def become(self, other: "Topics") -> list[str]:
        """Hold what another holds; the names of topics that differ, of which nobody was told yet.

        One that was deleted and made again the same, in one of the two, differs as well: its queues are other ones.
        """
        before, after, deleted = dict(self._table), {config.name: config for config in other}, self.deleted
        self._position = 0
        self._table.clear()  # the dict stays: see `get`
        self._table.update(after)
        self.version, self.deleted = other.version, other.deleted
        return [
            name
            for name in before | after
            if before.get(name) != after.get(name) or deleted.get(name) != other.deleted.get(name)
        ]

    def forget_deletions(self, below: int) -> None:
        """The log begins at `below` now: deletions of what lay lower need not be remembered.

        The latest of them are all the same: the logs of other replicas may begin earlier.
        """
        low = {name: position for name, position in self.deleted.items() if position <= below}
        for name in sorted(low, key=low.__getitem__)[:-DELETIONS_KEPT]:
            del self.deleted[name]

    def begin_epoch(self, epoch: int, started_ms: int) -> None:
        """Take the barrier of an epoch: whatever is changed from now on has a later version than all before."""
        self.version = _in_epoch(self.version, epoch, started_ms)

    def _next_version(self) -> Version:
        return Version(self.version.state_version, self._clock.now_ms(), self.version.counter + 1)

    def tell(self, name: str, position: int) -> None:
        """Let the hooks hear what this topic is now."""
        for hook in self.hooks:
            hook(TopicChange(name, self._table.get(name), position))


class Groups:
    """Consumer groups by name."""

    def __init__(self, journal: Journal, offsets: Offsets, clock: Clock) -> None:
        self._journal = journal
        self._offsets = offsets
        self._clock = clock
        self._table: dict[str, GroupConfig] = {}
        self._position = 0
        self.version = Version()
        self.gone_hooks: list[Callable[[str], None]] = []
        """Hear the name of each group that is there no more, be it deleted by this replica, another one, or never
        committed."""
        self.get = self._table.get
        """`get(name)` -> GroupConfig | None."""

    def __iter__(self) -> Iterator[GroupConfig]:
        return iter(tuple(self._table.values()))

    def __len__(self) -> int:
        return len(self._table)

    def __contains__(self, name: object) -> bool:
        return name in self._table

    @property
    def unsettled(self) -> int:
        """End of the newest change made here, which what is told of groups waits for; 0 once it is committed."""
        return self._journal.unsettled(self._position)

    def put(self, config: GroupConfig) -> int:
        """Create or replace; an equal config is not logged again. Raises MetadataRefusedError."""
        self._journal.check()
        if self._table.get(config.name) == config:
            return self._journal.position
        change = GroupPut.of(config, self._next_version())
        position = self._position = self._journal.append(change)
        self.apply_put(change)
        return position

    def delete(self, name: str, *, clean_offsets: bool) -> int:
        """Forget the group, and its offsets when told so. Raises MetadataRefusedError."""
        self._journal.check()
        if name not in self._table and not (clean_offsets and self._offsets.for_group(name)):
            return self._journal.position
        change = GroupDeleted(name, clean_offsets, self._next_version())
        position = self._position = self._journal.append(change)
        self.apply_delete(change)
        return position

    def apply_put(self, change: GroupPut) -> None:
        """Take a change that is in the log already."""
        self._table[change.name] = change.config()
        self.version = change.version

    def apply_delete(self, change: GroupDeleted) -> None:
        """Take a change that is in the log already."""
        self._table.pop(change.name, None)
        if change.clean_offsets:
            self._offsets.forget_group(change.name)
        self.version = change.version
        self._tell_gone((change.name,))

    def become(self, other: "Groups") -> None:
        """Hold what another holds."""
        self._position = 0
        gone = [name for name in self._table if name not in other]
        self._table.clear()  # as above
        self._table.update({config.name: config for config in other})
        self.version = other.version
        self._tell_gone(gone)

    def _tell_gone(self, names: Iterable[str]) -> None:
        for name in names:
            for hook in self.gone_hooks:
                hook(name)

    def begin_epoch(self, epoch: int, started_ms: int) -> None:
        """See Topics.begin_epoch."""
        self.version = _in_epoch(self.version, epoch, started_ms)

    def _next_version(self) -> Version:
        return Version(self.version.state_version, self._clock.now_ms(), self.version.counter + 1)


def _in_epoch(version: Version, epoch: int, started_ms: int) -> Version:
    return Version(max(version.state_version, epoch), version.timestamp or started_ms, version.counter)
