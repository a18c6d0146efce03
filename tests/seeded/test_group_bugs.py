"""Every seeded defect of a replica's part in its group is caught by a rule that is meant for it."""

import pytest

from seeded.group_bugs import BUGS, search


@pytest.mark.parametrize("name", BUGS)
def test_a_seeded_defect_is_caught_by_its_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[name].apply(monkeypatch)
    assert search(BUGS[name]) is not None, BUGS[name].what
