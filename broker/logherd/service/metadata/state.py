"""The metadata of one broker group: topics, groups, offsets, locked queues and epochs, as records of the log.

Writing: a change is appended first and then applied in memory, so that memory never holds what the log refused.
Reading: the newest complete snapshot, then all later changes.

    open    a broker alone:            the whole log, then the barrier of the next epoch
    follow  a replica at its start:    what is committed; `advance` adds what the group commits
    promote a replica that is elected: the whole log, then the barrier of the given epoch
    demote  it leads no more:          what is committed again

Invariants:
  1. Memory is a pure function of the records: of all of them on a leader (and of the pending offsets, which are written
     at the end of the pass), else of the committed ones below `position`.
  2. `pinned_position` never rises above the begin of the newest snapshot whose end is committed (H2).
  3. A leader's `epoch` is later than any in the log before it, and its barrier stands before anything it writes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from logherd.kit.clock import Clock
from logherd.kit.errors import ensure
from logherd.service.metadata.changes import Barrier, TopicDeleted, TopicPut, Version, decode_change
from logherd.service.metadata.contents import Contents
from logherd.service.metadata.errors import MetadataDamagedError, MetadataRefusedError
from logherd.service.metadata.journal import CHANGES, METADATA_TOPIC, Journal, MetadataLog
from logherd.service.metadata.rebuild import rebuild
from logherd.service.metadata.snapshots import MetadataOptions, Snapshots
from logherd.service.metadata.tables import TopicChange
from logherd.store import NOT_NOW

__all__ = ["Metadata", "MetadataOptions"]


@dataclass(slots=True)
class _Owed:
    """What could not be done yet, for want of a descriptor or memory, until `late` is False again.

    `anew`: memory holds what is not committed, and is to be made anew. `unforgotten`: where topics were deleted whose
    queues are still to be emptied.
    """

    late: bool = False
    anew: bool = False
    unforgotten: dict[str, int] = field(default_factory=dict)


class Metadata:
    """Topics, groups and offsets; see the module's text for what holds. One owner thread; nothing here blocks.

    On a replica that does not lead, whatever would change something raises NotLeading.
    """

    def __init__(self, log: MetadataLog, clock: Clock, options: MetadataOptions) -> None:
        self._clock = clock
        self._journal = Journal(log)
        self._contents = Contents(self._journal, clock)
        self._snapshots = Snapshots(self._journal, options)
        self._whole = False
        self._owed = _Owed()
        self.offsets = self._contents.offsets
        self.topics = self._contents.topics
        self.groups = self._contents.groups
        self.owners = self._contents.owners
        self.writers = self._contents.writers

    @staticmethod
    def open(log: MetadataLog, clock: Clock, options: MetadataOptions | None = None) -> "Metadata":
        """Rebuild the state of a broker that is alone, then append the barrier of a new epoch.

        What topics were deleted is told to the log before, whose queues of them are emptied: what is in a queue counts
        when it is seen whether the last chunk of a writer is whole.
        Durable: the barrier not yet; nothing may be answered before the log is committed beyond it, which any later
            record's commit implies.
        Raises: MetadataDamagedError if the log holds no complete state; MetadataRefusedError if it takes no record.
        """
        metadata = Metadata(log, clock, options or MetadataOptions())
        metadata._start_over(log.committed_position)
        metadata._ensure_complete()
        metadata._begin_epoch(metadata.epoch + 1, "")
        return metadata

    @staticmethod
    def read(log: MetadataLog, clock: Clock) -> "Metadata":
        """Rebuild the state from a store that nobody runs, without a new epoch: for tools. It takes no changes.

        Raises: MetadataDamagedError if the log holds no complete state.
        """
        metadata = Metadata(log, clock, MetadataOptions())
        metadata._rebuild(log.committed_position)
        metadata._ensure_complete()
        return metadata

    @staticmethod
    def follow(log: MetadataLog, clock: Clock, *, committed: int, options: MetadataOptions | None = None) -> "Metadata":
        """The state of a replica that leads nothing yet, as it was committed at a position. Appends nothing.

        What topics were deleted is told to the log, whose queues of them are emptied.
        Raises: MetadataDamagedError.
        """
        metadata = Metadata(log, clock, options or MetadataOptions())
        metadata._start_over(min(committed, log.committed_position))
        return metadata

    # ---- what it is

    @property
    def on_topic_change(self) -> list[Callable[[TopicChange], None]]:
        """Hooks that hear each change of a topic: on a leader right after it was appended (not yet durable), else when
        it is committed; and what differs when the state is rebuilt."""
        return self.topics.hooks

    @property
    def version(self) -> Version:
        """The DataVersion of the topics, for registration at the name service; later in each epoch than before."""
        return self.topics.version

    @property
    def position(self) -> int:
        """End of the newest metadata record that is applied: what an answer about metadata waits for."""
        return self._journal.position

    @property
    def unsettled(self) -> int:
        """`position`, 0 once it is committed."""
        return self._journal.unsettled(self._journal.position)

    @property
    def epoch(self) -> int:
        """The newest epoch whose barrier is applied, a leader's own; 0 before the first."""
        return self._contents.epoch

    @property
    def epochs(self) -> list[tuple[int, int]]:
        """(epoch, position where it starts), oldest first."""
        return self._contents.epochs

    @property
    def leading(self) -> bool:
        """Whether this replica may change anything."""
        return self._journal.leading

    @property
    def is_whole(self) -> bool:
        """Whether the state is known: not while the log begins in the middle and no snapshot has arrived yet. There are
        no topics, groups and offsets until then, and retention is pinned."""
        return self._whole

    @property
    def is_late(self) -> bool:
        """Whether something could not be read, for want of a descriptor or memory: `advance` again. What depends on
        topics being as they are committed waits for it, and so do a further leadership and retention."""
        return self._owed.late

    @property
    def is_new(self) -> bool:
        """Whether the log held no topic: a first start, or a store that another broker wrote."""
        return not len(self.topics)

    # ---- following, and leading

    def advance(self, position: int) -> None:
        """The group has committed the log up to here, and the store was told so: apply what is readable now.

        Costs a few comparisons when there is no metadata in it. A leader has applied everything already. What the
        system has no descriptor or memory for at the moment is left for the next call, see `is_late`.
        Raises: MetadataDamagedError.
        """
        journal = self._journal
        if journal.leading:
            return
        log = journal.log
        if log.committed_end(CHANGES) > journal.next_offset or self._snapshots.is_behind or self._owed.late:
            self._now_or_later(lambda: self._catch_up(min(position, log.committed_position)))

    def promote(self, epoch: int, *, incarnation: str = "") -> int:
        """Lead from now on: apply the whole log, committed or not, and append the barrier of `epoch`.

        The result is the end of what was appended; nothing may be answered before the log is committed up to there.
        Raises: MetadataDamagedError if the log holds no complete state; MetadataRefusedError if it takes no record, or
            cannot be read for want of a descriptor or memory (`is_late` then). This replica goes on following then.
            InvariantError for an epoch that is not a later one.
        """
        log = self._journal.log
        ensure(not self._journal.leading, "who leads is not promoted", epoch)

        def begin() -> None:
            self._catch_up(log.end_position)
            self._ensure_complete()
            ensure(epoch > self.epoch, "an epoch is later than all in the log", epoch, self.epoch)
            self._begin_epoch(epoch, incarnation)

        try:
            lacking = self._now_or_later(begin)
        except (MetadataDamagedError, MetadataRefusedError, OSError):
            self.demote()
            raise
        if lacking is not None:
            self.demote()
            raise MetadataRefusedError(f"topics, groups and offsets cannot be read now: {lacking}") from lacking
        return self._journal.position

    def demote(self) -> None:
        """Follow from now on: forget what is not committed. Does nothing to who follows already.

        Where the system has no descriptor or memory for that at the moment it is left for `advance`, see `is_late`.
        Raises: MetadataDamagedError.
        """
        journal, owed = self._journal, self._owed
        journal.leading = False
        owed.anew |= journal.next_offset > journal.log.committed_end(CHANGES) or self.offsets.is_pending
        if owed.anew:
            self._now_or_later(lambda: self._start_over(journal.log.committed_position))
        else:
            self._snapshots.forget_uncommitted()

    def cut(self, at: int) -> None:
        """The log was cut here, above all that is committed."""
        self.demote()
        ensure(self._owed.anew or self.position <= at, "what is committed is never cut", at, self.position)

    def _begin_epoch(self, epoch: int, incarnation: str) -> None:
        journal = self._journal
        barrier = Barrier(epoch, journal.log.end_position, self._clock.now_ms(), incarnation=incarnation)
        journal.leading = True
        self._contents.apply(barrier, journal.append(barrier))
        self.writers.begin_epoch(journal.log.queue_end)
        self.offsets.position = journal.position

    # ---- snapshots and retention

    @property
    def pinned_position(self) -> int:
        """Retention may delete only below this position (H2): nothing while there are records still to be read."""
        return 0 if self._owed.late else self._snapshots.pinned_position

    def request_snapshot(self) -> None:
        """Retention wants to cut and is pinned: write one soon, unless the log has hardly grown since the last, or
        this replica does not lead."""
        self._snapshots.request()

    def flush_pending(self) -> int:
        """Write the offsets committed in this pass as one record; returns its end. Raises MetadataRefusedError."""
        return self.offsets.flush()

    @property
    def unfinished(self) -> bool:
        """Whether `end_pass` has more to append: a snapshot's further records, or what was refused."""
        return self._snapshots.writing or self.offsets.pending

    def end_pass(self) -> None:
        """What the app calls at the end of each loop pass, before it hands the batch to the writer.

        Never raises MetadataRefusedError: what the log does not take now stays pending for a later pass.
        """
        if not self._journal.leading:
            return
        try:
            self.offsets.flush()
            self._snapshots.step(self._contents.as_changes)
        except MetadataRefusedError:
            # The store reports its own state, and everything pending is bounded by the number of queues.
            return

    # ---- taking what is in the log

    def _now_or_later(self, work: Callable[[], None]) -> OSError | None:
        """The descriptor or memory that it lacked; the work is owed then. None: it is done."""
        try:
            work()
        except OSError as error:
            if error.errno not in NOT_NOW:
                raise
            self._owed.late = True
            return error
        return None

    def _rebuild(self, below: int) -> None:
        journal = self._journal
        contents = Contents(journal, self._clock)
        found = rebuild(journal.log, contents, below)
        self._whole = found.whole
        if found.snapshot is not None:
            journal.log.queues_went_to(METADATA_TOPIC, (CHANGES, found.next_offset), below)
            for topic, ends in contents.topics.ends.items():
                journal.log.queues_went_to(topic, ends, below)
        journal.position = contents.offsets.position = below
        journal.next_offset = found.next_offset
        journal.bytes_since_snapshot = found.bytes
        self._snapshots.begin(found.snapshot)
        self._contents.become(contents, below)

    def _start_over(self, below: int) -> None:
        self._rebuild(below)
        self._owed.anew, self._owed.unforgotten = False, dict(self.topics.deleted)
        self._forget_deleted()

    def _catch_up(self, below: int) -> None:
        """Apply all further records that end at or below a position."""
        log, owed = self._journal.log, self._owed
        if owed.late:
            log.bounds(CHANGES)  # as `promote` must: else who could not lead would be elected again at once
        if owed.anew:
            self._start_over(min(below, log.committed_position))
        self._snapshots.see(below)
        if self._whole:
            self._take_changes(below)
            self._forget_deleted()
        elif self._snapshots.newest is not None:
            self._start_over(below)
        owed.late = False

    def _take_changes(self, below: int) -> None:
        journal = self._journal
        changed: dict[str, int] = {}
        try:
            for entry in journal.log.read(CHANGES, journal.next_offset, below):
                if entry.queue_offset != journal.next_offset:
                    what = (
                        f"metadata changes {journal.next_offset} to {entry.queue_offset - 1} are missing from the log"
                    )
                    raise MetadataDamagedError(what)
                change = decode_change(entry.body, entry.queue_offset)
                self._contents.apply(change, entry.end)
                journal.note(entry.position, entry.end)
                if isinstance(change, TopicPut | TopicDeleted):
                    changed[change.name] = entry.end
                if isinstance(change, TopicDeleted):
                    self._owed.unforgotten[change.name] = entry.end
        finally:  # those before one that cannot be read now are taken
            self.offsets.position = journal.position
            for name, position in changed.items():
                self.topics.tell(name, position)

    def _forget_deleted(self) -> None:
        owed = self._owed
        if owed.unforgotten:
            self._journal.log.forget_topics(owed.unforgotten)
            owed.unforgotten = {}

    def _ensure_complete(self) -> None:
        first, end = self._journal.log.bounds(CHANGES)
        if not self._whole:
            raise MetadataDamagedError(f"metadata changes 0 to {first - 1} are gone, and no snapshot covers them")
        if self._journal.next_offset != end:
            missing = f"metadata changes {self._journal.next_offset} to {end - 1} are missing from the log"
            raise MetadataDamagedError(missing)
