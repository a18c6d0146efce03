"""R9 and the checks of the in-sync set, in RocketMQ's order."""

from msgspec.structs import replace

from logherd.controller.admission import admit_sync_set
from logherd.controller.commands import AlterSyncSet, Configure, SetLearner, SyncMember
from logherd.controller.office import view_of
from logherd.controller.values import BrokerId, Registration
from logherd.controller.verdicts import Refusal
from logherd.model.names import Epoch
from unit.controller.desk import KEY, Desk, point


def founded(*brokers: int) -> Desk:
    desk = Desk()
    desk.found(*(brokers or (1, 2, 3)), master=1)
    return desk


def test_r9_a_change_is_refused_for_each_reason_in_order() -> None:
    desk = founded()
    assert desk.alter(1, 1, 2, 3, version=9, epoch=9).refusal is Refusal.UNCHANGED
    assert desk.alter(2, 1, 2, version=9, epoch=9).refusal is Refusal.NOT_MASTER
    assert desk.alter(1, 1, 2, version=9, epoch=9).refusal is Refusal.FENCED_EPOCH
    assert desk.alter(1, 1, 2, version=9).refusal is Refusal.FENCED_VERSION
    assert desk.alter(1, 2, 9).refusal is Refusal.UNKNOWN_REPLICA
    assert desk.alter(1, 2, 3).refusal is Refusal.WITHOUT_MASTER
    assert desk.alter(1, 1, 2, minimum=1).refusal is Refusal.WRONG_RULES
    assert desk.alter(1, 1, 2).refusal is None
    assert (desk.group.sync.members, desk.group.sync.version) == ((1, 2), 2)


def test_r9_an_unknown_group_is_refused() -> None:
    desk = Desk()
    command = AlterSyncSet(
        group=KEY, broker_id=BrokerId(1), registration=founded().registration(1), epoch=Epoch(1), version=0,
        members=(SyncMember(broker_id=BrokerId(1)),), committed=point(0, 0), min_in_sync=1,
    )  # fmt: skip
    assert desk.submit(command).refusal is Refusal.UNKNOWN_GROUP


def test_r9_a_shrink_is_not_refused_because_another_member_is_dead() -> None:
    desk = founded(1, 2, 3, 4)
    desk.now += 60_000
    desk.beat(1)
    command = AlterSyncSet(
        group=KEY, broker_id=BrokerId(1), registration=desk.registration(1), epoch=desk.group.epoch,
        version=desk.group.sync.version, committed=point(0, 0), min_in_sync=2,
        members=tuple(SyncMember(broker_id=BrokerId(each)) for each in (1, 2, 3)),
    )  # fmt: skip
    assert admit_sync_set(desk.office, command, desk.now) is command
    assert desk.submit(command).refusal is None


def test_r9_only_who_reports_may_join() -> None:
    desk = founded()
    desk.alter(1, 1, 2)
    desk.now += 60_000
    command = AlterSyncSet(
        group=KEY, broker_id=BrokerId(1), registration=desk.registration(1), epoch=desk.group.epoch,
        version=desk.group.sync.version, committed=point(0, 0), min_in_sync=2,
        members=tuple(SyncMember(broker_id=BrokerId(each), registration=desk.registration(each)) for each in (1, 2, 3)),
    )  # fmt: skip
    assert admit_sync_set(desk.office, command, desk.now) is Refusal.NOT_ALIVE
    desk.beat(3)
    assert admit_sync_set(desk.office, command, desk.now) is command


def test_r9_whoever_joins_is_the_process_that_acknowledged_and_holds_everything_committed() -> None:
    desk = founded()
    desk.alter(1, 1, 2, committed=point(1, 500))
    desk.register(3, life=2, end=point(1, 100))
    assert desk.alter(1, 1, 2, 3, registrations={3: 3}, end=point(1, 600)).refusal is Refusal.FENCED_PROCESS
    assert desk.alter(1, 1, 2, 3, end=point(1, 499)).refusal is Refusal.NOT_IN_SYNC
    assert desk.alter(1, 1, 2, 3, end=point(1, 599), committed=point(1, 600)).refusal is Refusal.NOT_IN_SYNC
    assert desk.alter(1, 1, 2, 3, end=point(1, 600), committed=point(1, 600)).refusal is None


def test_r9_a_learner_does_not_join() -> None:
    desk = founded()
    desk.register(4, learner=True)
    assert desk.alter(1, 1, 2, 3, 4).refusal is Refusal.LEARNER


def test_r9_a_repeated_change_is_one_change() -> None:
    desk = founded()
    assert desk.alter(1, 1, 2, version=1, request="r").refusal is None
    assert desk.alter(1, 1, 2, version=1, request="r").refusal is None
    assert desk.group.sync.version == 2


def test_r9_a_request_that_was_decided_is_no_answer_to_another_set_under_its_name() -> None:
    """Else its master would count by a set that nobody has decided."""
    desk = founded(1, 2, 3, 4)
    assert desk.alter(1, 1, 2, version=1, request="r").refusal is None
    assert desk.alter(1, 1, 2, 3, version=1, request="r").refusal is Refusal.FENCED_VERSION
    assert desk.group.sync.members == (1, 2)


def test_r9_a_shrink_is_not_refused_for_who_would_join_and_is_not_heard() -> None:
    desk = Desk()
    desk.found(1, 2, 3, 4, master=1)
    desk.alter(1, 1, 2)
    desk.now += 60_000
    desk.beat(1, 3)

    def admitted(*members: int) -> object:
        wish = AlterSyncSet(
            group=KEY, broker_id=BrokerId(1), registration=desk.registration(1), epoch=desk.group.epoch,
            version=desk.group.sync.version, committed=point(0, 0), min_in_sync=2, request="r",
            members=tuple(SyncMember(broker_id=BrokerId(each)) for each in members),
        )  # fmt: skip
        found = admit_sync_set(desk.office, wish, desk.now)
        return [each.broker_id for each in found.members] if isinstance(found, AlterSyncSet) else found

    assert admitted(1, 3, 4) == [1, 3]
    assert admitted(1, 3, 9) == [1, 3]
    assert admitted(1, 2, 3, 4) == [1, 2, 3]
    # Nothing would change: it is said who is not heard.
    assert admitted(1, 2, 4) is Refusal.NOT_ALIVE
    assert admitted(1, 2, 9) == [1, 2, 9]


def test_r9_who_is_not_heard_joins_where_too_few_would_be_in_sync_without_it() -> None:
    desk = Desk()
    desk.found(1, 2, 3, 4, master=1)
    desk.alter(1, 1, 2)
    desk.now += 60_000
    desk.beat(1)

    def admitted(*members: int, minimum: int = 2) -> object:
        wish = AlterSyncSet(
            group=KEY, broker_id=BrokerId(1), registration=desk.registration(1), epoch=desk.group.epoch,
            version=desk.group.sync.version, committed=point(0, 0), min_in_sync=minimum, request="r",
            members=tuple(SyncMember(broker_id=BrokerId(each)) for each in members),
        )  # fmt: skip
        found = admit_sync_set(desk.office, wish, desk.now)
        return [each.broker_id for each in found.members] if isinstance(found, AlterSyncSet) else found

    assert admitted(1, 4) == [1, 4]
    assert admitted(1, 3, 4) == [1, 3, 4]
    desk.beat(3)
    assert admitted(1, 3, 4) == [1, 3]
    desk.submit(Configure(group=KEY, replicas=4, min_in_sync=3))
    assert admitted(1, 4, minimum=3) is Refusal.NOT_ALIVE


def test_r9_only_the_process_that_was_elected_changes_the_set() -> None:
    desk = founded()
    command = AlterSyncSet(
        group=KEY, broker_id=BrokerId(1), registration=Registration(9), epoch=desk.group.epoch,
        version=desk.group.sync.version, committed=point(0, 0), min_in_sync=2,
        members=tuple(SyncMember(broker_id=BrokerId(each)) for each in (1, 2)),
    )  # fmt: skip
    assert desk.submit(command).refusal is Refusal.NOT_MASTER
    assert desk.submit(replace(command, registration=desk.registration(1))).refusal is None


def test_r9_nobody_changes_the_set_of_a_group_that_never_had_a_master() -> None:
    desk = Desk()
    desk.register(1)
    assert desk.alter(1, 1).refusal is Refusal.NOT_MASTER


def test_r9_a_process_that_has_exited_does_not_join() -> None:
    """What it acknowledged it did acknowledge, but it will never acknowledge what comes after."""
    desk = founded()
    desk.alter(1, 1, 2)
    desk.release(3)
    assert desk.alter(1, 1, 2, 3).refusal is Refusal.FENCED_PROCESS


def test_each_change_is_told_and_a_repeated_one_is_not_told_again() -> None:
    desk = founded()
    assert desk.alter(1, 1, 2, version=1, request="r").events != ()
    assert desk.alter(1, 1, 2, version=1, request="r").events == ()


def test_r9_a_deposed_master_changes_nothing() -> None:
    desk = founded()
    desk.release(1)
    assert desk.alter(1, 1, 2).refusal is Refusal.NOT_MASTER
    desk.wait(50, 2, 3)
    assert desk.alter(1, 1, 2, epoch=1).refusal is Refusal.NOT_MASTER


def test_who_left_below_the_minimum_is_no_longer_eligible_once_the_minimum_is_reached_without_them() -> None:
    desk = founded(1, 2, 3, 4)
    desk.alter(1, 1)
    assert desk.group.sync.eligible == (2, 3, 4)
    desk.alter(1, 1, 4)
    assert desk.group.sync.eligible == ()


def test_a_lower_minimum_ends_eligibility() -> None:
    desk = founded()
    desk.alter(1, 1)
    assert desk.group.sync.eligible == (2, 3)
    assert desk.submit(Configure(group=KEY, replicas=3, min_in_sync=1)).refusal is None
    assert desk.group.sync.eligible == ()


def test_a_change_by_an_older_minimum_is_refused() -> None:
    """The master would commit with fewer than the controller thinks, and the leaver would be wrongly eligible."""
    desk = founded()
    desk.submit(Configure(group=KEY, replicas=3, min_in_sync=3))
    assert desk.alter(1, 1, 2, minimum=2).refusal is Refusal.WRONG_RULES
    assert desk.alter(1, 1, 2, minimum=3).refusal is None
    assert desk.group.sync.eligible == (3,)


def test_rules_that_cannot_be_kept_are_refused() -> None:
    desk = founded()
    assert desk.submit(Configure(group=KEY, replicas=2, min_in_sync=3)).refusal is Refusal.WRONG_RULES
    assert desk.submit(Configure(group=KEY, replicas=2, min_in_sync=0)).refusal is Refusal.WRONG_RULES


def demote(desk: Desk, broker: int, *, learner: bool = True, epoch: int = 1) -> Refusal | None:
    command = SetLearner(group=KEY, expected_epoch=Epoch(epoch), broker_id=BrokerId(broker), learner=learner)
    return desk.submit(command).refusal


def test_a_demoted_replica_leaves_the_set_if_enough_others_are_left() -> None:
    desk = founded()
    assert demote(desk, 1) is Refusal.IN_SYNC
    assert demote(desk, 2, epoch=7) is Refusal.FENCED_EPOCH
    assert demote(desk, 2) is None
    assert desk.group.sync.members == (1, 3)
    assert demote(desk, 3) is Refusal.BELOW_MINIMUM
    assert desk.alter(1, 1, 2, 3).refusal is Refusal.LEARNER
    assert demote(desk, 2, learner=False) is None
    assert desk.alter(1, 1, 2, 3).refusal is None


def test_r9_whatever_decides_on_a_proposal_makes_another_version_so_that_a_refused_one_stays_refused() -> None:
    """Else a copy that is still under way would be accepted when its master does not count the member any more."""
    desk = founded()
    late = {"version": desk.group.sync.version, "minimum": 2}
    desk.submit(Configure(group=KEY, replicas=3, min_in_sync=3))
    assert desk.alter(1, 1, 2, **late).refusal is Refusal.FENCED_VERSION
    desk.submit(Configure(group=KEY, replicas=3, min_in_sync=2))
    assert desk.alter(1, 1, 2, **late).refusal is Refusal.FENCED_VERSION

    desk.register(4, learner=True)
    late = {"version": desk.group.sync.version}
    assert desk.alter(1, 1, 2, 3, 4, **late).refusal is Refusal.LEARNER
    assert demote(desk, 4, learner=False) is None
    assert desk.alter(1, 1, 2, 3, 4, **late).refusal is Refusal.FENCED_VERSION


def test_r9_the_same_set_under_another_request_withdraws_every_proposal_before_it() -> None:
    """A master that proposed a member which then died must be able to go on without it, whatever is under way."""
    desk = founded()
    desk.alter(1, 1, 2)
    assert desk.alter(1, 1, 2, version=2, request="never mind").refusal is None
    assert (desk.group.sync.members, desk.group.sync.version) == ((1, 2), 3)
    assert desk.alter(1, 1, 2, version=2, request="never mind").refusal is None
    assert desk.alter(1, 1, 2, 3, version=2, request="late").refusal is Refusal.FENCED_VERSION
    assert desk.alter(1, 1, 2, version=2, request="another").refusal is Refusal.FENCED_VERSION
    assert desk.group.sync.version == 3


def test_r6_a_master_is_told_which_process_of_each_member_counts() -> None:
    """Another process of the same id may still be linked to it, and have data that the member has not."""
    desk = founded()
    assert view_of(desk.group).processes == (1, 2, 3)
    desk.register(2, life=2)
    desk.alter(1, 1, 2)
    view = view_of(desk.group)
    assert (view.members, view.processes) == ((1, 2), (1, 4))
