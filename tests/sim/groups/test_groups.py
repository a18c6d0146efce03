"""Whole groups: fixed seeds are clean and repeatable, and do not stand still."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from sim.groups.run import Result, main, run_seed

ROOT = Path(__file__).parents[3]
GROUPS = 14
SEEDS_EACH = 20

_results: dict[int, Result] = {}


def result_of(seed: int) -> Result:
    if seed not in _results:
        _results[seed] = run_seed(seed, keep=1)
    return _results[seed]


@pytest.mark.parametrize("group", range(GROUPS))
def test_fixed_seeds_are_clean(group: int) -> None:
    """R1 to R6, R9, R14, W1, W2, F1, F2, liveness: see `checks`, and `sim.leases.fate`."""
    seeds = range(group * SEEDS_EACH, (group + 1) * SEEDS_EACH)
    assert [result.failure for result in map(result_of, seeds) if result.failure] == []


def test_seeds_reach_what_they_are_for() -> None:
    results = [result_of(seed) for seed in range(2 * SEEDS_EACH)]
    seen = Counter[str]()
    for result in results:
        seen.update(result.seen)
    assert seen["Serving"] > 2 * len(results)
    assert seen["SetChanged"] > len(results)
    assert seen.keys() >= {"Cut", "Draining", "Fenced", "Installed", "StorageStalled", "read"}
    assert min(seen["retimed"], seen["restarted otherwise"]) > 10, "settings are changed while groups run"
    assert seen["cramped"] > len(results) // 20, "barriers are refused"
    assert sum(result.answered for result in results) > 100 * len(results)


def test_a_run_depends_on_its_seed_alone() -> None:
    code = "from sim.groups.run import run_seed\nfor seed in range(150, 152): print(run_seed(seed).digest)"
    outputs = []
    for hash_seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}/broker:{ROOT}/tests"}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
        outputs.append(done.stdout.split())
    assert outputs[0] == outputs[1] == [run_seed(seed).digest for seed in range(150, 152)]


def test_a_failing_seed_prints_what_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from logherd.group.ground import Ground

    monkeypatch.setattr(Ground, "shown", property(lambda self: self.commit))
    monkeypatch.setattr(sys, "argv", ["run", "1"])
    assert main() == 1
    assert "python -m sim.groups.run 0x1" in capsys.readouterr().out
