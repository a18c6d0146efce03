"""Static mode, on an empty store: whose first table of roles is in force, and when its leader begins."""

import dataclasses

import pytest

from logherd.aiokit.tasks import TaskGuard
from logherd.app.group import by_roles
from logherd.app.group.about import About, decode_about, shape_of
from logherd.app.group.by_roles import ByRoles, first_roles
from logherd.app.group.roles_file import RolesFile
from logherd.controller.values import BrokerId
from logherd.group.inputs import Assigned
from logherd.group.messages import Presence
from logherd.group.options import GroupOptions
from logherd.group.seat import cluster_of
from logherd.group.table import Recorded, Table, found, next_epoch
from logherd.model.names import Epoch
from logherd.replication.epochs import ORIGIN
from logherd.replication.messages import Envelope, ReplicaId, Stale
from logherd.settings.options import ReplicationOptions
from unit.app.group.stand import GROUP, Clock, Stand, options_of, seat_of
from unit.store.helpers import ROOT, append, flush

GUARD = TaskGuard(on_end=lambda _: None)
LEADS = options_of("static", static={"leader": 2})
AWAITS = options_of("static", static={"leader": 2, "synchronous": [1]})
FOLLOWS = options_of("static", static={"leader": 1})
IS_AWAITED = options_of("static", static={"leader": 1, "synchronous": [2]})
THEIRS = found(Table(number=1, leader=BrokerId(1)))
PATIENCE_MS = GroupOptions().bound_ms


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(by_roles, "boot_ms", made)
    return made


def opened(stand: Stand, options: ReplicationOptions) -> RolesFile:
    assert options.static is not None
    first, empty = first_roles(options.static), stand.log.end == 0
    return RolesFile.open(stand.disk, str(ROOT), stand.file.store_id, first, log_empty=empty)


def started(stand: Stand, options: ReplicationOptions = LEADS, *, trusted: bool = True) -> ByRoles:
    stand.file.count_start(7)
    seat = dataclasses.replace(seat_of(stand.file), trusted=trusted)
    mode = ByRoles(seat, options, stand.log, stand.file, opened(stand, options))
    mode.start(stand.host, GUARD)
    return mode


def told(
    stand: Stand, mode: ByRoles, by: int, recorded: Recorded, *, begun: bool = False,
    end: tuple[int, int] | None = None,
) -> None:  # fmt: skip
    about = About(mode="static", address="b:1", roles=shape_of(recorded), begun=begun, end=end)
    mode.heard(stand.hello(f"{by}.0000000000000001", about))
    assert stand.failures == []


def greeted(mode: ByRoles, by: int) -> None:
    """That one has said where it is."""
    sender = ReplicaId(f"{by}.0000000000000001")
    mode.received(Envelope(cluster_of(GROUP), sender, sender, Epoch(0), Presence(ORIGIN)))


def assigned(stand: Stand) -> list[Table]:
    return [step.table for step in stand.steps if isinstance(step, Assigned)]


def test_the_first_leader_begins_once_all_others_are_heard(clock: Clock) -> None:
    stand = Stand("static")
    mode = started(stand)
    for other in (1, 3):
        told(stand, mode, other, mode.recorded)
    greeted(mode, 1)
    mode.tick()
    assert assigned(stand) == []
    greeted(mode, 3)
    assert assigned(stand) == [mode.recorded.table]
    mode.tick()
    assert len(assigned(stand)) == 1


def test_a_first_leader_whose_sends_wait_for_copies_hears_all_others_first(clock: Clock) -> None:
    stand = Stand("static")
    mode = started(stand, AWAITS)
    greeted(mode, 1)
    mode.tick()
    assert assigned(stand) == []
    sender = ReplicaId("3.0000000000000001")
    mode.received(Envelope(cluster_of(GROUP), sender, sender, Epoch(0), Stale()))
    assert assigned(stand) == [], "that does not say where it is"
    greeted(mode, 3)
    assert assigned(stand) == [mode.recorded.table]


def test_who_has_nothing_goes_back_to_no_earlier_table(clock: Clock) -> None:
    stand = Stand("static")
    later = found(Table(number=2, leader=BrokerId(3)))
    opened(stand, LEADS).record(later)
    mode = started(stand)
    told(stand, mode, 1, THEIRS, begun=True)
    assert mode.recorded == later
    assert assigned(stand) == [later.table]


def test_it_waits_only_so_long_for_those_who_are_not_there(clock: Clock) -> None:
    stand = Stand("static")
    mode = started(stand)
    clock.now += PATIENCE_MS - 1
    mode.tick()
    assert assigned(stand) == []
    clock.now += 1
    mode.tick()
    assert assigned(stand) == [mode.recorded.table]


def test_who_has_no_others_begins_at_once(clock: Clock) -> None:
    stand = Stand("static")
    mode = started(stand, options_of("static", static={"leader": 2}, peers={2: "b2:1"}))
    assert assigned(stand) == [mode.recorded.table]


def test_a_leader_with_something_in_its_log_and_a_follower_begin_at_once(clock: Clock) -> None:
    follower, leader = Stand("static"), Stand("static")
    append(leader.store)
    flush(leader.store)
    for stand, options in ((follower, FOLLOWS), (leader, LEADS)):
        mode = started(stand, options)
        assert assigned(stand) == [mode.recorded.table]


@pytest.mark.parametrize("options", [LEADS, FOLLOWS])
def test_who_has_nothing_takes_the_first_table_of_a_group_that_has_begun(
    clock: Clock, options: ReplicationOptions
) -> None:
    """The settings were changed since, and this broker's disk is new. It would lead beside the leader, or follow
    nobody: a table of the same number was a mistake, whatever it stood for."""
    theirs = found(Table(number=1, leader=BrokerId(1), synchronous=(BrokerId(3),), copies=2))
    stand = Stand("static")
    mode = started(stand, options)
    told(stand, mode, 3, theirs, begun=True)
    assert mode.recorded == theirs
    assert assigned(stand)[-1] == theirs.table
    clock.now += PATIENCE_MS
    mode.tick()
    assert assigned(stand)[-1] == theirs.table


@pytest.mark.parametrize("theirs", [
    found(Table(number=1, leader=BrokerId(2))), found(Table(number=2, leader=BrokerId(2))),
])  # fmt: skip
def test_who_has_nothing_and_hears_that_it_leads_alone_hears_all_others_first(clock: Clock, theirs: Recorded) -> None:
    """Its disk is new, and its settings say that it follows. Whoever told it may lack as much
    as it does; but leaders of before are refused at once."""
    stand = Stand("static")
    mode = started(stand, FOLLOWS)
    told(stand, mode, 1, theirs, begun=True)
    greeted(mode, 1)
    assert stand.steps[-1] == Assigned(theirs.table, waits=True)
    greeted(mode, 3)
    assert stand.steps[-1] == Assigned(theirs.table)


def test_who_hears_that_it_leads_waits_for_the_silent_only_so_long(clock: Clock) -> None:
    stand = Stand("static")
    mode = started(stand, FOLLOWS)
    clock.now += PATIENCE_MS
    told(stand, mode, 1, found(Table(number=2, leader=BrokerId(2))))
    clock.now += PATIENCE_MS - 1
    mode.tick()
    assert stand.steps[-1] == Assigned(mode.recorded.table, waits=True)
    clock.now += 1
    mode.tick()
    assert stand.steps[-1] == Assigned(mode.recorded.table)


def test_who_waits_for_copies_needs_to_hear_nobody_before(clock: Clock) -> None:
    stand = Stand("static")
    mode = started(stand, FOLLOWS)
    theirs = found(Table(number=2, leader=BrokerId(2), synchronous=(BrokerId(3),), copies=2))
    told(stand, mode, 1, theirs)
    assert stand.steps[-1] == Assigned(theirs.table)


def test_an_order_to_lead_waits_for_nobody(clock: Clock) -> None:
    """It says what may be lost."""
    stand = Stand("static")
    mode = started(stand, FOLLOWS)
    mode.enforce(found(Table(number=2, leader=BrokerId(2))))
    assert stand.steps[-1] == Assigned(mode.recorded.table)


def test_of_two_that_have_nothing_and_differ_neither_leads_until_they_agree(clock: Clock) -> None:
    stand = Stand("static")
    mode = started(stand)
    told(stand, mode, 1, THEIRS)
    told(stand, mode, 3, mode.recorded)
    greeted(mode, 3)
    clock.now += 10 * PATIENCE_MS
    mode.tick()
    assert assigned(stand) == []
    assert mode.obstacle.startswith("other roles of the same number are known at broker 1: replication.static differs")
    told(stand, mode, 1, mode.recorded)
    assert assigned(stand) == [mode.recorded.table]
    assert mode.obstacle == ""


@pytest.mark.parametrize(("options", "trusted", "at_once"), [
    (LEADS, True, True), (LEADS, False, False), (AWAITS, True, True), (AWAITS, False, False), (FOLLOWS, False, True),
    (IS_AWAITED, False, True),
])  # fmt: skip
def test_a_leader_whose_machine_went_down_before_all_was_flushed_hears_the_others(
    clock: Clock, options: ReplicationOptions, *, trusted: bool, at_once: bool
) -> None:
    """They may have what it lost."""
    stand = Stand("static")
    append(stand.store)
    flush(stand.store)
    mode = started(stand, options, trusted=trusted)
    assert (assigned(stand) == [mode.recorded.table]) is at_once
    for other in (1, 3):
        told(stand, mode, other, mode.recorded)
        greeted(mode, other)
    assert assigned(stand) == [mode.recorded.table]


def lost_its_end(options: ReplicationOptions = AWAITS) -> tuple[Stand, ByRoles]:
    """A leader whose machine went down before all was flushed."""
    stand = Stand("static")
    append(stand.store)
    flush(stand.store)
    return stand, started(stand, options, trusted=False)


def test_h7_who_may_have_lost_what_was_acknowledged_does_not_lead_whoever_has_it(clock: Clock) -> None:
    """That one may not know yet that it was acknowledged, and would cut it."""
    stand, mode = lost_its_end()
    ours = stand.log.epochs.point_at(stand.log.end)
    told(stand, mode, 1, mode.recorded, end=(ours.epoch, ours.position + 1))
    greeted(mode, 1)
    clock.now += 10 * PATIENCE_MS
    mode.tick()
    assert assigned(stand) == []
    assert mode.obstacle == (
        "its machine went down before everything was flushed, and more is at broker 1: promote that"
    )
    told(stand, mode, 1, mode.recorded, end=(ours.epoch, ours.position))
    assert assigned(stand) == [mode.recorded.table]


def test_h7_who_hears_that_it_leads_and_may_have_lost_what_was_acknowledged_compares_its_end_first(
    clock: Clock,
) -> None:
    """As after a promotion that the controllers recorded, of which this broker did not hear before its machine went
    down."""
    stand, mode = lost_its_end(FOLLOWS)
    ours = stand.log.epochs.point_at(stand.log.end)
    later = found(Table(number=2, leader=BrokerId(2), synchronous=(BrokerId(1),), copies=2))
    told(stand, mode, 3, later)
    greeted(mode, 1)  # which leaves before the hello that tells the end
    told(stand, mode, 1, later, end=(ours.epoch, ours.position + 1))
    clock.now += 10 * PATIENCE_MS
    mode.tick()
    assert stand.steps[-1] == Assigned(later.table, waits=True)
    assert mode.obstacle.endswith("and more is at broker 1: promote that")
    told(stand, mode, 1, later, end=(ours.epoch, ours.position))
    assert stand.steps[-1] == Assigned(later.table)


def test_h7_an_end_that_was_told_under_a_former_table_is_not_the_last_word(clock: Clock) -> None:
    """Whoever told it acknowledged more of that table's leader until it took this one."""
    stand, mode = lost_its_end(FOLLOWS)
    ours = stand.log.epochs.point_at(stand.log.end)
    later = found(Table(number=2, leader=BrokerId(2), synchronous=(BrokerId(1),), copies=2))
    told(stand, mode, 3, later)
    told(stand, mode, 1, THEIRS, end=(ours.epoch, ours.position))
    greeted(mode, 1)
    assert stand.steps[-1] == Assigned(later.table, waits=True)
    told(stand, mode, 1, later, end=(ours.epoch, ours.position))
    assert stand.steps[-1] == Assigned(later.table)


def test_h7_who_may_have_lost_all_that_was_acknowledged_does_not_lead_whoever_has_it(clock: Clock) -> None:
    """The group had just begun. A follower that was killed, too, may not know of anything that it was committed."""
    stand = Stand("static")
    mode = started(stand, AWAITS, trusted=False)
    for other, end in ((1, (next_epoch(1, Epoch(0), "i"), 1)), (3, (0, 0))):
        told(stand, mode, other, mode.recorded, end=end)
        greeted(mode, other)
    clock.now += 10 * PATIENCE_MS
    mode.tick()
    assert assigned(stand) == []
    assert mode.obstacle.endswith("and more is at broker 1: promote that")
    told(stand, mode, 1, mode.recorded, end=(0, 0))
    assert assigned(stand) == [mode.recorded.table]


@pytest.mark.parametrize(("options", "forgets"), [(LEADS, False), (IS_AWAITED, False), (FOLLOWS, True)])
def test_h7_who_may_have_been_promoted_remembers_over_a_stop_in_order_that_it_may_have_lost_something(
    clock: Clock, options: ReplicationOptions, *, forgets: bool
) -> None:
    """The controllers had recorded the promotion, and the machine went down before this broker heard of it: so did the
    next process not, but the one after. Whoever nobody waits for is promoted only at a loss, and by name."""
    stand, mode = lost_its_end(options)
    assert mode.accounted is forgets
    mode = started(stand, options, trusted=mode.accounted)
    ours = stand.log.epochs.point_at(stand.log.end)
    later = found(Table(number=2, leader=BrokerId(2), synchronous=(BrokerId(1),), copies=2))
    told(stand, mode, 3, later)
    greeted(mode, 1)
    told(stand, mode, 1, later, end=(ours.epoch, ours.position + 1))
    assert (stand.steps[-1] == Assigned(later.table)) is forgets


def test_who_has_had_everything_again_forgets_that_its_machine_went_down(clock: Clock) -> None:
    _, mode = lost_its_end(IS_AWAITED)
    assert not mode.accounted
    mode._be_complete()
    assert mode.accounted


@pytest.mark.parametrize("end", [None, (0, 0)], ids=["of a former release", "who has less"])
def test_who_may_have_lost_something_leads_if_nobody_has_it(clock: Clock, end: tuple[int, int] | None) -> None:
    stand, mode = lost_its_end()
    told(stand, mode, 1, mode.recorded, end=end)
    assert assigned(stand) == []
    greeted(mode, 1)
    assert assigned(stand) == [mode.recorded.table]


@pytest.mark.parametrize(("copies", "leads"), [(3, False), (2, True)])
def test_who_may_have_lost_something_waits_for_all_that_have_everything(
    clock: Clock, copies: int, *, leads: bool
) -> None:
    """Without one of them nothing is acknowledged anyway; where fewer are needed it may be gone for good."""
    stand, mode = lost_its_end(options_of("static", static={"leader": 2, "synchronous": [1, 3], "copies": copies}))
    told(stand, mode, 1, mode.recorded, end=(0, 0))
    waits = "waits to hear where these logs end: broker 1, broker 3"
    assert mode.obstacle == ("" if leads else waits), "how long that takes nobody knows if it waits for all"
    greeted(mode, 1)
    assert mode.obstacle == ("" if leads else "waits to hear where these logs end: broker 3")
    clock.now += 10 * PATIENCE_MS
    mode.tick()
    assert (assigned(stand) == [mode.recorded.table]) is leads


def test_who_may_have_lost_something_leads_by_an_order_that_accepts_it(clock: Clock) -> None:
    stand, mode = lost_its_end()
    told(stand, mode, 1, mode.recorded, end=(7, 1 << 40))
    mode.enforce(found(Table(number=2, leader=BrokerId(2), synchronous=(BrokerId(1),), copies=2, forgiven=2)))
    assert stand.steps[-1] == Assigned(mode.recorded.table)


@pytest.mark.parametrize(("accepted", "under", "leads"), [(2, 1, True), (2, 2, False), (0, 1, False), (1, 0, False)])
def test_what_was_given_up_by_name_is_not_waited_for_after_a_restart(
    clock: Clock, accepted: int, under: int, *, leads: bool
) -> None:
    """The machine went down after the promotion was kept, before this broker served. Whoever has more cuts nothing
    before somebody leads. A loss that was accepted with an earlier promotion says nothing of what that leader held."""
    table = Table(number=2, leader=BrokerId(2), synchronous=(BrokerId(1),), copies=2, forgiven=accepted)
    stand = Stand("static")
    append(stand.store)
    flush(stand.store)
    opened(stand, AWAITS).record(found(table))
    mode = started(stand, AWAITS, trusted=False)
    greeted(mode, 1)
    told(stand, mode, 1, mode.recorded, end=(next_epoch(under, Epoch(0), "i"), stand.log.end + 1))
    assert (assigned(stand) == [table]) is leads
    assert mode.obstacle.endswith("promote that") is not leads


def test_a_replica_says_where_its_log_ends() -> None:
    stand = Stand("static")
    append(stand.store)
    about = decode_about(started(stand).greet().about)
    assert about is not None
    assert about.end == (0, stand.log.end)


def test_nobody_is_waited_for_who_knows_an_earlier_table_and_is_gone(clock: Clock) -> None:
    """It would have taken the later one, but died before it could say so."""
    stand = Stand("static")
    append(stand.store)
    flush(stand.store)
    opened(stand, LEADS).record(found(Table(number=2, leader=BrokerId(2))))
    mode = started(stand, trusted=False)
    told(stand, mode, 1, THEIRS, begun=True)
    clock.now += PATIENCE_MS
    mode.tick()
    assert assigned(stand) == [mode.recorded.table]
    assert mode.obstacle == ""


def test_who_has_something_keeps_its_table(clock: Clock) -> None:
    stand = Stand("static")
    append(stand.store)
    flush(stand.store)
    mode = started(stand)
    told(stand, mode, 1, THEIRS, begun=True)
    assert mode.recorded.table.leader == 2
    assert assigned(stand) == [mode.recorded.table]


def test_a_promotion_ends_the_wait(clock: Clock) -> None:
    stand = Stand("static")
    mode = started(stand)
    later = found(Table(number=2, leader=BrokerId(3)))
    mode.enforce(later)
    clock.now += PATIENCE_MS
    mode.tick()
    assert assigned(stand) == [later.table]


def test_a_replica_says_whether_anything_is_in_its_log() -> None:
    stand = Stand("static")
    assert '"begun":false' in started(stand).greet().about
    append(stand.store)
    flush(stand.store)
    assert '"begun":true' in started(stand).greet().about


def test_the_settings_count_again_while_nothing_is_in_the_log() -> None:
    stand = Stand("static")
    first = opened(stand, LEADS).recorded
    assert opened(stand, FOLLOWS).recorded == THEIRS
    assert opened(stand, LEADS).recorded == first
    append(stand.store)
    flush(stand.store)
    assert opened(stand, FOLLOWS).recorded == first


def test_no_settings_replace_a_table_that_was_made_by_promotion() -> None:
    stand = Stand("static")
    later = found(Table(number=2, leader=BrokerId(3)))
    opened(stand, LEADS).record(later)
    assert opened(stand, FOLLOWS).recorded == later
