"""S2, small: fixed seeds are clean, repeatable, and elect on all grounds."""

import subprocess
import sys
from pathlib import Path

import pytest

from sim.leases.run import Result, main, run_seed

ROOT = Path(__file__).parents[3]
GROUPS = 4
SEEDS_EACH = 10

_results: dict[int, Result] = {}


def result_of(seed: int) -> Result:
    if seed not in _results:
        _results[seed] = run_seed(seed)
    return _results[seed]


@pytest.mark.parametrize("group", range(GROUPS))
def test_fixed_seeds_are_clean(group: int) -> None:
    """R1, R2, R5, C5: see the observer."""
    seeds = range(group * SEEDS_EACH, (group + 1) * SEEDS_EACH)
    assert [result.failure for result in map(result_of, seeds) if result.failure] == []


def test_seeds_elect_on_all_grounds_and_acknowledge_records() -> None:
    results = [result_of(seed) for seed in range(GROUPS * SEEDS_EACH)]
    assert {"first", "lease-over", "released"} == {ground for result in results for ground in result.grounds}
    assert sum(result.elections for result in results) > 4 * len(results)
    assert sum(result.committed for result in results) > 100 * len(results)
    assert sum(result.transfers for result in results) > len(results) // 4


def test_a_run_depends_on_its_seed_alone() -> None:
    code = "from sim.leases.run import run_seed\nfor seed in range(50, 52): print(run_seed(seed).digest)"
    outputs = []
    for hash_seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}/broker:{ROOT}/tests"}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
        outputs.append(done.stdout.split())
    assert outputs[0] == outputs[1] == [run_seed(seed).digest for seed in range(50, 52)]


def test_a_failing_seed_prints_what_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from logherd.controller.leases import LeaseTable

    monkeypatch.setattr(LeaseTable, "over_at", lambda self, key, tenure: self._began)
    monkeypatch.setattr(sys, "argv", ["run", "0"])
    assert main() == 1
    shown = capsys.readouterr().out
    assert "python -m sim.leases.run 0" in shown
    assert "is elected for epoch" in shown
