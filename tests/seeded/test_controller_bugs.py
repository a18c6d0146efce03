"""Every seeded defect of controllers and leases is caught by its rule, from its stored plan; without it that is clean.

`PYTHONPATH=broker:tests python -m seeded.controller_bugs` looks for each from scratch; `make sim` does.
"""

import pytest

from seeded.controller_bugs import BUGS, PLANS, plan_of, shown
from sim.leases.run import run_plan


@pytest.mark.parametrize("name", BUGS)
def test_a_seeded_defect_is_caught_by_its_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, bug = plan_of(name), BUGS[name]
    assert run_plan(plan, keep=1).failure is None
    bug.apply(monkeypatch)
    result = run_plan(plan, keep=1)
    assert shown(bug, result), result.failure


def test_every_stored_plan_is_of_a_defect_and_says_what_it_shows() -> None:
    stored = {path.stem for path in PLANS.glob("*.json")}
    assert stored == set(BUGS)
    assert all((plan := plan_of(name)).bug == name and plan.why for name in stored)
