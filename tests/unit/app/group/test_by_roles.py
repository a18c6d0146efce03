"""Static mode in the shell: which table of roles is in force here, and who may be promoted."""

import dataclasses
import errno
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from logherd.aiokit.tasks import TaskGuard
from logherd.app.group.about import About, RolesShape, decode_about, encode_about, shape_of
from logherd.app.group.by_roles import ByRoles, first_roles
from logherd.app.group.making import Opened, make_mode
from logherd.app.group.replica_file import ReplicaFileError
from logherd.app.group.roles_file import RolesFile
from logherd.app.guarded.keeper import Unguarded
from logherd.controller.values import BrokerId
from logherd.group.inputs import Assigned, Registered
from logherd.group.output import Drained, Serving
from logherd.group.table import PromotionRefusedError, Recorded, Table, first_epoch, next_epoch
from logherd.model.names import Epoch, Position
from logherd.replication.messages import AppendAck, Envelope, Heartbeat, ReplicaId
from logherd.service.replica_orders import Promote
from logherd.settings.options import BrokerOptions
from sim.disk import SimDisk, SimulatedCrash
from unit.app.group.stand import Stand, options_of, seat_of
from unit.store.helpers import HOST, ROOT, SimClock, append, flush

GUARD = TaskGuard(on_end=lambda _: None)
OPTIONS = options_of("static", static={"leader": 1, "synchronous": [2]})
PROCESS = "1.0000000000000001"


def roles_of(stand: Stand) -> RolesFile:
    assert OPTIONS.static is not None
    return RolesFile.open(stand.disk, str(ROOT), stand.file.store_id, first_roles(OPTIONS.static), log_empty=False)


def started(stand: Stand, roles: RolesFile | None = None) -> ByRoles:
    stand.file.count_start(7)
    mode = ByRoles(seat_of(stand.file), OPTIONS, stand.log, stand.file, roles or roles_of(stand))
    mode.start(stand.host, GUARD)
    return mode


def told(stand: Stand, mode: ByRoles, roles: RolesShape | None, sender: str = PROCESS) -> None:
    mode.heard(stand.hello(sender, About(mode="static", address="b1:1", roles=roles)))


def ordered(mode: ByRoles, *, after: int, synchronous: tuple[int, ...], copies: int, loss: bool) -> Table:
    """What an operator's order makes of the table, where nobody records it."""
    wanted = mode.prepare(Promote(after=after, synchronous=synchronous, copies=copies, loss=loss))
    mode.enforce(wanted)
    return wanted.table


def test_a_process_has_a_number_of_its_own_and_the_configured_table() -> None:
    stand = Stand("static")
    mode = started(stand)
    assert stand.steps == [Registered(stand.file.starts), Assigned(mode.recorded.table)]  # type: ignore[arg-type]
    first = stand.file.starts
    assert stand.opened(log_empty=False).count_start(3) == first + 1, "it rises though the clock does not"


def test_the_configured_table_counts_for_the_first_start_only() -> None:
    """Also for who never has to write down that it is complete, as a follower that nobody waits for. With the table of
    a file that was changed since it could lead beside the leader, under the same number."""
    stand = Stand("static")
    mode = started(stand)
    changed = options_of("static", static={"leader": 3}).static
    assert changed is not None
    again = RolesFile.open(stand.disk, str(ROOT), stand.file.store_id, first_roles(changed), log_empty=False)
    assert (again.recorded, again.complete) == (mode.recorded, False)


def test_a_start_and_what_comes_after_it_need_no_free_block() -> None:
    """A promotion, too, may be what a group with a full disk needs."""
    stand = Stand("static")
    roles_of(stand)
    stand.disk.capacity = stand.disk.used()
    mode = started(stand)
    for number in (2, 3, 4):
        later = Recorded(Table(number=number, leader=BrokerId(3)), (BrokerId(3),))
        told(stand, mode, shape_of(later))
        assert roles_of(stand).recorded == later


def test_a_file_of_an_earlier_release_gets_its_spare_as_soon_as_there_is_room() -> None:
    stand = Stand("static")
    roles_of(stand)
    stand.disk.unlink(f"{ROOT}/roles.json.spare")
    roles = roles_of(stand)
    stand.disk.capacity = stand.disk.used()
    roles.be_complete()
    assert roles_of(stand).complete


def test_a_table_that_a_start_has_read_is_there_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process died before the table's name was on the disk, which is full since: the next one tells others of it."""

    def refuse(_: SimDisk, one: str, other: str) -> None:
        raise OSError(errno.EINVAL, "simulated", one, None, other)

    monkeypatch.setattr(SimDisk, "exchange", refuse)
    stand, later = Stand("static"), Recorded(Table(number=2, leader=BrokerId(3)), (BrokerId(3),))
    roles = roles_of(stand)
    stand.disk.crash_after(1, at=f"rename {ROOT}/roles.json")
    with pytest.raises(SimulatedCrash):
        roles.record(later)
    found = stand.disk = stand.disk.crash(Random(0), power=False)
    found.capacity = found.used()
    assert roles_of(stand).recorded == later
    for seed in range(20):
        stand.disk = found.crash(Random(seed), power=True)
        assert roles_of(stand).recorded == later


def test_a_file_whose_table_can_be_none_is_refused_by_name() -> None:
    stand = Stand("static")
    roles_of(stand)
    change_file(stand, b'"copies":2', b'"copies":9')
    with pytest.raises(ReplicaFileError, match=rf"{ROOT}/roles.json is damaged"):
        roles_of(stand)


def change_file(stand: Stand, old: bytes, new: bytes) -> None:
    """Of roles.json."""
    path = f"{ROOT}/roles.json"
    before = stand.disk.open(path).read(0, 1 << 20)
    assert old in before
    stand.disk.unlink(path)
    stand.disk.open(path, create=True).write(0, [before.replace(old, new)])


@pytest.mark.parametrize(("there", "field"), [(b'"format":1', b"promised"), (b'"number":1', b"witness")])
def test_what_a_later_release_adds_to_the_file_is_refused_by_name(there: bytes, field: bytes) -> None:
    """It would be gone with the next write."""
    stand = Stand("static")
    roles_of(stand)
    change_file(stand, there, there + b',"' + field + b'":7')
    with pytest.raises(ReplicaFileError, match=f"unknown field `{field.decode()}`"):
        roles_of(stand)


def test_of_a_table_that_is_understood_in_part_nothing_is_taken() -> None:
    text = encode_about(
        About(mode="static", address="b1:1", roles=shape_of(Recorded(Table(number=2, leader=BrokerId(3)), ())))
    )
    assert decode_about(text) is not None
    assert decode_about(text.replace('"number":2', '"number":2,"witness":7')) is None
    assert decode_about(text.replace('"eligible":[]', '"eligible":[],"witness":7')) is None
    assert decode_about(text.replace('"mode":', '"unheard":7,"mode":')) is not None, "what is only told may be more"


def test_a_later_table_is_kept_before_it_is_told_on() -> None:
    stand = Stand("static")
    mode = started(stand)
    later = Recorded(Table(number=2, leader=BrokerId(3)), (BrokerId(3),))
    told(stand, mode, shape_of(later))
    assert stand.steps[-1] == Assigned(later.table)
    assert roles_of(stand).recorded == later
    assert stand.announced == 1
    told(stand, mode, shape_of(first_roles(OPTIONS.static)))  # type: ignore[arg-type]
    assert mode.recorded == later, "an earlier table changes nothing"


def test_two_tables_of_one_number_leave_the_own_one_in_force() -> None:
    stand = Stand("static")
    mode = started(stand)
    ours = mode.recorded
    told(stand, mode, shape_of(Recorded(Table(number=1, leader=BrokerId(3)), (BrokerId(3),))))
    assert mode.recorded == ours
    told(stand, mode, None)
    assert mode.recorded == ours


def test_a_store_that_never_had_everything_is_promoted_only_with_loss() -> None:
    stand = Stand("static")
    mode = started(stand)
    with pytest.raises(PromotionRefusedError, match="this store has not had everything"):
        ordered(mode, after=1, synchronous=(3,), copies=2, loss=False)
    table = ordered(mode, after=1, synchronous=(3,), copies=2, loss=True)
    assert (table.number, table.leader, table.forgiven) == (2, 2, 2)
    assert roles_of(stand).recorded.table == table


def test_a_store_that_may_lack_what_it_had_is_promoted_only_with_loss_and_at_later_starts_too() -> None:
    """Its machine went down before all that it had acknowledged was flushed. The next process finds nothing missing."""
    stand = Stand("static")
    roles_of(stand).be_complete()
    settings = cast("BrokerOptions", SimpleNamespace(replication=OPTIONS))
    for trusted, complete in ((True, True), (False, False), (True, False)):
        seat = dataclasses.replace(seat_of(stand.file), trusted=trusted)
        made = make_mode(settings, seat, stand.file, Opened(stand.store, [], SimClock(), HOST), keeper=Unguarded())
        assert isinstance(made.mode, ByRoles)
        assert (made.mode.why_not == "", roles_of(stand).complete) == (complete, complete)


def test_a_complete_synchronous_follower_is_promoted_after_the_table_in_force_alone() -> None:
    stand = Stand("static")
    roles = roles_of(stand)
    roles.be_complete()
    mode = started(stand, roles)
    with pytest.raises(PromotionRefusedError, match="table 1 is in force"):
        ordered(mode, after=2, synchronous=(), copies=1, loss=False)
    with pytest.raises(PromotionRefusedError, match="do not fit together"):
        ordered(mode, after=1, synchronous=(2,), copies=2, loss=False)
    assert ordered(mode, after=1, synchronous=(), copies=1, loss=False).forgiven == 0
    assert mode.recorded.eligible == (2,)


def test_a_table_that_was_never_heard_of_is_replaced_only_with_loss() -> None:
    """The operator knows of table 4, this broker of table 1: of what was acknowledged between it knows nothing."""
    stand = Stand("static")
    roles = roles_of(stand)
    roles.be_complete()
    mode = started(stand, roles)
    assert ordered(mode, after=4, synchronous=(), copies=1, loss=True).number == 5


@pytest.mark.parametrize("after", [1, 2])
def test_a_later_table_is_not_replaced_by_an_order_after_an_earlier_one_with_or_without_loss(after: int) -> None:
    roles = roles_of(stand := Stand("static"))
    roles.be_complete()
    roles.record(Recorded(Table(number=3, leader=BrokerId(2)), (BrokerId(2),)))
    mode = started(stand, roles)
    for loss in (True, False):
        with pytest.raises(PromotionRefusedError, match="table 3 is in force"):
            mode.prepare(Promote(after=after, loss=loss))


def test_who_is_complete_and_was_not_awaited_is_promoted_only_with_loss() -> None:
    roles = roles_of(stand := Stand("static"))
    roles.be_complete()
    roles.record(Recorded(Table(number=2, leader=BrokerId(1)), (BrokerId(1),)))
    mode = started(stand, roles)
    with pytest.raises(PromotionRefusedError, match=r"what was acknowledged is with broker 1$"):
        mode.prepare(Promote(after=2))
    assert mode.prepare(Promote(after=2, loss=True)).eligible == (2,)


def test_all_that_are_awaited_have_a_copy_unless_fewer_are_asked_for() -> None:
    mode = started(Stand("static"))
    assert mode.prepare(Promote(after=1, synchronous=(1, 3), loss=True)).table.copies == 3
    assert mode.prepare(Promote(after=1, synchronous=(1, 3), copies=2, loss=True)).table.copies == 2


def test_completeness_goes_with_the_store() -> None:
    stand = Stand("static")
    roles = roles_of(stand)
    roles.be_complete()
    assert roles_of(stand).complete
    stand.file.renew()
    assert not roles_of(stand).complete


def test_a_leader_that_serves_says_who_has_everything() -> None:
    stand = Stand("static", broker_id=2)
    roles = roles_of(stand)
    roles.record(Recorded(Table(number=2, leader=BrokerId(2), synchronous=(BrokerId(3),), copies=2), (BrokerId(2),)))
    mode = started(stand, roles)
    mode.told(Serving(Epoch(first_epoch(2) + 1)))
    assert mode.recorded.eligible == (2, 3)
    assert stand.announced == 1
    assert roles_of(stand).complete


def test_a_follower_that_the_table_does_not_name_is_known_as_one_whom_nobody_awaits() -> None:
    assert followers_of((2, 3)) == [(2, True, True), (3, False, False)]


def test_a_follower_that_the_table_names_is_known_before_it_has_come() -> None:
    assert followers_of((3,), behind=(2,)) == [(2, False, True), (3, False, False)]


def followers_of(came: tuple[int, ...], behind: tuple[int, ...] = ()) -> list[tuple[int, bool, bool]]:
    """Of a leader whose sends wait for broker 2: each, whether it is in sync, and whether it is awaited."""
    mode = started(Stand("static"))
    links = {each: SimpleNamespace(process=SimpleNamespace(broker_id=BrokerId(each)), in_step_at=0) for each in came}
    mode.machine = SimpleNamespace(  # type: ignore[assignment]
        leading=SimpleNamespace(
            attendance=links.values(), table=mode.recorded.table, behind=behind,
            follower_state=lambda number: (links[number], Position(1)) if number in links else None,
        )
    )  # fmt: skip
    return [(each.broker_id, each.in_sync, each.awaited) for each in mode.followers()]


def test_who_holds_everything_is_said_by_the_leader_of_this_very_table_and_kept() -> None:
    """A promotion that loses nothing goes by it."""
    stand = Stand("static", broker_id=2)
    mode = started(stand)
    table = mode.recorded.table
    assert mode.recorded.eligible == (1, 2)
    told(stand, mode, shape_of(Recorded(table, ())), sender="3.0000000000000001")
    told(stand, mode, shape_of(Recorded(Table(number=1, leader=BrokerId(1)), (BrokerId(1),))))
    assert mode.recorded == Recorded(table, (BrokerId(1), BrokerId(2)))
    told(stand, mode, shape_of(Recorded(table, (BrokerId(1),))))
    assert mode.recorded == roles_of(stand).recorded == Recorded(table, (BrokerId(1),))
    assert mode.address_of(BrokerId(1)) == "b1:1"
    later = Recorded(Table(number=2, leader=BrokerId(1)), (BrokerId(1),))
    for recorded in (later, Recorded(table, (BrokerId(2),))):
        told(stand, mode, shape_of(recorded))
    assert mode.recorded == roles_of(stand).recorded == later
    assert stand.failures == []


def test_what_can_be_no_table_is_not_taken_and_fails_nobody() -> None:
    stand = Stand("static", broker_id=2)
    mode = started(stand)
    known, shape = mode.recorded, shape_of(Recorded(Table(number=2, leader=BrokerId(1)), (BrokerId(1),)))
    told(stand, mode, replace(shape, table=replace(shape.table, copies=9)))
    assert (mode.recorded, stand.failures) == (known, [])


def test_service_under_a_former_table_and_other_news_say_nothing_of_who_has_everything() -> None:
    stand = Stand("static", broker_id=2)
    roles = roles_of(stand)
    recorded = Recorded(Table(number=2, leader=BrokerId(2), synchronous=(BrokerId(3),), copies=2), (BrokerId(2),))
    roles.record(recorded)
    mode = started(stand, roles)
    for event in (Serving(Epoch(first_epoch(1) + 1)), Serving(Epoch(first_epoch(3) + 1)), Drained()):
        mode.told(event)
    assert mode.recorded == recorded
    assert not roles.complete
    assert stand.announced == 0


@pytest.mark.parametrize("cut", [False, True])
def test_a_promotion_asks_for_what_is_on_the_disk_here_and_no_more(*, cut: bool) -> None:
    """Of a cut the machine knows first; of what is only written the store."""
    stand = Stand("static", broker_id=2)
    append(stand.store)
    flush(stand.store)
    flushed = stand.log.end
    append(stand.store)
    mode = started(stand)
    assert mode.machine.ground.durable.position > flushed
    if cut:
        flush(stand.store)
        mode.machine.ground.durable.position = flushed
    wanted = mode.prepare(Promote(after=1, synchronous=(1,), copies=2, loss=True))
    assert wanted.table.holds.position == flushed


FIRST = next_epoch(1, Epoch(0), "its leader's first process")
SECOND = next_epoch(1, FIRST, "and the one after a crash")


class Following:
    """Broker 2, for which its leader waits, with a log of two leaderships; and what its machine knows."""

    def __init__(self, table: Table | None = None) -> None:
        self.stand = Stand("static")
        self.roles = roles_of(self.stand)
        if table is not None:
            self.roles.record(Recorded(table, ()))
        self.mode = started(self.stand, self.roles)
        self.earlier, self.present = self.appended(FIRST), self.appended(SECOND)
        flush(self.stand.store)
        self.knows(SECOND, self.present)

    def appended(self, epoch: Epoch) -> Position:
        self.stand.log.begin_epoch(epoch)
        return self.grown()

    def grown(self) -> Position:
        append(self.stand.store)
        return self.stand.log.end

    def knows(self, epoch: Epoch, commit: Position) -> None:
        machine: Any = SimpleNamespace(epoch=epoch, commit=commit)
        self.mode.machine = machine

    def hears(self, commit: Position, *, epoch: Epoch = SECOND, body: object = None) -> bool:
        """Whether it is complete after this message."""
        name = ReplicaId(PROCESS)
        self.mode.received(Envelope(self.stand.hello(PROCESS, About(mode="static", address="")).cluster, name, name,
                                    epoch, body or Heartbeat(1, commit)))  # fmt: skip
        return self.roles.complete


def test_a_follower_is_complete_with_what_its_leader_has_committed_since_it_leads() -> None:
    """Before that the leader may know of less than was acknowledged: its former process told it, and it crashed."""
    node = Following()
    assert not node.hears(node.earlier)
    assert node.hears(node.present)
    assert roles_of(node.stand).complete


def test_only_what_is_committed_and_flushed_here_makes_complete() -> None:
    node = Following()
    assert not node.hears(Position(node.present + 1))
    node.knows(SECOND, node.earlier)
    assert not node.hears(node.present)
    later = node.grown()
    node.knows(SECOND, later)
    assert not node.hears(later)
    assert node.hears(node.present)


def test_only_the_present_leadership_of_the_table_in_force_makes_complete() -> None:
    node = Following()
    node.knows(Epoch(SECOND + 1), node.present)
    assert not node.hears(node.present)
    node = Following()
    node.mode.enforce(Recorded(Table(number=2, leader=BrokerId(1), synchronous=(BrokerId(2),), copies=2), ()))
    assert not node.hears(node.present)
    assert not Following().hears(node.present, body=AppendAck(1, node.present, node.present))


@pytest.mark.parametrize(("synchronous", "copies"), [((3,), 2), ((2, 3), 2)])
def test_whom_the_leader_need_not_wait_for_is_not_complete(synchronous: tuple[int, ...], copies: int) -> None:
    followers = tuple(map(BrokerId, synchronous))
    node = Following(Table(number=1, leader=BrokerId(1), synchronous=followers, copies=copies))
    assert not node.hears(node.present)


def test_a_replica_that_cannot_keep_that_it_is_complete_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    node, gone = Following(), OSError("the disk is gone")

    def fail() -> None:
        raise gone

    monkeypatch.setattr(node.roles, "_write", fail)
    node.hears(node.present)
    assert node.stand.failures == [gone]


@pytest.mark.parametrize("after", [(1 << 16) + 2, 1 << 20, 1 << 40])
def test_an_order_after_a_table_to_which_no_group_comes_is_refused(after: int) -> None:
    with pytest.raises(PromotionRefusedError, match=f"no group comes from table 1 to table {after}"):
        started(Stand("static")).prepare(Promote(after=after, loss=True))
    assert started(Stand("static")).prepare(Promote(after=(1 << 16) + 1, loss=True)).table.number == (1 << 16) + 2


def test_an_order_after_the_last_of_all_tables_is_refused() -> None:
    roles = roles_of(stand := Stand("static"))
    roles.record(Recorded(Table(number=(1 << 20) - 1, leader=BrokerId(2)), (BrokerId(2),)))
    with pytest.raises(PromotionRefusedError, match="do not fit together"):
        started(stand, roles).prepare(Promote(after=(1 << 20) - 1, loss=True))


def test_of_a_table_to_which_no_group_comes_nothing_is_taken() -> None:
    """Kept, it would be the last one: no order could replace it."""
    stand = Stand("static")
    mode = started(stand)
    ours = mode.recorded
    for number in ((1 << 16) + 2, (1 << 20) - 1):
        told(stand, mode, shape_of(Recorded(Table(number=number, leader=BrokerId(3)), (BrokerId(3),))))
        assert (mode.recorded, roles_of(stand).recorded) == (ours, ours)
    told(stand, mode, shape_of(Recorded(Table(number=(1 << 16) + 1, leader=BrokerId(3)), (BrokerId(3),))))
    assert mode.recorded.table.number == (1 << 16) + 1


def test_a_follower_that_is_named_twice_is_one_copy_and_the_order_is_refused() -> None:
    with pytest.raises(PromotionRefusedError, match="each follower once"):
        started(Stand("static")).prepare(Promote(after=1, synchronous=(3, 3), loss=True))


@pytest.mark.parametrize("loss", [False, True])
def test_a_follower_that_no_replica_can_reach_is_waited_for_by_no_order(*, loss: bool) -> None:
    """It would be in force, and every send refused until the next order."""
    stand = Stand("static")
    roles_of(stand).be_complete()
    mode = started(stand)
    for synchronous, copies in (((3, 7, 9), UNSET), ((3, 7, 9), 3), ((9, 7), 2)):
        order = Promote(after=1, synchronous=synchronous, copies=copies, loss=loss)
        with pytest.raises(PromotionRefusedError, match=r"replication.peers lacks broker 7, broker 9 here"):
            mode.prepare(order)
    for synchronous, copies in (((3,), UNSET), ((3, 9), 2)):
        order = Promote(after=1, synchronous=synchronous, copies=copies, loss=loss)
        assert mode.prepare(order).table.copies == 2
