"""H4: a master whose disk is full is no reason for an election, but who has space should lead."""

import pytest

from logherd.controller.commands import CancelTransfer, Elect, PlanTransfer, decode_command
from unit.controller.desk import Desk


def pass_with_full(desk: Desk, ms: int, *full: int) -> None:
    """Time passes, in which these brokers say that they have no space, and the others that they have."""
    for _ in range(0, ms, 500):
        desk.beat(*full, space=False)
        desk.beat(*(each for each in (1, 2, 3) if each not in full))
        desk.wait(500)


def test_a_master_that_has_had_no_space_for_a_while_is_to_hand_over_to_who_has() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    pass_with_full(desk, desk.options.relieve_after_ms - 500, 1)
    assert desk.group.transfer is None
    pass_with_full(desk, 1_500, 1)
    assert desk.group.transfer is not None
    assert (desk.group.transfer.target, desk.group.epoch) == (2, 1)


def test_a_hand_over_that_does_not_come_about_is_asked_for_now_and_then() -> None:
    """Nobody is served while one is waited for, not even reads, so that a master must not be asked all the time."""
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    pass_with_full(desk, 6 * desk.options.relieve_after_ms, 1)
    decided = [type(decode_command(each)) for each in desk.log]
    assert decided.count(PlanTransfer) in (4, 5)
    assert decided.count(CancelTransfer) in (4, 5)


@pytest.mark.parametrize(
    ("in_sync", "full"), [((1, 2, 3), (1, 2)), ((1, 2), (1, 3)), ((1, 2), (1,)), ((1, 2, 3), (1, 2, 3))]
)
def test_a_master_without_space_leads_on_where_fewer_have_space_than_must_be_in_sync(
    in_sync: tuple[int, ...], full: tuple[int, ...]
) -> None:
    """They would fill what the others keep free for offsets and barriers."""
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    if in_sync != (1, 2, 3):
        desk.alter(1, *in_sync)
    decided = len(desk.log)
    pass_with_full(desk, 3 * desk.options.relieve_after_ms, *full)
    assert len(desk.log) == decided


def elections(desk: Desk) -> int:
    return sum(isinstance(decode_command(each), Elect) for each in desk.log)


def take_turns(desk: Desk, ms: int, *, period_ms: int) -> None:
    """The disk of whoever leads is full and the others' are not, and after each period it has space again; who is told
    to hand over does so."""
    for passed in range(0, ms, 500):
        master = desk.group.master
        pass_with_full(desk, 500, *([master.broker_id] if master is not None and passed // period_ms % 2 == 0 else []))
        if desk.group.transfer is not None and desk.group.master is not None:
            desk.release(desk.group.master.broker_id, exited=False)


def test_brokers_whose_space_comes_and_goes_do_not_pass_leadership_around_for_ever() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    first = desk.options.relieve_after_ms
    take_turns(desk, 30 * 60_000, period_ms=first + 3_000)
    assert elections(desk) == 2, "the first one, and one relief"


def test_a_master_without_space_is_relieved_ever_later_and_always_in_the_end() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    first = desk.options.relieve_after_ms
    for patience in (first, 2 * first, 4 * first):
        before, since = desk.group.epoch, desk.now
        while desk.group.epoch == before:
            take_turns(desk, 500, period_ms=500)
        assert patience <= desk.now - since <= patience + 3_000
    pass_with_full(desk, 3_700_000)
    before, since = desk.group.epoch, desk.now
    while desk.group.epoch == before:
        take_turns(desk, 500, period_ms=500)
    assert desk.now - since <= first + 3_000, "after an hour without a relief it is as at first"


def test_the_time_of_a_master_without_space_begins_anew_when_it_has_had_some() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    for _ in range(3):
        pass_with_full(desk, desk.options.relieve_after_ms - 1_000, 1)
        pass_with_full(desk, 1_000)
    assert desk.group.transfer is None
