"""The small world: corners of it in full, the whole as far as the time of a change allows; `make sim` goes further."""

import pytest

from logherd.raft.leader import Leader
from seeded.raft_bugs import BUGS
from sim.consensus.small_scope import Broken, Scope, State, explore

NOTHING = Scope(members=2, elections=1, proposals=0, crashes=0, losses=0, duplicates=0, changes=0)
CORNERS = {
    "two elections and a record": Scope(2, 2, 1, 0, 0, 0, 0),
    "a crash": Scope(2, 1, 1, 1, 0, 0, 0),
    "a loss and a duplicate": Scope(2, 1, 1, 0, 1, 1, 0),
    "a change": Scope(2, 1, 0, 0, 0, 0, 1),
}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("corner", CORNERS)
def test_two_members_keep_the_rules_in_every_order_of_events(corner: str) -> None:
    states, commits, all_of_them = explore(CORNERS[corner])
    assert all_of_them
    assert states > 10
    assert commits > 3


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "scope",
    [
        Scope(3, 1, 3, 0, 0, 0, 0, states=400, deep=1),
        Scope(3, 1, 1, 0, 0, 0, 1, states=400, deep=1),
        Scope(3, 2, 3, 1, 1, 1, 1, states=400, deep=1),
        Scope(3, 2, 3, 1, 1, 1, 1, states=300),
        Scope(2, 2, 3, 1, 1, 1, 1, states=300),
    ],
    ids=["records", "a change", "everything", "everything, shortest first", "everything, two members"],
)
def test_larger_worlds_keep_the_rules_in_the_first_states(scope: Scope) -> None:
    states, commits, _ = explore(scope)
    assert states >= scope.states
    assert commits > 20 or scope.crashes > 0


def test_states_that_differ_in_names_only_are_one() -> None:
    states, _, all_of_them = explore(Scope(3, 1, 0, 0, 0, 0, 0, states=3))
    first, other = State(3), State(3)
    assert not all_of_them
    assert states >= 3
    for state, number in ((first, 0), (other, 2)):
        name = list(state.cores)[number]
        state.leaders[state.cores[name].ground.term] = name
    assert first.key() == other.key() != State(3).key()


def test_a_commit_by_counting_is_found_without_any_luck(monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS["B03"].apply(monkeypatch)
    with pytest.raises(Broken, match="C4 an older term"):
        explore(Scope(2, 2, 0, 1, 0, 0, 0))


def test_a_change_that_counts_one_half_only_is_found_without_any_luck(monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS["joint"].apply(monkeypatch)
    with pytest.raises(Broken, match="C4 committed without a majority"):
        explore(Scope(2, 1, 0, 0, 0, 0, 1, states=20_000))


def test_a_leader_that_is_ready_too_early_is_not_taken_for_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leader, "_committable", lambda self: self._ground.progress.commit)
    _, commits, all_of_them = explore(NOTHING)
    assert all_of_them
    assert commits == 0
