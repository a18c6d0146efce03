"""Places that no node takes, or on whose node nothing starts, and what a corrected template does for them."""

from dataclasses import replace
from typing import Any

import pytest

from logherd_operator.observed.observed import Observed
from logherd_operator.observed.slots import Slot
from logherd_operator.plan.actions import Restart, RestartReason
from unit.operator_plan.looks import (
    NOW,
    OLD,
    WANTED,
    broker,
    controllers,
    decide,
    group,
    instance,
    look,
    replica,
)

NO_NODE: dict[str, Any] = {"ready": False, "unschedulable": "0/3 nodes match the selector"}


def placeless(revision: str, **fields: Any) -> Observed:
    """Everything was made from a template that fits no node, as with a mistake in `placement`: nobody answers."""
    starved = {**NO_NODE, "revision": revision, **fields}
    return look(
        group=None, quorum=None, controllers=controllers(**starved),
        brokers=tuple(broker(n, stands=instance(n, **starved), report=None) for n in range(3)),
    )  # fmt: skip


def restarted(observed: Observed) -> list[tuple[str, int]]:
    found = [each for each in decide(observed).actions if isinstance(each, Restart)]
    assert all((each.why, each.serving) == (RestartReason.STUCK, False) for each in found)
    return [(each.component, each.ordinal) for each in found]


def test_who_has_no_node_is_made_anew_from_a_corrected_template_though_nobody_leads() -> None:
    assert restarted(placeless(OLD)) == [("controller", 0)]
    assert restarted(replace(placeless(OLD), controllers=controllers())) == [("broker", 0)]
    assert restarted(placeless(WANTED)) == []


def test_in_the_modes_without_controllers_too() -> None:
    observed = replace(placeless(OLD), controllers=controllers())
    (action,) = decide(observed, replication={"mode": "Raft"}).actions
    assert isinstance(action, Restart)
    assert (action.component, action.ordinal, action.why) == ("broker", 0, RestartReason.STUCK)


@pytest.mark.parametrize("mode", ["Controller", "Raft", "Static"])
def test_a_pod_whose_containers_nothing_could_start_too(mode: str) -> None:
    """As with a volume in `podTemplate` that is not there: the platform calls it ContainerCreating for ever."""
    observed = replace(placeless(OLD, unschedulable="", unstarted=True), controllers=controllers())
    (action,) = decide(observed, replication={"mode": mode}).actions
    assert isinstance(action, Restart)
    assert (action.component, action.ordinal, action.why) == ("broker", 0, RestartReason.STUCK)
    young = placeless(OLD, unschedulable="", unstarted=True, started_at=NOW - 60)
    assert decide(replace(young, controllers=controllers()), replication={"mode": mode}).actions == ()


def test_who_may_still_get_a_node_or_would_only_fail_elsewhere_is_left_alone() -> None:
    assert restarted(placeless(OLD, started_at=NOW - 60)) == []
    failing = instance(2, uid="controller-2", ready=False, failing="ImagePullBackOff")
    observed = placeless(OLD)
    bad = (*observed.controllers[:2], Slot(ordinal=2, instance=failing))
    brokers = tuple(broker(n, report=None, stands=instance(n, ready=False)) for n in range(3))
    assert restarted(replace(observed, controllers=bad, brokers=brokers)) == []


def updated_without_room(seconds: float, **others: Any) -> Observed:
    """One has the new template and no node; the others have run, and are not ready for so long."""
    down = {"revision": OLD, "ready": False}
    observed = look(
        brokers=(
            *(broker(n, stands=instance(n, **down), report=None) for n in range(2)),
            broker(2, stands=instance(2, **NO_NODE), report=None),
        ),
        group=group(
            leader=None, serving=False, in_sync=(1, 2, 3), replicas=tuple(replica(n, alive=False) for n in (1, 2, 3))
        ),
        **others,
    )
    return replace(observed, since={**observed.since, "unready:pod-0": NOW - seconds, "unready:pod-1": NOW - seconds})


def test_who_does_not_come_back_for_long_is_exchanged_though_another_has_no_node() -> None:
    """As where the new template mends what keeps the former one from being ready, and that node is away."""
    assert restarted(updated_without_room(599)) == []
    assert restarted(updated_without_room(600)) == [("broker", 0)]


def test_how_long_somebody_is_not_ready_is_remembered_of_exactly_that_one() -> None:
    stands = controllers()
    stands = (replace(stands[0], instance=instance(0, uid="controller-0", ready=False)), *stands[1:])
    found = decide(replace(updated_without_room(100, controllers=stands), since={"unready:pod-9": 1.0})).since
    assert {fact for fact in found if fact.startswith("unready:")} == {
        "unready:controller-0", "unready:pod-0", "unready:pod-1", "unready:pod-2",
    }  # fmt: skip


@pytest.mark.parametrize("stuck", [{"unstarted": True}, NO_NODE, {"failing": "ImagePullBackOff"}])
def test_who_has_run_is_not_exchanged_for_a_template_with_which_another_does_not_start(stuck: dict[str, Any]) -> None:
    """As in the midst of an update that fails: who is down for a moment would be lost to it, too."""
    gone = instance(2, **{"ready": False, **stuck})
    observed = look(
        brokers=(
            broker(0, stands=instance(0, revision=OLD)),
            broker(1, stands=instance(1, revision=OLD, ready=False), report=None),
            broker(2, stands=gone, report=None),
        ),
        group=group(in_sync=(1,), replicas=(replica(1), replica(2, alive=False), replica(3, alive=False))),
    )
    assert restarted(replace(observed, since={**observed.since, "unready:pod-1": NOW - 60})) == []
