"""R10, R11, R12, R13, R20 and H4, H14: who may lead, and on what grounds."""

import pytest

from logherd.controller.admission import ElectionRequest, admit_election, admit_register
from logherd.controller.commands import Clean, Configure, Elect, Grounds, PlanTransfer, Register, SetLearner
from logherd.controller.machine import Machine
from logherd.controller.office import view_of
from logherd.controller.reports import Granted, Withheld
from logherd.controller.settings import OfficeOptions
from logherd.controller.values import BrokerId, Registration
from logherd.controller.verdicts import LossAccepted, Refusal
from logherd.model.names import Epoch
from logherd.replication.epochs import ORIGIN
from logherd.service.controllers.why import why
from unit.controller.desk import KEY, Desk, point

LONG_AGO = 60_000


def ask(desk: Desk, target: int, *, unclean: bool = False, request: str = "", epoch: int | None = None) -> object:
    wanted = ElectionRequest(
        group=KEY, target=BrokerId(target), unclean=unclean, request=request,
        expected_epoch=None if epoch is None else Epoch(epoch),
    )  # fmt: skip
    return admit_election(desk.office, wanted, desk.now)


def elect(desk: Desk, broker: int, *alive: int, grounds: Grounds = Grounds.LEASE_OVER, request: str = "") -> Elect:
    return Elect(
        group=KEY, expected_epoch=desk.group.epoch, broker_id=BrokerId(broker),
        registration=desk.registration(broker), alive=tuple(BrokerId(each) for each in alive), grounds=grounds,
        request=request,
    )  # fmt: skip


# ---- R12: the first election ---------------------------------------------------------------------------------------


def test_r12_a_new_group_waits_for_all_configured_brokers() -> None:
    desk = Desk()
    desk.register(1)
    desk.register(2)
    assert desk.wait(30_000, 1, 2) == []
    desk.register(3)
    (election,) = desk.wait(600, 1, 2, 3)
    assert election.grounds is Grounds.FIRST
    assert desk.group.sync.members == (1, 2, 3)


def test_r12_the_first_to_ask_does_not_win_when_another_has_a_longer_log() -> None:
    desk = Desk(now=LONG_AGO)
    for broker, end in ((1, point(0, 0)), (2, point(4, 900)), (3, point(5, 100))):
        desk.register(broker, end=end, seen=end.epoch)
        desk.beat(broker, end=end)
    desk.now += desk.terms.waiter_ms
    for broker, end in ((1, point(0, 0)), (2, point(4, 900)), (3, point(5, 100))):
        desk.beat(broker, end=end)
    (election,) = desk.decide()
    assert isinstance(election, Elect)
    assert election.broker_id == 3
    assert desk.group.sync.members == (3,)


def test_r20_controllers_that_lost_their_log_adopt_the_highest_epoch_and_wait_out_old_leases() -> None:
    desk = Desk(now=LONG_AGO)
    for broker in (1, 2, 3):
        desk.register(broker, end=point(7, 100), seen=7)
    assert desk.wait(desk.terms.waiter_ms, 1, 2, 3, end=point(7, 100)) == []
    assert len(desk.wait(200, 1, 2, 3, end=point(7, 100))) == 1
    assert desk.group.epoch == 7 + 4096


def test_r20_who_registered_with_a_longer_log_than_is_reported_is_waited_for_beyond_the_configured_number() -> None:
    """What a group began with may be fewer than it had grown to; what 4 and 5 alone have may have been acknowledged."""
    desk = Desk(now=LONG_AGO)
    for broker in (1, 2, 3, 4, 5):
        desk.register(broker, end=point(7, 900 if broker > 3 else 100), seen=7)
    assert desk.wait(60_000, 1, 2, 3, end=point(7, 100)) == []
    assert ask(desk, 1) is Refusal.NOT_IN_SYNC
    assert "waits for brokers 4, 5, with a longer log than broker 1 has" in why(desk.group, desk.office, desk.now)
    desk.beat(1, 2, 3, end=point(7, 100))
    desk.beat(4, end=point(7, 900))
    assert [election.broker_id for election in desk.wait(200)] == [4]


def test_r20_who_a_group_grew_by_registers_as_a_learner_again_and_is_waited_for_with_a_longer_log() -> None:
    """Controllers that lost everything know of no promotion; a process says how it began."""
    desk = Desk(now=LONG_AGO)
    for broker in (1, 2, 3, 4, 5):
        desk.register(broker, end=point(8, 990) if broker > 3 else point(7, 900), seen=8, learner=broker > 3)
    desk.now += desk.terms.waiter_ms

    def pass_time() -> list[Elect]:
        for _ in range(20):
            desk.beat(4, 5, end=point(8, 990))
            if elections := desk.wait(100, 1, 2, 3, end=point(7, 900)):
                return elections
        return []

    assert pass_time() == []
    assert ask(desk, 1) is Refusal.NOT_IN_SYNC
    assert "waits for brokers 4, 5, with a longer log than broker 1 has" in why(desk.group, desk.office, desk.now)
    desk.submit(SetLearner(group=KEY, expected_epoch=desk.group.epoch, broker_id=BrokerId(5), learner=False))
    assert [election.broker_id for election in pass_time()] == [5]


@pytest.mark.parametrize("gone", ["forgotten", "given up"])
def test_r20_a_longer_log_that_never_comes_back_is_given_up_by_a_person(gone: str) -> None:
    desk = Desk(now=LONG_AGO)
    for broker in (1, 2, 3, 4):
        desk.register(broker, end=point(7, 900 if broker > 3 else 100), seen=7)
    assert desk.wait(10_000, 1, 2, 3, end=point(7, 100)) == []
    if gone == "forgotten":
        desk.submit(Clean(group=KEY, expected_epoch=desk.group.epoch, broker_ids=(BrokerId(4),)))
        assert [election.grounds for election in desk.wait(200, 1, 2, 3, end=point(7, 100))] == [Grounds.FIRST]
    else:
        command = ask(desk, 1, unclean=True)
        assert isinstance(command, Elect)
        assert command.grounds is Grounds.FIRST_BY_OPERATOR


def test_r20_no_epoch_is_led_twice_after_the_controllers_lost_their_latest_decisions() -> None:
    """A quorum made of survivors that did not hold them: the brokers run on, under the numbers that they have."""
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    before = desk.machine.save()
    desk.release(1)
    assert [election.broker_id for election in desk.wait(200, 2, 3)] == [2]
    assert desk.group.epoch == 2
    desk.machine = Machine.load(before)
    desk.reopen()
    assert desk.beat(3, end=point(2, 400)) == Withheld(None, Refusal.FENCED_EPOCH)
    desk.register(3, end=point(2, 400), seen=2)
    elections = desk.wait(2 * LONG_AGO, 2, 3, end=point(2, 500))
    assert [election.broker_id for election in elections] == [2]
    assert desk.group.epoch > 2


def test_r20_a_leader_that_let_go_of_a_later_epoch_than_the_groups_registers_again() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    assert desk.beat(1, resigned=1) == Withheld(view_of(desk.group), Refusal.RESIGNED)
    assert desk.beat(1, resigned=2) == Withheld(None, Refusal.FENCED_EPOCH)


def test_r12_fewer_brokers_found_a_group_only_when_told_to_and_only_with_empty_logs() -> None:
    desk = Desk(options=OfficeOptions(bootstrap_ms=5_000))
    desk.register(1)
    assert desk.wait(5_000, 1) == []
    assert [election.grounds for election in desk.wait(200, 1)] == [Grounds.FIRST_BY_OPERATOR]
    desk = Desk(options=OfficeOptions(bootstrap_ms=5_000))
    desk.register(1, end=point(1, 10), seen=1)
    assert desk.wait(30_000, 1) == []


def test_r12_an_operator_may_found_a_group_with_fewer_brokers() -> None:
    desk = Desk()
    desk.register(1)
    desk.beat(1)
    assert ask(desk, 1) is Refusal.BELOW_MINIMUM
    assert ask(desk, 1, unclean=True) is Refusal.LEASE_RUNS
    desk.now += desk.terms.waiter_ms
    desk.beat(1)
    command = ask(desk, 1, unclean=True)
    assert isinstance(command, Elect)
    assert desk.submit(command).refusal is None


# ---- R10: who follows ----------------------------------------------------------------------------------------------


def test_r10_the_longest_log_of_the_in_sync_set_is_elected_and_living_members_stay() -> None:
    desk = Desk()
    desk.found(1, 2, 3, 4, master=1)
    desk.now += LONG_AGO
    desk.release(1)
    desk.beat(2, end=point(1, 500))
    desk.beat(3, end=point(1, 700), priority=9)
    (election,) = desk.wait(600, step=100)
    assert election.broker_id == 3
    assert desk.group.sync.members == (2, 3)


def test_r10_of_equal_logs_the_preferred_broker_is_elected_then_the_smallest_priority() -> None:
    desk = Desk()
    desk.found(1, 2, 3, 4, master=1)
    desk.release(1)
    desk.beat(2, priority=5)
    desk.beat(3, priority=1)
    desk.beat(4, priority=7)
    assert [election.broker_id for election in desk.wait(50)] == [3]


def test_r10_an_election_waits_a_moment_for_members_that_may_have_more() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.now += LONG_AGO
    desk.beat(2, end=point(1, 10))
    assert desk.wait(300) == []
    desk.beat(3, end=point(1, 20))
    assert [election.broker_id for election in desk.wait(150)] == [3]


def test_r10_who_left_below_the_minimum_is_elected_when_nobody_in_sync_can_be() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    assert desk.alter(1, 1, 2).refusal is None
    assert desk.group.sync.eligible == ()
    assert desk.alter(1, 1).refusal is None
    assert desk.group.sync.eligible == (2,)
    assert [election.broker_id for election in desk.wait(5_000, 2, 3)] == [2]
    assert desk.group.sync.members == (2,)
    assert desk.group.sync.eligible == (1,)


def test_nobody_outside_the_in_sync_set_is_elected_by_itself() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.alter(1, 1, 2)
    assert desk.wait(30_000, 3) == []
    refused = desk.submit(elect(desk, 3, 3))
    assert refused.refusal is Refusal.NOT_IN_SYNC


def test_a_failed_election_does_not_burn_epochs() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.wait(60_000)
    assert desk.group.epoch == 1


@pytest.mark.parametrize("wrong", [{"space": False}, {"healthy": False}])
def test_h4_leadership_goes_only_to_a_replica_with_space_and_a_sound_store(wrong: dict[str, bool]) -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.release(1)
    desk.beat(2, end=point(1, 100), **wrong)
    desk.beat(3, end=point(1, 50))
    assert [election.broker_id for election in desk.wait(50)] == [3]


def test_a_learner_is_never_elected() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.register(4, learner=True)
    desk.beat(4, end=point(1, 1_000))
    assert desk.submit(elect(desk, 4, 4)).refusal is Refusal.LEARNER


# ---- R11, R13: incarnations ----------------------------------------------------------------------------------------


def test_r13_a_master_that_restarts_gets_a_new_epoch_and_only_after_its_old_lease() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.register(1, life=2)
    assert desk.group.master is None
    assert isinstance(desk.beat(1), Withheld)
    assert desk.wait(2_000, 1, 2, 3, end=point(1, 9)) == []
    elections = desk.wait(2_000, 1, end=point(1, 9))
    assert [election.broker_id for election in elections] == [1]
    assert desk.group.epoch == 2


def test_r11_a_changed_store_leaves_the_in_sync_set_before_any_role_is_answered() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.register(2, store="other")
    assert desk.group.sync.members == (1, 3)
    assert desk.group.sync.version == 2


def test_r11_a_log_that_ends_below_the_committed_position_leaves_the_in_sync_set() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.register(2, life=2, end=point(1, 499), committed=point(1, 500))
    desk.register(3, life=2, end=point(1, 500), committed=point(1, 500))
    assert desk.group.sync.members == (1, 3)


def test_r11_what_members_reported_as_committed_is_held_against_a_registration() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.beat(1, committed=point(1, 500))
    desk.release(2)
    command = Register(
        group=KEY, broker_id=BrokerId(2), store_id="store2", incarnation="store2.2", address="b2:10911",
        end=point(1, 400),
    )  # fmt: skip
    admitted = admit_register(desk.office, command, desk.now)
    assert isinstance(admitted, Register)
    assert admitted.committed == point(1, 500)
    desk.submit(admitted)
    assert desk.group.sync.members == (1, 3)


def test_r11_an_unclean_stop_with_acknowledgements_that_were_not_flushed_leaves_the_in_sync_set() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.register(3, life=2, trusted=False)
    assert desk.group.sync.members == (1, 2)


def _all_doubted(desk: Desk) -> None:
    desk.found(1, 2, 3, master=1)
    desk.now += LONG_AGO
    for broker in (1, 2, 3):
        desk.register(broker, life=2, trusted=False)


def test_of_a_group_that_went_down_unflushed_the_longest_log_leads_once_all_report() -> None:
    desk = Desk()
    _all_doubted(desk)
    assert (desk.group.sync.holders, desk.group.sync.doubted) == ((), (1, 2, 3))
    desk.beat(1, end=point(1, 300))
    assert desk.wait(30_000, 2, end=point(1, 500)) == []
    desk.beat(2, end=point(1, 500))
    desk.beat(1, end=point(1, 300))
    desk.beat(3, end=point(1, 400))
    (command,) = desk.decide()
    assert isinstance(command, Elect)
    assert (command.broker_id, command.grounds) == (2, Grounds.DOUBTED)
    assert (desk.group.sync.members, desk.group.sync.doubted) == ((2,), ())


def test_what_the_doubted_told_of_their_logs_before_the_lease_was_over_elects_nobody() -> None:
    """Broker 2, back but not in sync again, had more copied by the time when brokers 3 and 1 went down."""
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    for broker, end in ((2, 300), (3, 100), (1, 400)):
        desk.register(broker, life=2, end=point(1, end), trusted=False)
    over = desk.office.over_at(desk.group)
    desk.now = over - 1
    for broker, end in ((1, 400), (2, 300), (3, 100)):
        desk.beat(broker, end=point(1, end))
    desk.now = over
    assert desk.wait(500) == []
    for broker, end in ((1, 400), (2, 500), (3, 100)):
        desk.beat(broker, end=point(1, end))
    (election,) = desk.wait(50)
    assert (election.broker_id, election.grounds) == (2, Grounds.DOUBTED)


def test_an_election_among_the_doubted_says_that_something_may_be_lost() -> None:
    desk = Desk()
    _all_doubted(desk)
    registration = desk.registration(3)
    verdict = desk.submit(
        Elect(
            group=KEY, expected_epoch=desk.group.epoch, broker_id=BrokerId(3), registration=registration, alive=(),
            grounds=Grounds.DOUBTED,
        )
    )  # fmt: skip
    assert any(isinstance(event, LossAccepted) and event.in_sync == (1, 2, 3) for event in verdict.events)


def test_nobody_doubted_is_elected_while_anybody_holds_everything() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.now += LONG_AGO
    for broker in (1, 2):
        desk.register(broker, life=2, trusted=False)
    assert desk.wait(30_000, 1, 2, end=point(1, 500)) == []
    command = Elect(
        group=KEY, expected_epoch=desk.group.epoch, broker_id=BrokerId(1), registration=desk.registration(1), alive=(),
        grounds=Grounds.DOUBTED,
    )  # fmt: skip
    assert desk.submit(command).refusal is Refusal.NOT_IN_SYNC
    desk.beat(3, end=point(1, 400))
    (elected,) = desk.decide()
    assert isinstance(elected, Elect)
    assert elected.broker_id == 3


def test_who_comes_back_with_another_store_is_not_waited_for_among_the_doubted() -> None:
    desk = Desk()
    _all_doubted(desk)
    desk.register(1, store="new1")
    assert desk.group.sync.doubted == (2, 3)


def test_the_last_who_may_know_are_not_forgotten() -> None:
    desk = Desk()
    _all_doubted(desk)
    clean = Clean(group=KEY, expected_epoch=desk.group.epoch, broker_ids=(BrokerId(1),))
    assert desk.submit(clean).refusal is Refusal.IN_SYNC


def test_r11_a_living_store_keeps_its_id() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    thief = Register(group=KEY, broker_id=BrokerId(2), store_id="thief", incarnation="thief.1", address="b9:10911")
    assert admit_register(desk.office, thief, desk.now) is Refusal.ID_TAKEN
    assert desk.register(2, store="thief", replaces="").refusal is Refusal.ID_TAKEN
    desk.now += LONG_AGO
    assert isinstance(admit_register(desk.office, thief, desk.now), Register)


def both_in_sync_lost_their_stores() -> Desk:
    """Broker 3, which was not in sync, has what there is."""
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.alter(1, 1, 2)
    desk.now += LONG_AGO
    desk.register(1, store="new1")
    desk.register(2, store="new2")
    return desk


def test_r11_data_at_risk_is_decided_by_nobody_but_an_operator() -> None:
    desk = both_in_sync_lost_their_stores()
    assert (desk.group.sync.members, desk.group.sync.eligible) == ((), ())
    assert desk.wait(30_000, 1, 2, 3, end=point(1, 300)) == []
    assert ask(desk, 3) is Refusal.NOT_IN_SYNC
    command = ask(desk, 3, unclean=True)
    assert isinstance(command, Elect)
    assert command.grounds is Grounds.UNCLEAN
    verdict = desk.submit(command)
    assert any(isinstance(event, LossAccepted) for event in verdict.events)
    assert desk.group.sync.members == (3,)


def test_an_unclean_election_of_who_has_nothing_is_refused_while_others_report_records() -> None:
    """A number that is wrong by one is not to empty a group. Where nobody has more it is as good as any other."""
    desk = both_in_sync_lost_their_stores()
    assert desk.wait(500, 1, 2, end=ORIGIN) == []
    desk.beat(3, end=point(1, 300))
    assert ask(desk, 2, unclean=True) is Refusal.EMPTY
    assert isinstance(ask(desk, 3, unclean=True), Elect)
    assert desk.wait(30_000, 1, 2, end=ORIGIN) == []
    assert isinstance(ask(desk, 2, unclean=True), Elect), "broker 3 is gone with what it had"


def test_an_operator_founds_a_group_from_nothing_only_where_nobody_reports_records() -> None:
    desk = Desk(now=LONG_AGO)
    for broker in (1, 2):
        desk.register(broker, end=point(7, 900) if broker == 1 else ORIGIN, seen=7)
    assert desk.wait(10_000, 2, end=ORIGIN) == []
    desk.beat(1, end=point(7, 900))
    assert ask(desk, 2, unclean=True) is Refusal.EMPTY
    assert desk.wait(60_000, 2, end=ORIGIN) == []
    assert isinstance(ask(desk, 2, unclean=True), Elect)


def all_doubted() -> Desk:
    """All three went down before all was flushed."""
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    for broker in (1, 2, 3):
        desk.register(broker, life=2, trusted=False)
    return desk


def test_an_unclean_election_is_refused_while_it_cannot_be_known_yet_that_somebody_could_lead_without_loss() -> None:
    """Just after the lease nobody has shown yet to have reported after it."""
    desk = all_doubted()
    assert desk.group.sync.doubted == (1, 2, 3)
    ends = {1: point(1, 400), 2: point(1, 500), 3: point(1, 100)}
    over = desk.office.over_at(desk.group)
    for now, number in ((over - 10, 1), (over + 10, 2)):
        desk.now = now
        for broker, end in ends.items():
            desk.beat(broker, end=end, number=number, answered=number - 1)
    assert ask(desk, 3, unclean=True) is Refusal.LEASE_RUNS
    assert "broker 1 has not reported since the last lease was over" in why(desk.group, desk.office, desk.now)
    for broker, end in ends.items():
        desk.beat(broker, end=end, number=3, answered=2)
    assert ask(desk, 3, unclean=True) is Refusal.IN_SYNC


def test_a_broker_that_hears_no_answer_holds_an_unclean_election_up_for_a_moment_only() -> None:
    desk = all_doubted()
    desk.now = desk.office.over_at(desk.group)
    for number in range(2, 40):
        desk.beat(1, end=point(1, 400), number=number, answered=0)
        desk.beat(3, end=point(1, 100), number=number, answered=number - 1)
        command = ask(desk, 3, unclean=True)
        if command is not Refusal.LEASE_RUNS:
            break
        desk.now += 500
    assert isinstance(command, Elect)
    assert number > 2


def test_an_unclean_election_is_refused_while_somebody_in_sync_could_lead() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.alter(1, 1, 2)
    desk.now += LONG_AGO
    desk.beat(2, 3)
    assert ask(desk, 3, unclean=True) is Refusal.IN_SYNC


def test_an_unclean_election_waits_for_the_lease_too() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.alter(1, 1)
    desk.alter(1, 1, 2)
    desk.register(1, life=2)
    desk.beat(3)
    assert ask(desk, 3, unclean=True) is Refusal.LEASE_RUNS


# ---- H14: a proven exit --------------------------------------------------------------------------------------------


def test_h14_an_exit_releases_the_lease_of_exactly_this_incarnation() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    assert desk.release(1, life=7).refusal is Refusal.FENCED_PROCESS
    assert desk.release(1, store="other").refusal is Refusal.FENCED_PROCESS
    assert desk.group.master is not None
    assert desk.release(1).refusal is None
    assert desk.group.tenure is not None
    assert desk.group.tenure.released


def test_h14_an_exit_reported_after_the_restart_still_releases_the_old_lease() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.register(1, life=2)
    assert desk.release(1, life=1).refusal is None
    replica = desk.group.replica(BrokerId(1))
    assert replica is not None
    assert not replica.exited
    assert len(desk.wait(600, 2, 3)) == 1


def test_h14_an_exit_reported_after_the_restart_says_nothing_of_the_process_that_runs() -> None:
    desk = Desk()
    desk.found(1, master=1)
    desk.register(1, life=2)
    desk.beat(1)
    assert desk.release(1, life=1).refusal is None
    assert [election.broker_id for election in desk.wait(50)] == [1]


@pytest.mark.parametrize("before", [True, False], ids=["reported before, too", "first reported now"])
def test_h14_an_exit_reported_when_the_next_process_leads_ends_no_leadership_of_it(*, before: bool) -> None:
    desk = Desk()
    desk.found(1, master=1)
    desk.register(1, life=2)
    if before:
        assert desk.release(1, life=1).refusal is None
    assert [election.broker_id for election in desk.wait(8_000, 1)] == [1]
    assert isinstance(desk.beat(1), Granted)
    group = desk.group
    verdict = desk.release(1, life=1)
    assert (verdict.refusal, verdict.events) == (Refusal.FENCED_PROCESS, ())
    assert desk.group == group
    assert isinstance(desk.beat(1), Granted)
    assert desk.wait(8_000, 1) == []


def test_h14_a_process_that_has_exited_is_neither_granted_a_lease_nor_elected_nor_registered() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.release(1)
    assert isinstance(desk.beat(1), Withheld)
    assert desk.register(1).refusal is Refusal.FENCED_PROCESS
    assert desk.submit(elect(desk, 1, 1, grounds=Grounds.RELEASED)).refusal is Refusal.FENCED_PROCESS


def test_a_process_that_let_go_by_itself_leads_again_only_if_it_speaks_again_and_nobody_else_can() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.now += LONG_AGO
    desk.beat(1)
    desk.release(1, exited=False)
    assert desk.wait(1_000) == []
    assert [election.broker_id for election in desk.wait(1_000, 1)] == [1]
    assert desk.group.epoch == 2


def test_r2_a_resignation_that_is_decided_late_ends_no_later_leadership_of_the_same_process() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.beat(1, 2, 3)
    assert desk.release(1, exited=False, epoch=1).refusal is None
    assert [election.broker_id for election in desk.wait(50, 2, 3)] == [2]
    assert desk.alter(2, 1, 2, 3).refusal is None
    desk.release(2, exited=False, epoch=2)
    assert desk.submit(elect(desk, 1, 1, 2, 3, grounds=Grounds.RELEASED)).refusal is None
    for _ in range(2):
        verdict = desk.release(1, exited=False, epoch=1)
        assert (verdict.refusal, verdict.events) == (None, ())
        assert desk.group.tenure is not None
        assert (desk.group.tenure.broker_id, desk.group.tenure.ended) == (1, False)
    assert desk.release(1, exited=True).events, "who has exited leads nothing"


# ---- planned transfers ---------------------------------------------------------------------------------------------


def test_r10_a_planned_transfer_asks_the_master_to_let_go_and_keeps_everybody_in_sync() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    command = ask(desk, 3, epoch=1)
    assert isinstance(command, PlanTransfer)
    assert desk.submit(command).refusal is None
    answer = desk.beat(1)
    assert isinstance(answer, Granted)
    assert answer.hand_over == 3
    desk.beat(2, end=point(1, 50))
    desk.release(1, exited=False)
    assert [election.broker_id for election in desk.wait(50)] == [3]
    assert desk.group.sync.members == (1, 2, 3)
    assert desk.group.transfer is None


def test_a_transfer_that_takes_too_long_is_given_up_and_the_master_goes_on() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    command = ask(desk, 3)
    assert isinstance(command, PlanTransfer)
    desk.submit(command)
    desk.wait(desk.options.transfer_ms + 200, 1, 2, 3)
    assert desk.group.transfer is None
    assert desk.group.epoch == 1
    answer = desk.beat(1)
    assert isinstance(answer, Granted)
    assert answer.hand_over is None


def test_a_transfer_to_a_broker_that_falls_silent_is_given_up_at_once() -> None:
    """The master takes no writes while it waits for the target."""
    desk = Desk(options=OfficeOptions(transfer_ms=60_000))
    desk.found(1, 2, 3, master=1)
    command = ask(desk, 3)
    assert isinstance(command, PlanTransfer)
    desk.submit(command)
    desk.wait(1_000, 1, 2, 3)
    assert desk.group.transfer is not None
    desk.wait(desk.options.fresh_ms + 200, 1, 2)
    assert desk.group.transfer is None
    assert desk.group.epoch == 1


@pytest.mark.parametrize(
    ("target", "epoch", "why"),
    [
        (1, 1, Refusal.UNCHANGED),
        (2, 2, Refusal.FENCED_EPOCH),
        (3, 1, Refusal.NOT_FIT),
        (4, 1, Refusal.NOT_IN_SYNC),
        (5, 1, Refusal.UNKNOWN_REPLICA),
    ],
)
def test_an_operators_request_is_refused_by_name(target: int, epoch: int, why: Refusal) -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.register(4)
    desk.beat(4)
    desk.beat(3, space=False)
    assert ask(desk, target, epoch=epoch) is why


def test_a_repeated_request_is_one_transfer() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    command = ask(desk, 3, request="r1")
    assert isinstance(command, PlanTransfer)
    desk.submit(command)
    assert desk.submit(command).refusal is None
    other = ask(desk, 2, request="r2")
    assert isinstance(other, PlanTransfer)
    assert desk.submit(other).refusal is Refusal.RUNNING


def test_r18_a_repeated_election_is_one_election() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.release(1)
    command = elect(desk, 2, 2, 3, grounds=Grounds.RELEASED, request="r1")
    assert desk.submit(command).refusal is None
    assert desk.submit(command).refusal is None
    assert desk.group.epoch == 2


def test_a_preferred_broker_that_leads_is_left_alone() -> None:
    desk = Desk(options=OfficeOptions(prefer_after_ms=5_000))
    desk.found(1, 2, 3, master=1)
    desk.submit(Configure(group=KEY, replicas=3, min_in_sync=2, preferred=BrokerId(1)))
    decided = len(desk.log)
    desk.wait(12_000, 1, 2, 3)
    assert len(desk.log) == decided


def test_the_time_of_a_preferred_broker_begins_anew_when_it_has_been_out_of_sync() -> None:
    desk = Desk(options=OfficeOptions(prefer_after_ms=5_000))
    desk.found(1, 2, 3, master=1)
    desk.submit(Configure(group=KEY, replicas=3, min_in_sync=2, preferred=BrokerId(2)))
    desk.wait(4_000, 1, 2, 3)
    desk.alter(1, 1, 3)
    desk.wait(500, 1, 2, 3)
    desk.alter(1, 1, 2, 3)
    desk.wait(4_000, 1, 2, 3)
    assert desk.group.transfer is None
    desk.wait(2_000, 1, 2, 3)
    assert desk.group.transfer is not None or desk.group.epoch > 1


def test_the_preferred_broker_is_given_the_leadership_after_it_was_in_sync_for_a_while() -> None:
    desk = Desk(options=OfficeOptions(prefer_after_ms=5_000))
    desk.found(1, 2, 3, master=1)
    desk.submit(Configure(group=KEY, replicas=3, min_in_sync=2, preferred=BrokerId(2)))
    desk.wait(4_000, 1, 2, 3)
    assert desk.group.transfer is None
    desk.wait(2_500, 1, 2, 3)
    assert desk.group.transfer is not None
    assert desk.group.transfer.target == 2


# ---- elections in the log's order ----------------------------------------------------------------------------------


def test_r18_an_election_made_from_an_older_state_is_refused() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    late = elect(desk, 3, 3)
    desk.release(1)
    assert desk.submit(elect(desk, 2, 2, 3, grounds=Grounds.RELEASED)).refusal is None
    assert desk.submit(late).refusal is Refusal.FENCED_EPOCH


def test_an_election_of_a_process_that_restarted_meanwhile_is_refused() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    late = elect(desk, 3, 3)
    desk.register(3, life=2)
    assert desk.submit(late).refusal is Refusal.FENCED_PROCESS


def test_the_claim_that_a_lease_was_released_is_checked() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    assert desk.submit(elect(desk, 3, 3, grounds=Grounds.RELEASED)).refusal is Refusal.LEASE_RUNS


def test_a_report_of_an_older_process_counts_for_nothing() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    old = desk.report(2)
    desk.register(2, life=2)
    assert desk.office.hear(old, desk.now) is Refusal.FENCED_PROCESS
    assert not desk.office.alive(desk.group, BrokerId(2), desk.now)
    assert old.registration == Registration(2)
