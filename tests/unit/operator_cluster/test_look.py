"""Kubernetes' objects as places: what the planner sees of them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from logherd_operator.cluster.look import NotSettled, orders_of, platform_of, slots_of
from logherd_operator.handlers.known import slim_pod
from logherd_operator.observed.observed import Orders
from logherd_operator.observed.slots import Report

CREATED = "2026-11-22T00:00:00Z"
SECONDS = datetime(2026, 11, 22, tzinfo=UTC).timestamp()
GIB = 1 << 30


def workload(**status: Any) -> dict[str, Any]:
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "20Gi"}}}}
    return {
        "metadata": {"name": "orders-broker", "generation": 4},
        "spec": {"replicas": 3, "volumeClaimTemplates": [claim]},
        "status": {"observedGeneration": 4, "updateRevision": "rev-2", "currentRevision": "rev-1"} | status,
    }


def pod(name: str = "orders-broker-1", metadata: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    fields = {
        "name": name,
        "uid": f"uid-{name}",
        "creationTimestamp": CREATED,
        "labels": {"controller-revision-hash": "r"},
    }
    return {"metadata": fields | (metadata or {}), "spec": {"nodeName": "n1"}, "status": status}


def claim(name: str = "data-orders-broker-1", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"resources": {"requests": {"storage": "20Gi"}}},
        "status": {"phase": "Bound", "capacity": {"storage": "20Gi"}} | status,
    }


def condition(kind: str, status: str, **fields: str) -> dict[str, str]:
    return {"type": kind, "status": status, "lastTransitionTime": CREATED} | fields


def test_the_wanted_revision_is_the_update_revision_and_only_once_it_was_seen() -> None:
    platform = platform_of(workload(), None)
    assert (platform.brokers, platform.controllers, platform.broker_revision) == (3, None, "rev-2")
    assert platform.broker_claim == 20 * GIB
    with pytest.raises(NotSettled):
        platform_of(workload(observedGeneration=3), None)
    assert platform_of(None, None).brokers is None


def test_places_are_found_by_their_names_and_nobody_elses() -> None:
    report = Report(broker_id=2, role="leader", epoch=1)
    found = slots_of(
        "orders-broker", [pod(), pod("orders-broker-old-1"), pod("other-broker-1")],
        [claim(), claim("data-orders-broker-4"), claim("data-orders-controller-0")], {1: report},
    )  # fmt: skip
    assert [(each.ordinal, each.instance is not None, each.volume is not None) for each in found] == [
        (1, True, True), (4, False, True),
    ]  # fmt: skip
    assert found[0].report == report


def instance(pod: dict[str, Any]) -> Any:
    (slot,) = slots_of("orders-broker", [pod], [])
    return slot.instance


def test_a_running_pod_is_read() -> None:
    seen = instance(pod(phase="Running", conditions=[condition("Ready", "True")]))
    assert (seen.uid, seen.revision, seen.ready, seen.node) == ("uid-orders-broker-1", "r", True, "n1")
    assert (seen.started_at, seen.leaves_by, seen.failing, seen.unschedulable) == (SECONDS, None, "", "")


@pytest.mark.parametrize(
    ("status", "failing"),
    [
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}, "ImagePullBackOff"),
        (
            {"containerStatuses": [{"state": {"running": {}}}, {"state": {"waiting": {
                "reason": "CrashLoopBackOff", "message": "back-off 10s"}}}]},
            "CrashLoopBackOff: back-off 10s",
        ),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}, ""),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ({}, ""),
    ],
)  # fmt: skip
def test_only_what_does_not_mend_itself_is_called_failing(status: dict[str, Any], failing: str) -> None:
    assert instance(pod(**status)).failing == failing


@pytest.mark.parametrize(
    ("address", "ready", "failing"),
    [
        ("fd00::5", "False", "its first address is fd00::5, and only on IPv4 anything listens"),
        ("10.0.0.5", "False", ""),
        ("fd00::5", "True", ""),
        (None, "False", ""),
    ],
)
def test_a_pod_that_has_no_address_of_ours_says_so(address: str | None, ready: str, failing: str) -> None:
    told = {} if address is None else {"podIP": address}
    seen = pod(metadata={"namespace": "shop"}, phase="Running", conditions=[condition("Ready", ready)], **told)
    assert instance(seen).failing == failing
    assert instance(slim_pod(seen)).failing == failing


CREATING = {"restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}


@pytest.mark.parametrize(
    ("status", "unstarted"),
    [
        ({"phase": "Pending", "containerStatuses": [CREATING, CREATING]}, True),
        ({"phase": "Pending"}, True),
        # Another container waits for its image, and this one runs.
        ({"phase": "Pending", "containerStatuses": [{"restartCount": 0, "state": {"running": {}}}, CREATING]}, False),
        ({"phase": "Pending", "containerStatuses": [{**CREATING, "restartCount": 1}]}, False),
        ({"phase": "Pending", "initContainerStatuses": [{"state": {"terminated": {}}}]}, False),
        ({"phase": "Running", "containerStatuses": [CREATING]}, False),
        ({}, False),
    ],
)  # fmt: skip
def test_a_pod_of_which_nothing_ever_ran_is_known(status: dict[str, Any], unstarted: bool) -> None:
    assert instance(pod(**status)).unstarted is unstarted
    slim = slim_pod(pod(metadata={"namespace": "shop"}, **status))
    assert instance(slim).unstarted is unstarted
    assert instance(slim_pod(pod(metadata={"namespace": "shop"}, **status) | {"spec": {}})).unstarted is False


def test_a_pod_without_a_node_and_one_on_a_lost_node_are_told_apart() -> None:
    starved = instance(pod(conditions=[condition("PodScheduled", "False", reason="Unschedulable", message="0/2 fit")]))
    assert (starved.unschedulable, starved.unreachable) == ("0/2 fit", False)
    lost = instance(pod(metadata={"deletionTimestamp": CREATED}, reason="NodeLost"))
    assert (lost.leaves_by, lost.unreachable, lost.terminating) == (SECONDS, True, True)


def test_volumes_are_read_with_what_they_wait_for() -> None:
    (slot,) = slots_of("orders-broker", [], [claim(conditions=[condition("FileSystemResizePending", "True")])])
    assert slot.volume is not None
    assert (slot.volume.requested, slot.volume.capacity, slot.volume.resize_waits_since) == (
        20 * GIB,
        20 * GIB,
        SECONDS,
    )
    deleted = claim()
    deleted["metadata"]["deletionTimestamp"] = "1970-01-12T13:46:40Z"
    for found, leaves in ((deleted, True), (claim(), False)):
        (slot,) = slots_of("orders-broker", [], [found])
        assert slot.volume is not None
        assert slot.volume.leaving is leaves
    (lost,) = slots_of("orders-broker", [], [claim(phase="Lost", capacity={})])
    assert lost.volume is not None
    assert (lost.volume.lost, lost.volume.capacity) == (True, 0)


@pytest.mark.parametrize(
    ("size", "count"), [("1E", 10**18), ("2Ei", 2 << 60), ("21e9", 21 * 10**9), ("5000000000000n", 5000), ("7u", 0)]
)
def test_a_volume_may_have_any_size_that_the_api_server_takes(size: str, count: int) -> None:
    (slot,) = slots_of("orders-broker", [], [claim(capacity={"storage": size})])
    assert slot.volume is not None
    assert slot.volume.capacity == count


@pytest.mark.parametrize("said", [{"lastTransitionTime": None}, {}])
def test_a_volume_that_waits_for_nobody_knows_how_long_is_read(said: dict[str, None]) -> None:
    waiting = {"type": "FileSystemResizePending", "status": "True", **said}
    (slot,) = slots_of("orders-broker", [], [claim(conditions=[waiting])])
    assert slot.volume is not None
    assert slot.volume.resize_waits_since is None


def test_orders_are_annotations_for_this_generation() -> None:
    notes = {
        "logherd.dev/restart-at": CREATED, "logherd.dev/accept-risk": "NotAllInSync@7, BelowMinInSync@6",
        "logherd.dev/rebuild": "2@uid-2", "logherd.dev/switchover": "3@12",
    }  # fmt: skip
    assert orders_of({"generation": 7, "annotations": notes}) == Orders(
        restart_at=SECONDS, accepted_risks=frozenset({"NotAllInSync"}), rebuild=(2, "uid-2"), switchover=(3, 12)
    )


@pytest.mark.parametrize(
    "notes",
    [None, {}, {"logherd.dev/restart-at": "now"}, {"logherd.dev/restart-at": "2026-11-22T00:00:00"},
     {"logherd.dev/rebuild": "two@v"}, {"logherd.dev/rebuild": "2"}, {"logherd.dev/rebuild": "2@"},
     {"logherd.dev/switchover": "3"}, {"logherd.dev/switchover": "9" * 5000 + "@1"},
     {"logherd.dev/rebuild": "9" * 5000 + "@v"}, {"logherd.dev/accept-risk": "NotAllInSync"}],
)  # fmt: skip
def test_what_cannot_be_read_is_no_order(notes: dict[str, str] | None) -> None:
    assert orders_of({"generation": 7, "annotations": notes}) == Orders()
