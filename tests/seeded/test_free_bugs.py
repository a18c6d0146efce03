"""Every seeded defect of static and raft mode is caught by a rule that is meant for it."""

import pytest

from seeded.free_bugs import RAFT, STATIC, search


@pytest.mark.parametrize("name", STATIC)
def test_a_defect_of_static_mode_is_caught_by_its_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    STATIC[name].apply(monkeypatch)
    assert search(STATIC[name], "static") is not None, STATIC[name].what


@pytest.mark.parametrize("name", RAFT)
def test_a_defect_of_raft_mode_is_caught_by_its_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    RAFT[name].apply(monkeypatch)
    assert search(RAFT[name], "raft") is not None, RAFT[name].what
