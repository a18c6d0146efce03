"""R20 where all controllers have older disks: what brokers bring shows that the in-sync set on record is an old one."""

from dataclasses import replace

import pytest

from logherd.controller.admission import ElectionRequest, admit_election, admit_register
from logherd.controller.commands import Clean, Elect, Grounds, Register, SetLearner
from logherd.controller.machine import Machine
from logherd.controller.reports import Granted
from logherd.controller.values import BrokerId, Rules
from logherd.controller.verdicts import LossAccepted, Refusal
from logherd.model.names import Epoch
from logherd.replication.epochs import ORIGIN, Point
from logherd.service.controllers.why import why, why_refused
from unit.controller.desk import KEY, Desk, point

AHEAD, BEHIND = point(3, 900), point(1, 100)


def restored() -> Desk:
    """On record 1, 2 and 3 are in sync in epoch 1. Since then 3 has left the set, and 1 or 2 led in epoch 3."""
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.machine = Machine.load(desk.machine.save())
    desk.now += 60_000
    desk.reopen()
    return desk


def bring(desk: Desk, broker: int, end: Point, *, seen: int | None = None, life: int = 1, store: str = "") -> None:
    """As a broker is heard that asks to be registered; of life 1 its process is on record."""
    store = store or f"store{broker}"
    wish = Register(
        group=KEY, broker_id=BrokerId(broker), store_id=store, incarnation=f"{store}.{life}",
        address=f"b{broker}:10911", end=end, epoch_seen=Epoch(end.epoch if seen is None else seen),
        rules=Rules(replicas=3, min_in_sync=2),
    )  # fmt: skip
    admitted = admit_register(desk.office, wish, desk.now)
    assert isinstance(admitted, Register)
    assert desk.submit(admitted).refusal is None


def pass_time(desk: Desk, ms: int, **ends: Point) -> list[Elect]:
    """Brokers b1, b2, ... report these ends."""
    elections: list[Elect] = []
    for _ in range(0, ms, 500):
        for name, end in ends.items():
            desk.beat(int(name[1:]), end=end)
        elections += desk.wait(500)
    return elections


@pytest.mark.parametrize("life", [1, 2])
def test_r20_who_left_the_set_by_a_decision_that_is_lost_is_not_elected_once_that_is_known(life: int) -> None:
    """What 1 and 2 have acknowledged since would be lost."""
    desk = restored()
    bring(desk, 1, AHEAD, life=life)
    assert pass_time(desk, 60_000, b3=BEHIND) == []
    said = why(desk.group, desk.office, desk.now)
    assert "once 1 more that were in sync report" in said
    assert "broker 1: the broker does not report; broker 2:" in said


@pytest.mark.parametrize("life", [1, 2])
def test_r20_of_enough_that_one_must_have_everything_the_longest_log_leads(life: int) -> None:
    desk = restored()
    bring(desk, 1, AHEAD, life=life)
    (election,) = pass_time(desk, 6_000, b1=AHEAD, b3=BEHIND)
    assert (election.broker_id, election.grounds) == (1, Grounds.OUTRUN)
    assert desk.group.epoch > 1_000, "later leaderships may have been forgotten of which nobody has told yet"
    assert (desk.group.sync.members, desk.group.sync.holders) == ((1,), (1,))
    assert not desk.group.outrun
    assert pass_time(desk, 30_000, b3=BEHIND) == []


def test_r20_who_has_another_store_than_on_record_may_have_lost_what_it_acknowledged() -> None:
    desk = restored()
    desk.now += desk.terms.waiter_ms
    bring(desk, 1, AHEAD, life=2, store="new")
    assert pass_time(desk, 60_000, b1=AHEAD, b3=BEHIND) == []
    (election,) = pass_time(desk, 3_000, b1=AHEAD, b2=point(3, 950), b3=BEHIND)
    assert election.broker_id == 2


def test_r20_who_is_not_trusted_may_have_lost_what_it_acknowledged() -> None:
    desk = restored()
    desk.register(1, life=2, end=AHEAD, seen=3, trusted=False)
    assert pass_time(desk, 60_000, b1=AHEAD, b3=BEHIND) == []
    assert pass_time(desk, 3_000, b1=AHEAD, b2=BEHIND, b3=BEHIND)


def test_r20_a_broker_of_which_the_record_does_not_know_counts_among_them() -> None:
    desk = restored()
    bring(desk, 1, AHEAD)
    bring(desk, 4, point(3, 950))
    assert pass_time(desk, 10_000, b1=AHEAD, b2=BEHIND, b4=point(3, 950)) == []
    (election,) = pass_time(desk, 3_000, b1=AHEAD, b2=BEHIND, b3=BEHIND, b4=point(3, 950))
    assert election.broker_id == 4


def test_r20_the_longest_log_leads_or_nobody() -> None:
    desk = restored()
    bring(desk, 1, AHEAD)
    for _ in range(100):
        desk.beat(2, 3, end=BEHIND)
        desk.beat(1, end=AHEAD, healthy=False)
        assert desk.wait(100) == []
    assert why(desk.group, desk.office, desk.now).endswith("leads as soon as it could lead.")
    assert [each.broker_id for each in pass_time(desk, 1_000, b1=AHEAD, b2=BEHIND, b3=BEHIND)] == [1]


def test_r2_that_the_leadership_on_record_was_over_says_nothing_about_later_ones() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.release(1)
    desk.machine = Machine.load(desk.machine.save())
    desk.reopen()
    bring(desk, 2, AHEAD)
    assert pass_time(desk, 2_500, b2=AHEAD, b3=BEHIND) == []
    assert [each.broker_id for each in pass_time(desk, 1_500, b2=AHEAD, b3=BEHIND)] == [2]


def test_r20_an_epoch_that_is_only_known_says_nothing_about_the_set() -> None:
    """A quorum that was recovered leaps over those that may have been granted."""
    desk = restored()
    bring(desk, 2, BEHIND, seen=1 << 18)
    assert not desk.group.outrun
    assert [election.broker_id for election in pass_time(desk, 6_000, b2=BEHIND)] == [2]


def test_r20_a_log_beyond_every_epoch_that_its_broker_has_seen_is_none() -> None:
    desk = restored()
    bring(desk, 2, point(1 << 40, 100), seen=3)
    assert not desk.group.outrun


@pytest.mark.parametrize("silent", [True, False])
def test_r20_a_learner_with_the_longest_log_may_have_been_promoted_and_is_waited_for(*, silent: bool) -> None:
    desk = restored()
    desk.submit(SetLearner(group=KEY, expected_epoch=desk.group.epoch, broker_id=BrokerId(3), learner=True))
    bring(desk, 3, AHEAD)
    assert pass_time(desk, 60_000, b1=BEHIND, b3=AHEAD) == []
    others = {"b1": BEHIND, "b2": BEHIND} | ({} if silent else {"b3": AHEAD})
    assert pass_time(desk, 60_000, **others) == []
    assert "waits for broker 3, with a longer log than broker 1 has" in why(desk.group, desk.office, desk.now)
    if silent:
        desk.submit(Clean(group=KEY, expected_epoch=desk.group.epoch, broker_ids=(BrokerId(3),)))
    else:
        desk.submit(SetLearner(group=KEY, expected_epoch=desk.group.epoch, broker_id=BrokerId(3), learner=False))
    (election,) = pass_time(desk, 3_000, **others)
    assert election.broker_id == (2 if silent else 3)


@pytest.mark.parametrize("target", [1, 3])
def test_r20_an_operator_may_accept_the_loss(target: int) -> None:
    desk = restored()
    bring(desk, 1, AHEAD)
    desk.now += 60_000
    desk.beat(target, end=AHEAD if target == 1 else BEHIND)
    wanted = ElectionRequest(group=KEY, target=BrokerId(target))
    assert admit_election(desk.office, wanted, desk.now) is Refusal.NOT_IN_SYNC
    command = admit_election(desk.office, replace(wanted, unclean=True), desk.now)
    assert isinstance(command, Elect)
    verdict = desk.submit(command)
    assert any(isinstance(event, LossAccepted) for event in verdict.events)
    assert desk.group.sync.holders == (target,)


def test_r20_no_operator_elects_a_shorter_log_where_a_longer_one_could_lead() -> None:
    desk = restored()
    bring(desk, 1, AHEAD)
    desk.now += 60_000
    desk.beat(1, end=AHEAD)
    desk.beat(2, end=BEHIND)
    for unclean, refusal in ((False, Refusal.NOT_IN_SYNC), (True, Refusal.IN_SYNC)):
        wanted = ElectionRequest(group=KEY, target=BrokerId(2), unclean=unclean)
        assert admit_election(desk.office, wanted, desk.now) is refusal
    command = admit_election(desk.office, ElectionRequest(group=KEY, target=BrokerId(1)), desk.now)
    assert isinstance(command, Elect)
    assert command.grounds is Grounds.OUTRUN


def test_a_group_that_has_not_outrun_its_record_is_not_led_on_these_grounds() -> None:
    desk = restored()
    command = Elect(
        group=KEY, expected_epoch=desk.group.epoch, broker_id=BrokerId(3), registration=desk.registration(3), alive=(),
        grounds=Grounds.OUTRUN,
    )  # fmt: skip
    assert desk.submit(command).refusal is Refusal.NOT_IN_SYNC


def test_r20_what_was_told_of_a_log_before_the_last_lease_was_over_elects_nobody() -> None:
    """It may have grown since by what was acknowledged, in the leadership that is lost."""
    desk = restored()
    bring(desk, 1, AHEAD)
    over = desk.office.over_at(desk.group)
    desk.now = over - 1
    desk.beat(1, end=AHEAD)
    desk.beat(3, end=point(3, 950))
    desk.now = over
    assert desk.wait(desk.options.gather_ms + 500) == []
    (election,) = pass_time(desk, 3_000, b1=point(3, 990), b3=point(3, 950))
    assert election.broker_id == 1


def test_r20_what_was_told_of_a_log_before_the_leader_on_record_exited_elects_nobody() -> None:
    """Though it is shown only afterwards that decisions are lost."""
    desk = restored()
    desk.now += desk.terms.waiter_ms
    assert isinstance(desk.beat(1), Granted)
    desk.beat(3, end=BEHIND, committed=BEHIND)
    desk.now += 1
    desk.release(1)
    bring(desk, 2, AHEAD)
    desk.now += 1
    desk.beat(2, end=AHEAD, committed=point(3, 890))
    assert desk.wait(desk.options.gather_ms + 500) == []
    desk.beat(2, end=AHEAD, committed=point(3, 890))
    desk.beat(3, end=point(1, 990), committed=point(1, 950))
    assert desk.wait(500) == []
    assert "what broker 3 told to be committed" in why(desk.group, desk.office, desk.now)


def test_r20_what_arrives_late_says_nothing_of_the_time_when_it_arrives() -> None:
    """Broker 1 had more when the last lease ended than when it made the reports that are on their way since."""
    desk = restored()
    bring(desk, 1, AHEAD)
    over = desk.office.over_at(desk.group)
    desk.now = over - 1
    desk.beat(1, end=AHEAD, number=1, answered=0)
    desk.beat(3, end=BEHIND, number=1, answered=0)
    desk.now = over
    for number in (2, 3):  # the second one by a broker that had given up waiting for the answer to the first one
        desk.beat(1, end=AHEAD, number=number, answered=1)
    for number in (2, 3):
        desk.beat(3, end=point(3, 950), number=number, answered=number - 1)
    assert desk.wait(desk.options.gather_ms + 500) == []
    desk.beat(3, end=point(3, 950), number=4, answered=3)
    desk.beat(1, end=point(3, 990), number=4, answered=2)
    (election,) = desk.wait(desk.options.gather_ms + 500)
    assert election.broker_id == 1


def told_at_the_end_of_the_lease(*turns: tuple[int, int]) -> Desk:
    """Reports of brokers 1 and 3 with these numbers, each made when the answer to the second one was known."""
    desk = restored()
    bring(desk, 1, AHEAD)
    desk.now = desk.office.over_at(desk.group)
    for broker, end in ((1, AHEAD), (3, point(3, 950))):
        for number, answered in turns:
            desk.beat(broker, end=end, number=number, answered=answered)
    return desk


def test_r20_what_others_answered_says_nothing_of_when_a_report_was_made() -> None:
    """This office answered an earlier one, but that may not have arrived when the later one was made."""
    desk = told_at_the_end_of_the_lease((5, 4), (7, 6))
    assert desk.wait(desk.options.gather_ms + 500) == []


def test_r20_a_report_is_of_later_than_those_that_its_process_made_before() -> None:
    desk = told_at_the_end_of_the_lease((5, 4), (6, 5), (9, 8))
    assert [each.broker_id for each in desk.wait(desk.options.gather_ms + 500)] == [3]


def test_r20_of_two_histories_that_were_acknowledged_a_person_chooses() -> None:
    """Who led by the record went on, and committed, while whoever had led later was away."""
    desk = restored()
    bring(desk, 2, AHEAD)
    went_on = point(1, 950)
    for _ in range(0, 60_000, 500):
        desk.beat(1, 3, end=went_on, committed=point(1, 901))
        desk.beat(2, end=AHEAD)
        assert desk.wait(500) == []
    desk.beat(1, 3, end=went_on, committed=point(1, 901))
    assert "what brokers 1, 3 told to be committed" in why(desk.group, desk.office, desk.now)
    wanted = ElectionRequest(group=KEY, target=BrokerId(2))
    assert admit_election(desk.office, wanted, desk.now) is Refusal.NOT_IN_SYNC
    command = admit_election(desk.office, ElectionRequest(group=KEY, target=BrokerId(1), unclean=True), desk.now)
    assert isinstance(command, Elect)
    assert command.grounds is Grounds.OUTRUN
    assert desk.submit(command).refusal is None


def test_r20_what_is_committed_within_the_longest_log_is_no_other_history() -> None:
    desk = restored()
    bring(desk, 2, AHEAD)
    elections = []
    for _ in range(0, 10_000, 500):
        desk.beat(1, 3, end=point(1, 950), committed=point(1, 880))
        desk.beat(2, end=AHEAD, committed=point(3, 890))
        elections += desk.wait(500)
    assert elections[0].broker_id == 2


@pytest.mark.parametrize(("committed", "known"), [(850, point(1, 600)), (900, point(3, 890))])
def test_r20_what_the_longest_log_cannot_hold_is_another_history_though_that_ends_earlier(
    committed: int, known: Point
) -> None:
    """The later leadership knows of nothing committed behind 600; or a record of another epoch ends there."""
    desk = restored()
    bring(desk, 2, AHEAD)
    for _ in range(0, 30_000, 500):
        desk.beat(1, 3, end=point(1, 950), committed=point(1, committed))
        desk.beat(2, end=AHEAD, committed=known)
        assert desk.wait(500) == []


def parted() -> Desk:
    """Brokers 1 and 2 were in sync in epoch 3, and acknowledged what is behind 100. That is forgotten: by the record 3
    goes on in epoch 1, with 4 alone. Once its lease is over 1 and 2 are back."""
    desk = Desk()
    for broker in (1, 2, 3, 4):
        desk.register(broker, replicas=4)
        desk.beat(broker, priority=abs(broker - 3))
    assert [each.broker_id for each in desk.wait(50)] == [3]
    desk.beat(3)
    desk.machine = Machine.load(desk.machine.save())
    desk.now += 60_000
    desk.reopen()
    desk.now += desk.terms.waiter_ms
    assert isinstance(desk.beat(3), Granted)
    assert desk.alter(3, 3, 4).refusal is None
    for broker in (1, 2):
        bring(desk, broker, AHEAD)
    return desk


@pytest.mark.parametrize("committed", [95, 101, 450])
def test_r20_what_is_committed_where_the_longest_log_has_other_records_is_another_history(committed: int) -> None:
    """Though all of that ends before what the longest log knows to be committed."""
    desk = parted()
    elections = []
    for _ in range(0, 60_000, 500):
        desk.beat(1, 2, end=AHEAD, committed=point(3, 890), epoch_ends=(point(1, 100),))
        desk.beat(3, 4, end=point(1, 500), committed=point(1, committed))
        elections += desk.wait(500)
    if committed <= 100:  # what 3 has written since nobody has acknowledged
        assert [each.broker_id for each in elections] == [1]
        return
    assert elections == []
    desk.beat(1, 2, end=AHEAD, committed=point(3, 890), epoch_ends=(point(1, 100),))
    desk.beat(3, 4, end=point(1, 500), committed=point(1, committed))
    for target in (1, 3, None):
        wanted = ElectionRequest(group=KEY, target=BrokerId(target) if target else None)
        refusal = admit_election(desk.office, wanted, desk.now)
        assert refusal is (Refusal.NOT_IN_SYNC if target else Refusal.NOBODY)
        assert "what brokers 3, 4 told to be committed" in why_refused(refusal, desk.group, desk.office, desk.now)
    command = admit_election(desk.office, ElectionRequest(group=KEY, target=BrokerId(1), unclean=True), desk.now)
    assert isinstance(command, Elect)
    assert command.grounds is Grounds.OUTRUN


def test_r20_who_is_ordered_to_lead_by_an_old_record_leads_in_no_epoch_that_is_forgotten() -> None:
    """Its barrier would pass for that of whoever led then, and what follows it for the same records."""
    desk = restored()
    desk.now += desk.terms.waiter_ms
    bring(desk, 3, ORIGIN, life=2, store="new")
    desk.beat(3)
    command = admit_election(desk.office, ElectionRequest(group=KEY, target=BrokerId(3), unclean=True), desk.now)
    assert isinstance(command, Elect)
    assert command.grounds is Grounds.UNCLEAN
    assert desk.submit(command).refusal is None
    assert desk.group.epoch > 1_000


@pytest.mark.parametrize("end", [ORIGIN, AHEAD])
def test_r20_who_is_ordered_to_found_a_group_anew_leads_in_no_epoch_that_is_forgotten(end: Point) -> None:
    desk = Desk()
    bring(desk, 1, end)
    desk.now += desk.terms.waiter_ms
    desk.beat(1, end=end)
    command = admit_election(desk.office, ElectionRequest(group=KEY, target=BrokerId(1), unclean=True), desk.now)
    assert isinstance(command, Elect)
    assert command.grounds is Grounds.FIRST_BY_OPERATOR
    assert desk.submit(command).refusal is None
    assert desk.group.epoch > 1_000, "broker 2 or 3 may have led in a later one"
