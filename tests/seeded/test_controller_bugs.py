"""Every seeded defect of controllers and leases is caught by its rule; without it the seed is clean."""

import re

import pytest

from seeded.controller_bugs import BUGS
from sim.leases.run import run_seed


@pytest.mark.parametrize("name", BUGS)
def test_a_seeded_defect_is_caught_by_its_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = BUGS[name]
    assert run_seed(bug.seed).failure is None
    bug.apply(monkeypatch)
    failure = run_seed(bug.seed).failure
    assert failure is not None
    assert re.search(bug.says, failure), failure
