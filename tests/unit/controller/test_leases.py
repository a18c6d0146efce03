"""R1, R2: two clocks that nobody has compared never let two leaderships overlap."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from logherd.controller.commands import Release
from logherd.controller.holder import LeaseHolder
from logherd.controller.leases import LeaseTerms
from logherd.controller.office import view_of
from logherd.controller.reports import Granted, RoleView, Withheld
from logherd.controller.values import BrokerId, Registration
from logherd.controller.verdicts import Refusal
from logherd.model.names import Epoch
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
    assert [election.broker_id for election in desk.wait(50, 2, 3)] == [2]


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
