"""The failure matrix, row by row (F1 to F26): what the operator does while brokers and controllers help themselves,
which is mostly nothing, and what it says.
"""

from dataclasses import replace

import pytest

from logherd_operator.observed.observed import Observed, Orders, Platform
from logherd_operator.observed.quorum import Member, Rules
from logherd_operator.observed.slots import Report, Slot, Volume
from logherd_operator.plan.actions import Promote, Rebuild, Restart, RestartReason, SetMembers, SettleQuorum
from logherd_operator.plan.outcome import Code, Plan
from unit.operator_plan.looks import (
    GIB,
    NOW,
    OLD,
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

IMAGE_CHANGED = Platform(
    brokers=3, controllers=3, broker_revision="rev-3", controller_revision=WANTED, broker_claim=20 * GIB
)


def test_below_pods_that_run_nothing_is_made_before_it_is_known_how_the_group_stands() -> None:
    """Their files wait for that, too; and what is waited for is told."""
    unkept = replace(look().platform, brokers=None)
    plan = decide(look(platform=unkept, group=None, quorum=None))
    assert (plan.actions, plan.codes) == ((), {Code.QUORUM_UNREACHABLE})
    (made,) = decide(look(platform=unkept)).actions
    assert made == SetMembers(component="broker", count=3, before=None, reason="3 brokers, as the spec says")
    gone = tuple(Slot(ordinal=n) for n in range(3))
    (made,) = decide(look(platform=unkept, brokers=gone, group=None, quorum=None)).actions
    assert isinstance(made, SetMembers)


def takes_nothing(plan: Plan) -> bool:
    return not any(action.disruptive for action in plan.actions)


def test_a_healthy_group_is_left_alone() -> None:
    plan = decide(look())
    assert (plan.actions, plan.operation, plan.blocked) == ((), None, ())
    assert plan.again_seconds == 60


@pytest.mark.parametrize(
    "observed",
    [
        look(group=group(in_sync=(1, 2))), look(group=group(leader=None, serving=False)), look(group=None, quorum=None),
        with_broker(look(), broker(0, report=Report(broker_id=1, role="leader", epoch=7, refuses="no space"))),
    ],
    ids=["one is behind", "nobody leads", "nobody can tell", "a disk is full"],
)  # fmt: skip
def test_what_comes_back_by_itself_is_looked_for_soon(observed: Observed) -> None:
    """A broker that was paused is in sync again without a word of its pod, and the status is to say so."""
    assert decide(observed).again_seconds <= 10


def test_f1_a_follower_pod_is_deleted_and_everything_else_waits() -> None:
    leaving = broker(2, stands=instance(2, ready=False, leaves_by=NOW + 60))
    observed = with_broker(look(group=group(in_sync=(1, 2))), leaving)
    assert decide(observed).actions == ()
    waiting = decide(replace(observed, platform=IMAGE_CHANGED))
    assert takes_nothing(waiting)
    assert waiting.operation is not None
    assert waiting.operation.state == "AwaitGone"


def test_f2_a_follower_is_killed_and_nothing_is_done() -> None:
    observed = with_broker(
        look(group=group(in_sync=(1, 2), replicas=(replica(1), replica(2), replica(3, alive=False)))),
        broker(2, stands=instance(2, ready=False), report=None),
    )
    assert decide(observed).actions == ()


def test_f3_the_leader_pod_is_deleted_and_the_operator_stays_out_of_it() -> None:
    leaving = broker(0, stands=instance(0, ready=False, leaves_by=NOW + 60))
    observed = with_broker(look(group=group(leader=None, serving=False, transfer=2)), leaving)
    assert takes_nothing(decide(observed))
    assert decide(observed).actions == ()


def test_f4_the_leader_is_killed_and_an_election_is_not_disturbed() -> None:
    observed = look(group=group(leader=None, serving=False), platform=IMAGE_CHANGED)
    plan = decide(observed)
    assert takes_nothing(plan)
    assert Code.NO_LEADER in plan.codes


def test_f4_after_an_election_a_rest_comes_before_anything_disruptive() -> None:
    observed = look(platform=IMAGE_CHANGED)
    elected = replace(observed, group=group(leader=2, epoch=8))
    plan = decide(elected)
    assert takes_nothing(plan)
    assert plan.since["leader:2@8"] == NOW
    rested = replace(elected, since={**elected.since, "leader:2@8": 1})
    assert not takes_nothing(decide(rested))


def test_f5_a_frozen_leader_is_left_to_its_guardian_and_the_liveness_probe() -> None:
    observed = with_broker(look(group=group(leader=2, epoch=8, in_sync=(2, 3))), broker(0, report=None))
    assert decide(observed).actions == ()


def test_f6_on_a_lost_node_nothing_is_deleted_and_the_way_out_is_named() -> None:
    gone = broker(2, report=None, stands=instance(2, ready=False, leaves_by=NOW - 100, unreachable=True, node="n3"))
    plan = decide(with_broker(look(group=group(in_sync=(1, 2))), gone))
    assert plan.actions == ()
    (block,) = plan.blocked
    assert block.code is Code.NODE_UNREACHABLE
    assert "n3" in block.message
    assert "out-of-service" in block.unblocks


def test_f6_a_pod_that_does_not_go_on_a_living_node_is_called_stuck() -> None:
    gone = broker(2, stands=instance(2, ready=False, leaves_by=NOW - 100))
    assert decide(with_broker(look(group=group(in_sync=(1, 2))), gone)).codes == {Code.STUCK_TERMINATING}


def test_f7_while_a_node_is_drained_no_second_broker_is_taken() -> None:
    leaving = broker(1, stands=instance(1, ready=False, leaves_by=NOW + 60))
    assert takes_nothing(decide(with_broker(look(platform=IMAGE_CHANGED), leaving)))


def test_f8_a_broker_on_an_empty_volume_copies_before_anything_else_goes_on() -> None:
    members = (replica(1), replica(2), replica(3, store_id="new", lag=GIB))
    observed = look(group=group(in_sync=(1, 2), replicas=members))
    assert decide(observed).actions == ()
    plan = decide(replace(observed, platform=IMAGE_CHANGED))
    assert [action.ordinal for action in plan.actions if isinstance(action, Restart)] == [2]


@pytest.mark.parametrize("away", ["no node", "no pod", "learner, behind", "one that leaves"])
def test_f8_a_learner_that_is_near_waits_for_nobody_who_is_away(away: str) -> None:
    """Without it too few may be in sync, so that nothing is written meanwhile."""
    replicas = (replica(1), replica(2), replica(3, learner=True))
    observed = look(group=group(in_sync=(1,), replicas=replicas))
    if away == "no node":
        observed = with_broker(observed, broker(1, stands=instance(1, ready=False, unschedulable="no room")))
    elif away == "no pod":
        observed = with_broker(observed, Slot(ordinal=1))
    elif away == "learner, behind":
        behind = (replica(1), replica(2, learner=True, alive=False, lag=1 << 30), replica(3, learner=True))
        observed = look(group=group(in_sync=(1,), replicas=behind))
    else:
        observed = with_broker(observed, broker(3, stands=instance(3, leaves_by=NOW - 1000, unreachable=True)))
    assert Promote(broker_id=3, expected_epoch=7, reason="broker 3 has caught up") in decide(observed).actions


def test_f8_a_learner_on_an_empty_volume_is_promoted_when_it_has_been_near_for_a_while() -> None:
    near = group(in_sync=(1, 2), replicas=(replica(1), replica(2), replica(3, store_id="new", learner=True)))
    assert decide(look(group=near, since={})).actions == ()
    (promotion,) = decide(look(group=near)).actions
    assert promotion == Promote(broker_id=3, expected_epoch=7, reason="broker 3 has caught up")
    assert decide(look(group=replace(near, leader=None, serving=False))).actions == ()


def test_f8_a_volume_that_is_gone_is_rebuilt_only_on_order_and_if_the_others_have_everything() -> None:
    gone = broker(2, stands=instance(2, ready=False), report=None, volume=Volume(uid="v", lost=True))
    observed = with_broker(look(group=group(in_sync=(1, 2))), gone)
    plan = decide(observed)
    assert (plan.actions, plan.codes) == ((), {Code.VOLUME_LOST})
    assert "logherd.dev/rebuild=2@v" in plan.blocked[0].unblocks  # there is no command for it
    ordered = replace(observed, orders=Orders(rebuild=(2, "v")))
    (action,) = decide(ordered).actions
    assert isinstance(action, Rebuild)
    assert (action.ordinal, action.volume_uid) == (2, "v")
    assert isinstance(decide(ordered, reconcile="NoDisruption").actions[0], Rebuild)  # it heals
    last = replace(ordered, group=group(in_sync=(1, 2), eligible=(3,)))
    assert (decide(last).actions, decide(last).codes) == ((), {Code.VOLUME_LOST, Code.LAST_COPY})


def test_f8_a_volume_that_cannot_be_given_up_holds_nothing_else_up() -> None:
    """As where the pod stands on a lost node, or where the operator may delete no volumes."""
    gone = broker(
        2, stands=instance(2, ready=False, leaves_by=NOW - 10), report=None, volume=Volume(uid="v", lost=True)
    )
    replicas = (replica(1), replica(2), replica(3), replica(4, learner=True))
    observed = look(4, group=group(4, in_sync=(1, 2), replicas=replicas), orders=Orders(rebuild=(2, "v")))
    observed = replace(with_broker(observed, gone), since={**observed.since, "near:4": NOW - 1000})
    first = decide(observed, replicas=4)
    assert isinstance(first.actions[-1], Rebuild)
    for seconds, others in ((59, False), (60, True), (599, True), (600, False)):
        plan = decide(replace(observed, since={**first.since, "rebuild:2:v": NOW - seconds}), replicas=4)
        kinds = {type(action) for action in plan.actions}
        assert (Rebuild in kinds, Promote in kinds) == (not others, others), seconds
        assert Code.VOLUME_LOST in plan.codes


def test_f8_the_only_copy_is_not_given_up_even_where_writes_may_pause() -> None:
    """The claim is lost, and the leader goes on over what it has mounted: nobody else is in sync."""
    gone = broker(0, volume=Volume(uid="v", lost=True))
    ordered = replace(with_broker(look(group=group(in_sync=(1,))), gone), orders=Orders(rebuild=(0, "v")))
    plan = decide(ordered, update={"allowWritePause": True})
    assert (plan.actions, plan.codes) == ((), {Code.VOLUME_LOST, Code.LAST_COPY})
    others = decide(replace(ordered, group=group(in_sync=(1, 2))), update={"allowWritePause": True})
    assert isinstance(others.actions[0], Rebuild)


def test_f9_with_all_volumes_lost_nothing_is_founded_anew() -> None:
    empty = group(leader=None, serving=False, in_sync=())
    plan = decide(look(group=empty, platform=IMAGE_CHANGED))
    assert takes_nothing(plan)
    assert {Code.DATA_LOST, Code.NO_LEADER} <= plan.codes


def test_f10_a_full_disk_changes_nothing_unless_the_spec_wants_more() -> None:
    assert decide(look()).actions == ()
    grown = decide(look(), storage={"size": "30Gi"})
    assert [type(action).__name__ for action in grown.actions] == ["GrowVolume"]
    assert takes_nothing(grown)


def test_f11_a_damaged_store_is_reported_and_rebuilt_only_on_order() -> None:
    report = Report(broker_id=3, role="unknown", epoch=0, fault="checksum at position 4096")
    observed = with_broker(look(group=group(in_sync=(1, 2))), broker(2, stands=instance(2, ready=False), report=report))
    plan = decide(observed)
    assert (plan.actions, plan.codes) == ((), {Code.STORE_DAMAGED})
    assert "4096" in plan.blocked[0].message
    ordered = replace(observed, orders=Orders(rebuild=(2, "volume-2")))
    assert isinstance(decide(ordered).actions[0], Rebuild)


def test_f11_an_order_to_rebuild_that_was_carried_out_is_none_for_the_next_volume() -> None:
    """The annotation may still be there when the new volume is damaged, too, which nobody has seen yet."""
    report = Report(broker_id=3, role="unknown", epoch=0, fault="checksum at position 4096")
    volume = Volume(uid="volume-2-b", requested=20 * GIB, capacity=20 * GIB)
    fresh = broker(2, stands=instance(2, ready=False), report=report, volume=volume)
    observed = with_broker(look(group=group(in_sync=(1, 2)), orders=Orders(rebuild=(2, "volume-2"))), fresh)
    assert (decide(observed).actions, decide(observed).codes) == ((), {Code.STORE_DAMAGED})


def test_f12_an_operator_that_comes_back_restarts_nothing() -> None:
    assert decide(look(since={})).actions == ()


def test_f13_without_an_answer_from_anybody_nothing_is_taken_away() -> None:
    blind = look(
        group=None, quorum=None, platform=IMAGE_CHANGED, brokers=tuple(broker(n, report=None) for n in range(3))
    )
    plan = decide(blind)
    assert takes_nothing(plan)
    assert plan.codes == {Code.QUORUM_UNREACHABLE}


def test_f14_with_one_controller_lost_no_other_controller_is_restarted() -> None:
    stale = controllers(revision=OLD)
    lost = Slot(ordinal=2, instance=instance(2, uid="controller-2", revision=OLD, ready=False))
    plan = decide(look(controllers=(*stale[:2], lost), quorum=quorum(down=(2,))))
    (action,) = plan.actions
    assert isinstance(action, Restart)
    assert (action.component, action.ordinal, action.serving) == ("controller", 2, False)
    running = decide(look(controllers=stale, quorum=quorum(down=(2,))))
    assert [action.ordinal for action in running.actions if isinstance(action, Restart)] == [2]
    other = decide(look(controllers=(*stale[:2], controllers()[2]), quorum=quorum(down=(2,))))
    assert takes_nothing(other)
    assert Code.QUORUM_UNHEALTHY in other.codes


def test_f14_a_controller_on_an_empty_disk_gets_its_vote_back_when_it_has_caught_up() -> None:
    members = (*quorum(down=(2,)).members, Member(node="c2", identity="c2.2", voter=False, connected=True, lag=0))
    (action,) = decide(look(quorum=replace(quorum(), members=members))).actions
    assert isinstance(action, SettleQuorum)
    assert action.voters == ("c0", "c1", "c2")
    behind = (*members[:3], replace(members[3], lag=GIB))
    assert decide(look(quorum=replace(quorum(), members=behind))).actions == ()
    living = (*quorum().members, members[3])  # its former self is there: two of one name
    assert decide(look(quorum=replace(quorum(), members=living))).actions == ()


def test_f15_with_the_controllers_majority_lost_everything_disruptive_is_blocked() -> None:
    for fields in ({"platform": IMAGE_CHANGED}, {"group": group(4), "count": 4}):
        count = fields.pop("count", 3)
        plan = decide(look(count, quorum=quorum(down=(1, 2), leader=None), **fields))
        assert takes_nothing(plan)
        assert Code.QUORUM_UNHEALTHY in plan.codes


def test_f16_and_f17_while_a_leader_is_cut_off_the_election_is_awaited() -> None:
    observed = look(group=group(leader=1, serving=False), platform=IMAGE_CHANGED)
    assert takes_nothing(decide(observed))
    assert Code.NO_LEADER in decide(observed).codes


def test_f18_while_a_follower_is_cut_off_no_other_is_restarted() -> None:
    cut = group(in_sync=(1, 2), replicas=(replica(1), replica(2), replica(3, alive=False)))
    done = Platform(
        brokers=3, controllers=3, broker_revision="rev-3", controller_revision=WANTED, broker_claim=20 * GIB
    )
    observed = with_broker(look(group=cut, platform=done), broker(2, stands=instance(2, revision="rev-3")))
    plan = decide(observed)
    assert takes_nothing(plan)
    assert plan.operation is not None
    assert plan.operation.state == "AwaitInSync"


def test_f19_after_the_loss_of_a_zone_nothing_moves_and_nothing_is_restarted() -> None:
    lost = [broker(n, report=None, stands=instance(n, ready=False, unschedulable="zone b is gone")) for n in (1, 2)]
    observed = look(group=group(in_sync=(1,)))
    for slot in lost:
        observed = with_broker(observed, slot)
    assert decide(observed).actions == ()
    waited = decide(replace(observed, since={**observed.since, "unschedulable:1": 1, "unschedulable:2": 1}))
    assert (waited.actions, waited.codes) == ((), {Code.UNSCHEDULABLE})
    moved = decide(replace(observed, platform=IMAGE_CHANGED))
    assert [action.ordinal for action in moved.actions if isinstance(action, Restart)] == [1]


def test_f20_a_bad_image_stops_after_one_pod_and_a_revert_heals_it() -> None:
    broken = broker(2, report=None, stands=instance(2, revision="rev-3", ready=False, failing="ImagePullBackOff"))
    observed = with_broker(look(group=group(in_sync=(1, 2)), platform=IMAGE_CHANGED), broken)
    stalled = decide(observed)
    assert (stalled.actions, stalled.codes) == ((), {Code.UPDATE_STALLED})
    assert "ImagePullBackOff" in stalled.blocked[0].message
    reverted = decide(replace(observed, platform=look().platform))
    (action,) = reverted.actions
    assert isinstance(action, Restart)
    assert (action.ordinal, action.why, action.serving) == (2, RestartReason.STUCK, False)


def test_who_is_not_ready_for_want_of_a_leader_is_not_exchanged() -> None:
    """Each is well, and a restart would take away what an election needs."""
    observed = look(group=group(leader=None, serving=False, in_sync=(1, 2)), platform=IMAGE_CHANGED)
    for ordinal in range(3):
        observed = with_broker(observed, broker(ordinal, stands=instance(ordinal, revision="rev-3", ready=False)))
    assert decide(observed).actions == ()


def test_f21_a_renewed_certificate_restarts_nothing() -> None:
    assert decide(look(), tls={"mode": "Required", "secretName": "cert"}).actions == ()


def test_f22_every_disruptive_action_names_what_it_expects() -> None:
    stale = look(platform=IMAGE_CHANGED)
    (restart,) = decide(stale).actions
    assert isinstance(restart, Restart)
    assert restart.uid == "pod-2"
    smaller = decide(look(4), replicas=3)
    assert [getattr(action, "expected_epoch", None) for action in smaller.actions if action.disruptive] == [7]


def test_f23_a_group_that_is_found_again_begins_as_large_as_its_volumes() -> None:
    nothing = Platform(broker_revision=WANTED, controller_revision=WANTED)
    left = tuple(Slot(ordinal=n, volume=Volume(uid=f"v{n}", requested=GIB)) for n in range(5))
    plan = decide(look(platform=nothing, brokers=left, controllers=(), group=None, quorum=None, since={}))
    made = [(action.component, action.count) for action in plan.actions if isinstance(action, SetMembers)]
    assert made == [("controller", 3), ("broker", 5)]
    fresh = decide(look(platform=nothing, brokers=(), controllers=(), group=None, quorum=None, since={}))
    assert [action.count for action in fresh.actions if isinstance(action, SetMembers)] == [3, 3]


def test_kept_volumes_of_removed_brokers_bring_nobody_back_when_the_claims_are_renewed() -> None:
    """For a moment nothing keeps the places, and the brokers serve on."""
    kept = tuple(Slot(ordinal=n, volume=Volume(uid=f"v{n}", requested=GIB)) for n in (3, 4))
    between = Platform(controllers=3, controller_revision=WANTED)
    serving = look(platform=between, brokers=(*look().brokers, *kept))
    assert [each.count for each in decide(serving).actions if isinstance(each, SetMembers)] == [3]
    untold = decide(replace(serving, group=group(leader=None, serving=False)))
    assert [each.count for each in untold.actions if isinstance(each, SetMembers)] == [5]


def test_f24_reconcile_off_does_nothing_at_all() -> None:
    plan = decide(look(4, platform=IMAGE_CHANGED), reconcile="Off")
    assert (plan.actions, plan.codes) == ((), {Code.PAUSED})


def test_f25_a_status_from_the_past_is_only_a_reason_to_wait() -> None:
    old = {"leader:3@4": 5.0, "in-sync:1": 5.0, "switch:4:2": 5.0}
    plan = decide(look(since=old, platform=IMAGE_CHANGED))
    assert takes_nothing(plan)
    assert "leader:3@4" not in plan.since
    assert "switch:4:2" not in plan.since


def test_f26_a_stalled_disk_is_an_election_and_no_work_for_the_operator() -> None:
    observed = look(group=group(leader=2, epoch=8, in_sync=(2, 3), rules=Rules(replicas=3, min_in_sync=2)))
    assert decide(observed).actions == ()
