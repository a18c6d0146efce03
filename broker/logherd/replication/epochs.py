"""Which leadership wrote which part of a log, and what two replicas can conclude from it.

A log is a chain of runs: every run is the uninterrupted work of one leadership (an *epoch*; in Raft, a term). An epoch
has one leader, who only appends. So two logs that hold a record of the same epoch with the same end position hold the
same bytes up to there, and a short table of runs is enough to find where they part: no per-record numbers, and no
arithmetic on positions, which are opaque (a segment roll may leave a gap between two records).

Source: Raft paper 5.3 (log matching), restated for positions; RocketMQ's epoch file and KIP-101 use the same table.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from logherd.kit.errors import broken, ensure
from logherd.model.names import Epoch, Position

__all__ = ["NOWHERE", "ORIGIN", "EpochHistory", "Point", "Run", "common_end"]


class Point(msgspec.Struct, frozen=True, order=True, gc=False):
    """A record's end, named so that two replicas can compare it; ordered by (epoch, position): "who knows more"."""

    epoch: Epoch
    position: Position


NOWHERE = Position(0)
"""The position before the first record ever."""

ORIGIN = Point(Epoch(0), NOWHERE)
"""The end of the empty log."""


class Run(msgspec.Struct, frozen=True, gc=False):
    """One epoch's part of a log: its first record is the one that comes after the position `after`."""

    epoch: Epoch
    after: Position


@dataclass(frozen=True, slots=True)
class EpochHistory:
    """The runs of one log above `base`, the last point that compaction dropped. Immutable.

    Invariants: (1) epochs rise strictly and none is below the base's; (2) `after` rises strictly and starts at or
    above the base; (3) a record directly above the base belongs to the first run, unless there is none.
    """

    base: Point = ORIGIN
    runs: tuple[Run, ...] = ()

    def __post_init__(self) -> None:
        """Check the numbered invariants where the value is made, so that they may be assumed everywhere else."""
        epoch, after = self.base.epoch, self.base.position
        for number, run in enumerate(self.runs):
            rises = run.epoch > epoch or (number == 0 and run.epoch == epoch)
            ensure(rises, "epoch history 1: epochs rise", self.base, self.runs)
            ensure(run.after > after or number == 0, "epoch history 2: positions rise", self.base, self.runs)
            ensure(number > 0 or run.after == after, "epoch history 3: the first run starts at the base", self.runs)
            epoch, after = run.epoch, run.after

    @property
    def last_epoch(self) -> Epoch:
        """The newest epoch of the log, or the base's if no record is above it."""
        return self.runs[-1].epoch if self.runs else self.base.epoch

    def epoch_at(self, position: Position) -> Epoch:
        """The epoch of the record that ends at `position`; the caller knows that one does."""
        if position < self.base.position:
            broken("a position below the base has no epoch", position, self.base)
        if position == self.base.position or not self.runs:
            return self.base.epoch
        if position > self.runs[-1].after:  # what is nearly always asked
            return self.runs[-1].epoch
        return self.runs[bisect_left(self.runs, position, key=lambda run: run.after) - 1].epoch

    def point_at(self, position: Position) -> Point:
        """The position together with the epoch of the record that ends there."""
        return Point(self.epoch_at(position), position)

    def epoch_after(self, position: Position) -> Epoch:
        """The epoch of the record that follows `position`; the caller knows that there is one."""
        place = bisect_right(self.runs, position, key=lambda run: run.after) - 1
        ensure(place >= 0, "no record follows below the base", position, self.base)
        return self.runs[place].epoch

    def end_of(self, epoch: Epoch, end: Position) -> Position:
        """Where the last record of `epoch` or of an older one ends, in a log that ends at `end`."""
        for run in self.runs:
            if run.epoch > epoch:
                return run.after
        return end

    def epoch_ends(self, end: Position) -> tuple[Point, ...]:
        """The base, and the last records of all epochs but the newest, in a log that ends at `end`."""
        runs = [run for run in self.runs if run.after < end]
        return (self.base, *(Point(before.epoch, run.after) for before, run in pairwise(runs)))

    def runs_between(self, after: Position, end: Position) -> tuple[Run, ...]:
        """The runs of the records in (after, end]; the first one is cut to start at `after`."""
        if after == end:
            return ()
        if self.runs and after >= self.runs[-1].after:
            return (Run(self.runs[-1].epoch, after),)
        first = bisect_right(self.runs, after, key=lambda run: run.after) - 1
        ensure(first >= 0, "the range starts below the base", after, self.base)
        cut = [Run(self.runs[first].epoch, after)]
        cut.extend(run for run in self.runs[first + 1 :] if run.after < end)
        return tuple(cut)

    def matches(self, point: Point, end: Position) -> bool:
        """Whether a log with this history that ends at `end` holds exactly the record that `point` names."""
        return self.base.position <= point.position <= end and self.epoch_at(point.position) == point.epoch

    def refutes(self, point: Point, end: Position) -> bool:
        """Whether a log with this history that ends at `end` surely does not hold the record that `point` names.

        Below the base that is sure of a record of a later epoch than the base's: along a log epochs never fall.
        """
        if point.position < self.base.position:
            return point.epoch > self.base.epoch
        return not self.matches(point, end)

    def hint(self, epoch: Epoch, end: Position) -> Point:
        """The last point that could be shared with a log whose record at the asked place is of `epoch`.

        Every answer either names a shared point or skips a whole epoch: the search costs one round for each epoch in
        which the two logs differ, never one for each record.
        """
        return self.point_at(max(self.base.position, self.end_of(epoch, end)))

    def agreed(self, hint: Point, end: Position) -> Point | None:
        """The leader's next guess after a follower's hint; None if it lies below what compaction has kept."""
        if hint.epoch < self.base.epoch:
            return None
        limit = self.end_of(hint.epoch, end)
        epoch = self.epoch_at(limit)
        guess = min(limit, hint.position) if epoch == hint.epoch else limit
        return self.point_at(guess) if guess >= self.base.position else None

    def extended(self, epoch: Epoch, after: Position) -> "EpochHistory":
        """The history once a record of `epoch` has been appended after `after`, the end of the log."""
        if self.runs and self.runs[-1].epoch == epoch:
            return self
        return EpochHistory(self.base, (*self.runs, Run(epoch, after)))

    def truncated(self, at: Position) -> "EpochHistory":
        """The history of the log once every record that ends above `at` is gone."""
        ensure(at >= self.base.position, "a log is never cut below its base", at, self.base)
        return EpochHistory(self.base, tuple(run for run in self.runs if run.after < at))

    def compacted(self, at: Position, end: Position) -> "EpochHistory":
        """The history once the records up to `at` are dropped from the front of a log that ends at `end`."""
        base = self.point_at(at)
        return EpochHistory(base, self.runs_between(at, end))


def common_end(ours: EpochHistory, our_end: Position, theirs: EpochHistory, their_end: Position) -> Position:
    """How far two logs that agree on the later of their bases hold the same records.

    Both histories must know what follows that place; the result is a record's end in both logs.
    """
    at = max(ours.base.position, theirs.base.position)
    while at < our_end and at < their_end:
        epoch = ours.epoch_after(at)
        if theirs.epoch_after(at) != epoch:
            break
        at = min(ours.end_of(epoch, our_end), theirs.end_of(epoch, their_end))
    return at
