"""Crash states of a member's log: what a finished batch covered is there, nothing half is, no promise goes back."""

import contextlib
import itertools
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from zlib import crc32

import pytest

from logherd.model.names import Epoch, Position
from logherd.raft.record import Kind
from logherd.raft.store import HardState
from logherd.raftlog import RaftLogOptions, recovery, writer
from logherd.raftlog.log import RaftLog
from logherd.raftlog.rows import TAIL_ROWS, TailAction
from logherd.raftlog.writer import LogFiles
from logherd.replication.epochs import Point
from logherd.replication.log import Image
from logherd.store.errors import StoreError
from logherd.store.journal import Journal
from logherd.store.recovery_rows import Row
from sim.disk import SimDisk, SimFile, SimulatedCrash
from sim.raft_lives import CLUSTER, FOUNDING, ROOT, SELF, run_life

STATES = int(os.environ.get("LOGHERD_CRASH_STATES", "10000"))
FIRST_SEED = int(os.environ.get("LOGHERD_SEED", "20260101"))
BUDGET = 1500
MARKS = (
    "crashed while recovering", "stopped by a failed flush", "a flush failed while opening", "no space", "full",
    "power lost", "process died", "new", "founding interrupted", "ours", "end", "torn", "doubtful", "image: joined",
    "image: whole", "copy finished",
)  # fmt: skip
HARD = HardState(CLUSTER, SELF, Epoch(1))
OPTIONS = RaftLogOptions(
    segment_bytes=128, record_bytes_max=256, window_bytes=100, spare_segments=1, reserve_bytes=0, mark_bytes=60
)
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


WORKLOAD_SEEDS = 8


@dataclass
class Trail:
    """(term, end, seal) after every change, and how many of them a finished batch has covered."""

    states: list[tuple[int, int, int]] = field(default_factory=lambda: [(0, 0, 0)])
    promised: int = 0

    def note(self, log: RaftLog) -> None:
        hard = log.hard_state()
        self.states.append((hard.term if hard else 0, log.end, log.seal_at(log.end)))

    def flush(self, log: RaftLog) -> None:
        log.take_batch(0).write_and_flush()
        self.promised = len(self.states) - 1


def empty_disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("/data")
    disk.sync_dir("/")
    return disk


def workload(disk: SimDisk, trail: Trail) -> None:
    """Founding, records, a cut, a vote, an image and compaction, a copy."""
    log = RaftLog.open(disk, ROOT, OPTIONS)
    log.keep_hard_state(HARD)
    log.keep_image(FOUNDING, b"")
    trail.note(log)
    ends = []
    for number in range(6):
        ends.append(log.append(Kind.DATA, Epoch(1), bytes(20 + number)))
        trail.note(log)
    trail.flush(log)
    log.truncate(ends[2])
    trail.note(log)
    trail.flush(log)
    log.keep_hard_state(replace(HARD, term=Epoch(2), vote=HARD.owner))
    trail.note(log)
    log.append(Kind.NOOP, Epoch(2), bytes(70))
    trail.note(log)
    trail.flush(log)
    image = Image("own", log.epochs.point_at(ends[1]), log.seal_at(ends[1]), crc32(b"state"), 5, b"")
    log.keep_image(image, b"state")
    log.compact(ends[1])
    trail.flush(log)
    copy = Image("copy", Point(Epoch(3), Position(2000)), 77, crc32(b"other"), 5, b"")
    log.stage(copy, 0, b"other")
    log.install(copy)
    trail.note(log)
    log.append(Kind.DATA, Epoch(3), b"after")
    trail.note(log)
    trail.flush(log)


def test_every_call_of_a_workload_and_every_call_of_the_recovery_after_it_may_be_the_last() -> None:
    whole, disk, opened = Trail(), empty_disk(), 0
    workload(disk, whole)
    for calls, seed in itertools.product(range(1, len(disk.trace) + 1), range(WORKLOAD_SEEDS)):
        cut, trail = empty_disk(), Trail()
        cut.crash_after(calls)
        with contextlib.suppress(SimulatedCrash):
            workload(cut, trail)
        log, tries = found_at_last(cut.crash(Random(seed), power=True), seed)
        opened += tries
        possible = whole.states[trail.promised :]
        hard = log.hard_state()
        assert (hard.term if hard else 0) in {term for term, _, _ in possible}, (calls, seed)
        if hard is not None:
            assert (log.end, log.seal_at(log.end)) in {state[1:] for state in possible}, (calls, seed)
    assert opened > 2_000


def found_at_last(disk: SimDisk, seed: int) -> tuple[RaftLog, int]:
    """Crash in the first call of recovery, then in the second of the next one, and so on, until one comes through."""
    for calls in itertools.count(1):
        disk.crash_after(calls)
        try:
            return RaftLog.open(disk, ROOT, OPTIONS), calls
        except SimulatedCrash:
            disk = disk.crash(Random(seed + calls), power=calls % 3 > 0)
    raise AssertionError


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
