"""S2: fixed seeds are clean, repeat bit for bit, reach the rare states; what fails explains itself; kept plans run."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logherd.controller.reports import Withheld
from seeded.controller_bugs import BUGS, plan_of
from sim.leases.marks import MARKS
from sim.leases.run import main, run_plan, run_seed
from sim.leases.shape import KINDS, draw_plan
from sim.leases.world import World
from sim.once import once
from sim.plan import Plan

ROOT = Path(__file__).parents[3]
REGRESS = sorted((ROOT / "tests" / "sim" / "regress" / "leases").glob("*.json"))
GROUPS = 20
SEEDS_EACH = 20
REPEATED = GROUPS * SEEDS_EACH // 20
"""One of twenty."""


def seeds_of(group: int) -> range:
    return range(group * SEEDS_EACH, (group + 1) * SEEDS_EACH)


def run_group(group: int) -> list[dict[str, Any]]:
    rows = []
    for seed in seeds_of(group):
        result = run_seed(seed, keep=1)
        row = {name: getattr(result, name) for name in ("digest", "failure", "marks", "elections", "committed")}
        rows.append({"seed": seed, **row})
    return rows


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for all processes of this test run."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "leases"


def rows_of(shared: Path, group: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = once(shared, f"group-{group}", lambda: run_group(group))
    return rows


@pytest.mark.timeout(180)
@pytest.mark.parametrize("group", range(GROUPS))
def test_fixed_seeds_are_clean(group: int, shared: Path) -> None:
    """L1-L4, R1, R4, R9, C1, C5-C7, H4, H17, R10, liveness: see the observer, fate and calm."""
    repeat = "PYTHONPATH=broker:tests python -m sim.leases.run"
    failures = [f"{row['failure']}\n  repeat: {repeat} {row['seed']:#x}" for row in rows_of(shared, group)]
    assert [text for text in failures if not text.startswith("None")] == []


@pytest.mark.timeout(900)
def test_seeds_reach_the_rare_states(shared: Path) -> None:
    rows = [row for group in range(GROUPS) for row in rows_of(shared, group)]
    hits: Counter[str] = Counter()
    for row in rows:
        hits.update(row["marks"])
    missed = [f"{name}: {MARKS[name]}" for name in MARKS if not hits[name]]
    assert len(missed) <= len(MARKS) // 5, missed
    assert sum(row["elections"] for row in rows) > 4 * len(rows)
    assert sum(row["committed"] for row in rows) > 100 * len(rows)


def test_seeds_draw_every_kind_of_fault() -> None:
    drawn = {fault.kind for seed in range(GROUPS * SEEDS_EACH) for fault in draw_plan(seed).faults}
    assert drawn == set(KINDS)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("part", range(2))
def test_a_run_depends_on_its_seed_alone(part: int, shared: Path) -> None:
    """The same seeds in another process, with another hash seed, after other runs: the same traces."""
    groups = range(part * GROUPS // 2, (part + 1) * GROUPS // 2)
    seeds = [seeds_of(group)[group % SEEDS_EACH] for group in groups] * (REPEATED // GROUPS)
    code = f"from sim.leases.run import run_seed\nfor seed in {seeds}: print(run_seed(seed, keep=1).digest)"
    environment = {"PYTHONHASHSEED": str(part + 1), "PYTHONPATH": f"{ROOT}/broker:{ROOT}/tests"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
    known = {row["seed"]: row["digest"] for group in groups for row in rows_of(shared, group)}
    assert done.stdout.split() == [known[seed] for seed in seeds]


@pytest.mark.parametrize("path", REGRESS, ids=[path.stem for path in REGRESS])
def test_what_failed_once_is_clean(path: Path) -> None:
    plan = Plan.load(path)
    assert plan.why
    assert run_plan(plan, keep=1).failure is None


def test_a_recorded_plan_is_the_run_of_its_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "plan.json"
    monkeypatch.setattr(sys, "argv", ["run", "0x7", "--record", str(kept)])
    assert main() == 0
    assert run_plan(Plan.load(kept), keep=1).digest == run_seed(7, keep=1).digest


def test_a_failing_run_prints_what_repeats_it_and_shrinks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    BUGS["no-wait"].apply(monkeypatch)
    small = tmp_path / "small.json"
    monkeypatch.setattr(sys, "argv", ["run", "0x1", "--shrink", str(small), "--seconds", "2"])
    assert main() == 1
    shown = capsys.readouterr().out
    assert f"repeat: PYTHONPATH=broker:tests python -m sim.leases.run --plan {small}" in shown
    assert "FAILED: Violation: L1" in shown
    assert "MasterElected" in shown
    assert len(Plan.load(small).faults) <= len(draw_plan(1).faults)
    monkeypatch.setattr(sys, "argv", ["run", "0x1"])
    assert main() == 1
    assert "repeat: PYTHONPATH=broker:tests python -m sim.leases.run 0x1" in capsys.readouterr().out


def test_a_defect_in_the_cores_is_a_failure_and_not_a_crash_of_the_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    from logherd.controller.office import Office

    def broken(self: Office, now: int) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(Office, "decide", broken)
    assert "ValueError: a defect" in str(run_seed(1, keep=1).failure)


def test_taking_a_fault_away_changes_no_other_fault() -> None:
    plan = plan_of("B05")
    fewer = plan.replaced(faults=plan.faults[1:])
    assert fewer.faults == plan.faults[1:]
    assert run_plan(fewer, keep=1).digest == run_plan(fewer, keep=1).digest


def test_a_report_that_one_office_has_answered_reaches_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection brings nothing twice; by a copy of it the next office would take what is older for what is new."""
    world = World(draw_plan(1))
    broker = next(iter(world.brokers.values()))
    arrivals: list[Callable[[], None]] = []
    heard: list[object] = []

    class Door:
        name, alive, active, office = "n1", True, False, object()

        def soon(self, wait_us: int, action: Callable[[], None]) -> None:
            action()

        def hear_beat(self, report: object, who: object, sent: int, back: Callable[[object], None]) -> None:
            heard.append(self.office)
            back(Withheld(None, None) if len(heard) > 1 else None)

    door = Door()
    monkeypatch.setattr(world, "controllers", dict.fromkeys(world.controllers, door))
    monkeypatch.setattr(world.net, "send", lambda sender, to, arrive: arrivals.append(arrive))
    broker._heartbeat()
    first, answering = door.office, object()
    for door.office in (first, answering, answering, object()):
        arrivals[0]()
    assert heard == [first, answering, answering]
