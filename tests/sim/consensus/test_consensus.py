"""A run is a pure function of its plan; a failure explains itself, and its plan is kept, replayed and made small."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from logherd.raft.leader import Leader
from logherd.store.slots import SlotPair, _place, _Slot, encode_value_slot
from seeded.raft_bugs import BUGS
from sim.consensus import shrink
from sim.consensus.plan import decode_plan, draw_plan, encode_plan
from sim.consensus.run import main, run_plan, run_seed
from sim.consensus.shape import draw_shape
from sim.consensus.shrink import shrunk
from sim.shrink import minimised

FIRST_UNFLUSHED = 5


def test_another_seed_is_another_run_and_the_same_is_the_same() -> None:
    assert run_seed(1).digest == run_seed(1).digest != run_seed(2).digest
    assert run_seed(1, files=True).digest == run_seed(1, files=True).digest != run_seed(1).digest


def test_what_is_kept_as_json_replays_exactly() -> None:
    for files in (False, True):
        plan = draw_plan(7, files=files)
        kept = decode_plan(encode_plan(plan, "a note"))
        assert kept == plan
        assert run_plan(kept, messages=True).digest == run_seed(7, files=files, messages=True).digest


def test_taking_one_fault_away_changes_no_other_fault_and_no_action() -> None:
    plan = draw_plan(3)
    shorter = replace(plan, faults=plan.faults[1:])
    assert decode_plan(encode_plan(shorter, "")).faults == plan.faults[1:]
    assert decode_plan(encode_plan(shorter, "")).actions == plan.actions
    assert draw_shape(3) == plan.shape


def test_a_failing_seed_prints_how_to_repeat_it_and_what_happened(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    BUGS["B03"].apply(monkeypatch)
    seed = next(seed for seed in range(1, 100) if run_seed(seed).failure)
    monkeypatch.setattr(sys, "argv", ["sim.consensus.run", hex(seed)])
    assert main() == 1
    shown = capsys.readouterr().out
    assert f"python -m sim.consensus.run {seed:#x}" in shown
    assert "FAILED: Violation: C" in shown
    assert "leader of term" in shown
    assert "faults:" in shown
    assert "< n1.0>n2.0" in shown or "< n2.0>n1.0" in shown


def test_a_defect_in_the_cores_is_a_failure_and_not_a_crash_of_the_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Leader) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(Leader, "start", broken)
    assert "ValueError: a defect" in str(run_seed(1).failure)


def test_delta_debugging_finds_the_few_that_matter_and_asks_no_more_than_needed() -> None:
    asked = []

    def fails(some: list[int]) -> bool:
        asked.append(some)
        return {3, 57, 58} <= set(some)

    assert minimised(list(range(100)), fails) == [3, 57, 58]
    assert len(asked) < 100
    assert minimised([1], fails) == [1]


def test_a_failing_plan_becomes_small_and_breaks_the_same_rule(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bug = BUGS["self-count"]
    with pytest.MonkeyPatch.context() as patch:
        bug.apply(patch)
        seed = next(seed for seed in range(1, 100) if run_seed(seed).failure)
        plan = draw_plan(seed)
        small, _ = shrunk(plan, seconds=20)
        assert len(small.faults) + len(small.actions) < (len(plan.faults) + len(plan.actions)) // 4
        assert bug.is_caught(run_plan(small).failure)
    assert run_plan(small).failure is None
    to = tmp_path / "small.json"
    monkeypatch.setattr(sys, "argv", ["shrink", str(seed), "--bug", "self-count", "--seconds", "5", "--to", str(to)])
    assert shrink.main() == 0
    assert f"python -m sim.consensus.run {to}" in capsys.readouterr().out
    assert run_plan(decode_plan(to.read_text())).failure is None


def test_a_clean_seed_is_not_shrunk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["shrink", "1", "--to", str(tmp_path / "none.json")])
    assert shrink.main() == 1
    assert not (tmp_path / "none.json").exists()


def test_a_vote_that_is_written_and_not_flushed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(self: SlotPair, slot: _Slot) -> None:
        self._file.write(_place(slot.counter), (encode_value_slot(slot.counter, slot.value),))
        if slot.counter < FIRST_UNFLUSHED:
            self._file.flush()

    monkeypatch.setattr(SlotPair, "_write", write)
    failures = [str(run_seed(seed, files=True).failure) for seed in range(12)]
    assert any(failure.startswith("Violation: C2: the promise went back") for failure in failures)
