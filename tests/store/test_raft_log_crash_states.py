"""Crash states of a member's log: what a finished batch covered is there, nothing half is, no promise goes back."""

import os
from collections import Counter
from collections.abc import Callable

import pytest

from logherd.raft.store import HardState
from logherd.raftlog import recovery, writer
from logherd.raftlog.log import RaftLog
from logherd.raftlog.rows import TAIL_ROWS, TailAction
from logherd.raftlog.writer import LogFiles
from logherd.store.errors import StoreError
from logherd.store.journal import Journal
from logherd.store.recovery_rows import Row
from sim.disk import SimFile
from sim.raft_lives import run_life

STATES = int(os.environ.get("LOGHERD_CRASH_STATES", "4000"))
FIRST_SEED = int(os.environ.get("LOGHERD_SEED", "20260101"))
BUDGET = 1500
MARKS = (
    "crashed while recovering", "stopped by a failed flush", "a flush failed while opening", "no space", "full",
    "power lost", "process died", "new", "founding interrupted", "ours", "end", "torn", "doubtful", "image: joined",
    "image: whole", "copy finished",
)  # fmt: skip
Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("part", range(2))
def test_every_crash_state_is_one_that_was_seen_and_none_older_than_promised(part: int) -> None:
    seed, seen = FIRST_SEED + part * 1_000_000, Counter[str]()
    while seen["states"] < STATES // 2:
        try:
            seen += run_life(seed)
        except (AssertionError, StoreError) as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
        seed += 1
    missed = [mark for mark in MARKS if not seen[mark]]
    assert not missed, f"never reached: {missed}; reached: {seen}"


def caught_by(*expected: str) -> None:
    """Live until something is noticed; it must be one of the expected."""
    states, seed = 0, 7_000_000
    while states < BUDGET:
        try:
            states += run_life(seed)["states"]
        except (AssertionError, StoreError) as error:
            if not any(text in str(error) for text in expected):
                raise
            return
        seed += 1
    raise AssertionError(f"the bug escaped {states} crash states")


def without_flush(patch: Patch, path: str) -> None:
    flush = SimFile.flush

    def skip(self: SimFile, at: int = 0, size: int | None = None) -> None:
        if path not in self._path:
            flush(self, at, size)

    patch.setattr(SimFile, "flush", skip)


def vote_not_flushed(patch: Patch) -> None:
    without_flush(patch, "/promises")


def records_not_flushed(patch: Patch) -> None:
    without_flush(patch, "/log/")


def image_not_flushed(patch: Patch) -> None:
    without_flush(patch, "/images/")


def cut_not_durable(patch: Patch) -> None:
    patch.setattr(writer, "clear", lambda journal, at, first, end: None)


def cut_at_the_end_before_only(patch: Patch) -> None:
    """A cut record may begin at the next segment; clearing the gap in front of it leaves it alive."""
    patch.setattr(writer, "clear", lambda journal, at, first, end: clear_short(journal, at))


def clear_short(journal: Journal, at: int) -> None:
    journal.zero(at, at + 28)
    journal.flush()


def mark_stays_when_cut(patch: Patch) -> None:
    def put(self: LogFiles, kept: object) -> None:
        if self._flushed[0] >= self._kept.mark_position:
            original(self, kept)  # type: ignore[arg-type]

    original = LogFiles._put
    patch.setattr(LogFiles, "_put", put)


def goes_on_after_a_failed_flush(patch: Patch) -> None:
    def flush(self: Journal) -> None:
        try:
            original(self)
        except OSError:
            self._unflushed.clear()

    original = Journal.flush
    patch.setattr(Journal, "flush", flush)


def old_log_goes_before_the_copy_counts(patch: Patch) -> None:
    def restart(self: LogFiles, change: object) -> None:
        self._journal.drop_all()
        original(self, change)  # type: ignore[arg-type]

    original = LogFiles._restart
    patch.setattr(LogFiles, "_restart", restart)


LOST = ("log:", "below the promise", "beyond")


@pytest.mark.parametrize(
    ("bug", "expected"),
    [
        (vote_not_flushed, ("promise", "begins", "log:", "image", "format")),
        (records_not_flushed, LOST),
        (image_not_flushed, ("image",)),
        (cut_not_durable, LOST),
        (cut_at_the_end_before_only, LOST),
        (mark_stays_when_cut, LOST),
        (goes_on_after_a_failed_flush, LOST),
        (old_log_goes_before_the_copy_counts, LOST),
    ],
)
def test_a_seeded_bug_is_caught(bug: Callable[[Patch], None], expected: tuple[str, ...], monkeypatch: Patch) -> None:
    bug(monkeypatch)
    caught_by(*expected)


def test_taking_damage_for_the_end_is_caught(monkeypatch: Patch) -> None:
    from unit.raftlog.test_recovery import test_damage_below_the_mark_is_refused_by_file_and_offset as refused

    rows = tuple(Row(row.label, row.when, TailAction.CUT if row.action is TailAction.REFUSE else row.action, row.reason)
                 for row in TAIL_ROWS)  # fmt: skip
    refused()
    monkeypatch.setattr(recovery, "TAIL_ROWS", rows)
    with pytest.raises(pytest.fail.Exception):
        refused()


def test_a_vote_that_only_reaches_the_cache_is_caught(monkeypatch: Patch) -> None:
    """B02 on this store: the batch says it is durable, the slot was written and not flushed."""

    def keep(self: RaftLog, state: HardState) -> None:
        original(self, state)
        taken = self.take_batch

        def without_promise(token: int) -> object:
            batch = taken(token)
            batch._hard = None
            return batch

        monkeypatch.setattr(self, "take_batch", without_promise, raising=False)

    original = RaftLog.keep_hard_state
    monkeypatch.setattr(RaftLog, "keep_hard_state", keep)
    caught_by("promise")
