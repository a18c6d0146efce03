"""R2, R11, R19, R20: what the controllers hear of a process, when, and when it begins again with them."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from logherd.controller.commands import Register, Release
from logherd.controller.reports import Report, RoleView, Withheld
from logherd.controller.values import BrokerId, Registration
from logherd.controller.verdicts import Refusal
from logherd.group.core import GroupCore
from logherd.group.inputs import Health, Heard, Noticed, Received, Registered, Tick
from logherd.group.options import GroupOptions
from logherd.group.output import Ask, Fenced, Leading
from logherd.group.seat import Seat
from logherd.model.names import Epoch, Position
from logherd.raft.memory import MemoryLog
from logherd.raft.record import Kind
from logherd.replication.epochs import Point
from logherd.replication.messages import Envelope, Heartbeat, ReplicaId
from logherd.replication.sender import ShipOptions
from unit.group.stage import KEY, Node, Stage

UNKNOWN = Withheld(None, Refusal.UNKNOWN_REPLICA)
OPTIONS = GroupOptions()


def alone(*, number: int = 1) -> GroupCore:
    """A process of broker 2 that has told nobody of itself; 0: it has no number yet."""
    seat = Seat(group=KEY, broker_id=BrokerId(2), store_id="s2", incarnation="s2.1", address="b2:10911", priority=3)
    core = GroupCore(seat, OPTIONS, MemoryLog(), epoch=Epoch(0), commit=Position(0), now=0)
    if number:
        core.step(Registered(Registration(number)), 0)
    return core


def view(epoch: int, version: int, *, master: int = 1, processes: Sequence[int] = (1, 2, 3)) -> RoleView:
    return RoleView(
        epoch=Epoch(epoch), master=BrokerId(master), master_address="b1:10911", master_registration=Registration(1),
        version=version, members=(BrokerId(1), BrokerId(2), BrokerId(3)),
        processes=tuple(Registration(each) for each in processes), learners=(), min_in_sync=2,
    )  # fmt: skip


def told(core: GroupCore, what: RoleView, now: int, *, sent: int | None = None) -> list[type[Ask]]:
    """What it asks after the controllers have answered with a view."""
    return [type(ask) for ask in core.step(Heard(Withheld(what, None), now if sent is None else sent), now).asks]


def asked(core: GroupCore, after: int, until: int) -> list[int]:
    """When it asks, of itself, anything."""
    return [now for now in range(after, until, 10) if core.step(Tick(), now).asks]


def serving() -> tuple[Stage, Node]:
    stage = Stage()
    leader = stage.run_until_served()
    stage.run(1_000)
    return stage, leader


# ---- what is told ----------------------------------------------------------------------------------------------------


def test_r2_a_lease_is_given_back_with_what_is_committed_and_the_report_behind_it_says_so_too() -> None:
    """Release may be lost. The controllers elect nobody who ends below what it says: more than is committed may be
    nowhere but here."""
    stage, leader = serving()
    committed = leader.committed
    stage.isolate(leader, from_controllers=False)
    leader.append()
    stage.run(100)
    assert leader.log.end > leader.core.ground.commit == committed
    output = leader.feed(Health(healthy=False))
    release, report = output.asks
    assert isinstance(release, Release)
    assert (release.epoch, release.exited, release.committed.position) == (Epoch(1), False, committed)
    assert isinstance(report, Report)
    assert (report.resigned, report.healthy) == (Epoch(1), False)


def test_r11_a_registration_names_only_what_is_on_the_disk() -> None:
    """They elect by it, as by a report."""
    stage, leader = serving()
    follower = next(node for node in stage.nodes.values() if node is not leader)
    on_disk, follower.slow = follower.log.end, True
    leader.append()
    stage.run(10)
    assert follower.log.end > on_disk
    follower.feed(Heard(UNKNOWN, stage.now))
    register = follower.asks[-1]
    assert isinstance(register, Register)
    assert register.end.position == on_disk


def test_r21_the_controllers_hear_of_a_flush_that_does_not_end_and_of_whom_to_prefer() -> None:
    stage, leader = serving()
    follower = next(node for node in stage.nodes.values() if node is not leader)
    follower.slow = True
    leader.append()
    stage.run(OPTIONS.stall_ms - 600)
    report = follower.asks[-1]
    assert isinstance(report, Report)
    assert report.healthy
    stage.run(1_200)
    report = follower.asks[-1]
    assert isinstance(report, Report)
    assert not report.healthy
    (first,) = alone().step(Tick(), OPTIONS.beat_ms).asks
    assert isinstance(first, Report)
    assert first.priority == 3


def test_a_lease_lives_for_three_reports_however_rarely_they_are_set_to_be_made() -> None:
    """The two are set at different processes, and this one while it runs."""
    stage = Stage(options=GroupOptions(ship=ShipOptions(small_bytes=0), beat_ms=10_000))
    leader = stage.run_until_served()
    stage.run(30_000)
    assert leader.heard(Fenced) == []
    assert leader.core.leading is not None


def test_r20_a_report_tells_of_which_of_those_before_it_the_answer_is_known() -> None:
    """By that the controllers know that it was made after they gave the answer, however late it comes."""
    core = alone()
    known, reports = view(3, 1), list[Report]()
    for number, now in ((0, 500), (1, 1_000), (3, 1_500), (2, 2_000)):
        core.step(Heard(Withheld(known, None), now - 1, number), now - 1)
        (report,) = core.step(Tick(), now).asks
        assert isinstance(report, Report)
        reports.append(report)
    assert [each.answered for each in reports] == [0, 1, 3, 3]


def test_r20_while_nobody_leads_a_report_tells_where_the_leaderships_end_in_the_log() -> None:
    """By that the controllers see whether the log has what others know to be committed; see `outrun_loses`."""
    seat = Seat(group=KEY, broker_id=BrokerId(2), store_id="s2", incarnation="s2.1", address="b2:10911")
    log = MemoryLog()
    ends = [Point(Epoch(epoch), log.append(Kind.DATA, Epoch(epoch), b"record")) for epoch in range(1, 51)]
    core = GroupCore(seat, OPTIONS, log, epoch=Epoch(50), commit=Position(0), now=0)
    core.step(Registered(Registration(1)), 0)
    for now, known, told_ends in (
        (500, None, ends[-33:-1]), (1_000, view(50, 1), []), (1_500, replace(view(50, 2), master=None), ends[-33:-1]),
    ):  # fmt: skip
        if known is not None:
            core.step(Heard(Withheld(known, None), now - 1), now - 1)
        (report,) = core.step(Tick(), now).asks
        assert isinstance(report, Report)
        assert report.end == ends[-1]
        assert list(report.epoch_ends) == told_ends


# ---- when ------------------------------------------------------------------------------------------------------------


def test_r19_a_registration_that_is_not_answered_is_asked_for_again_and_no_hint_makes_it_more_often() -> None:
    core = alone(number=0)
    assert asked(core, 0, 1_000) == [0, 300, 600, 900]
    assert not core.step(Noticed(), 1_100).asks


def test_an_answer_counts_from_when_it_was_asked_for() -> None:
    """One that comes late, or behind a later one, says nothing of how the controllers are now."""
    stage, leader = serving()
    core, since = leader.core, stage.now
    known = core.ground.standing.view
    assert known is not None
    for sent, comes in ((since, since + 400), (since - 900, since + 401)):
        told(core, known, comes, sent=sent)
    assert len(asked(core, since + 410, since + 1_000)) <= 2
    assert len(asked(core, since + 1_000, since + 1_500)) == 5


def test_a_process_that_is_unknown_under_its_new_number_is_so_from_its_first_report_on() -> None:
    core = alone(number=0)
    first = core.step(Registered(Registration(4)), 50)
    assert [type(ask) for ask in first.asks] == [Report]
    core.step(Heard(UNKNOWN, 49), 60)
    assert core.ground.me.registration == 4
    core.step(Heard(UNKNOWN, 50), 60)
    assert core.ground.me.registration == 0


# ---- what the controllers have forgotten -----------------------------------------------------------------------------


def test_r20_who_hears_of_less_than_it_knew_begins_again_once() -> None:
    """From then on it goes by what they say, though it is of an earlier version, and of earlier numbers."""
    core = alone()
    told(core, view(3, 8, processes=(5, 6, 7)), 100)
    assert told(core, view(3, 7, processes=(1, 2, 3)), 200) == [Register]
    core.step(Registered(Registration(9)), 210)
    assert told(core, view(3, 7, processes=(1, 9, 3)), 300) == []
    standing = core.ground.standing
    assert standing.view == view(3, 7, processes=(1, 9, 3))
    assert standing.processes == {1: 1, 2: 9, 3: 3}


def test_r20_an_answer_that_was_under_way_while_a_process_began_again_has_it_do_so_only_once() -> None:
    core = alone()
    told(core, view(3, 8), 100)
    assert told(core, view(2, 7), 200) == [Register]
    core.step(Registered(Registration(9)), 210)
    assert told(core, view(2, 7), 220, sent=190) == []
    assert core.ground.me.registration == 9
    assert told(core, view(2, 7), 230) == [Register], "they have forgotten again, or do not know the epoch yet"


def test_r20_who_is_told_while_it_has_no_number_that_they_have_forgotten_goes_by_the_numbers_of_now() -> None:
    core = alone()
    told(core, view(3, 8, processes=(5, 6, 7)), 100)
    core.step(Registered(Registration(0)), 150)
    told(core, view(3, 8, processes=(5, 6, 7)), 160)
    told(core, view(3, 7, processes=(1, 2, 3)), 200)
    core.step(Registered(Registration(9)), 210)
    assert told(core, view(3, 7, processes=(1, 9, 3)), 300) == []
    assert core.ground.standing.processes == {1: 1, 2: 9, 3: 3}


def test_r20_who_is_not_known_any_more_believes_the_next_numbers_at_once() -> None:
    core = alone()
    told(core, view(3, 8, processes=(5, 6, 7)), 100)
    core.step(Heard(UNKNOWN, 200), 200)
    core.step(Registered(Registration(4)), 210)
    assert told(core, view(3, 8, processes=(1, 4, 3)), 300) == []
    assert core.ground.standing.processes == {1: 1, 2: 4, 3: 3}


def test_r20_a_later_epoch_that_another_replica_has_told_may_have_any_version() -> None:
    """That of a leader elected after a recovery: its set is counted from what was not forgotten."""
    core = alone()
    told(core, view(3, 8), 100)
    standing = core.ground.standing
    body = Heartbeat(1, Position(0))
    core.step(
        Received(Envelope(standing.cluster, ReplicaId("1.0000000000000001"), standing.identity, Epoch(7), body)), 150
    )
    assert core.ground.epoch == 7
    assert told(core, view(7, 5), 200) == []
    assert told(core, view(7, 4), 300) == [Register]


@pytest.mark.parametrize("number", [1, 4])
def test_r4_another_number_of_its_own_makes_no_earlier_process_of_another_broker_count_again(number: int) -> None:
    core = alone()
    told(core, view(3, 8, processes=(5, 1, 7)), 100)
    core.step(Registered(Registration(number)), 200)
    assert core.ground.standing.latest(BrokerId(1)) == 5
    assert not [event for event in core.step(Tick(), 210).events if isinstance(event, Leading)]
