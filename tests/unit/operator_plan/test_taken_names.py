"""While somebody else has a name that the group needs, or an object of it is refused: what runs is looked after, and
nothing that serves is taken.
"""

from dataclasses import replace
from typing import Any

import pytest

from logherd_operator.observed.observed import Kept, Observed, Orders, Platform
from logherd_operator.observed.quorum import Rules
from logherd_operator.observed.slots import Component, Slot
from logherd_operator.plan.actions import Restart, RestartReason, SetMembers, Switchover
from logherd_operator.plan.outcome import Code, OperationType
from unit.operator_plan.looks import (
    NOW,
    OLD,
    broker,
    controllers,
    decide,
    group,
    instance,
    look,
    quorum,
    with_broker,
)  # fmt: skip

TAKEN = ("the ConfigMap orders-broker-config, which the group needs, is there and somebody else's",)

REFUSED = ("the API server refuses the ConfigMap orders-broker-config: PATCH ...: 422: it is too long",)


def taken(observed: Observed) -> Observed:
    return replace(observed, kept=Kept(taken=TAKEN))


def test_what_cannot_start_is_replaced_after_a_revert() -> None:
    """It serves nobody, and everything after it waits for it."""
    bad = broker(2, stands=instance(2, revision="bad", ready=False, failing="ImagePullBackOff"))
    (action,) = decide(taken(with_broker(look(group=group(in_sync=(1, 2))), bad))).actions
    assert isinstance(action, Restart)
    assert (action.ordinal, action.why, action.serving) == (2, RestartReason.STUCK, False)
    stuck = controllers(revision="bad", ready=False, failing="ImagePullBackOff")
    (action,) = decide(taken(look(controllers=(*controllers()[:2], stuck[2])))).actions
    assert isinstance(action, Restart)
    assert (action.component, action.ordinal) == ("controller", 2)


@pytest.mark.parametrize(
    ("kept", "codes"),
    [
        (Kept(taken=TAKEN), {Code.NAME_TAKEN}),
        (Kept(refused=REFUSED), {Code.OBJECT_REFUSED}),
        (Kept(taken=TAKEN, refused=REFUSED), {Code.NAME_TAKEN, Code.OBJECT_REFUSED}),
    ],
)
def test_what_serves_is_not_restarted_and_what_was_ordered_goes_on(kept: Kept, codes: set[Code]) -> None:
    observed = replace(with_broker(look(), broker(2, stands=instance(2, revision=OLD))), kept=kept)
    held = decide(observed)
    assert (held.actions, held.codes) == ((), codes)
    (switch,) = decide(replace(observed, orders=Orders(switchover=(2, 7)))).actions
    assert isinstance(switch, Switchover)


@pytest.mark.parametrize("component", ["broker", "controller"])
def test_the_keeper_of_what_stands_comes_back_and_that_of_nothing_does_not(component: Component) -> None:
    """Without it nobody replaces a pod that goes."""
    gone = Platform(brokers=None if component == "broker" else 3, controllers=3 if component == "broker" else None)
    observed = taken(look(platform=gone))
    assert component in {each.component for each in decide(observed).actions if isinstance(each, SetMembers)}
    volumes = replace(observed, brokers=tuple(replace(each, instance=None) for each in observed.brokers))
    assert decide(volumes).actions or component == "controller"
    empty: dict[str, tuple[Slot, ...]] = {f"{component}s": ()}
    held = decide(replace(observed, **empty))
    assert (held.actions, held.codes) == ((), {Code.NAME_TAKEN})


def test_no_place_is_added_that_could_not_be_taken_away_and_one_that_is_missing_comes_back() -> None:
    held = decide(taken(look(group=group(3, rules=Rules(replicas=4, min_in_sync=2)))), replicas=4)
    assert (held.actions, held.codes) == ((), {Code.NAME_TAKEN})
    assert (held.operation.type, held.operation.state) == (OperationType.SCALE_UP, "Check")  # type: ignore[union-attr]
    (action,) = decide(taken(look(2, group=group(3)))).actions
    assert isinstance(action, SetMembers)
    assert (action.before, action.count) == (2, 3)


def test_no_place_is_added_to_a_group_that_is_founded() -> None:
    """What is started there might start from what is somebody else's."""
    unfounded = group(3, epoch=0, founded=False, leader=None, serving=False, in_sync=())
    observed = look(3, group=unfounded)
    (action, *_) = decide(observed, replicas=5).actions
    assert isinstance(action, SetMembers)
    held = decide(taken(observed), replicas=5)
    assert not [each for each in held.actions if isinstance(each, SetMembers)]
    assert held.codes == {Code.NAME_TAKEN}


@pytest.mark.parametrize("ordered", [False, True])
def test_the_leader_does_not_hand_over_for_a_restart_that_is_held_back(ordered: bool) -> None:
    """Once the others are restarted only it is left."""
    leader = broker(0, stands=instance(0, revision=OLD, started_at=NOW - 5_000))
    others = (broker(n, stands=instance(n, started_at=NOW - 900)) for n in (1, 2))
    orders = Orders(restart_at=NOW - 1_000 if ordered else None)
    observed = look(brokers=(leader, *others), controllers=controllers(started_at=NOW - 900), orders=orders)
    (switch,) = decide(observed).actions
    assert isinstance(switch, Switchover)
    held = decide(taken(observed))
    assert (held.actions, held.codes) == ((), {Code.NAME_TAKEN})
    assert held.since.keys() == {*decide(taken(look())).since}


@pytest.mark.parametrize("spec", [{}, {"update": {"windows": [{"cron": "0 0 1 1 *", "durationMinutes": 1}]}}])
def test_a_leader_that_does_not_run_as_it_should_hands_over_and_is_replaced(spec: dict[str, Any]) -> None:
    """Its lease may run on, though nobody reaches it: without that it would stay so while the name is taken."""
    bad = broker(0, report=None, stands=instance(0, revision=OLD, ready=False, failing="ImagePullBackOff"))
    (switch,) = decide(taken(with_broker(look(), bad)), **spec).actions
    assert isinstance(switch, Switchover)
    (restart,) = decide(taken(with_broker(look(group=group(leader=2, epoch=8)), bad)), **spec).actions
    assert isinstance(restart, Restart)
    assert (restart.ordinal, restart.why, restart.serving) == (0, RestartReason.STUCK, False)


ALL_OLD = tuple(broker(n, stands=instance(n, revision=OLD)) for n in range(3))
BAD = broker(0, report=None, stands=instance(0, revision=OLD, ready=False, failing="CrashLoopBackOff"))
NEVER = {"update": {"windows": [{"cron": "0 0 1 1 *", "durationMinutes": 1}]}}


@pytest.mark.parametrize("spec", [{}, NEVER])
@pytest.mark.parametrize("stale", [{"brokers": ALL_OLD}, {"controllers": controllers(revision=OLD)}])
def test_a_leader_that_does_not_run_does_not_wait_for_those_that_are_held_back(
    stale: dict[str, Any], spec: dict[str, Any]
) -> None:
    observed = with_broker(look(**stale), BAD)
    for each in [taken(observed), *([observed] if spec else [])]:
        (switch,) = decide(each, **spec).actions
        assert isinstance(switch, Switchover)
        assert switch.heals
        (restart,) = decide(replace(each, group=group(leader=3, epoch=8)), **spec).actions
        assert isinstance(restart, Restart)
        assert (restart.component, restart.ordinal, restart.why) == ("broker", 0, RestartReason.STUCK)


def test_a_leader_that_is_not_ready_hands_over_once_that_has_lasted() -> None:
    waits = broker(0, stands=instance(0, revision=OLD, ready=False))
    observed = taken(with_broker(look(brokers=ALL_OLD), waits))
    held = decide(observed)
    assert (held.actions, held.codes) == ((), {Code.NAME_TAKEN})
    lasting = replace(observed, since={**held.since, "unready:pod-0": NOW - 60})
    (switch,) = decide(lasting).actions
    assert isinstance(switch, Switchover)


@pytest.mark.parametrize("strategy", ["Supervised", "Manual"])
def test_a_leader_that_does_not_run_and_waits_for_a_person_is_told_with_the_command(strategy: str) -> None:
    by_hand = {"update": {"strategy": strategy}}
    observed = taken(with_broker(look(brokers=ALL_OLD), BAD))
    plan = decide(observed, **by_hand)
    assert (plan.actions, plan.codes) == ((), {Code.NAME_TAKEN, Code.WAITING_FOR_APPROVAL})
    block = plan.blocked[-1]
    assert block.message.startswith("broker 1 leads and does not run as it should; it is replaced once another leads")
    assert block.unblocks.startswith(f"kubectl logherd switchover, because update.strategy is {strategy}")
    ordered = replace(observed, orders=Orders(switchover=(2, 7)))
    assert [type(each) for each in decide(ordered, **by_hand).actions] == [Switchover]
    refused = replace(ordered, since={**observed.since, "ordered:7:2": NOW - 30})
    assert decide(refused, **by_hand).blocked[1].code is Code.SWITCHOVER_FAILED
    assert not any("does not run" in each.message for each in decide(refused, **by_hand).blocked)
    weak = decide(replace(observed, quorum=quorum(down=(1, 2))), **by_hand)
    assert Code.QUORUM_UNHEALTHY in weak.codes
    assert not any("does not run" in each.message for each in weak.blocked)


def test_nobody_waits_for_a_person_once_restarts_were_ordered() -> None:
    """The leader's turn comes with them, last."""
    begun = replace(with_broker(look(brokers=ALL_OLD), BAD), orders=Orders(restart_at=NOW - 5))
    plan = decide(replace(begun, controllers=controllers(started_at=NOW)), update={"strategy": "Manual"})
    assert ([type(each) for each in plan.actions], plan.codes) == ([Restart], set())


def test_of_the_only_broker_nobody_says_that_nobody_takes_over() -> None:
    plan = decide(with_broker(look(1, group=group(1)), BAD), replicas=1)
    assert ([type(each) for each in plan.actions], plan.codes) == ([Restart], set())


@pytest.mark.parametrize(
    "fields",
    [
        {"update": {"strategy": "Supervised"}}, {"update": {"strategy": "Manual"}},
        {"replication": {"mode": "Static"}},
    ],
)  # fmt: skip
def test_what_a_person_has_to_begin_and_what_stands_in_for_nobody_is_as_it_was(fields: dict[str, Any]) -> None:
    held = decide(taken(with_broker(look(brokers=ALL_OLD), BAD)), **fields)
    assert held.actions == ()


def test_a_leader_that_does_not_run_is_told_while_nothing_may_be_taken_away() -> None:
    plan = decide(taken(with_broker(look(brokers=ALL_OLD), BAD)), reconcile="NoDisruption")
    assert (plan.actions, plan.codes) == ((), {Code.NAME_TAKEN, Code.PAUSED})
    block = plan.blocked[-1]
    assert block.message == "held back: broker 1 leads and does not run as it should; another is to lead"
    assert block.unblocks == "reconcile: Full, because NoDisruption takes nothing away"
    plan = decide(with_broker(look(brokers=ALL_OLD), BAD), reconcile="NoDisruption")
    assert plan.blocked[-1].message == f"{block.message}; held back: broker 3: SpecChanged"


def test_an_update_goes_on_past_a_leader_that_finds_nobody_to_hand_over_to() -> None:
    observed = with_broker(look(brokers=ALL_OLD), BAD)
    (switch,) = decide(observed).actions
    assert isinstance(switch, Switchover)
    asked = decide(replace(observed, since={**observed.since, "switch:7:2": NOW - 5}))
    assert (asked.actions, asked.operation.state) == ((), "Switch")  # type: ignore[union-attr]
    failed = {"switch:7:2": NOW - 100, "switch:7:3": NOW - 60}
    alone = replace(observed, group=group(in_sync=(1,)))
    for each in (replace(observed, since={**observed.since, **failed}), alone):
        plan = decide(each)
        (restart,) = plan.actions
        assert isinstance(restart, Restart)
        assert (restart.ordinal, plan.codes) == (2, {Code.SWITCHOVER_FAILED})
        assert plan.blocked[0].message.startswith("broker 1 leads in epoch 7, and nobody took over: ")


def test_what_keeps_a_leader_that_does_not_run_from_handing_over_is_told() -> None:
    """Though nothing else is to be done: nobody else would say why it is not replaced."""
    for fields, code in (
        ({"group": group(in_sync=(1,))}, Code.SWITCHOVER_FAILED),
        ({"quorum": quorum(down=(1, 2))}, Code.QUORUM_UNHEALTHY),
    ):
        plan = decide(taken(with_broker(look(brokers=ALL_OLD, **fields), BAD)))
        assert (plan.actions, plan.codes) == ((), {Code.NAME_TAKEN, code})
