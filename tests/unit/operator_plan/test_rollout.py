"""Restarts: in which order, what holds them back, and that each has its reason."""

from dataclasses import replace

import pytest

from logherd_operator.observed.observed import Observed, Orders, Platform
from logherd_operator.observed.quorum import Rules
from logherd_operator.observed.slots import Slot, Volume
from logherd_operator.plan.actions import GrowVolume, Restart, RestartReason, Switchover, TransferQuorum
from logherd_operator.plan.outcome import Code
from logherd_operator.plan.planner import plan
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
    spec_of,
    with_broker,
)  # fmt: skip


def stale(*ordinals: int, **fields: object) -> Observed:
    """Three brokers, of which these were made from another revision."""
    observed = look(**fields)
    for ordinal in ordinals:
        observed = with_broker(observed, broker(ordinal, stands=instance(ordinal, revision=OLD)))
    return observed


def victim(observed: Observed, **spec: object) -> int | None:
    restarts = [action.ordinal for action in decide(observed, **spec).actions if isinstance(action, Restart)]
    return restarts[0] if restarts else None


def test_followers_go_first_by_descending_ordinal_and_the_leader_last_after_a_hand_over() -> None:
    assert victim(stale(0, 1, 2)) == 2
    assert victim(stale(0, 1)) == 1
    (switch,) = decide(stale(0)).actions
    assert isinstance(switch, Switchover)
    assert (switch.target, switch.expected_epoch, switch.request_id) == (2, 7, "planned-7-2")
    assert victim(replace(stale(0), group=group(leader=2), since=long_ago_of(group(leader=2)))) == 0


def long_ago_of(members: object) -> dict[str, float]:
    return dict(look(group=members).since)


def test_a_replica_that_is_out_of_sync_goes_before_one_that_is_in_sync() -> None:
    observed = replace(stale(0, 1, 2), group=group(in_sync=(1, 3)))
    assert victim(observed) == 1


def test_a_learner_is_promoted_before_anything_is_restarted() -> None:
    members = group(replicas=(replica(1), replica(2, learner=True), replica(3)), in_sync=(1, 3))
    observed = stale(0, 1, 2, group=members)
    assert [type(action).__name__ for action in decide(observed).actions] == ["Promote"]
    assert victim(replace(observed, since={})) is None


def test_the_only_broker_is_restarted_without_a_hand_over() -> None:
    single = look(1, group=group(1))
    observed = with_broker(single, broker(0, stands=instance(0, revision=OLD)))
    (action,) = decide(observed, replicas=1).actions
    assert isinstance(action, Restart)
    assert action.why is RestartReason.SPEC_CHANGED


def test_an_updated_replica_takes_over_rather_than_one_that_is_restarted_next() -> None:
    observed = stale(0, platform=Platform(brokers=3, controllers=3, broker_revision=WANTED, controller_revision=WANTED))
    lagging = group(replicas=(replica(1), replica(2, lag=10), replica(3)))
    (switch,) = decide(replace(observed, group=lagging)).actions
    assert isinstance(switch, Switchover)
    assert switch.target == 3


def test_nothing_is_restarted_when_writes_would_stop() -> None:
    strict = group(rules=Rules(replicas=3, min_in_sync=3))
    plan = decide(replace(stale(2), group=strict), replication={"minInSyncReplicas": 3})
    assert (plan.actions, plan.codes) == ((), {Code.WOULD_STOP_WRITES})
    allowed = {"replication": {"minInSyncReplicas": 3}, "update": {"allowWritePause": True}}
    assert victim(replace(stale(2), group=strict), **allowed) == 2


@pytest.mark.parametrize(
    ("fresh", "state"),
    [
        (instance(2, ready=False), "AwaitReady"),
        (instance(2, leaves_by=NOW + 5, ready=False), "AwaitGone"),
        (None, "AwaitPod"),
    ],
)
def test_the_next_waits_until_the_last_one_is_back(fresh: object, state: str) -> None:
    observed = stale(0, 1)
    slot = replace(broker(2), instance=fresh)  # type: ignore[arg-type]
    plan = decide(with_broker(observed, slot))
    assert plan.actions == ()
    assert plan.operation is not None
    assert plan.operation.state == state


def test_the_next_waits_until_the_last_one_is_in_sync_and_has_soaked() -> None:
    behind = replace(stale(0, 1), group=group(in_sync=(1, 2)))
    assert decide(behind).operation.state == "AwaitInSync"  # type: ignore[union-attr]
    just_in = stale(0, 1)
    just_in = replace(just_in, since={**just_in.since, "in-sync:3": NOW - 9})
    assert victim(just_in) is None
    assert victim(just_in, update={"soakSeconds": 9}) == 1


@pytest.mark.parametrize("component", ["broker", "controller"])
def test_a_start_is_waited_for_and_one_that_takes_too_long_is_called_stalled(component: str) -> None:
    """By how long it has not been ready: one that was made long ago may just have restarted."""
    uid = "pod-2" if component == "broker" else "controller-2"
    hanging = instance(2, uid=uid, ready=False)
    observed = with_broker(stale(0, 1), broker(2, stands=hanging))
    if component == "controller":
        others = controllers(revision=OLD)[:2]
        observed = look(controllers=(*others, Slot(ordinal=2, instance=hanging)), quorum=quorum(down=(2,)))
    just = decide(replace(observed, since={**observed.since, f"unready:{uid}": NOW - 900}))
    assert (just.actions, just.codes) == ((), frozenset())
    stalled = decide(replace(observed, since={**observed.since, f"unready:{uid}": NOW - 901}))
    assert (stalled.actions, stalled.codes) == ((), {Code.UPDATE_STALLED})


def test_who_stays_out_of_sync_for_ten_minutes_stalls_the_update() -> None:
    behind = replace(stale(0, 1), group=group(in_sync=(1, 2)))
    assert decide(replace(behind, since={**behind.since, "behind:3": NOW - 599})).codes == frozenset()
    assert decide(replace(behind, since={**behind.since, "behind:3": NOW - 600})).codes == {Code.UPDATE_STALLED}


def test_a_pod_that_is_starting_is_never_a_victim() -> None:
    young = broker(2, stands=instance(2, revision=OLD, ready=False, started_at=NOW - 60))
    assert victim(with_broker(stale(), young)) is None
    old = broker(2, stands=instance(2, revision=OLD, ready=False, started_at=NOW - 200))
    assert victim(with_broker(stale(), old)) == 2


def test_what_is_not_ready_because_nobody_leads_the_controllers_is_not_called_broken() -> None:
    observed = stale(quorum=None)
    for ordinal in range(3):
        observed = with_broker(observed, broker(ordinal, stands=instance(ordinal, revision=OLD, ready=False)))
    assert decide(observed).actions == ()


def test_a_broken_one_is_not_exchanged_for_what_fails_elsewhere() -> None:
    failing = broker(2, stands=instance(2, ready=False, failing="CrashLoopBackOff"))
    silent = broker(1, stands=instance(1, revision=OLD, ready=False))
    assert decide(with_broker(with_broker(stale(), failing), silent)).actions == ()


def test_a_dead_one_is_healed_even_if_everybody_waits_for_it() -> None:
    replicas = (replica(1), replica(2), replica(3, alive=False))
    members = group(leader=None, serving=False, in_sync=(3,), replicas=replicas)
    dead = broker(2, stands=instance(2, revision=OLD, ready=False, failing="ImagePullBackOff"))
    (action,) = decide(with_broker(stale(group=members), dead)).actions
    assert isinstance(action, Restart)
    assert (action.ordinal, action.serving) == (2, False)


def test_supervised_stops_before_the_leader_and_goes_on_when_another_leads() -> None:
    plan = decide(stale(0), update={"strategy": "Supervised"})
    assert (plan.actions, plan.codes) == ((), {Code.WAITING_FOR_APPROVAL})
    assert victim(stale(1), update={"strategy": "Supervised"}) == 1
    ordered = replace(stale(0), orders=Orders(switchover=(3, 7)))
    (switch,) = decide(ordered, update={"strategy": "Supervised"}).actions
    assert isinstance(switch, Switchover)
    assert switch.target == 3


def test_manual_waits_for_an_order_and_an_order_restarts_everything_older() -> None:
    plan = decide(stale(0, 1, 2), update={"strategy": "Manual"})
    assert (plan.actions, plan.codes) == ((), {Code.WAITING_FOR_APPROVAL})
    ordered = replace(stale(0, 1, 2), orders=Orders(restart_at=NOW - 5), controllers=controllers(started_at=NOW))
    assert victim(ordered, update={"strategy": "Manual"}) == 2
    fresh = look(orders=Orders(restart_at=NOW - 20_000))
    assert decide(fresh).actions == ()
    (action,) = decide(look(orders=Orders(restart_at=NOW), controllers=controllers(started_at=NOW))).actions
    assert isinstance(action, Restart)
    assert action.why is RestartReason.MANUAL


def test_manual_tells_of_controllers_that_wait_for_an_order() -> None:
    plan = decide(look(controllers=(*controllers(2, revision=OLD), controllers()[2])), update={"strategy": "Manual"})
    (block,) = plan.blocked
    assert (plan.actions, block.code) == ((), Code.WAITING_FOR_APPROVAL)
    assert block.message == "2 of 3 controllers wait for a restart"
    assert block.unblocks == "kubectl logherd restart, because update.strategy is Manual"


def test_manual_tells_of_all_that_wait_for_an_order() -> None:
    failing = instance(0, revision=OLD, ready=False, failing="CrashLoopBackOff")
    old = with_broker(stale(1, 2, controllers=controllers(revision=OLD)), broker(0, stands=failing))
    plan = decide(old, update={"strategy": "Manual"})
    (block,) = plan.blocked
    assert (plan.actions, block.code) == ((), Code.WAITING_FOR_APPROVAL)
    leads = "broker 1 leads and does not run as it should; it is replaced once another leads"
    assert block.message == f"{leads}; 3 brokers wait for a restart; 3 of 3 controllers wait for a restart"
    why = "because update.strategy is Manual"
    assert block.unblocks == f"kubectl logherd switchover, {why}; kubectl logherd restart, {why}"


def test_each_volume_that_is_lost_is_told_with_its_own_order() -> None:
    lost = (Volume(uid=f"v{n}", lost=True) for n in (1, 2))
    observed = look(brokers=(broker(0), *(broker(n, volume=each) for n, each in enumerate(lost, 1))))
    (block,) = decide(observed).blocked
    assert block.message == "the volume of broker 2 is lost; the volume of broker 3 is lost"
    assert all(f"logherd.dev/rebuild={n}@v{n}" in block.unblocks for n in (1, 2))


def test_what_was_ordered_goes_on_beside_controllers_that_wait_for_an_order() -> None:
    """One of them was changed once more, while brokers are restarted as the order before says."""
    observed = replace(stale(0, 1, 2), orders=Orders(restart_at=NOW - 5), controllers=controllers(started_at=NOW))
    old = replace(observed, controllers=controllers(started_at=NOW, revision=OLD))
    assert victim(old, update={"strategy": "Manual"}) == victim(observed, update={"strategy": "Manual"}) == 2
    assert decide(old, update={"strategy": "Manual"}).codes == set()


def test_an_order_of_a_clock_that_is_ahead_waits_for_its_time_and_restarts_everything_once() -> None:
    early = look(orders=Orders(restart_at=NOW + 60))
    assert decide(early).actions == ()
    assert decide(replace(stale(2), orders=early.orders), update={"strategy": "Manual"}).actions == ()
    due = replace(early, orders=Orders(restart_at=NOW), controllers=controllers(started_at=NOW))
    assert victim(due) == 2


def test_a_closed_window_and_a_pause_hold_back_what_is_planned_but_no_healing() -> None:
    never = {"update": {"windows": [{"cron": "0 0 1 1 *", "durationMinutes": 1}]}}
    assert decide(stale(2), **never).codes == {Code.WAITING_FOR_WINDOW}
    assert decide(stale(2), reconcile="NoDisruption").codes == {Code.PAUSED}
    broken = broker(2, stands=instance(2, revision=OLD, ready=False, failing="CrashLoopBackOff"))
    observed = with_broker(stale(group=group(in_sync=(1, 2))), broken)
    assert victim(observed, **never) == 2


def test_a_restart_that_was_ordered_waits_for_no_window_also_of_what_a_changed_spec_would_restart() -> None:
    """And so no hand-over either that it needs: else it would stop before the leader."""
    never = {"update": {"windows": [{"cron": "0 0 1 1 *", "durationMinutes": 1}]}}
    order = Orders(restart_at=NOW - 5)
    fresh = controllers(started_at=NOW)
    (restart,) = decide(stale(0, 1, 2, orders=order, controllers=fresh), **never).actions
    assert isinstance(restart, Restart)
    assert (restart.ordinal, restart.why) == (2, RestartReason.MANUAL)
    for observed in (stale(0, orders=order, controllers=fresh), look(orders=order, controllers=fresh)):
        led = observed
        for ordinal in (1, 2):
            led = with_broker(led, broker(ordinal, stands=instance(ordinal, started_at=NOW - 1)))
        assert [type(action) for action in decide(led, **never).actions] == [Switchover]
    (restart,) = decide(look(orders=order, controllers=controllers(revision=OLD)), **never).actions
    assert isinstance(restart, Restart)
    assert (restart.component, restart.ordinal, restart.why) == ("controller", 2, RestartReason.MANUAL)
    last = (controllers()[0], *controllers(started_at=NOW)[1:])
    (transfer,) = decide(look(orders=order, controllers=last), **never).actions
    assert isinstance(transfer, TransferQuorum)


@pytest.mark.parametrize(
    ("held", "code"),
    [
        ({"update": {"windows": [{"cron": "0 0 1 1 *", "durationMinutes": 1}]}}, Code.WAITING_FOR_WINDOW),
        ({"reconcile": "NoDisruption"}, Code.PAUSED),
    ],
)
def test_a_hand_over_that_was_held_back_is_not_one_that_was_asked_for(held: dict[str, object], code: Code) -> None:
    """Else it would be called failed, and rest for ten minutes of what may be a short window."""
    observed = stale(0)
    for _ in range(3):
        waiting = decide(observed, **held)
        assert (waiting.actions, waiting.codes) == ((), {code})
        observed = replace(observed, since=waiting.since)
    (switch,) = decide(observed).actions
    assert isinstance(switch, Switchover)
    assert switch.target == 2


def test_what_no_restart_lets_go_on_is_not_said_to_go_on_with_one() -> None:
    never = {"update": {"windows": [{"cron": "0 0 1 1 *", "durationMinutes": 1}]}}
    (block,) = decide(look(4, group=group(4, rules=Rules(replicas=3, min_in_sync=2))), **never).blocked
    assert (block.code, block.unblocks) == (Code.WAITING_FOR_WINDOW, "the next window of update.windows")


def test_a_volume_that_waits_for_a_restart_gets_one_after_five_minutes() -> None:
    waiting = Volume(uid="v", requested=20 * GIB, capacity=20 * GIB, resize_waits_since=NOW - 299)
    assert decide(with_broker(look(), broker(1, volume=waiting))).actions == ()
    late = replace(waiting, resize_waits_since=NOW - 300)
    (action,) = decide(with_broker(look(), broker(1, volume=late))).actions
    assert isinstance(action, Restart)
    assert (action.ordinal, action.why) == (1, RestartReason.VOLUME_RESIZE)


def test_a_failed_hand_over_is_tried_with_another_target_and_then_given_up() -> None:
    observed = stale(0)
    first = decide(observed)
    assert isinstance(first.actions[0], Switchover)
    since = dict(first.since)
    assert since["switch:7:2"] == NOW
    asked = decide(replace(observed, since=since))
    assert (asked.actions, asked.operation.state) == ((), "Switch")  # type: ignore[union-attr]
    second = decide(replace(observed, since={**since, "switch:7:2": NOW - 31}))
    assert isinstance(second.actions[0], Switchover)
    assert second.actions[0].target == 3
    given_up = decide(replace(observed, since={**since, "switch:7:2": NOW - 31, "switch:7:3": NOW - 31}))
    assert (given_up.actions, given_up.codes) == ((), {Code.SWITCHOVER_FAILED})
    assert "logherd switchover" in given_up.blocked[0].unblocks
    by_hand = decide(replace(observed, since=given_up.since, orders=Orders(switchover=(2, 7))))
    assert [type(action) for action in by_hand.actions] == [Switchover]


def test_a_hand_over_that_failed_is_tried_again_when_much_time_has_passed() -> None:
    """The order may never have arrived, and with one follower there is no other target in this epoch."""
    observed = with_broker(look(2), broker(0, stands=instance(0, revision=OLD)))
    failed = decide(replace(observed, since={**observed.since, "switch:7:2": NOW - 629}), replicas=2)
    assert (failed.actions, failed.codes) == ((), {Code.SWITCHOVER_FAILED})
    again = decide(replace(observed, since={**failed.since, "switch:7:2": NOW - 630}), replicas=2)
    (switch,) = again.actions
    assert isinstance(switch, Switchover)
    assert (switch.target, switch.expected_epoch) == (2, 7)
    assert (again.since["switch:7:2"], again.codes) == (NOW, set())


def test_all_targets_are_tried_again_together_so_that_a_failure_is_always_told_first() -> None:
    observed = stale(0)
    before = {**observed.since, "switch:7:2": NOW - 10_000, "switch:7:3": NOW - 31}
    failed = decide(replace(observed, since=before))
    assert (failed.actions, failed.codes) == ((), {Code.SWITCHOVER_FAILED})
    again = decide(replace(observed, since={**before, "switch:7:3": NOW - 630}))
    assert [each for each in again.since if each.startswith("switch:")] == ["switch:7:2"]
    assert again.since["switch:7:2"] == NOW


def test_only_who_serves_and_lives_is_asked_to_take_over() -> None:
    """A leader that has to go, and whoever else is in sync."""
    dead = group(replicas=(replica(1), replica(2, alive=False), replica(3)))
    (switch,) = decide(replace(stale(0), group=dead)).actions
    assert isinstance(switch, Switchover)
    assert switch.target == 3
    goes = look(4, group=group(4, leader=4, rules=Rules(replicas=3, min_in_sync=2)))
    accepted = replace(goes, orders=Orders(accepted_risks=frozenset({"NotAllInSync"})))
    (switch,) = decide(with_broker(accepted, broker(0, stands=instance(0, ready=False)))).actions
    assert isinstance(switch, Switchover)
    assert switch.target == 2


def test_a_leader_that_is_not_ready_is_not_replaced_while_it_leads() -> None:
    failing = instance(0, revision=OLD, ready=False, failing="CrashLoopBackOff")
    plan = decide(with_broker(stale(0), broker(0, stands=failing)))
    assert not any(isinstance(action, Restart) for action in plan.actions)


def test_a_hand_over_under_way_is_awaited() -> None:
    plan = decide(replace(stale(0), group=group(transfer=3)))
    assert (plan.actions, plan.operation.state) == ((), "Switch")  # type: ignore[union-attr]


def test_a_hand_over_under_way_that_does_not_end_is_told_and_still_awaited() -> None:
    """Controllers give it up after two seconds, unless something keeps them from deciding."""
    observed = replace(stale(0), group=group(transfer=3))
    fact = "transfer:7:3"
    assert decide(observed).since[fact] == NOW
    assert fact not in decide(stale(0, since={fact: NOW - 10})).since
    for seconds, codes in ((29, set()), (30, {Code.SWITCHOVER_FAILED})):
        plan = decide(replace(observed, since={**observed.since, fact: NOW - seconds}))
        assert (plan.actions, plan.operation.state, plan.codes) == ((), "Switch", codes)  # type: ignore[union-attr]
    assert plan.blocked[0].message == "broker 3 is taking over from broker 1, and that does not end"


def test_an_update_goes_on_past_a_leader_that_does_not_run_and_whose_hand_over_does_not_end() -> None:
    bad = broker(0, report=None, stands=instance(0, revision=OLD, ready=False, failing="CrashLoopBackOff"))
    observed = replace(with_broker(stale(1, 2), bad), group=group(transfer=3))
    assert victim(observed) is None
    assert victim(replace(observed, since={**observed.since, "transfer:7:3": NOW - 30})) == 2


def test_controllers_go_before_brokers_and_their_leader_last_after_a_hand_over() -> None:
    both = replace(stale(0, 1, 2), controllers=controllers(revision=OLD))
    (first,) = decide(both).actions
    assert isinstance(first, Restart)
    assert (first.component, first.ordinal) == ("controller", 2)
    last = (replace(controllers()[0], instance=instance(0, revision=OLD)), *controllers()[1:])
    (handed,) = decide(look(controllers=last)).actions
    assert handed == TransferQuorum(node="c1", reason="c0 leads and is restarted last")
    (restart,) = decide(look(controllers=last, quorum=quorum(leader="c1"))).actions
    assert isinstance(restart, Restart)
    assert (restart.component, restart.ordinal) == ("controller", 0)


def test_volumes_that_controllers_left_behind_hold_no_update_back() -> None:
    """As of a group that had five controllers, or whose StatefulSet somebody scaled and scaled back."""
    left = tuple(Slot(ordinal=n, volume=Volume(uid=f"v{n}", requested=GIB)) for n in (3, 4))
    (restart,) = decide(look(controllers=(*controllers(revision=OLD), *left))).actions
    assert isinstance(restart, Restart)
    assert (restart.component, restart.ordinal) == ("controller", 2)
    single = {"controllers": {"embedded": {"replicas": 1}}}
    platform = Platform(brokers=3, controllers=1, broker_revision=WANTED, controller_revision=WANTED)
    alone = look(controllers=(*controllers(1, revision=OLD), *left), quorum=quorum(1), platform=platform)
    (restart,) = decide(alone, **single).actions
    assert isinstance(restart, Restart)
    assert (restart.component, restart.ordinal) == ("controller", 0)


def test_a_controller_whose_pod_is_being_made_anew_holds_the_next_one_back() -> None:
    made_anew = (*controllers(2, revision=OLD), Slot(ordinal=2, volume=Volume(uid="v2", requested=GIB)))
    plan = decide(look(controllers=made_anew))
    assert plan.actions == ()
    assert plan.operation is not None
    assert plan.operation.state == "AwaitGone"


def test_an_ordered_switch_is_done_in_the_epoch_for_which_it_was_ordered() -> None:
    (switch,) = decide(look(orders=Orders(switchover=(3, 7)))).actions
    assert isinstance(switch, Switchover)
    assert decide(look(orders=Orders(switchover=(3, 6)))).actions == ()
    lagging = decide(look(orders=Orders(switchover=(3, 7)), group=group(in_sync=(1, 2))))
    assert (lagging.actions, lagging.codes) == ((), {Code.NOT_ALL_IN_SYNC})


def test_an_ordered_switch_that_is_refused_does_not_hold_up_what_would_let_it_be_done() -> None:
    """As by whom the disk is full, and for whom somebody then wants a larger one."""
    observed, larger = look(orders=Orders(switchover=(3, 7)), since=look().since), {"storage": {"size": "30Gi"}}
    first = decide(observed, **larger)
    assert [type(action) for action in first.actions] == [Switchover]
    fact = "ordered:7:3"
    assert first.since[fact] == NOW
    for seconds, goes_on in ((29, False), (30, True), (89, True), (90, False)):
        plan = decide(replace(observed, since={**first.since, fact: NOW - seconds}), **larger)
        assert [type(action) for action in plan.actions] == [GrowVolume if goes_on else Switchover], seconds
        assert plan.codes == ({Code.SWITCHOVER_FAILED} if goes_on else set())
        assert plan.since[fact] == NOW - seconds
    refused = {**first.since, fact: NOW - 30}
    other = decide(replace(observed, since=refused, orders=Orders(switchover=(2, 7))), **larger)
    assert [type(action) for action in other.actions] == [Switchover]
    assert fact not in other.since


def test_an_ordered_switch_that_is_under_way_is_not_ordered_again_and_holds_nothing_up_if_it_does_not_end() -> None:
    larger = {"storage": {"size": "30Gi"}}
    observed = look(orders=Orders(switchover=(3, 7)), group=group(transfer=3), since=look().since)
    for asked in ({}, {"ordered:7:3": NOW - 30}):
        plan = decide(replace(observed, since={**observed.since, **asked}), **larger)
        assert (plan.actions, plan.operation.state, plan.codes) == ((), "Switch", set())  # type: ignore[union-attr]
    plan = decide(replace(observed, since={**observed.since, "transfer:7:3": NOW - 30}), **larger)
    assert [type(action) for action in plan.actions] == [GrowVolume]
    (block,) = plan.blocked
    assert block.message == "broker 3 is taking over from broker 1, and that does not end"
    another = decide(replace(observed, orders=Orders(switchover=(2, 7))))
    assert [type(action) for action in another.actions] == [Switchover]


@pytest.mark.parametrize("away", ["no node", "a learner copies", "one that leaves"])
def test_an_ordered_switch_waits_for_nobody_who_is_away(away: str) -> None:
    observed = look(orders=Orders(switchover=(2, 7)), group=group(in_sync=(1, 2)))
    if away == "no node":
        observed = with_broker(observed, broker(2, stands=instance(2, ready=False, unschedulable="no room")))
    elif away == "a learner copies":
        learns = (replica(1), replica(2), replica(3, learner=True, lag=1 << 40))
        observed = replace(observed, group=group(in_sync=(1, 2), replicas=learns))
    else:
        observed = with_broker(observed, broker(3, stands=instance(3, leaves_by=NOW - 1000, unreachable=True)))
    assert [type(action) for action in decide(observed).actions] == [Switchover]


def test_what_another_clock_saw_in_the_future_lasts_from_now_on() -> None:
    """As of an operator that ran on a node whose clock was an hour ahead."""
    ahead = dict.fromkeys(look().since, NOW + 3600)
    observed = with_broker(look(since=ahead), broker(2, stands=instance(2, revision=OLD)))
    first = decide(observed)
    assert first.operation is not None
    assert first.operation.state == "Precheck"
    assert set(first.since.values()) == {NOW}
    (restart,) = plan(replace(observed, since=first.since), spec_of(), NOW + 11).actions
    assert isinstance(restart, Restart)


def test_an_eviction_that_several_budgets_make_impossible_is_not_tried() -> None:
    twice = ("everything", "orders-broker")
    for observed, who in (
        (with_broker(look(), broker(2, stands=instance(2, revision=OLD, budgets=twice))), "broker 3"),
        (look(controllers=controllers(revision=OLD, budgets=twice)), "controller 2"),
    ):
        made = decide(observed)
        assert (made.actions, made.codes) == ((), {Code.OVERLAPPING_BUDGET})
        said = f"nothing can evict {who}, because several disruption budgets are over it: everything, orders-broker"
        assert made.blocked[0].message == said
    once = with_broker(look(), broker(2, stands=instance(2, revision=OLD, budgets=("orders-broker",))))
    assert decide(once).codes == frozenset()
    dead = instance(2, revision=OLD, ready=False, failing="CrashLoopBackOff", budgets=twice)
    (restart,) = decide(with_broker(look(), broker(2, stands=dead))).actions
    assert isinstance(restart, Restart)
    assert not restart.serving
