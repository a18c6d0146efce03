"""More and fewer brokers, settings, volumes: one step at a time, and what is refused."""

from dataclasses import replace
from typing import Any

import pytest

from logherd_operator.observed.observed import Observed, Orders, Platform
from logherd_operator.observed.quorum import Group, Rules
from logherd_operator.observed.slots import Report, Slot, Volume
from logherd_operator.plan.actions import (
    DeleteVolume,
    Demote,
    Forget,
    GrowVolume,
    Promote,
    PushConfig,
    RemoveMember,
    RenewClaims,
    Restart,
    SetMembers,
    SetRules,
    Switchover,
)  # fmt: skip
from logherd_operator.plan.outcome import Code, Plan
from unit.operator_plan.looks import (
    GIB,
    NOW,
    WANTED,
    broker,
    controllers,
    decide,
    group,
    instance,
    look,
    quorum,
    replica,
    with_broker,
)  # fmt: skip


def kinds(plan: Plan) -> list[str]:
    return [type(action).__name__ for action in plan.actions]


def state(plan: Plan) -> str:
    return plan.operation.state if plan.operation is not None else ""


def four(**fields: Any) -> Observed:
    """Four brokers, the last of which is to go."""
    return look(4, **{"group": group(4, rules=Rules(replicas=3, min_in_sync=2))} | fields)


def test_a_new_broker_comes_as_one_place_a_learner_and_then_a_full_member() -> None:
    observed = look()
    plan = decide(observed, replicas=5)
    assert kinds(plan) == ["SetRules", "SetMembers"]
    assert isinstance(plan.actions[1], SetMembers)
    assert (plan.actions[1].count, plan.actions[1].before) == (4, 3)

    grown = look(4, group=group(3, rules=Rules(replicas=5, min_in_sync=2)))
    assert state(decide(grown, replicas=5)) == "AwaitRegistered"
    learner = replica(4, learner=True, lag=GIB)
    copying = replace(grown, group=replace(grown.group, replicas=(*grown.group.replicas, learner)))  # type: ignore[union-attr]
    assert (decide(copying, replicas=5).actions, state(decide(copying, replicas=5))) == ((), "CatchUp")
    near = replace(copying.group, replicas=(*group().replicas, replica(4, learner=True)))  # type: ignore[type-var]
    (promotion,) = decide(
        replace(copying, group=near, since={**copying.since, "near:4": NOW - 30}), replicas=5
    ).actions  # fmt: skip
    assert isinstance(promotion, Promote)
    member = replace(copying, group=group(4, in_sync=(1, 2, 3), rules=Rules(replicas=5, min_in_sync=2)))
    assert state(decide(member, replicas=5)) == "AwaitInSync"
    complete = replace(copying, group=group(4, rules=Rules(replicas=5, min_in_sync=2)))
    (more,) = decide(complete, replicas=5).actions
    assert isinstance(more, SetMembers)
    assert more.count == 5


@pytest.mark.parametrize("registered", [False, True])
def test_a_new_broker_that_does_not_become_ready_is_told(registered: bool) -> None:
    """As with an image that nobody can pull: else its registration would seem to be waited for, for ever."""
    known = (replica(4, learner=True, alive=False),) if registered else ()
    members = group(3, rules=Rules(replicas=4, min_in_sync=2))
    base = look(4, group=replace(members, replicas=(*members.replicas, *known)))
    failing = broker(3, stands=instance(3, ready=False, failing="ImagePullBackOff"), report=None)
    made = decide(with_broker(base, failing), replicas=4)
    assert (made.codes, made.actions) == ({Code.UPDATE_STALLED}, ())
    assert made.blocked[0].message == "broker 4 does not become ready: ImagePullBackOff"
    assert "lower replicas again" in made.blocked[0].unblocks
    restarted = broker(3, stands=instance(3, ready=False), report=None)
    assert decide(with_broker(base, restarted), replicas=4).blocked == ()


def test_lower_replicas_are_no_help_for_a_broker_that_is_not_the_last() -> None:
    copying = group(3, replicas=(replica(1), replica(2, learner=True, alive=False), replica(3)), in_sync=(1, 3))
    failing = broker(1, stands=instance(1, ready=False, failing="ImagePullBackOff"), report=None)
    made = decide(with_broker(look(group=copying), failing))
    assert made.codes == {Code.UPDATE_STALLED}
    assert "lower replicas" not in made.blocked[0].unblocks


def test_without_a_node_for_the_new_broker_people_hear_after_five_minutes_and_may_take_it_back() -> None:
    starved = broker(3, stands=instance(3, ready=False, unschedulable="0/3 nodes fit"), report=None)
    observed = with_broker(look(4, group=group(3, rules=Rules(replicas=4, min_in_sync=2))), starved)
    observed = replace(observed, since={**observed.since, "unschedulable:3": NOW - 299})
    assert decide(observed, replicas=4).blocked == ()
    late = replace(observed, since={**observed.since, "unschedulable:3": NOW - 300})
    assert decide(late, replicas=4).codes == {Code.UNSCHEDULABLE}
    (rules, removal) = decide(late, replicas=3).actions
    assert isinstance(rules, SetRules)
    assert isinstance(removal, RemoveMember)


def test_where_no_address_follows_the_leader_nobody_goes_before_clients_know_who_leads() -> None:
    observed = four()
    here = replace(observed, platform=replace(observed.platform, leader_address=False))
    new = replace(here, since={**here.since, "leader:1@7": NOW - 34})
    assert (decide(new).actions, state(decide(new))) == ((), "AwaitRoutes")
    assert [type(each) for each in decide(here).actions] == [Demote]
    elsewhere = replace(new, platform=observed.platform)
    assert [type(each) for each in decide(elsewhere).actions] == [Demote]


def test_scaling_down_goes_over_demotion_removal_and_forgetting() -> None:
    (demotion,) = decide(four()).actions
    assert demotion == Demote(broker_id=4, expected_epoch=7, reason="3 of 4 brokers are wanted, and 4 is the last")
    rules = Rules(replicas=3, min_in_sync=2)
    members = (*group().replicas, replica(4, learner=True))
    leaving = four(group=group(3, replicas=members, in_sync=(1, 2, 3, 4), rules=rules))
    assert (decide(leaving).actions, state(decide(leaving))) == ((), "AwaitOutOfSync")
    out = four(group=group(3, replicas=members, rules=rules))
    (removal,) = decide(out).actions
    assert isinstance(removal, RemoveMember)
    assert (removal.ordinal, removal.count, removal.uid) == (3, 3, "pod-3")

    removed = Platform(brokers=3, controllers=3, broker_revision=WANTED, controller_revision=WANTED)
    assert state(decide(replace(out, platform=removed))) == "AwaitGone"
    volume_left = Slot(ordinal=3, volume=Volume(uid="volume-3"))
    gone = with_broker(replace(out, platform=removed), volume_left)
    dead = group(3, replicas=(*group().replicas, replica(4, learner=True, alive=False)), rules=rules)
    assert decide(gone).actions == ()  # it still reports: nobody forgets the living
    (forgotten,) = decide(replace(gone, group=dead)).actions
    assert isinstance(forgotten, Forget)
    assert forgotten.broker_id == 4
    done = replace(gone, group=group(3, rules=rules))
    assert decide(done).actions == ()
    (deletion,) = decide(done, storage={"retention": {"whenScaled": "Delete"}}).actions
    assert isinstance(deletion, DeleteVolume)
    assert deletion.uid == "volume-3"


def removed(**fields: Any) -> Observed:
    """Broker 4 was taken away and has gone; its volume is there."""
    rules = Rules(replicas=3, min_in_sync=2)
    dead = group(3, **{"replicas": (*group().replicas, replica(4, learner=True, alive=False)), "rules": rules} | fields)
    return with_broker(look(3, group=dead), Slot(ordinal=3, volume=Volume(uid="volume-3", requested=20 * GIB)))


def test_a_broker_that_was_taken_away_and_does_not_go_is_told_whether_or_not_anybody_told_it_to_stop() -> None:
    """All else waits for it: it has what it holds, and may come back to the others."""
    observed = with_broker(look(3, group=group(3)), broker(3))
    fact = "removed:pod-3"
    assert decide(observed).since[fact] == NOW
    for seconds, codes in ((59, set()), (60, {Code.STUCK_TERMINATING})):
        plan = decide(replace(observed, since={**observed.since, fact: NOW - seconds}))
        assert (plan.actions, state(plan), plan.codes) == ((), "AwaitGone", codes)
    (block,) = plan.blocked
    assert block.message == "broker 4 was taken away, and nobody tells it to stop"
    assert "kubectl delete pod" in block.unblocks
    for fields, code in (({}, Code.STUCK_TERMINATING), ({"unreachable": True}, Code.NODE_UNREACHABLE)):
        for late in (59, 60):
            stopping = broker(3, stands=instance(3, leaves_by=NOW - late, **fields))
            since = {**observed.since, fact: NOW - 1000}
            plan = decide(replace(with_broker(observed, stopping), since=since))
            assert (state(plan), plan.codes) == ("AwaitGone", {code} if late == 60 else set())
    assert fact not in decide(replace(observed, platform=look(4).platform), replicas=4).since


def test_whoever_may_hold_what_nobody_else_has_or_is_wanted_again_is_not_forgotten() -> None:
    assert kinds(decide(removed())) == ["Forget"]
    assert kinds(decide(removed(eligible=(4,)))) == []
    assert "Forget" not in kinds(decide(removed(), replicas=4))


def test_no_volume_is_deleted_of_a_broker_that_is_known_or_wanted_again() -> None:
    delete = {"storage": {"retention": {"whenScaled": "Delete"}}}
    known = group(3, replicas=(*group().replicas, replica(4, learner=True)), rules=Rules(replicas=3, min_in_sync=2))
    assert kinds(decide(replace(removed(), group=known), **delete)) == []
    forgotten = replace(removed(), group=group(3))
    assert kinds(decide(forgotten, **delete)) == ["DeleteVolume"]
    assert "DeleteVolume" not in kinds(decide(forgotten, **delete, replicas=4))


@pytest.mark.parametrize(("wanted", "ruled"), [(3, 2), (2, 3)])
def test_a_broker_goes_only_if_enough_remain_by_the_spec_and_by_the_rules_in_force(wanted: int, ruled: int) -> None:
    """A higher minimum is told when as many are in sync; a lower one may be on its way."""
    few = group(4, in_sync=(1, 2, 4), rules=Rules(replicas=4, min_in_sync=ruled))
    plan = decide(look(4, group=few), replication={"minInSyncReplicas": wanted})
    assert Code.BELOW_MIN_IN_SYNC in plan.codes
    assert not any(action.disruptive for action in plan.actions)


def test_a_leader_hands_over_to_one_that_stays_before_it_is_removed() -> None:
    (switch,) = decide(four(group=group(4, leader=4, rules=Rules(replicas=3, min_in_sync=2)))).actions
    assert isinstance(switch, Switchover)
    assert switch.target == 1


def test_a_change_of_mind_makes_the_demoted_one_a_member_again() -> None:
    members = (*group().replicas, replica(4, learner=True))
    out = look(4, group=group(3, replicas=members, rules=Rules(replicas=4, min_in_sync=2)))
    (promotion,) = decide(out, replicas=4).actions
    assert isinstance(promotion, Promote)


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"in_sync": (1, 4)}, Code.BELOW_MIN_IN_SYNC),
        ({"in_sync": (1, 2, 4)}, Code.NOT_ALL_IN_SYNC),
        ({"in_sync": (1, 2, 3), "eligible": (4,)}, Code.LAST_COPY),
        ({"leader": None, "serving": False}, Code.NO_LEADER),
    ],
)
def test_a_removal_that_could_cost_something_is_refused(members: dict[str, Any], code: Code) -> None:
    rules = Rules(replicas=3, min_in_sync=2)
    observed = four(group=group(4, **{"rules": rules} | members))
    plan = decide(observed)
    assert (plan.actions, plan.codes) == ((), {code})
    assert plan.blocked[0].unblocks
    accepted = decide(replace(observed, orders=Orders(accepted_risks=frozenset({code.value}))))
    if code in (Code.LAST_COPY, Code.NO_LEADER):
        assert accepted.actions == ()
    elif code is Code.NOT_ALL_IN_SYNC:
        assert kinds(accepted) == ["Demote"]


def test_a_removal_without_a_healthy_quorum_is_refused() -> None:
    assert decide(four(quorum=quorum(down=(0, 1)))).codes == {Code.QUORUM_UNHEALTHY}


def test_who_accepts_one_risk_of_a_removal_has_not_accepted_a_graver_or_another_one() -> None:
    """Also the last copy is looked for, which nobody can accept (OP-61)."""
    accepted = Orders(accepted_risks=frozenset({Code.QUORUM_UNHEALTHY.value}))
    rules = Rules(replicas=3, min_in_sync=2)
    weak = four(quorum=quorum(down=(0, 1)), orders=accepted)
    last = decide(replace(weak, group=group(4, rules=rules, in_sync=(1, 2, 3), eligible=(4,))))
    assert (last.actions, last.codes) == ((), {Code.LAST_COPY})
    few = decide(replace(weak, group=group(4, rules=rules, in_sync=(1, 4))))
    assert (few.actions, few.codes) == ((), {Code.BELOW_MIN_IN_SYNC})
    assert kinds(decide(replace(weak, group=group(4, rules=rules)))) == ["Demote"]


def test_a_lower_minimum_is_told_before_the_group_gets_smaller_and_a_higher_one_after_it_got_larger() -> None:
    strict: Group = group(5, rules=Rules(replicas=5, min_in_sync=3))
    (rules, demotion) = decide(look(5, group=strict), replicas=2, replication={"minInSyncReplicas": 1}).actions
    assert rules == SetRules(
        replicas=2, min_in_sync=1, preferred=None, reason="2 replicas, of which 1 have a message before it counts"
    )
    assert isinstance(demotion, Demote)
    plan = decide(look(), replicas=5, replication={"minInSyncReplicas": 4})
    assert isinstance(plan.actions[0], SetRules)
    assert (plan.actions[0].replicas, plan.actions[0].min_in_sync) == (5, 2)
    later = decide(look(5, group=group(5)), replicas=5, replication={"minInSyncReplicas": 4})
    assert [action.min_in_sync for action in later.actions if isinstance(action, SetRules)] == [4]


def test_hot_settings_reach_every_broker_that_differs_and_has_not_refused_them() -> None:
    wanted = {"fileReservedTime": "48", "autoCreateTopicEnable": "false"}
    right = Report(broker_id=1, role="leader", epoch=7, hot=wanted)
    partly = Report(broker_id=2, role="follower", epoch=7, hot={"fileReservedTime": "48"})
    refused = Report(
        broker_id=3, role="follower", epoch=7, hot={"autoCreateTopicEnable": "false"}, rejected=("fileReservedTime=48",)
    )
    observed = look(hot=wanted, brokers=tuple(broker(n, report=r) for n, r in enumerate((right, partly, refused))))
    (push,) = decide(observed).actions
    assert push == PushConfig(
        ordinal=1, values={"autoCreateTopicEnable": "false"},
        reason="broker 2 runs with other values of autoCreateTopicEnable",
    )  # fmt: skip


def test_volumes_grow_one_by_one_the_leaders_last_and_then_the_claims_of_new_ones() -> None:
    plan = decide(look(), storage={"size": "30Gi"})
    assert isinstance(plan.actions[0], GrowVolume)
    assert plan.actions[0].ordinal == 1
    assert len(plan.actions) == 1
    observed = look()
    for ordinal in (1, 2):
        large = Volume(uid=f"v{ordinal}", requested=30 * GIB, capacity=30 * GIB)
        observed = with_broker(observed, broker(ordinal, volume=large))
    (last,) = decide(observed, storage={"size": "30Gi"}).actions
    assert isinstance(last, GrowVolume)
    assert last.ordinal == 0
    resizing = with_broker(observed, broker(0, volume=Volume(uid="v0", requested=30 * GIB, capacity=20 * GIB)))
    assert (decide(resizing, storage={"size": "30Gi"}).actions, state(decide(resizing, storage={"size": "30Gi"}))) == (
        (),
        "Resizing",
    )
    done = with_broker(observed, broker(0, volume=Volume(uid="v0", requested=31 * GIB, capacity=31 * GIB)))
    (claims,) = decide(done, storage={"size": "30Gi"}).actions
    assert isinstance(claims, RenewClaims)


LARGER: dict[str, Any] = {"controllers": {"embedded": {"storage": {"size": "8Gi"}}}}


def with_controllers(*sizes: int, **fields: Any) -> Observed:
    slots = tuple(
        replace(each, volume=Volume(**{"uid": f"c{each.ordinal}", "requested": size, "capacity": size} | fields))
        for each, size in zip(controllers(), sizes, strict=True)
    )
    observed = look(controllers=slots)
    return replace(observed, platform=replace(observed.platform, controller_claim=5 * GIB))


def test_volumes_of_controllers_grow_one_by_one_the_leaders_last() -> None:
    for sizes, ordinal in (((5, 5, 5), 1), ((5, 8, 5), 2), ((5, 8, 8), 0)):
        (growing,) = decide(with_controllers(*(each * GIB for each in sizes)), **LARGER).actions
        assert isinstance(growing, GrowVolume)
        assert (growing.component, growing.ordinal, growing.size) == ("controller", ordinal, 8 * GIB)
    (claims,) = decide(with_controllers(*[8 * GIB] * 3), **LARGER).actions
    assert isinstance(claims, RenewClaims)
    assert claims.component == "controller"
    assert decide(with_controllers(*[5 * GIB] * 3)).actions == ()


def test_controllers_are_restarted_for_a_file_system_that_does_not_grow_the_leader_last() -> None:
    observed = with_controllers(*[8 * GIB] * 3, resize_waits_since=NOW - 301)
    observed = replace(observed, platform=replace(observed.platform, controller_claim=8 * GIB))
    (restart,) = decide(observed, **LARGER).actions
    assert isinstance(restart, Restart)
    assert (restart.component, restart.ordinal, restart.why.value) == ("controller", 2, "VolumeResize")


def test_controllers_whose_keeper_is_away_are_not_restarted_for_it() -> None:
    observed = with_controllers(*[8 * GIB] * 3)
    away = replace(observed.platform, controllers=None, controller_revision="", controller_claim=None)
    (made,) = decide(replace(observed, platform=away), **LARGER).actions
    assert isinstance(made, SetMembers)
    assert (made.component, made.before) == ("controller", None)


def test_before_the_group_is_founded_its_size_is_free() -> None:
    new = group(3, founded=False, leader=None, serving=False, in_sync=(), replicas=(), why="2 of 3 report")
    plan = decide(look(group=new), replicas=5)
    (more,) = plan.actions
    assert isinstance(more, SetMembers)
    assert (more.count, state(plan)) == (5, "AwaitFirstLeader")
    assert plan.operation is not None
    assert plan.operation.message == "2 of 3 report"


def test_a_group_that_was_never_founded_is_founded_by_fewer_once_fewer_are_wanted() -> None:
    """As where the nodes have no room for five: what the first broker that registered had said would hold for ever."""
    waits: dict[str, Any] = {"founded": False, "leader": None, "serving": False, "in_sync": ()}
    new = group(3, epoch=0, rules=Rules(replicas=5, min_in_sync=2), **waits)
    plan = decide(look(5, group=new), replicas=3)
    (rules,) = plan.actions
    assert isinstance(rules, SetRules)
    assert (rules.replicas, rules.min_in_sync, state(plan)) == (3, 2, "AwaitFirstLeader")
    told = replace(new, rules=Rules(replicas=3, min_in_sync=2))
    assert decide(look(5, group=told), replicas=3).actions == ()
    led_before = replace(new, epoch=4)  # and the controllers have lost it: what was committed may be with the others
    assert decide(look(5, group=led_before), replicas=3).actions == ()


@pytest.mark.parametrize("known", [True, False], ids=["lags", "never came"])
def test_who_is_to_go_next_need_not_be_in_sync_for_another_to_go(known: bool) -> None:
    ids = (1, 2, 3, 4, 5) if known else (1, 2, 3)
    rules = Rules(replicas=3, min_in_sync=2)
    members = group(5, in_sync=(1, 2, 3), replicas=tuple(replica(each) for each in ids), rules=rules)
    observed = look(5, group=members)
    for ordinal in (3, 4):
        observed = with_broker(
            observed, broker(ordinal, stands=instance(ordinal, ready=False, unschedulable="no room"))
        )
    plan = decide(observed, replicas=3)
    assert (kinds(plan), plan.codes) == (["Demote" if known else "RemoveMember"], frozenset())
    stays = decide(with_broker(observed, broker(2, stands=instance(2, ready=False))), replicas=3)
    assert (stays.actions, stays.codes) == ((), {Code.NOT_ALL_IN_SYNC})


def test_a_group_whose_controllers_are_anothers_is_planned_without_a_quorum_of_its_own() -> None:
    other = {"controllers": {"ref": {"name": "shared"}}}
    observed = look(quorum=None, controllers=())
    assert decide(observed, **other).actions == ()
    assert kinds(decide(replace(four(), quorum=None, controllers=()), **other)) == ["Demote"]


def unbound(ordinal: int) -> Slot:
    """Of a pod that no node takes: its claim waits for it."""
    stands = instance(ordinal, ready=False, unschedulable="0/3 nodes are available")
    return broker(ordinal, stands=stands, volume=Volume(uid="v", requested=20 * GIB), report=None)


def test_a_broker_that_no_node_takes_is_taken_away_again_though_its_volume_was_never_bound() -> None:
    observed = with_broker(look(4, group=group(3)), unbound(3))
    assert state(decide(observed, replicas=4)) == "AwaitNode"
    (removal,) = decide(observed, replicas=3).actions
    assert isinstance(removal, RemoveMember)
    assert (removal.ordinal, removal.count) == (3, 3)


def test_a_volume_that_never_grows_is_told_and_holds_nothing_else_up() -> None:
    small = broker(2, stands=instance(2, revision="old"), volume=Volume(uid="v", requested=20 * GIB, capacity=10 * GIB))
    observed = with_broker(look(), small)
    growing = replace(observed, since={**observed.since, "resizing:broker:2": NOW - 599})
    assert (decide(growing).actions, decide(growing).codes, state(decide(growing))) == ((), frozenset(), "Resizing")
    stuck = replace(observed, since={**observed.since, "resizing:broker:2": NOW - 600})
    plan = decide(stuck)
    assert (kinds(plan), plan.codes) == (["Restart"], {Code.VOLUME_NOT_GROWN})
    assert "the volume of broker 3 should grow to 20Gi" in plan.blocked[0].message


@pytest.mark.parametrize(
    ("in_sync", "said"), [((1, 2, 4), "broker 3 is not in sync"), ((1, 4), "brokers 2, 3 are not in sync")]
)
def test_who_is_to_stay_and_is_not_in_sync_is_named_as_people_count(in_sync: tuple[int, ...], said: str) -> None:
    observed = four(group=group(4, in_sync=in_sync, rules=Rules(replicas=3, min_in_sync=1)))
    (block,) = decide(observed, replication={"minInSyncReplicas": 1}).blocked
    assert block.message == f"{said} or not ready, and to stay"
