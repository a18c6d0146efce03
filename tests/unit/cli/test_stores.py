"""What `logherd store repair` says before it is done."""

from pathlib import Path

import pytest

from logherd.cli.stores import plan_lines
from logherd.store.repair import RepairPlan, RepairStep

CUT = RepairStep("drop everything from position 3405 on", "/data/commitlog/0", bytes=10, records=1)


@pytest.mark.parametrize(
    ("steps", "applied", "said"), [((CUT,), False, True), ((CUT,), True, False), ((), False, False)]
)
def test_of_a_replica_it_is_said_that_it_heals_without_a_repair(
    tmp_path: Path, steps: tuple[RepairStep, ...], applied: bool, said: bool
) -> None:
    plan = RepairPlan(steps=steps, end_position=3405, applied=applied)
    assert not any("heals" in line for line in plan_lines(tmp_path, plan))
    (tmp_path / "replica.json").touch()
    assert any("heals" in line for line in plan_lines(tmp_path, plan)) is said
