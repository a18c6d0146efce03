"""Groups without controllers, in static and raft mode: fixed seeds are clean, and do not stand still."""

from collections import Counter

import pytest

from sim.groups.run import Result, run_seed
from sim.groups.shape import draw_free_plan

GROUPS = 4
SEEDS_EACH = 15
MODES = ("static", "raft")

_results: dict[tuple[str, int], Result] = {}


def result_of(mode: str, seed: int) -> Result:
    if (mode, seed) not in _results:
        _results[mode, seed] = run_seed(seed, mode=mode, keep=1)
    return _results[mode, seed]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("group", range(GROUPS))
def test_fixed_seeds_are_clean(mode: str, group: int) -> None:
    """L2, L3, R1, R2, R4, R6, R10, R14, W1, W2, V1, V2, F1, F2, liveness: see `free_fate` and `checks`."""
    results = [result_of(mode, seed) for seed in range(group * SEEDS_EACH, (group + 1) * SEEDS_EACH)]
    assert [result.failure for result in results if result.failure] == []


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ("static", {"Behind", "Cut", "Draining", "Fenced", "Installed", "MustRebuild", "StorageStalled", "read"}),
        ("raft", {"Cut", "Draining", "Drained", "Fenced", "Installed", "SetChanged", "StorageStalled", "read"}),
    ],
)
def test_seeds_reach_what_they_are_for(mode: str, wanted: set[str]) -> None:
    results = [result_of(mode, seed) for seed in range(GROUPS * SEEDS_EACH)]
    seen = Counter[str]()
    for result in results:
        seen.update(result.seen)
    assert seen.keys() >= wanted
    assert seen["Serving"] > 2 * len(results)
    assert seen["cramped"] > len(results) // 20, "barriers are refused"
    assert sum(result.answered for result in results) > 100 * len(results)


def test_static_seeds_are_of_every_kind() -> None:
    copies = Counter(draw_free_plan(seed, "static").shape["copies"] for seed in range(GROUPS * SEEDS_EACH))
    assert min(copies[kind] for kind in ("all", "some", "none")) >= 8


@pytest.mark.parametrize("mode", MODES)
def test_a_run_depends_on_its_seed_alone(mode: str) -> None:
    assert run_seed(3, mode=mode).digest == result_of(mode, 3).digest


@pytest.mark.parametrize("mode", MODES)
def test_settings_are_changed_while_groups_run(mode: str) -> None:
    """Static mode's while a process runs, too; raft mode goes by what a process was started with."""
    seen = Counter[str]()
    for seed in range(GROUPS * SEEDS_EACH):
        seen.update(result_of(mode, seed).seen)
    assert seen["restarted otherwise"] > GROUPS * SEEDS_EACH // 2
    assert (seen["retimed"] > GROUPS * SEEDS_EACH // 4) == (mode == "static")
