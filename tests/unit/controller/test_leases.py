"""R1, R2: two clocks that nobody has compared never let two leaderships overlap."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from logherd.controller.commands import Elect, Grounds, Move, Release, Tune, decode_command
from logherd.controller.holder import LeaseHolder
from logherd.controller.leases import LeaseTable, LeaseTerms
from logherd.controller.machine import Machine
from logherd.controller.office import view_of
from logherd.controller.reports import Granted, RoleView, Withheld
from logherd.controller.values import BrokerId, Registration, Tenure
from logherd.controller.verdicts import Refusal
from logherd.kit.errors import InvariantError
from logherd.model.names import Epoch
from logherd.replication.epochs import ORIGIN
from unit.controller.desk import KEY, Desk


def view(epoch: int) -> RoleView:
    return RoleView(
        epoch=Epoch(epoch), master=BrokerId(1), master_address="b1:1", master_registration=Registration(1), version=1,
        members=(BrokerId(1),), processes=(Registration(1),), learners=(), min_in_sync=1,
    )  # fmt: skip


def grant(epoch: int, holder_ms: int = 100) -> Granted:
    return Granted(view=view(epoch), holder_ms=holder_ms, hand_over=None)


@given(
    terms=st.builds(LeaseTerms, lease_ms=st.integers(10, 60_000), bound_ppm=st.integers(0, 400_000)),
    holder_rate=st.floats(-1, 1), waiter_rate=st.floats(-1, 1),
    phases=st.tuples(st.integers(0, 999), st.integers(0, 999)),
)  # fmt: skip
def test_r1_a_holder_stops_before_the_waiter_goes_on_whatever_their_clocks(
    terms: LeaseTerms, holder_rate: float, waiter_rate: float, phases: tuple[int, int]
) -> None:
    """Sent and granted at the same real moment, the worst case; clocks show whole milliseconds of their own time."""
    holder_ppm = 1_000_000 + int(holder_rate * terms.bound_ppm)
    waiter_ppm = 1_000_000 + int(waiter_rate * terms.bound_ppm)

    def clock(real_us: int, ppm: int, phase_us: int) -> int:
        return (real_us * ppm // 1_000_000 + phase_us) // 1_000

    granted_at = clock(0, waiter_ppm, phases[1])
    # The first real microsecond at which the waiter's clock shows the end.
    over_us = -(-((granted_at + terms.waiter_ms) * 1_000 - phases[1]) * 1_000_000 // waiter_ppm)
    holder = LeaseHolder()
    holder.granted(grant(1, terms.holder_ms), sent=clock(0, holder_ppm, phases[0]))
    assert holder.epoch_at(clock(over_us, holder_ppm, phases[0])) is None


def test_r1_a_lease_counts_from_when_the_heartbeat_was_sent() -> None:
    holder = LeaseHolder()
    holder.granted(grant(1), sent=50)
    assert holder.epoch_at(149) == 1
    assert holder.epoch_at(150) is None


def test_r3_a_broker_starts_fenced() -> None:
    assert LeaseHolder().epoch_at(0) is None


def test_answers_that_come_late_or_out_of_order_do_not_shorten_or_revive_a_lease() -> None:
    holder = LeaseHolder()
    holder.granted(grant(2), sent=100)
    holder.granted(grant(2), sent=50)
    assert holder.epoch_at(199) == 2
    holder.granted(grant(1), sent=190)
    assert holder.epoch_at(200) is None


def test_r1_each_answer_makes_a_lease_longer() -> None:
    holder = LeaseHolder()
    for sent in (0, 40, 80):
        holder.granted(grant(1), sent=sent)
        assert holder.until == sent + 100


def test_a_later_epoch_counts_also_when_its_heartbeat_was_sent_earlier() -> None:
    """An answer may overtake another; the epoch before is over, however long its lease would have run."""
    holder = LeaseHolder()
    holder.granted(grant(1), sent=100)
    holder.granted(grant(2), sent=50)
    assert holder.epoch_at(149) == 2
    assert holder.epoch_at(150) is None


def test_r2_to_resign_an_earlier_epoch_ends_no_later_one() -> None:
    holder = LeaseHolder()
    holder.granted(grant(3), sent=0)
    holder.resign(Epoch(2))
    assert holder.epoch_at(1) == 3
    assert holder.resigned == 2


def test_r1_the_holder_stops_early_and_the_waiter_waits_longer_by_the_bound_of_the_clocks() -> None:
    terms = LeaseTerms(lease_ms=3_000, bound_ppm=20_000)
    assert (terms.holder_ms, terms.waiter_ms) == (2_940, 3_063)


@pytest.mark.parametrize(("lease_ms", "bound_ppm"), [(9, 0), (3_000, -1), (3_000, 500_000)])
def test_terms_that_no_lease_could_keep_are_refused(lease_ms: int, bound_ppm: int) -> None:
    with pytest.raises(InvariantError):
        LeaseTerms(lease_ms=lease_ms, bound_ppm=bound_ppm)


def test_r2_what_is_known_of_one_leadership_says_nothing_of_another() -> None:
    """A lease of which this office does not know may have been asked for until it began."""
    table = LeaseTable(LeaseTerms(), 1_000)
    first = Tenure(
        broker_id=BrokerId(1), store_id="s1", incarnation="s1.1", registration=Registration(1), epoch=Epoch(1)
    )
    unknown = 1_000 + table.terms.waiter_ms
    assert not table.serving(KEY, first, 1_000)
    table.grant(KEY, first, 90_000, heard=90_000)
    assert table.over_at(KEY, first) == 90_000 + table.terms.waiter_ms
    for other in (replace(first, epoch=Epoch(2)), replace(first, registration=Registration(2)), None):
        assert table.over_at(KEY, other) == unknown
    assert table.serving(KEY, first, 90_000)
    assert not table.serving(KEY, replace(first, epoch=Epoch(2)), 90_000)


def test_r2_nothing_revives_an_epoch_that_was_resigned() -> None:
    holder = LeaseHolder()
    holder.granted(grant(2), sent=0)
    holder.resign(Epoch(2))
    assert holder.epoch_at(1) is None
    holder.granted(grant(2), sent=10)
    assert holder.epoch_at(11) is None
    holder.granted(grant(3), sent=10)
    assert holder.epoch_at(11) == 3


def test_r2_nobody_is_elected_before_the_lease_is_waited_out() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    over = desk.now + desk.terms.waiter_ms
    assert desk.wait(over - desk.now, 2, 3) == []
    (election,) = desk.wait(200, 2, 3)
    assert election.broker_id == 2
    assert desk.group.epoch == 2


def test_r2_a_new_controller_leader_waits_one_lease_before_it_holds_anybody_for_dead() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.wait(2_000, 1, 2, 3)
    desk.reopen()
    assert desk.wait(desk.terms.waiter_ms, 2, 3) == []
    assert [election.broker_id for election in desk.wait(200, 2, 3)] == [2]


def test_r2_a_released_lease_is_not_waited_out() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    assert desk.release(1).refusal is None
    assert [(each.broker_id, each.grounds) for each in desk.wait(50, 2, 3)] == [(2, Grounds.RELEASED)]


def test_a_new_master_has_one_lease_to_hear_of_its_election() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.release(1)
    desk.wait(50, 2, 3)
    assert desk.wait(desk.terms.waiter_ms - 50, 3) == []
    assert [election.broker_id for election in desk.wait(250, 3)] == [3]


def test_no_lease_is_granted_while_an_election_is_proposed() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.now += desk.terms.waiter_ms
    desk.beat(2, 3)
    (election,) = desk.office.decide(desk.now)
    assert isinstance(desk.beat(1), Withheld)
    desk.office.dropped(election)
    assert isinstance(desk.beat(1), Granted)


def test_r2_a_leadership_that_was_released_gets_no_lease_whatever_its_process_says() -> None:
    """Nobody waits for it any more: what was sent before the release and comes after it must bring none."""
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    before = desk.report(1)
    assert desk.release(1, exited=False, epoch=desk.group.epoch).refusal is None
    assert desk.office.hear(before, desk.now) is None
    assert desk.office.renew(before, desk.now, heard=desk.now) == Withheld(view_of(desk.group), None)


def test_a_process_that_was_followed_while_its_heartbeat_was_confirmed_is_told_so() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    report = desk.report(1)
    assert desk.office.hear(report, desk.now) is None
    desk.register(1, life=2)
    fenced = Withheld(None, Refusal.FENCED_PROCESS)
    assert desk.office.renew(report, desk.now, heard=desk.now) == fenced
    desk.release(1, life=2)
    assert desk.office.renew(desk.report(1), desk.now, heard=desk.now) == fenced


def test_only_one_proposal_of_the_office_is_under_way_in_a_group() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.release(1)
    desk.beat(2, 3)
    (election,) = desk.office.decide(desk.now)
    for _ in range(5):
        desk.now += desk.options.retry_ms
        desk.beat(2, 3)
        assert desk.office.decide(desk.now) == []
    desk.office.dropped(election)
    desk.now += desk.options.retry_ms
    assert [type(each) for each in desk.office.decide(desk.now)] == [Elect]


def test_a_heartbeat_that_says_something_new_is_looked_at_at_once() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.wait(50, 1, 2, 3)
    assert desk.office.decide(desk.now) == []
    desk.beat(2, address="b2.other:10911")
    assert [type(each) for each in desk.decide()] == [Move]
    desk.decide()
    desk.beat(1, resigned=desk.group.epoch)
    assert [type(each) for each in desk.decide()] == [Release]


def test_nothing_is_known_to_be_committed_before_a_member_has_reported() -> None:
    desk = Desk()
    assert desk.office.committed(KEY) == ORIGIN
    desk.register(1)
    assert desk.office.committed(KEY) == ORIGIN


def test_no_lease_is_granted_while_the_last_of_several_elections_is_proposed() -> None:
    """The office's own and an operator's may be under way at once; that one was refused says nothing of the other."""
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.now += desk.terms.waiter_ms
    desk.beat(2, 3)
    (election,) = desk.office.decide(desk.now)
    asked = replace(election, request="asked")
    desk.office.submitted(asked)
    desk.office.dropped(asked)
    answer = desk.beat(1)
    assert isinstance(answer, Withheld)
    assert answer.refusal is Refusal.RUNNING
    desk.office.dropped(election)
    assert isinstance(desk.beat(1), Granted)


def test_a_paused_master_that_nobody_can_replace_goes_on_in_its_epoch() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    assert desk.wait(20_000) == []
    answer = desk.beat(1)
    assert isinstance(answer, Granted)
    assert answer.view.epoch == 1


def test_r21_a_master_with_a_broken_store_gets_no_lease() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    assert isinstance(desk.beat(1, healthy=False), Withheld)


def test_h4_a_full_disk_is_no_reason_to_resign() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    assert isinstance(desk.beat(1, space=False), Granted)


def test_h17_only_a_master_that_was_granted_a_lease_is_named_to_clients() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    served = desk.office.serving(desk.group, desk.now)
    assert served is not None
    assert served.address == "b1:10911"
    desk.release(1)
    desk.decide()
    desk.wait(50, 3)
    assert desk.office.serving(desk.group, desk.now) is None
    assert desk.machine.group(KEY) is desk.group


def test_h17_the_name_is_withdrawn_when_the_lease_is_not_renewed() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.now += desk.terms.holder_ms
    assert desk.office.serving(desk.group, desk.now) is None


def test_h17_a_heartbeat_that_was_heard_long_before_its_answer_names_nobody() -> None:
    """This controller was paused while the quorum's confirmation was on its way; others may have elected since."""
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.now += desk.terms.holder_ms
    report = desk.report(1)
    assert desk.office.hear(report, desk.now) is None
    heard, desk.now = desk.now, desk.now + 60_000
    assert isinstance(desk.office.renew(report, desk.now, heard=heard), Granted)
    assert desk.office.serving(desk.group, desk.now) is None


def test_r19_a_release_that_was_lost_is_made_up_for_by_the_next_heartbeat() -> None:
    """Else the master would be granted leases that it does not take, and nobody would lead."""
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    report = replace(desk.report(1), resigned=desk.group.epoch)
    desk.office.hear(report, desk.now)
    answer = desk.office.renew(report, desk.now, heard=desk.now)
    assert isinstance(answer, Withheld)
    assert answer.refusal is Refusal.RESIGNED
    assert [election.broker_id for election in desk.wait(150, 2, 3)] == [2]
    assert desk.group.epoch == 2


def test_r2_a_late_heartbeat_of_a_master_that_resigned_brings_no_lease() -> None:
    """The release was lost, and what the process said before it resigned arrives after what it said then."""
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    before = replace(desk.report(1), number=7)
    resigned = replace(before, resigned=desk.group.epoch, number=8)
    desk.office.hear(resigned, desk.now)
    assert desk.office.hear(before, desk.now) is None
    assert desk.office.renew(before, desk.now, heard=desk.now) == Withheld(view_of(desk.group), Refusal.RESIGNED)
    assert [type(command) for command in desk.office.decide(desk.now)] == [Release]


def test_h4_a_late_heartbeat_of_who_let_go_meanwhile_is_not_believed() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.now += 60_000
    sick = replace(desk.report(1), number=9, healthy=False, resigned=desk.group.epoch)
    assert desk.office.hear(sick, desk.now) is None
    desk.release(1, exited=False, epoch=desk.group.epoch)
    assert desk.office.hear(replace(sick, number=8, healthy=True, resigned=Epoch(0)), desk.now) is None
    assert desk.wait(1_000) == []
    assert desk.office.hear(replace(sick, number=10, healthy=True), desk.now) is None
    assert [election.broker_id for election in desk.wait(1_000)] == [1]


def test_what_a_late_heartbeat_says_is_not_believed() -> None:
    """H4: a disk that was not full before is full now."""
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    replica = desk.group.replica(BrokerId(2))
    assert replica is not None
    full = replace(desk.report(2), number=8, space=False)
    for report in (full, replace(full, number=7, space=True), full):
        assert desk.office.hear(report, desk.now) is None
    seen = desk.office.seen(replica, KEY, desk.now)
    assert seen is not None
    assert not seen.report.space
    desk.register(2, life=2)
    desk.office.hear(replace(full, registration=desk.registration(2), number=1, space=True), desk.now)
    assert desk.office.alive(desk.group, BrokerId(2), desk.now)


# ---- leases of another length: controllers are restarted with it one after the other


LONG = LeaseTerms(lease_ms=10_000)
SHORT = LeaseTerms(lease_ms=1_000)


def reopened(desk: Desk, terms: LeaseTerms) -> int:
    """Another controller takes office; how long the office before it would have waited for its leases."""
    desk.terms, before = terms, desk.terms
    desk.reopen()
    return before.waiter_ms


def test_r2_whoever_takes_office_with_shorter_leases_waits_for_the_longer_ones_before_it() -> None:
    desk = Desk(terms=LONG)
    desk.found(1, 2, 3, master=1)
    assert isinstance(desk.beat(1), Granted)
    over = desk.now + reopened(desk, SHORT)
    assert desk.wait(over - desk.now, 2, 3) == []
    assert desk.office.may_live(desk.group, BrokerId(1), over - 1)
    (election,) = desk.wait(200, 2, 3)
    assert election.broker_id == 2


def test_r2_a_shorter_lease_takes_nothing_from_a_longer_one_that_is_still_held() -> None:
    desk = Desk(terms=LONG)
    desk.found(1, 2, 3, master=1)
    holder = LeaseHolder()
    for terms in (LONG, SHORT):
        if terms is SHORT:
            reopened(desk, SHORT)
        granted = desk.beat(1)
        assert isinstance(granted, Granted)
        holder.granted(granted, sent=desk.now)
    held = holder.until
    assert held is not None
    assert desk.wait(held - desk.now, 2, 3) == []


def test_r2_that_leases_are_shorter_is_known_to_the_next_office_when_the_longer_ones_are_over() -> None:
    desk = Desk(terms=LONG)
    desk.found(1, 2, 3, master=1)
    over = desk.now + reopened(desk, SHORT)
    desk.wait(over - desk.now, 1, 2, 3)
    reopened(desk, SHORT)
    assert desk.office.over_at(desk.group) == desk.now + LONG.waiter_ms, "it may be said once all are over, not before"
    desk.wait(LONG.waiter_ms + 50, 1, 2, 3)
    reopened(desk, SHORT)
    assert desk.office.over_at(desk.group) == desk.now + SHORT.waiter_ms


def test_r2_no_longer_lease_is_granted_before_the_next_office_would_wait_for_it() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    reopened(desk, LONG)
    withheld = desk.beat(1)
    assert isinstance(withheld, Withheld)
    assert withheld.refusal is Refusal.RUNNING
    (record,) = [each for each in desk.office.decide(desk.now) if isinstance(each, Tune)]
    assert not [each for each in desk.office.decide(desk.now) if isinstance(each, Tune)], "it is under way"
    assert isinstance(desk.beat(1), Withheld)
    desk.office.dropped(record)
    (record,) = [each for each in desk.office.decide(desk.now) if isinstance(each, Tune)]
    desk.submit_proposed(record)
    granted = desk.beat(1)
    assert isinstance(granted, Granted)
    assert granted.holder_ms == LONG.holder_ms
    reopened(desk, SHORT)
    assert desk.office.over_at(desk.group) == desk.now + LONG.waiter_ms


def test_leases_of_the_default_length_need_no_record_and_what_is_recorded_is_nobodys_setting() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.wait(10_000, 1, 2, 3)
    assert not [body for body in desk.log if isinstance(decode_command(body), Tune)]
    reopened(desk, LONG)
    desk.decide()
    assert Machine.load(desk.machine.save()).lease_wait_ms == LONG.waiter_ms
    assert desk.machine.settings == {}
