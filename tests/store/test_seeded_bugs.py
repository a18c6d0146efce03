"""Bugs put in on purpose: the crash-state checks must catch each within a budget, by an invariant."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import pytest

from logherd.kit.errors import InvariantError
from logherd.store import StoreError, common_run, recovery, writer
from logherd.store.checkpoint import Checkpoint
from logherd.store.consume_queue import QueueLog
from logherd.store.derived import Derived
from logherd.store.recovery_rows import TAIL_ROWS, Row, TailAction
from logherd.store.uncommitted import Uncommitted
from logherd.store.writer import LogWriter
from sim.disk import SimFile
from sim.lives import run_history
from sim.replica_lives import run_replica_history

BUDGET_STATES = 500


LOST = ("and lost", "refused after an honest crash")


def caught_by(
    *expected: str,
    budget: int = BUDGET_STATES,
    first_seed: int = 7_000_000,
    run: Callable[[int], Counter[str]] = run_history,
) -> None:
    """Run histories until one fails; it must fail for the expected reason."""
    states, seed = 0, first_seed
    while states < budget:
        try:
            states += run(seed)["states"]
        except (AssertionError, InvariantError, StoreError) as error:  # the store itself may meet it first
            if not any(text in str(error) for text in expected):
                raise
            return
        seed += 1
    raise AssertionError(f"the bug escaped {states} crash states")


def without_flush(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    flush = SimFile.flush

    def skip(self: SimFile, at: int = 0, size: int | None = None) -> None:
        if path not in self._path:
            flush(self, at, size)

    monkeypatch.setattr(SimFile, "flush", skip)


def test_b01_answering_before_the_flush_is_caught(monkeypatch):
    without_flush(monkeypatch, "/commitlog/")
    caught_by(*LOST)


def test_b06_restoring_the_end_of_a_queue_too_low_is_caught(monkeypatch):
    start_at = QueueLog.start_at
    monkeypatch.setattr(QueueLog, "start_at", lambda self, first, end: start_at(self, first, max(first, end - 1)))
    caught_by(*LOST)


def test_b07_going_on_after_a_failed_flush_is_caught(monkeypatch):
    flush_log = LogWriter._flush_log

    def log_and_go_on(self, **how):
        try:
            flush_log(self, **how)
        except OSError:
            self.flushed_position = self._written

    def write_through_and_go_on(self, at, parts):
        with suppress(OSError):
            write_through(self, at, parts)

    write_through = SimFile.write_through
    monkeypatch.setattr(LogWriter, "_flush_log", log_and_go_on)
    monkeypatch.setattr(SimFile, "write_through", write_through_and_go_on)
    # The disk keeps the old bytes of the pages that the failed flush called clean: records are missing in the middle.
    caught_by(*LOST, "below the promise", "should be there", budget=3000)


def test_b08_taking_damage_in_the_middle_for_the_end_is_caught(monkeypatch):
    rows = tuple(Row(row.label, row.when, TailAction.CUT if row.action is TailAction.REFUSE else row.action, row.reason)
                 for row in TAIL_ROWS)  # fmt: skip
    monkeypatch.setattr(recovery, "TAIL_ROWS", rows)
    caught_by("was taken for the end of the log")


def test_recording_queue_lengths_before_their_units_are_flushed_is_caught(monkeypatch):
    without_flush(monkeypatch, "/consumequeue/")
    caught_by("", budget=1000)


def test_naming_index_entries_before_they_are_flushed_is_caught(monkeypatch):
    without_flush(monkeypatch, "/index/")
    caught_by("the index", budget=2000)


def test_promising_derived_files_before_they_are_written_is_caught(monkeypatch):
    def promise_first(self, dirty, entries, position, *, indexed):
        from msgspec.structs import replace

        checkpoint = self._writer.checkpoint
        checkpoint.record(replace(checkpoint.value, queues_dispatched=position))
        checkpoint.sync()
        yield from original(self, dirty, entries, position, indexed=indexed)

    original = Derived._write
    monkeypatch.setattr(Derived, "_write", promise_first)
    caught_by("", budget=1000)


def test_a_cut_that_leaves_the_old_records_is_caught(monkeypatch):
    monkeypatch.setattr(writer, "cut_tail", lambda segments, position, end: None)
    caught_by("L1", "was never there", *LOST, run=run_replica_history)


def test_a_cut_below_what_the_checkpoint_promises_is_caught(monkeypatch):
    def cut(self, cut):
        writer.cut_tail(list(cut.segments), cut.at, self._written)
        self._written = self.flushed_position = cut.at
        self._active = cut.segments[0]

    monkeypatch.setattr(LogWriter, "_cut", cut)
    caught_by(*LOST, run=run_replica_history)


def test_forgetting_how_far_a_cut_reaches_is_caught(monkeypatch):
    monkeypatch.setattr(Checkpoint, "reach", lambda self, end: self.window)
    caught_by(*LOST, "further away than a write that was never flushed", budget=3000, run=run_replica_history)


def test_believing_an_outline_without_its_checksum_is_caught(monkeypatch):
    monkeypatch.setattr(common_run, "tiles", lambda outline, data: len(data) == outline.size)
    caught_by("a flipped bit", run=run_replica_history, budget=3000)


def test_showing_what_the_group_has_not_committed_is_caught(monkeypatch):
    monkeypatch.setattr(recovery, "_committed", lambda found, options, start, end: end)
    caught_by("readable", run=run_replica_history)


def test_keeping_units_of_records_that_were_cut_is_caught(monkeypatch):
    monkeypatch.setattr(QueueLog, "cut", lambda self, position: None)
    caught_by("the next one here", "L3", "committed units", "which ends at", run=run_replica_history)


def test_deleting_a_queue_before_that_is_committed_is_caught(monkeypatch):
    bury = Uncommitted.bury
    monkeypatch.setattr(Uncommitted, "bury", lambda self, committed: bury(self, 1 << 60))
    caught_by("", run=run_replica_history, budget=1000)
