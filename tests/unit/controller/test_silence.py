"""R19: a controllers' leader whom too few brokers reach gives way, so that brokers are not sent to it for ever."""

import pytest

from logherd.controller.commands import SetLearner
from logherd.controller.silence import PATIENCE_MS, Silence, patience_ms, successor
from logherd.controller.values import BrokerId
from unit.controller.desk import KEY, Desk

LONGEST_MS = 64 * PATIENCE_MS


def led() -> Desk:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    return desk


def ask(silence: Silence, desk: Desk, ms: int, *beating: int) -> list[tuple[int, int]]:
    """Time passes; when it asks that another one lead, and for which time in a row."""
    found = []
    for _ in range(0, ms, 500):
        desk.now += 500
        desk.beat(*beating)
        turn = silence.gives_way(desk.office, desk.now)
        if turn is not None:
            found.append((desk.now, turn))
    return found


def lead_again(silence: Silence, desk: Desk) -> None:
    """The office ends, and begins once another one has led."""
    silence.end(desk.now)
    desk.reopen()
    silence.begin(desk.now)


def begun(desk: Desk) -> Silence:
    silence = Silence(PATIENCE_MS)
    silence.begin(desk.now)
    return silence


def test_who_grants_a_lease_leads_on() -> None:
    """Another one may be reached by fewer."""
    desk = led()
    assert ask(begun(desk), desk, 10 * PATIENCE_MS, 1) == []


def test_who_hears_too_few_of_a_group_to_elect_anybody_gives_way() -> None:
    """Those who are in sync may reach another controller."""
    desk = led()
    desk.alter(1, 1, 2)
    silence, began = begun(desk), desk.now
    given = []
    while desk.now < began + 3 * PATIENCE_MS:
        assert desk.wait(500, 3) == []
        given += [desk.now - began] if silence.gives_way(desk.office, desk.now) is not None else []
    assert given == [PATIENCE_MS, 2 * PATIENCE_MS, 3 * PATIENCE_MS]


def test_of_a_group_that_nobody_leads_though_all_of_its_brokers_are_heard_no_other_one_would_hear_more() -> None:
    desk = led()
    desk.release(1, exited=False)
    desk.submit(SetLearner(group=KEY, expected_epoch=desk.group.epoch, broker_id=BrokerId(3), learner=True))
    silence, began = begun(desk), desk.now
    while desk.now < began + 3 * PATIENCE_MS:
        desk.beat(1, 2, healthy=False)
        assert desk.wait(500) == []
        assert silence.gives_way(desk.office, desk.now) is None


@pytest.mark.parametrize("heard", [(), (1,), (1, 2)])
def test_a_group_that_waits_to_be_founded_is_missed_when_none_of_it_is_heard(heard: tuple[int, ...]) -> None:
    """What it waits with for the others is counted by one office."""
    desk = Desk()
    for broker in (1, 2):
        desk.register(broker)
    assert bool(ask(begun(desk), desk, 3 * PATIENCE_MS, *heard)) == (not heard)


def test_who_hears_no_broker_gives_way_twice_as_late_each_time_in_a_row() -> None:
    desk = led()
    silence, waits = begun(desk), []
    for turn in range(9):
        lead_again(silence, desk)
        began = desk.now
        (given,) = ask(silence, desk, min(PATIENCE_MS << turn, LONGEST_MS))
        assert given[1] == turn
        waits.append(given[0] - began)
    assert waits == [*(PATIENCE_MS << each for each in range(7)), LONGEST_MS, LONGEST_MS]


def test_an_hour_after_it_gave_way_it_is_as_patient_as_at_first() -> None:
    """Another one has led well, as where only the way to this one is closed."""
    desk = led()
    silence = begun(desk)
    for _ in range(3):
        lead_again(silence, desk)
        ask(silence, desk, 4 * PATIENCE_MS)
    silence.end(desk.now)
    desk.now += 3_600_000
    lead_again(silence, desk)
    assert [turn for _, turn in ask(silence, desk, PATIENCE_MS)] == [0]


def test_it_asks_another_one_as_soon_again_where_none_takes_over() -> None:
    """That one may be dead, or members may be on their way."""
    desk = led()
    desk.reopen()
    silence, began = begun(desk), desk.now
    given = ask(silence, desk, 70 * PATIENCE_MS)
    assert given == [(began + PATIENCE_MS * (each + 1), each) for each in range(70)]


@pytest.mark.parametrize("again", [True, False])
def test_a_lease_that_is_granted_makes_it_patient_as_at_first(*, again: bool) -> None:
    desk = led()
    silence = begun(desk)
    ask(silence, desk, 2 * PATIENCE_MS)
    if again:
        lead_again(silence, desk)
    assert ask(silence, desk, 2 * PATIENCE_MS, 1) == []
    assert [turn for _, turn in ask(silence, desk, PATIENCE_MS)] == [0]


@pytest.mark.parametrize(("lease_ms", "patience"), [(600, 10_000), (3_000, 10_000), (60_000, 180_000)])
def test_it_waits_for_some_leases_and_so_for_several_heartbeats(lease_ms: int, patience: int) -> None:
    assert patience_ms(lease_ms) == patience


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
