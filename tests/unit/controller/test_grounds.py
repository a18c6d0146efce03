"""What speaks against an election, a demotion or a clean-up that could lose what somebody holds alone."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from logherd.controller.commands import (
    AlterSyncSet,
    CancelTransfer,
    Clean,
    Configure,
    Elect,
    Grounds,
    PlanTransfer,
    Register,
    SetLearner,
    SyncMember,
)
from logherd.controller.insync import alter_sync_set
from logherd.controller.mastership import cancel_transfer, elect, plan_transfer
from logherd.controller.membership import clean, configure, register, set_learner
from logherd.controller.values import BrokerId, Group, Registration, Replica, Rules, SyncSet, Tenure
from logherd.controller.verdicts import Refusal
from logherd.model.names import Epoch
from logherd.replication.epochs import ORIGIN, Point
from unit.controller.desk import KEY, Desk, point


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(each) for each in brokers)


def replica(broker: int, *, end: Point = ORIGIN, registered: bool = True, learner: bool = False) -> Replica:
    return Replica(
        broker_id=BrokerId(broker), store_id=f"s{broker}", incarnation=f"s{broker}.1", learner=learner, end=end,
        registration=Registration(broker if registered else 0),
    )  # fmt: skip


def group(
    *replicas: Replica, members: Iterable[int] = (), eligible: Iterable[int] = (), doubted: Iterable[int] = (),
    founded: bool = True, committed: Point = ORIGIN,
) -> Group:  # fmt: skip
    """Without a leader; brokers 1, 2 and 3 if nobody is named."""
    sync = SyncSet(
        members=ids(*members), eligible=ids(*eligible), doubted=ids(*doubted), version=5, committed=committed
    )
    return Group(
        key=KEY, rules=Rules(replicas=3, min_in_sync=2), replicas=replicas or tuple(map(replica, (1, 2, 3))), sync=sync,
        founded=founded, epoch=Epoch(4 if founded else 0), registrations=9,
    )  # fmt: skip


def order(state: Group, broker: int, grounds: Grounds, *alive: int) -> Elect:
    return Elect(
        group=KEY, expected_epoch=state.epoch, broker_id=BrokerId(broker), registration=Registration(broker),
        alive=ids(*(alive or (1, 2, 3))), grounds=grounds, request="",
    )  # fmt: skip


def refusal(state: Group, broker: int, grounds: Grounds, *alive: int) -> Refusal | None:
    return elect(state, order(state, broker, grounds, *alive)).refusal


@pytest.mark.parametrize("grounds", [Grounds.FIRST, Grounds.FIRST_BY_OPERATOR])
def test_a_group_is_founded_once(grounds: Grounds) -> None:
    assert refusal(group(members=(1, 2)), 3, grounds) is Refusal.NOT_IN_SYNC
    assert refusal(group(founded=False), 3, grounds) is None


@pytest.mark.parametrize("third", [replica(3, learner=True), replica(3, registered=False)], ids=["learner", "claimed"])
def test_only_registered_replicas_found_a_group_and_all_of_them_unless_an_operator_says_so(third: Replica) -> None:
    new = group(replica(1), replica(2), third, founded=False)
    assert refusal(new, 1, Grounds.FIRST) is Refusal.BELOW_MINIMUM
    after = elect(new, order(new, 1, Grounds.FIRST_BY_OPERATOR)).group
    assert after is not None
    assert after.sync.members == ids(1, 2)


def test_all_who_found_a_group_must_be_alive() -> None:
    assert refusal(group(founded=False), 1, Grounds.FIRST, 1, 2) is Refusal.BELOW_MINIMUM


def test_who_already_has_records_is_no_member_of_a_new_group_whose_leader_has_none() -> None:
    new = group(replica(1), replica(2, end=point(1, 10)), replica(3), founded=False)
    after = elect(new, order(new, 1, Grounds.FIRST)).group
    assert after is not None
    assert after.sync.members == ids(1, 3)


def test_the_doubted_lead_only_when_nobody_else_holds_everything() -> None:
    assert refusal(group(doubted=(1, 2)), 1, Grounds.DOUBTED) is None
    assert refusal(group(doubted=(1, 2)), 3, Grounds.DOUBTED) is Refusal.NOT_IN_SYNC
    assert refusal(group(doubted=(1, 2), members=(3,)), 1, Grounds.DOUBTED) is Refusal.NOT_IN_SYNC
    assert refusal(group(doubted=(1, 2), eligible=(3,)), 1, Grounds.DOUBTED) is Refusal.NOT_IN_SYNC
    assert refusal(group(doubted=(1, 2), founded=False), 1, Grounds.DOUBTED) is Refusal.NOT_IN_SYNC


def test_an_operators_loss_is_accepted_only_for_who_may_lack_something() -> None:
    assert refusal(group(members=(1, 2)), 3, Grounds.UNCLEAN) is None
    assert refusal(group(members=(1, 2)), 2, Grounds.UNCLEAN) is Refusal.IN_SYNC
    assert refusal(group(members=(1,), eligible=(2,)), 2, Grounds.UNCLEAN) is Refusal.IN_SYNC
    assert refusal(group(founded=False), 2, Grounds.UNCLEAN) is Refusal.IN_SYNC


def test_without_other_grounds_only_who_holds_everything_leads() -> None:
    state = group(members=(1,), eligible=(2,))
    assert refusal(state, 1, Grounds.LEASE_OVER) is None
    assert refusal(state, 2, Grounds.LEASE_OVER) is None
    assert refusal(state, 3, Grounds.LEASE_OVER) is Refusal.NOT_IN_SYNC


@pytest.mark.parametrize(
    ("state", "broker", "kept"),
    [
        (group(members=(1,), eligible=(2,)), 2, True),
        (group(doubted=(2,)), 2, True),
        (group(doubted=(2,)), 3, False),
        (group(members=(1,), doubted=(2,)), 2, False),
    ],
    ids=["eligible", "the last hope", "beside the last hope", "doubted beside a member"],
)
def test_who_may_hold_what_nobody_else_holds_is_neither_demoted_nor_forgotten(
    state: Group, broker: int, kept: bool
) -> None:
    demoted = set_learner(
        state, SetLearner(group=KEY, expected_epoch=Epoch(4), broker_id=BrokerId(broker), learner=True)
    )
    cleaned = clean(state, Clean(group=KEY, expected_epoch=Epoch(4), broker_ids=ids(broker)))
    expected = Refusal.IN_SYNC if kept else None
    assert (demoted.refusal, cleaned.refusal) == (expected, expected)
    for verdict in (demoted, cleaned):
        assert verdict.group is not None
        assert (BrokerId(broker) in verdict.group.sync.doubted) == (kept and not state.sync.members)


def start(state: Group, broker: int, *, end: Point, trusted: bool = True, store: str = "") -> SyncSet:
    """A new process of this broker; the set after it has registered."""
    verdict = register(
        state,
        Register(
            group=KEY, broker_id=BrokerId(broker), store_id=store or f"s{broker}", incarnation="new", address="x",
            end=end, trusted=trusted, replaces=f"s{broker}", rules=Rules(),
        ),
    )  # fmt: skip
    assert verdict.refusal is None
    assert verdict.group is not None
    return verdict.group.sync


@pytest.mark.parametrize("end", [point(3, 900), point(4, 99)], ids=["of an earlier epoch", "shorter"])
def test_a_member_whose_log_ends_below_what_is_committed_is_one_no_more(end: Point) -> None:
    state = group(members=(1, 2), committed=point(4, 100))
    assert start(state, 2, end=end).members == ids(1)
    assert start(state, 2, end=point(4, 100)).members == ids(1, 2)


def test_only_a_store_that_may_lack_its_end_is_doubted_and_another_store_holds_nothing() -> None:
    state = group(members=(1, 2), committed=point(4, 100))
    end = point(4, 100)
    assert start(state, 2, end=end, trusted=False).doubted == ids(2)
    assert start(state, 2, end=end, trusted=False, store="other").doubted == ()
    assert start(state, 2, end=end, store="other").members == ids(1)
    assert start(state, 2, end=point(4, 99)).doubted == ()
    assert start(group(members=(1,), doubted=(2,)), 2, end=end, store="other").doubted == ()
    assert start(group(members=(1,), doubted=(2,)), 2, end=end).doubted == ids(2)


def test_who_left_below_the_minimum_stays_eligible_until_the_minimum_is_reached_without_it() -> None:
    state = replace(group(members=(1,), eligible=(2,)), rules=Rules(replicas=3, min_in_sync=3))
    for minimum, eligible in ((2, ids(2)), (1, ())):
        after = configure(state, Configure(group=KEY, replicas=3, min_in_sync=minimum)).group
        assert after is not None
        assert after.sync.eligible == eligible


def test_a_registration_that_is_refused_makes_no_group() -> None:
    desk = Desk()
    nameless = Register(
        group=KEY, broker_id=BrokerId(1), store_id="", incarnation="x", address="x", replaces="", rules=Rules()
    )
    assert desk.machine.apply(nameless).refusal is Refusal.ID_TAKEN
    senseless = replace(nameless, store_id="s1", rules=Rules(replicas=1, min_in_sync=2))
    assert desk.machine.apply(senseless).refusal is Refusal.WRONG_RULES
    assert desk.machine.group(KEY) is None


def transfer(state: Group, broker: int, *, registration: int = 0) -> PlanTransfer:
    return PlanTransfer(
        group=KEY, expected_epoch=state.epoch, broker_id=BrokerId(broker),
        registration=Registration(registration or broker), request="t",
    )  # fmt: skip


def led(*replicas: Replica, members: Iterable[int] = (1, 2, 3)) -> Group:
    """Led by broker 1."""
    state = group(*replicas, members=members)
    tenure = Tenure(
        broker_id=BrokerId(1), store_id="s1", incarnation="s1.1", registration=Registration(1), epoch=state.epoch
    )
    return replace(state, tenure=tenure)


def test_leadership_is_handed_only_to_a_process_that_lives_and_holds_everything() -> None:
    exited = replace(replica(2), exited=True)
    for state, command, why in (
        (led(), transfer(led(), 4), Refusal.UNKNOWN_REPLICA),
        (group(members=(1, 2, 3)), transfer(group(), 2), Refusal.NOT_MASTER),
        (led(), transfer(led(), 1), Refusal.UNCHANGED),
        (led(), transfer(led(), 2, registration=7), Refusal.FENCED_PROCESS),
        (led(replica(1), exited, replica(3)), transfer(led(), 2), Refusal.FENCED_PROCESS),
        (led(members=(1, 3)), transfer(led(), 2), Refusal.NOT_IN_SYNC),
        (led(), replace(transfer(led(), 2), expected_epoch=Epoch(3)), Refusal.FENCED_EPOCH),
        (led(), transfer(led(), 2), None),
    ):
        assert plan_transfer(state, command).refusal is why


def test_only_the_very_transfer_that_is_planned_is_given_up() -> None:
    planned = plan_transfer(led(), transfer(led(), 2)).group
    assert planned is not None
    for request, epoch, why in (("u", 4, Refusal.UNCHANGED), ("t", 3, Refusal.UNCHANGED), ("t", 4, None)):
        command = CancelTransfer(group=KEY, expected_epoch=Epoch(epoch), request=request)
        assert cancel_transfer(planned, command).refusal is why


def test_a_set_names_each_member_once_and_only_brokers_that_registered() -> None:
    state = led(replica(1), replica(2), replica(3, registered=False), members=(1,))

    def proposed(*brokers: int, request: str = "") -> Refusal | None:
        named = tuple(
            SyncMember(broker_id=BrokerId(each), registration=Registration(each), end=point(4, 9)) for each in brokers
        )
        return alter_sync_set(
            state,
            AlterSyncSet(
                group=KEY, broker_id=BrokerId(1), registration=Registration(1), epoch=Epoch(4), version=5,
                members=named, committed=ORIGIN, min_in_sync=2, request=request,
            ),
        ).refusal  # fmt: skip

    assert proposed(1, 2, 2) is Refusal.WITHOUT_MASTER
    assert proposed(2) is Refusal.WITHOUT_MASTER
    assert proposed(1, 3) is Refusal.UNKNOWN_REPLICA
    assert proposed(1, 2) is None
