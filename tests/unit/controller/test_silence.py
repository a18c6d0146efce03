"""R19: a controllers' leader whom no broker reaches gives way, so that brokers are not sent to it for ever."""

from itertools import pairwise

import pytest

from logherd.controller.silence import PATIENCE_MS, Silence, successor
from unit.controller.desk import Desk

LONGEST_MS = 60 * PATIENCE_MS


def led() -> Desk:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    return desk


def ask(silence: Silence, desk: Desk, ms: int, *beating: int) -> list[tuple[int, int]]:
    """Time passes; when it gives way, and for which time in a row."""
    found = []
    for _ in range(0, ms, 500):
        desk.now += 500
        desk.beat(*beating)
        turn = silence.gives_way(desk.office, desk.now)
        if turn is not None:
            found.append((desk.now, turn))
    return found


def begun(desk: Desk) -> Silence:
    silence = Silence()
    silence.begin(desk.now)
    return silence


def test_who_hears_any_broker_leads_on() -> None:
    desk = led()
    assert ask(begun(desk), desk, 10 * PATIENCE_MS, 2) == []


def test_who_hears_no_broker_gives_way_twice_as_late_each_time_in_a_row() -> None:
    desk = led()
    desk.reopen()
    silence, began = begun(desk), desk.now
    given = ask(silence, desk, 40 * PATIENCE_MS)
    assert given[:4] == [(began + PATIENCE_MS * (2 ** (each + 1) - 1), each) for each in range(4)]
    later = ask(silence, desk, 20 * LONGEST_MS)
    gaps = {one[0] - other[0] for other, one in pairwise(later)}
    assert gaps == {LONGEST_MS}


def test_a_broker_that_is_heard_makes_it_patient_as_at_first() -> None:
    desk = led()
    silence = begun(desk)
    assert [turn for _, turn in ask(silence, desk, 8 * PATIENCE_MS)] == [0, 1, 2]
    assert ask(silence, desk, 2 * PATIENCE_MS, 1) == []
    assert [turn for _, turn in ask(silence, desk, 2 * PATIENCE_MS)] == [0]


def test_each_office_has_as_much_time() -> None:
    desk = led()
    silence = begun(desk)
    assert ask(silence, desk, PATIENCE_MS - 500, 1) == []
    desk.reopen()
    silence.begin(desk.now)
    assert ask(silence, desk, PATIENCE_MS - 500) == []


@pytest.mark.parametrize("exited", [(1, 2, 3), (1, 2)])
def test_nobody_is_missed_whose_process_is_known_to_have_ended(exited: tuple[int, ...]) -> None:
    desk = led()
    for broker in exited:
        desk.release(broker)
    assert bool(ask(begun(desk), desk, 3 * PATIENCE_MS)) == (len(exited) < 3)


def test_controllers_without_groups_miss_nobody() -> None:
    desk = Desk()
    assert ask(begun(desk), desk, 3 * PATIENCE_MS) == []


def test_the_next_in_turn_leads_so_that_everybody_is_tried() -> None:
    assert [successor("abc", each, 0) for each in "abc"] == ["b", "c", "a"]
    assert [successor("abc", "b", turn) for turn in range(4)] == ["c", "a", "c", "a"]


@pytest.mark.parametrize(("voters", "own"), [("a", "a"), ("bc", "a")])
def test_who_is_alone_or_no_voter_has_no_successor(voters: str, own: str) -> None:
    assert successor(voters, own, 0) is None
