"""Epoch tables: what they refuse, and that two replicas find where their logs part."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd.kit.errors import InvariantError
from logherd.model.names import Epoch, Position
from logherd.replication.epochs import ORIGIN, EpochHistory, Point, Run, common_end

STEP = 7
"""Positions of the test logs have gaps, as real ones do."""


def history_of(log: list[int]) -> tuple[EpochHistory, Position]:
    """The table of a log given by the epochs of its records."""
    history, end = EpochHistory(), Position(0)
    for epoch in log:
        history, end = history.extended(Epoch(epoch), end), Position(end + STEP)
    return history, end


@st.composite
def two_logs(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Logs that one-leader-an-epoch can lead to: every leader appends, followers copy some prefix of its log."""
    logs: list[list[int]] = [[] for _ in range(4)]
    for epoch in range(1, draw(st.integers(1, 9))):
        leader = logs[draw(st.integers(0, 3))]
        leader.extend([epoch] * draw(st.integers(1, 3)))
        for log in logs:
            if log is not leader and draw(st.booleans()):
                upto = leader[: draw(st.integers(0, len(leader)))]
                if log[: len(upto)] != upto:
                    log[:] = upto
    return logs[draw(st.integers(0, 3))], logs[draw(st.integers(0, 3))]


def shared(a: list[int], b: list[int]) -> int:
    count = 0
    while count < min(len(a), len(b)) and a[count] == b[count]:
        count += 1
    return count


@given(two_logs())
def test_probing_finds_the_longest_shared_prefix_in_one_round_for_each_epoch(logs: tuple[list[int], list[int]]) -> None:
    (leader, leader_end), (follower, follower_end) = history_of(logs[0]), history_of(logs[1])
    guess, rounds = leader.point_at(leader_end), 0
    while not follower.matches(guess, follower_end):
        hint = follower.hint(guess.epoch, follower_end)
        agreed = leader.agreed(hint, leader_end)
        assert agreed is not None
        assert agreed.position < guess.position
        guess, rounds = agreed, rounds + 1
    assert guess.position <= shared(*logs) * STEP
    assert rounds <= len(frozenset(logs[0]) | frozenset(logs[1])) + 1
    assert (
        common_end(
            EpochHistory(guess, leader.runs_between(guess.position, leader_end)),
            leader_end,
            EpochHistory(guess, follower.runs_between(guess.position, follower_end)),
            follower_end,
        )
        == shared(*logs) * STEP
    )


@given(two_logs(), st.integers(0, 40))
def test_a_table_says_of_every_record_what_the_log_says(logs: tuple[list[int], list[int]], cut: int) -> None:
    log = logs[0]
    history, end = history_of(log)
    cut = min(cut, len(log))
    compacted = history.compacted(Position(cut * STEP), end)
    shortened = history.truncated(Position(cut * STEP))
    for number, epoch in enumerate(log):
        position = Position((number + 1) * STEP)
        assert history.epoch_at(position) == epoch
        assert history.epoch_after(Position(number * STEP)) == epoch
        if number >= cut:
            assert compacted.epoch_at(position) == epoch
        else:
            assert shortened.epoch_at(position) == epoch
    assert shortened == history_of(log[:cut])[0]
    assert compacted.base == Point(Epoch(log[cut - 1] if cut else 0), Position(cut * STEP))


@given(two_logs(), st.integers(0, 30), st.integers(0, 30))
def test_the_ends_of_all_epochs_say_which_one_every_record_is_of(
    logs: tuple[list[int], list[int]], dropped: int, kept: int
) -> None:
    log = logs[0]
    history, end = history_of(log)
    dropped, kept = min(dropped, len(log)), min(kept, len(log))
    if dropped > kept:
        return
    ends = history.compacted(Position(STEP * dropped), end).epoch_ends(Position(STEP * kept))
    told = [dropped and log[dropped - 1], *log[dropped:kept]]
    places = [number for number, (one, other) in enumerate(pairwise(told)) if one != other and number]
    assert ends == tuple(Point(Epoch(told[place]), Position(STEP * (dropped + place))) for place in (0, *places))


def test_a_leader_that_has_compacted_the_shared_part_says_so() -> None:
    history, end = history_of([1, 1, 3, 3])
    compacted = history.compacted(Position(3 * STEP), end)
    assert compacted.agreed(Point(Epoch(1), Position(2 * STEP)), end) is None
    assert compacted.agreed(Point(Epoch(3), Position(2 * STEP)), end) is None
    assert compacted.agreed(Point(Epoch(3), Position(4 * STEP)), end) == Point(Epoch(3), Position(4 * STEP))


def test_a_leader_without_the_epoch_of_a_hint_asks_about_the_end_of_its_own_earlier_one() -> None:
    """Where the hint lies it need not have a record that ends there."""
    history, end = history_of([1, 1, 1, 3])
    hint = Point(Epoch(2), Position(STEP + 2))
    assert history.agreed(hint, end) == Point(Epoch(1), Position(3 * STEP))
    assert history.agreed(Point(Epoch(1), Position(2 * STEP)), end) == Point(Epoch(1), Position(2 * STEP))
    assert history.agreed(Point(Epoch(3), Position(9 * STEP)), end) == Point(Epoch(3), Position(4 * STEP))


@pytest.mark.parametrize(
    ("base", "runs"),
    [
        (ORIGIN, (Run(Epoch(2), Position(0)), Run(Epoch(1), Position(9)))),
        (ORIGIN, (Run(Epoch(1), Position(0)), Run(Epoch(2), Position(0)))),
        (ORIGIN, (Run(Epoch(1), Position(0)), Run(Epoch(1), Position(9)))),
        (Point(Epoch(3), Position(9)), (Run(Epoch(2), Position(9)),)),
        (Point(Epoch(1), Position(9)), (Run(Epoch(2), Position(10)),)),
    ],
)
def test_a_table_that_breaks_an_invariant_cannot_be_made(base: Point, runs: tuple[Run, ...]) -> None:
    with pytest.raises(InvariantError):
        EpochHistory(base, runs)


def test_points_order_by_epoch_before_position() -> None:
    assert Point(Epoch(2), Position(1)) > Point(Epoch(1), Position(9))
    assert Point(Epoch(2), Position(2)) > Point(Epoch(2), Position(1))


def test_below_the_base_nothing_is_known() -> None:
    history = EpochHistory(Point(Epoch(1), Position(9)))
    with pytest.raises(InvariantError):
        history.epoch_at(Position(8))
    with pytest.raises(InvariantError):
        history.truncated(Position(8))


@given(two_logs(), st.integers(0, 30), st.integers(0, 30))
def test_only_what_a_log_does_not_hold_is_refuted_whatever_of_it_was_dropped(
    logs: tuple[list[int], list[int]], dropped: int, at: int
) -> None:
    (ours, end), (theirs, their_end) = history_of(logs[0]), history_of(logs[1])
    dropped, at = STEP * min(dropped, len(logs[0])), STEP * min(at, len(logs[1]))
    point, kept = theirs.point_at(Position(at)), ours.compacted(Position(dropped), end)
    assert their_end >= at
    if ours.matches(point, end):
        assert not kept.refutes(point, end)
    elif at >= dropped:
        assert kept.refutes(point, end)


def test_below_the_base_a_record_of_a_later_epoch_is_refuted() -> None:
    history = EpochHistory(Point(Epoch(3), Position(90)))
    assert history.refutes(Point(Epoch(4), Position(50)), Position(90))
    assert not history.refutes(Point(Epoch(3), Position(50)), Position(90))
    assert history.refutes(Point(Epoch(2), Position(90)), Position(90))


def test_a_range_that_ends_where_a_run_begins_has_nothing_of_that_run() -> None:
    runs = Run(Epoch(1), Position(0)), Run(Epoch(2), Position(STEP)), Run(Epoch(3), Position(2 * STEP))
    history = EpochHistory(ORIGIN, runs)
    assert history.runs_between(Position(0), Position(STEP)) == runs[:1]
    assert history.runs_between(Position(0), Position(2 * STEP)) == runs[:2]
    assert history.runs_between(Position(STEP), Position(2 * STEP)) == runs[1:2]
