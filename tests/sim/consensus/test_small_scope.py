"""The small world: two members in full, three as far as the time of a change allows; `make sim` goes further."""

import pytest

from seeded.raft_bugs import BUGS
from sim.consensus.small_scope import Broken, Scope, explore


def test_two_members_keep_the_rules_in_every_order_of_events() -> None:
    states, commits, all_of_them = explore(Scope(members=2, elections=2, proposals=1, crashes=0, losses=0))
    assert all_of_them
    assert states > 200
    assert commits > 20


def test_three_members_keep_the_rules_in_the_first_hundreds_of_states() -> None:
    states, commits, _ = explore(Scope(elections=1, crashes=0, losses=0, states=2_000))
    assert states > 500
    assert commits > 20


def test_a_commit_by_counting_is_found_without_any_luck(monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS["B03"].apply(monkeypatch)
    with pytest.raises(Broken, match="C4 an older term"):
        explore(Scope(members=2, proposals=0, losses=0))
