"""Groups that no controllers lead: what is planned differently, in mode Raft and in mode Static."""

from dataclasses import replace
from typing import Any

import pytest

from logherd_operator.observed.observed import Observed, Orders, Platform
from logherd_operator.observed.quorum import Group, Own, Rules, Table
from logherd_operator.observed.slots import Report, Slot, Volume
from logherd_operator.plan.actions import LeaveOut, PushConfig, RemoveMember, Restart, SetMembers, Switchover, TakeLead
from logherd_operator.plan.outcome import Code, Plan
from logherd_operator.spec.effects import MEMBERS
from unit.operator_plan.looks import (
    NOW,
    OLD,
    WANTED,
    broker,
    decide,
    group,
    instance,
    look,
    quorum,
    replica,
    with_broker,
)

RAFT: dict[str, Any] = {"replication": {"mode": "Raft"}}
STATIC: dict[str, Any] = {"replication": {"mode": "Static"}}


def kinds(plan: Plan) -> list[str]:
    return [type(action).__name__ for action in plan.actions]


def state(plan: Plan) -> str:
    return plan.operation.state if plan.operation is not None else ""


def told(ordinal: int, members: str) -> Report:
    """Of a broker that has heard who belongs to the group."""
    return Report(broker_id=ordinal + 1, role="follower", epoch=7, store_id=f"store-{ordinal}", hot={MEMBERS: members})


def voting(count: int = 3, *, members: str = "1,2,3", **fields: Any) -> Observed:
    least = count // 2 + 1
    values = {"group": group(count, rules=Rules(replicas=count, min_in_sync=least), own=Own())} | fields
    observed = look(count, **values)
    return replace(
        observed, brokers=tuple(replace(each, report=told(each.ordinal, members)) for each in observed.brokers)
    )


def table(number: int = 1, **fields: Any) -> Table:
    return Table(**{"number": number, "leader": 1, "synchronous": (2,), "copies": 2, "promotable": (1, 2)} | fields)


def static_group(count: int = 3, **fields: Any) -> Group:
    replicas = tuple(replica(n + 1, learner=n > 1) for n in range(count))
    values = {"in_sync": (1, 2), "replicas": replicas, "own": Own(table=table(), keeping_up=tuple(range(3, count + 1)))}
    return group(count, **values | fields)


def of_table(count: int = 3, **fields: Any) -> Observed:
    return look(count, **{"group": static_group(count)} | fields)


def stale(observed: Observed, *ordinals: int) -> Observed:
    """These were started from something else."""
    for ordinal in ordinals:
        before = observed.broker(ordinal + 1)
        assert before is not None
        observed = with_broker(observed, replace(before, instance=instance(ordinal, revision=OLD)))
    return observed


def test_a_group_that_is_as_wanted_is_left_alone() -> None:
    assert decide(voting(), **RAFT).actions == ()
    assert decide(of_table(), **STATIC).actions == ()


def test_voters_hear_of_a_new_broker_while_they_run_and_nothing_else_is_asked_of_controllers() -> None:
    first = decide(voting(), **RAFT, replicas=5)
    assert kinds(first) == ["SetMembers"]
    grown = voting(3, platform=Platform(brokers=4, controllers=3, broker_revision=WANTED, controller_revision=WANTED))
    grown = with_broker(grown, replace(broker(3), report=told(3, "1,2,3,4")))
    plan = decide(grown, **RAFT, replicas=5)
    assert kinds(plan) == ["PushConfig"] * 3
    assert {action.values[MEMBERS] for action in plan.actions if isinstance(action, PushConfig)} == {"1,2,3,4"}
    assert state(plan) == "AwaitRegistered"
    learner = group(3, rules=Rules(replicas=4, min_in_sync=2), own=Own(changing=True))
    learner = replace(learner, replicas=(*learner.replicas, replica(4, learner=True)))
    waiting = replace(voting(4, members="1,2,3,4"), group=learner)
    plan = decide(waiting, **RAFT, replicas=5)
    assert (kinds(plan), state(plan)) == ([], "AwaitInSync")


@pytest.mark.parametrize("mode", [RAFT, STATIC], ids=["raft", "static"])
def test_no_volume_of_a_member_is_deleted_while_nobody_leads_who_would_know_it(mode: dict[str, Any]) -> None:
    """Somebody took its place away, and lowered the spec; in an election only those that answer are told of."""
    fewer = Platform(brokers=2, controllers=3, broker_revision=WANTED, controller_revision=WANTED)
    unled = group(
        3, leader=None, serving=False, in_sync=(), eligible=(1, 2, 3), replicas=(replica(1), replica(2)), own=Own()
    )
    kept = Slot(ordinal=2, volume=Volume(uid="v", requested=1 << 30))
    wanted: dict[str, Any] = {**mode, "replicas": 2, "storage": {"retention": {"whenScaled": "Delete"}}}
    observed = look(2, platform=fewer, brokers=(broker(0), broker(1), kept), group=unled)
    assert "DeleteVolume" not in kinds(decide(observed, **wanted))
    led = group(2, rules=Rules(replicas=2, min_in_sync=2), own=Own())
    assert "DeleteVolume" in kinds(decide(replace(observed, group=led), **wanted))


def test_voters_whose_places_somebody_took_away_come_back_and_keep_their_votes() -> None:
    """As by `kubectl scale` of the StatefulSet: the pods still stop, and then the last one finds no majority."""
    fewer = Platform(brokers=1, controllers=3, broker_revision=WANTED, controller_revision=WANTED)
    stopping = voting(platform=fewer)
    for ordinal in (1, 2):
        stopping = with_broker(stopping, broker(ordinal, stands=instance(ordinal, leaves_by=NOW + 100)))
    alone = group(3, leader=None, serving=False, in_sync=(), eligible=(1, 2, 3), replicas=(replica(1),), own=Own())
    for observed in (stopping, replace(stopping, brokers=stopping.brokers[:1], group=alone)):
        (action,) = decide(observed, **RAFT).actions
        assert isinstance(action, SetMembers)
        assert (action.count, action.before) == (3, 1)


def test_a_voter_leaves_by_a_word_to_all_that_stay_the_leader_last_and_goes_when_it_votes_no_more() -> None:
    observed, ordinals = voting(4, members="1,2,3,4"), []
    for _ in range(3):
        (action,) = decide(observed, **RAFT).actions
        assert isinstance(action, LeaveOut)
        assert action.values == {MEMBERS: "1,2,3"}
        ordinals.append(action.ordinal)
        before = observed.broker(action.ordinal + 1)
        assert before is not None
        observed = with_broker(observed, replace(before, report=told(action.ordinal, "1,2,3")))
    assert ordinals == [1, 2, 0]
    assert (kinds(decide(observed, **RAFT)), state(decide(observed, **RAFT))) == ([], "AwaitOutOfSync")
    left = group(3, rules=Rules(replicas=4, min_in_sync=2), own=Own(changing=True))
    assert state(decide(replace(observed, group=left), **RAFT)) == "AwaitOutOfSync"
    (action,) = decide(replace(observed, group=replace(left, own=Own())), **RAFT).actions
    assert isinstance(action, RemoveMember)
    assert (action.ordinal, action.count) == (3, 3)


def test_a_voter_that_leads_hands_over_before_it_goes_and_is_asked_itself() -> None:
    leading = group(4, leader=4, rules=Rules(replicas=4, min_in_sync=3), own=Own())
    (action,) = decide(voting(4, members="1,2,3,4", group=leading), **RAFT).actions
    assert isinstance(action, Switchover)
    assert (action.leader, action.target, action.expected_epoch) == (4, 1, 7)


def test_nobody_goes_while_clients_may_still_send_to_it() -> None:
    for mode, observed in ((RAFT, voting(4, members="1,2,3,4")), (STATIC, of_table(4))):
        plan = decide(replace(observed, since={}), **mode)
        assert (kinds(plan), state(plan)) == ([], "AwaitRoutes")
        assert kinds(decide(observed, **mode)) != []


def test_no_voter_goes_while_those_that_stay_are_no_majority_of_each_other() -> None:
    behind = group(3, in_sync=(1, 3), rules=Rules(replicas=3, min_in_sync=2), own=Own())
    plan = decide(voting(3, group=behind), **RAFT, replicas=2)
    assert (kinds(plan), plan.codes) == ([], {Code.BELOW_MIN_IN_SYNC})
    lonely = group(2, rules=Rules(replicas=2, min_in_sync=2), own=Own())
    plan = decide(voting(2, members="1,2", group=lonely), **RAFT, replicas=1)
    assert kinds(plan) == ["LeaveOut"]


def test_voters_are_restarted_without_the_controllers_leave_and_two_of_two_never() -> None:
    observed = stale(voting(quorum=quorum(leader=None)), 0, 1, 2)
    (action,) = decide(observed, **RAFT).actions
    assert isinstance(action, Restart)
    assert action.ordinal == 2
    (action,) = decide(stale(voting(), 0), **RAFT).actions
    assert isinstance(action, Switchover)
    assert action.leader == 1
    two = voting(2, members="1,2", group=group(2, rules=Rules(replicas=2, min_in_sync=2), own=Own()))
    plan = decide(stale(two, 1), **RAFT, replicas=2)
    assert (kinds(plan), plan.codes) == ([], {Code.WOULD_STOP_WRITES})


def test_without_a_leader_nothing_is_taken_away_and_nobody_speaks_of_loss() -> None:
    for mode, observed in ((RAFT, voting()), (STATIC, of_table())):
        assert observed.group is not None
        unled = replace(observed.group, leader=None, serving=False, in_sync=(), why="no broker serves")
        plan = decide(stale(replace(observed, group=unled), 2), **mode)
        assert (kinds(plan), plan.codes) == ([], {Code.NO_LEADER})
    plan = decide(replace(voting(), group=None), **RAFT)
    assert plan.blocked[0].message == "no broker tells how the group stands"


def test_the_leader_of_a_table_is_restarted_in_place_and_last() -> None:
    (action,) = decide(stale(of_table(), 0, 2), **STATIC).actions
    assert isinstance(action, Restart)
    assert (action.ordinal, action.leads) == (2, False)
    (action,) = decide(stale(of_table(), 0), **STATIC).actions
    assert isinstance(action, Restart)
    assert (action.ordinal, action.leads) == (0, True)
    assert action.reason == "broker 1: SpecChanged; it leads, and nothing is acknowledged until it is back"


def test_who_is_awaited_is_restarted_only_if_writes_may_pause() -> None:
    plan = decide(stale(of_table(), 1), **STATIC)
    assert (kinds(plan), plan.codes) == ([], {Code.WOULD_STOP_WRITES})
    assert kinds(decide(stale(of_table(), 1), **STATIC, update={"allowWritePause": True})) == ["Restart"]


def test_in_mode_static_a_new_broker_is_not_awaited_and_only_such_a_one_may_go() -> None:
    (action,) = decide(of_table(), **STATIC, replicas=4).actions
    assert isinstance(action, SetMembers)
    (action,) = decide(of_table(4), **STATIC).actions
    assert isinstance(action, RemoveMember)
    plan = decide(of_table(2), **STATIC, replicas=1)
    assert (kinds(plan), plan.codes) == ([], {Code.BELOW_MIN_IN_SYNC})
    assert plan.blocked[0].unblocks == "at broker 1: logherd replica promote --after 1"
    leads = static_group(3, leader=3, own=Own(table=table(leader=3, synchronous=(1, 2)), keeping_up=()))
    plan = decide(look(3, group=leads), **STATIC, replicas=2)
    assert plan.blocked[0].message == "broker 3 leads by table 1"


def ordered(observed: Observed, target: int) -> Observed:
    return replace(observed, orders=Orders(switchover=(target, 7)))


def test_a_promotion_that_was_ordered_names_the_table_and_loses_nothing() -> None:
    (action,) = decide(ordered(of_table(), 2), **STATIC).actions
    assert isinstance(action, TakeLead)
    assert (action.target, action.after, action.synchronous, action.copies) == (2, 1, (1,), 2)
    past = replace(of_table(), orders=Orders(switchover=(2, 6)))
    assert kinds(decide(past, **STATIC)) == []
    plan = decide(ordered(of_table(), 3), **STATIC)
    assert (kinds(plan), plan.codes) == ([], {Code.NOT_ALL_IN_SYNC})
    assert "may lack what table 1 acknowledged" in plan.blocked[0].message


def test_of_a_leader_that_is_away_nobody_waits_after_a_promotion() -> None:
    observed = of_table(group=static_group(leader=None, serving=False, in_sync=(), eligible=(1, 2)))
    gone = with_broker(observed, Slot(ordinal=0, volume=broker(0).volume))
    (action,) = decide(ordered(gone, 2), **STATIC).actions
    assert isinstance(action, TakeLead)
    assert (action.synchronous, action.copies) == ((), 1)


def test_an_ordered_promotion_waits_for_no_broker_that_was_removed_and_does_not_go() -> None:
    observed = of_table(group=static_group(leader=None, serving=False, in_sync=(), eligible=(1, 2)))
    leaving = with_broker(observed, broker(3, stands=instance(3, leaves_by=NOW - 1000, unreachable=True)))
    assert kinds(decide(ordered(leaving, 2), **STATIC)) == ["TakeLead"]


def test_a_broker_that_nobody_who_leads_has_heard_of_is_not_said_to_register_where_nobody_registers() -> None:
    group_of_two = static_group(replicas=(replica(1), replica(2)))
    hung = with_broker(of_table(group=group_of_two), replace(broker(2), report=None))
    plan = decide(hung, **STATIC)
    assert plan.operation is not None
    assert plan.operation.message == "broker 3 does not answer"
    plan = decide(of_table(group=group_of_two), **STATIC)
    assert plan.operation is not None
    assert plan.operation.message == "nobody who leads has heard of broker 3 yet"


def test_without_its_leader_a_group_of_mode_static_is_told_the_command_that_there_is_on_any_machine() -> None:
    unled = static_group(leader=None, serving=False, why="broker 1 does not serve")
    (block,) = decide(of_table(group=unled), **STATIC, replicas=4).blocked
    assert block.code is Code.NO_LEADER
    assert "promote another one: logherd replica promote" in block.unblocks


def test_an_order_to_promote_where_nobody_surely_has_everything_names_nobody_to_choose() -> None:
    nobody = static_group(own=Own(table=table(copies=1, promotable=())))
    (block,) = decide(of_table(group=nobody, orders=Orders(switchover=(2, nobody.epoch))), **STATIC).blocked
    assert block.code is Code.NOT_ALL_IN_SYNC
    assert block.unblocks.startswith("wait for one that surely has everything; or accept the loss")
    one = static_group(own=Own(table=table(promotable=(1, 3))))
    (block,) = decide(of_table(group=one, orders=Orders(switchover=(2, one.epoch))), **STATIC).blocked
    assert block.unblocks.startswith("choose one of 1, 3; or")
