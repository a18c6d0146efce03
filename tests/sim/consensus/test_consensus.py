"""S1: fixed seeds of the consensus simulation are clean, repeatable, reach rare states; a failure explains itself."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from logherd.raft.leader import Leader
from seeded.raft_bugs import BUGS
from sim.consensus.marks import MARKS
from sim.consensus.run import Result, main, run_seed
from sim.consensus.shape import draw_plan, draw_shape

ROOT = Path(__file__).parents[3]
GROUPS = 8
SEEDS_EACH = 20
REPEATED = 8

_results: dict[int, Result] = {}


def result_of(seed: int) -> Result:
    if seed not in _results:
        _results[seed] = run_seed(seed, keep=50)
    return _results[seed]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("group", range(GROUPS))
def test_fixed_seeds_are_clean(group: int) -> None:
    failures = [
        f"seed {result.seed:#x}: {result.failure}"
        for result in map(result_of, range(group * SEEDS_EACH, (group + 1) * SEEDS_EACH))
        if result.failure
    ]
    assert failures == []


@pytest.mark.timeout(240)
def test_seeds_do_work_and_reach_rare_states() -> None:
    results = [result_of(seed) for seed in range(GROUPS * SEEDS_EACH)]
    hits: Counter[str] = Counter()
    for result in results:
        hits.update(result.marks)
    missed = [name for name in MARKS if not hits[name]]
    assert len(missed) <= len(MARKS) // 5, missed
    assert sum(result.committed for result in results) > 10_000
    assert sum(result.leaders > 1 for result in results) > GROUPS * SEEDS_EACH // 2


@pytest.mark.timeout(120)
def test_a_run_depends_on_its_seed_alone() -> None:
    """The same seeds in two processes with other hash seeds, and after other runs in this one: the same traces."""
    seeds = f"range(100, {100 + REPEATED})"
    code = f"from sim.consensus.run import run_seed\nfor seed in {seeds}: print(run_seed(seed, keep=1).digest)"
    outputs = []
    for hash_seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}/broker:{ROOT}/tests"}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
        outputs.append(done.stdout.split())
    assert outputs[0] == outputs[1]
    assert outputs[0] == [run_seed(seed, keep=1).digest for seed in range(100, 100 + REPEATED)]


def test_another_seed_is_another_run() -> None:
    assert run_seed(1, keep=1).digest != run_seed(2, keep=1).digest


def test_taking_one_fault_away_changes_no_other_fault() -> None:
    shape = draw_shape(3)
    assert draw_plan(3, shape) == draw_plan(3, shape)
    assert draw_shape(3) == shape


def test_a_failing_seed_prints_how_to_repeat_it_and_what_happened(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    BUGS["B03"].apply(monkeypatch)
    seed = BUGS["B03"].seed
    monkeypatch.setattr(sys, "argv", ["sim.consensus.run", hex(seed), "--messages"])
    assert main() == 1
    shown = capsys.readouterr().out
    assert f"python -m sim.consensus.run {seed:#x}" in shown
    assert "FAILED: Violation: C" in shown
    assert "leader of term" in shown


def test_a_defect_in_the_cores_is_a_failure_and_not_a_crash_of_the_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Leader) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(Leader, "start", broken)
    assert "ValueError: a defect" in str(run_seed(1, keep=1).failure)
