"""Requests of operators, before they become commands: whom they mean, and what is refused to them."""

import pytest

from logherd.controller.admission import ElectionRequest, admit_clean, admit_election, admit_register
from logherd.controller.commands import CancelTransfer, Clean, Elect, Grounds, PlanTransfer, Register
from logherd.controller.values import BrokerId
from logherd.controller.verdicts import Refusal
from logherd.replication.epochs import Point
from logherd.service.controllers.why import why
from unit.controller.desk import KEY, Desk, point

LONG_AGO = 60_000


def ask(desk: Desk, target: int | None = None, *, request: str = "") -> object:
    named = None if target is None else BrokerId(target)
    return admit_election(desk.office, ElectionRequest(group=KEY, target=named, request=request), desk.now)


def hear(desk: Desk, broker: int) -> None:
    """It reports, and is granted nothing."""
    assert desk.office.hear(desk.report(broker), desk.now) is None


def test_a_group_that_nobody_leads_may_be_forgotten_as_a_whole() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    whole = Clean(group=KEY, expected_epoch=desk.group.epoch)
    assert admit_clean(desk.office, whole, desk.now, living=False) is Refusal.IN_SYNC
    desk.release(1)
    assert admit_clean(desk.office, whole, desk.now, living=False) is whole


def test_one_that_lives_among_those_to_be_forgotten_is_enough_to_refuse() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.now += LONG_AGO
    desk.beat(3)
    for dead_and_living in ((2, 3), (3, 2)):
        some = Clean(
            group=KEY, expected_epoch=desk.group.epoch, broker_ids=tuple(BrokerId(each) for each in dead_and_living)
        )
        assert admit_clean(desk.office, some, desk.now, living=False) is Refusal.ALIVE
    dead = Clean(group=KEY, expected_epoch=desk.group.epoch, broker_ids=(BrokerId(2),))
    assert admit_clean(desk.office, dead, desk.now, living=False) is dead


def test_a_master_whose_lease_is_over_may_be_elected_anew_by_name() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    assert ask(desk, 1) is Refusal.UNCHANGED
    desk.now += LONG_AGO
    hear(desk, 1)
    command = ask(desk, 1)
    assert isinstance(command, Elect)
    assert (command.broker_id, command.grounds) == (1, Grounds.LEASE_OVER)
    assert desk.submit(command).refusal is None
    assert desk.group.epoch == 2


def test_without_a_name_a_new_group_is_founded_by_the_longest_log() -> None:
    desk = Desk(now=LONG_AGO)
    for broker, position in ((1, 100), (2, 900), (3, 500)):
        desk.register(broker, end=point(4, position), seen=4)
    desk.now += desk.terms.waiter_ms
    for broker, position in ((1, 100), (2, 900), (3, 500)):
        desk.beat(broker, end=point(4, position))
    command = ask(desk)
    assert isinstance(command, Elect)
    assert (command.broker_id, command.grounds, command.alive) == (2, Grounds.FIRST, (1, 2, 3))


def test_without_a_name_nobody_in_sync_being_there_who_left_below_the_minimum_is_elected() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.alter(1, 1, 2)
    desk.alter(1, 1)
    assert (desk.group.sync.members, desk.group.sync.eligible) == ((1,), (2,))
    desk.now += LONG_AGO
    desk.beat(2, 3, end=point(1, 10))
    command = ask(desk)
    assert isinstance(command, Elect)
    assert command.broker_id == 2
    desk.now += LONG_AGO
    desk.beat(3)
    assert ask(desk) is Refusal.NOBODY


def test_of_the_doubted_the_longest_log_may_be_elected_by_name_once_all_report() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.now += LONG_AGO
    for broker in (1, 2, 3):
        desk.register(broker, life=2, trusted=False)
    desk.beat(1, end=point(1, 300))
    desk.beat(2, end=point(1, 500))
    assert ask(desk, 2) is Refusal.NOT_IN_SYNC
    desk.beat(3, end=point(1, 400))
    assert ask(desk, 3) is Refusal.NOT_IN_SYNC
    command = ask(desk, 2)
    assert isinstance(command, Elect)
    assert command.grounds is Grounds.DOUBTED


def test_a_repeated_request_without_a_name_means_whom_it_meant_at_first() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.beat(2, end=point(1, 20))
    desk.beat(3, end=point(1, 10))
    command = ask(desk, request="r1")
    assert isinstance(command, PlanTransfer)
    assert command.broker_id == 2
    assert desk.submit(command).refusal is None
    desk.beat(3, end=point(1, 30))
    again, other = ask(desk, request="r1"), ask(desk, request="r2")
    assert again == command
    assert isinstance(other, PlanTransfer)
    assert other.broker_id == 3


def test_r20_who_comes_to_a_group_that_was_forgotten_waits_for_the_lease_of_before() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    assert desk.submit(Clean(group=KEY, expected_epoch=desk.group.epoch)).refusal is None
    for broker in (2, 3, 4):
        desk.register(broker, store=f"new{broker}")
        desk.beat(broker)
    assert not desk.group.founded
    assert ask(desk, 2) is Refusal.LEASE_RUNS
    desk.now += LONG_AGO
    desk.beat(2, 3)
    assert ask(desk, 2) is Refusal.BELOW_MINIMUM
    desk.beat(2, 3, 4)
    assert isinstance(ask(desk, 2), Elect)


def test_a_new_group_without_any_past_waits_for_no_lease() -> None:
    desk = Desk()
    for broker in (1, 2, 3):
        desk.register(broker)
        desk.beat(broker)
    command = ask(desk, 3)
    assert isinstance(command, Elect)
    assert (command.broker_id, command.grounds) == (3, Grounds.FIRST)


def test_without_a_name_leadership_goes_to_another_one_than_the_master() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.beat(1, end=point(1, 99))
    desk.beat(3, end=point(1, 50))
    command = ask(desk)
    assert isinstance(command, PlanTransfer)
    assert command.broker_id == 3


def test_the_name_of_a_request_that_was_carried_out_stands_for_no_other_target() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.now += LONG_AGO
    desk.beat(2, 3)
    command = ask(desk, 2, request="r1")
    assert isinstance(command, Elect)
    assert desk.submit(command).refusal is None
    assert ask(desk, 2, request="r1") is Refusal.UNCHANGED
    assert ask(desk, request="r1") is Refusal.UNCHANGED
    assert ask(desk, 3, request="r1") is Refusal.REQUEST_REUSED


def other_store(broker: int) -> Register:
    return Register(
        group=KEY, broker_id=BrokerId(broker), store_id="other", incarnation="other.1", address="b9:10911"
    )  # fmt: skip


def test_r2_a_new_office_takes_nobody_for_dead_who_had_no_time_to_report() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.reopen()
    for broker in (1, 2):
        assert admit_register(desk.office, other_store(broker), desk.now) is Refusal.ID_TAKEN
    desk.now += desk.terms.waiter_ms - 1
    assert admit_register(desk.office, other_store(1), desk.now) is Refusal.ID_TAKEN
    desk.now += 1
    assert isinstance(admit_register(desk.office, other_store(1), desk.now), Register)


def process(life: int, end: Point, *, trusted: bool = True) -> Register:
    return Register(
        group=KEY, broker_id=BrokerId(1), store_id="store1", incarnation=f"store1.{life}", address="b1:10911", end=end,
        trusted=trusted,
    )  # fmt: skip


@pytest.mark.parametrize("late", [process(9, point(1, 100)), process(9, point(1, 500), trusted=False)])
def test_r11_a_registration_that_was_overtaken_by_a_later_process_takes_nobody_out_of_sync(late: Register) -> None:
    """It was on its way when its process was killed; the next one has registered meanwhile, and leads. Nobody else
    holds what that one commits."""
    desk = Desk()
    desk.found(1, master=1)
    desk.beat(1, committed=point(1, 500))
    assert admit_register(desk.office, late, desk.now) is Refusal.ALIVE
    assert isinstance(admit_register(desk.office, process(1, point(1, 100)), desk.now), Register)
    assert isinstance(admit_register(desk.office, process(9, point(1, 500)), desk.now), Register)
    desk.release(1)
    assert isinstance(admit_register(desk.office, late, desk.now), Register)


def test_r11_a_store_that_lacks_something_is_taken_in_once_its_last_process_is_silent() -> None:
    desk = Desk()
    desk.found(1, master=1)
    desk.beat(1, committed=point(1, 500))
    desk.now += desk.options.fresh_ms
    admitted = admit_register(desk.office, process(9, point(1, 100)), desk.now)
    assert isinstance(admitted, Register)
    desk.submit(admitted)
    assert desk.group.sync.members == ()


def test_r2_who_is_known_to_have_exited_is_not_waited_for_by_a_new_office() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.release(2)
    desk.reopen()
    assert isinstance(admit_register(desk.office, other_store(2), desk.now), Register)


def test_r12_who_lacks_what_another_has_founds_no_group_unless_the_loss_is_accepted() -> None:
    desk = Desk(now=LONG_AGO)
    ends = {1: point(0, 5_000), 2: point(0, 3_000), 3: point(0, 0)}  # 1 has adopted RocketMQ's store
    for broker, end in ends.items():
        desk.register(broker, end=end)
        desk.beat(broker, end=end)
    assert ask(desk, 2) is Refusal.NOT_IN_SYNC
    desk.now += desk.terms.waiter_ms
    for broker, end in ends.items():
        desk.beat(broker, end=end)
    assert ask(desk, 2) is Refusal.NOT_IN_SYNC
    accepted = admit_election(desk.office, ElectionRequest(group=KEY, target=BrokerId(2), unclean=True), desk.now)
    assert isinstance(accepted, Elect)
    assert (accepted.broker_id, accepted.grounds) == (2, Grounds.FIRST_BY_OPERATOR)
    command = ask(desk, 1)
    assert isinstance(command, Elect)
    assert (command.broker_id, command.grounds) == (1, Grounds.FIRST)


def test_r12_where_the_longest_log_cannot_lead_nobody_founds_the_group_by_itself() -> None:
    desk = Desk(now=LONG_AGO)
    for broker, position in ((1, 100), (2, 900), (3, 500)):
        desk.register(broker, end=point(4, position), seen=4)
    desk.now += desk.terms.waiter_ms
    for _ in range(100):
        for broker, position in ((1, 100), (2, 900), (3, 500)):
            desk.beat(broker, end=point(4, position), space=broker != 2, barrier=broker != 2)
        assert desk.decide() == []
        desk.now += 100
    assert ask(desk) is Refusal.NOBODY
    assert "broker 2: its disk is full" in why(desk.group, desk.office, desk.now)
    desk.beat(2, end=point(4, 900))
    (command,) = desk.decide()
    assert isinstance(command, Elect)
    assert (command.broker_id, command.grounds) == (2, Grounds.FIRST)


def test_h4_the_longest_log_founds_the_group_though_its_disk_is_at_its_reserve() -> None:
    """The shorter ones may lack what was acknowledged."""
    desk = Desk(now=LONG_AGO)
    for broker, position in ((1, 100), (2, 900), (3, 500)):
        desk.register(broker, end=point(4, position), seen=4)
    desk.now += desk.terms.waiter_ms
    for broker, position in ((1, 100), (2, 900), (3, 500)):
        desk.beat(broker, end=point(4, position), space=broker != 2)
    (command,) = desk.decide()
    assert isinstance(command, Elect)
    assert (command.broker_id, command.grounds) == (2, Grounds.FIRST)


def test_h4_an_operator_moves_leadership_among_full_disks_and_never_away_from_space() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.beat(2, space=False)
    assert ask(desk, 2) is Refusal.NOT_FIT
    desk.beat(1, 3, space=False)
    command = ask(desk, 2)
    assert isinstance(command, PlanTransfer)
    desk.submit(command)
    assert desk.decide() == []
    desk.beat(1)
    assert [type(each) for each in desk.decide()] == [CancelTransfer]
    desk.beat(1, space=False)
    assert desk.submit(command).refusal is None
    desk.release(1)
    assert [each.broker_id for each in desk.wait(50, space=False)] == [2]


def test_h4_an_operator_elects_nobody_without_space_in_place_of_who_has_some() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.release(1)
    desk.beat(2, space=False)
    desk.beat(3)
    assert ask(desk, 2) is Refusal.NOT_FIT
    desk.beat(3, space=False)
    assert isinstance(ask(desk, 2), Elect)


def test_r18_a_transfer_that_was_carried_out_is_not_planned_again_under_its_name() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    command = ask(desk, 2, request="r1")
    assert isinstance(command, PlanTransfer)
    assert desk.submit(command).refusal is None
    desk.release(1, exited=False)
    assert [election.broker_id for election in desk.wait(600, 2, 3)] == [2]
    done = desk.group
    for target, told in ((2, None), (3, Refusal.REQUEST_REUSED)):
        late = PlanTransfer(
            group=KEY, expected_epoch=done.epoch, broker_id=BrokerId(target), registration=desk.registration(target),
            request="r1",
        )  # fmt: skip
        assert desk.submit(late).refusal is told
        assert desk.group == done
