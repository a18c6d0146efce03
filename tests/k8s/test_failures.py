"""Rows of the failure matrix, end to end: what the operator does, what it says, and above all what it leaves alone."""

from typing import Any

import pytest

from k8s.api_server import stamp
from k8s.driving import Drive
from k8s.kubelet import NAME, NAMESPACE
from logherd_operator.clients.api import Api
from logherd_operator.clients.errors import Unreachable
from logherd_operator.handlers.telling import status_patch

SPEC: dict[str, Any] = {"replicas": 3, "image": "logherd:good-1"}
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


async def founded(**fields: Any) -> Drive:
    drive = Drive.of({**SPEC, **fields})
    await drive.settle()
    drive.api.journal.clear()
    return drive


def pods(drive: Drive) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in drive.api.of_kind("pods")}


def destroyed(drive: Drive) -> list[str]:
    """What the operator deleted or evicted."""
    return [path for method, path in drive.api.journal if method == "DELETE" or path.endswith("/eviction")]


def blocked(drive: Drive) -> list[str]:
    return [each["code"] for each in drive.status.get("blocked", [])]


async def test_f1_a_deleted_follower_comes_back_and_the_operator_does_nothing() -> None:
    drive = await founded()
    drive.kubelet.world.pods.pop(2)
    await drive.steps(4)
    assert drive.condition("Degraded")["reason"] in ("PodNotReady", "FollowerLagging")
    await drive.settle()
    assert destroyed(drive) == []
    assert drive.kubelet.told == []
    assert drive.status["phase"] == "Running"


async def test_f4_a_killed_leader_is_followed_and_said() -> None:
    drive = await founded()
    drive.kubelet.world.pods[0].started_at = drive.kubelet.world.now  # its process begins anew; it is not ready
    await drive.steps(6)
    assert drive.status["leader"]["epoch"] == 2
    assert drive.status["leader"]["brokerId"] != 1
    notes = [each["note"] for each in drive.api.of_kind("events") if each["reason"] == "LeaderChanged"]
    assert any("after orders-broker-0 in epoch 1" in note for note in notes)
    await drive.settle()
    assert destroyed(drive) == []


async def test_f6_a_pod_on_a_lost_node_is_never_deleted_by_force() -> None:
    drive = await founded()
    path = f"{PODS}/{NAME}-broker-2"
    world = drive.kubelet.world
    world.pods[2].leaves_at = world.now + 100_000  # told to go; its kubelet says nothing
    found = drive.api.find(path)
    assert found is not None
    metadata = {**found["metadata"], "deletionTimestamp": stamp(world.now + 30)}
    drive.api.put(path, {**found, "metadata": metadata, "status": {**found["status"], "reason": "NodeLost"}})
    drive.kubelet._write_pod = lambda *_: None  # type: ignore[method-assign]
    await drive.steps(300)
    assert "NodeUnreachable" in blocked(drive)
    assert destroyed(drive) == []


async def test_f8_a_lost_volume_begins_empty_and_counts_again_only_when_it_is_full() -> None:
    drive = await founded()
    world = drive.kubelet.world
    world.pods.pop(2)
    world.disks.pop(2)
    await drive.steps(12)
    assert world.group is not None
    assert 3 not in world.group.in_sync
    await drive.settle()
    assert drive.status["inSync"] == "3/3"
    assert world.faults == []


async def test_f12_an_operator_that_was_away_restarts_nothing() -> None:
    drive = await founded()
    world = drive.kubelet.world
    world.pods[0].started_at = world.now
    drive.kubelet.tick(3600)  # the group fails over without it
    before = pods(drive)
    drive.begin()
    await drive.steps(30)
    assert drive.status["leader"]["epoch"] == 2
    assert pods(drive) == before
    assert destroyed(drive) == []


async def test_f13_without_an_api_server_looks_fail_and_go_on_after_it() -> None:
    drive = await founded()
    drive.api.faults.down = True
    drive.set_spec({**SPEC, "image": "logherd:good-2"})
    failed = 0
    for _ in range(5):
        try:
            await drive.reconciler.reconcile(drive.key)
        except Unreachable:
            failed += 1
    assert failed == 5
    drive.api.faults.down = False
    await drive.settle()
    assert drive.status["versions"]["image"] == "logherd:good-2"


async def test_f14_with_one_controller_lost_no_controller_is_restarted() -> None:
    drive = await founded()
    drive.kubelet.world.controllers[2].started_at = drive.kubelet.world.now + 100_000
    await drive.steps(20)
    for kind in ("QuorumHealthy", "Degraded"):
        assert (drive.condition(kind)["status"], drive.condition(kind)["reason"]) == ("True", "MinorityLost")
    drive.set_spec({**SPEC, "image": "logherd:good-2"})
    await drive.steps(60)
    controllers = [path for path in destroyed(drive) if f"{NAME}-controller-0" in path or "controller-1" in path]
    assert controllers == []


async def test_f15_without_a_quorum_nothing_is_taken_away() -> None:
    drive = await founded()
    drive.kubelet.world.quorum_down = True
    before = pods(drive)
    drive.set_spec({**SPEC, "image": "logherd:good-2", "replicas": 1})
    await drive.steps(300)
    assert drive.condition("QuorumHealthy")["status"] == "False"
    assert "QuorumUnreachable" in blocked(drive)
    assert pods(drive) == before
    assert destroyed(drive) == []


async def test_silent_brokers_are_unknown_and_not_down() -> None:
    drive = await founded()
    drive.kubelet.silent = {f"{NAME}-broker-{n}" for n in range(3)}
    before = pods(drive)
    await drive.steps(300)
    assert pods(drive) == before
    assert destroyed(drive) == []


async def test_a_status_is_taken_when_nothing_lasts_any_more() -> None:
    """As while a group is founded: its brokers are silent no more, and nobody leads yet."""
    drive = await founded()
    api = Api(drive.api)
    for since in ({"blocked:QuorumUnreachable": stamp(0)}, {}, {"leader:1@1": stamp(1)}):
        await api.apply(status_patch(drive.group, {**drive.status, "since": since}), subresource="status")
        assert drive.status.get("since", {}) == since


async def test_f22_a_second_operator_with_an_old_look_fails_and_does_no_harm() -> None:
    drive = await founded()
    first = drive.reconciler
    drive.begin()
    second = drive.reconciler
    drive.set_spec({**SPEC, "image": "logherd:good-2"})
    for _ in range(120):
        await first.reconcile(drive.key)
        await second.reconcile(drive.key)
        drive.kubelet.tick(2.0)
    await drive.settle()
    assert drive.kubelet.world.faults == []
    assert drive.kubelet.world.group is not None
    assert drive.kubelet.world.group.epoch == 2


async def test_f25_a_status_that_was_wiped_or_is_old_is_computed_anew_and_allows_nothing() -> None:
    drive = await founded()
    before, group = pods(drive), drive.group
    for status in ({}, {**group["status"], "leader": {**group["status"]["leader"], "epoch": 99}}):
        path = "/apis/logherd.dev/v1alpha1/namespaces/shop/brokergroups/orders"
        drive.api.put(path, {**drive.group, "metadata": dict(drive.group["metadata"]), "status": status})
        drive.begin()
        await drive.settle()
        assert drive.status["leader"]["epoch"] == 1
        assert pods(drive) == before
        assert destroyed(drive) == []


async def test_a_budget_that_holds_an_eviction_back_is_waited_for() -> None:
    drive = await founded()
    drive.api.evicting = lambda _path, _pod: 429
    before = pods(drive)
    drive.set_spec({**SPEC, "image": "logherd:good-2"})
    await drive.steps(120)
    assert pods(drive) == before
    said = [each for each in drive.api.of_kind("events") if each["reason"] == "RestartRefused"]
    assert said
    assert "429" in said[0]["note"]
    drive.api.evicting = lambda _path, _pod: 201
    await drive.settle()
    assert drive.status["updatedReplicas"] == 3


async def test_an_eviction_that_two_budgets_make_impossible_is_told() -> None:
    """Kubernetes answers that with 500, as if it were its own fault, and for as long as both are there."""
    drive = await founded()
    drive.api.evicting = lambda _path, _pod: 500
    before = pods(drive)
    drive.set_spec({**SPEC, "image": "logherd:good-2"})
    await drive.steps(120)
    assert pods(drive) == before
    said = [each for each in drive.api.of_kind("events") if each["reason"] == "RestartRefused"]
    assert [each["type"] for each in said] == ["Warning"]
    assert "500: a budget holds it back" in said[0]["note"]
    drive.api.evicting = lambda _path, _pod: 201
    await drive.settle()
    assert drive.status["updatedReplicas"] == 3


async def test_a_budget_of_somebody_else_over_our_pods_is_told_and_nothing_is_evicted_meanwhile() -> None:
    drive = await founded()
    path = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/everything"
    selector = {"matchLabels": {"app.kubernetes.io/name": "logherd"}}
    drive.api.put(path, {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"maxUnavailable": 0, "selector": selector},
        "metadata": {"name": "everything", "namespace": NAMESPACE},
    })  # fmt: skip
    await drive.settle()
    (block,) = drive.status["blocked"]
    assert block["code"] == "OverlappingBudget"
    assert "broker 1, because several disruption budgets are over it: everything, orders-broker" in block["message"]
    assert drive.status["disruptionsAllowed"] == 0
    assert (drive.condition("Available")["status"], drive.condition("Degraded")["status"]) == ("True", "False")
    before = pods(drive)
    drive.set_spec({**SPEC, "image": "logherd:good-2"})
    await drive.steps(120)
    assert (blocked(drive), pods(drive), destroyed(drive)) == (["OverlappingBudget"], before, [])
    assert (drive.condition("Progressing")["status"], drive.condition("Progressing")["reason"]) == (
        "False", "OverlappingBudget",
    )  # fmt: skip
    drive.api.drop(path)
    await drive.settle()
    assert (blocked(drive), drive.status["updatedReplicas"], drive.status["phase"]) == ([], 3, "Running")


async def test_a_budget_of_somebody_else_in_place_of_ours_is_fine() -> None:
    drive = await founded(disruption={"budget": False})
    drive.api.put(f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/own", {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "own", "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"app.kubernetes.io/name": "logherd"}}},
    })  # fmt: skip
    await drive.settle()
    assert (blocked(drive), drive.status["phase"]) == ([], "Running")


async def test_an_eviction_names_the_pod_that_was_seen() -> None:
    drive = await founded()
    seen: list[str] = []
    drive.api.evicting = lambda _path, pod: seen.append(pod["metadata"]["uid"]) or 201
    drive.set_spec(SPEC, **{"restart-at": stamp(drive.kubelet.world.now)})
    await drive.settle()
    assert len(seen) == len(set(seen)) == 6  # three brokers, three controllers, each once


async def test_an_ordered_switchover_is_done_once() -> None:
    drive = await founded()
    drive.set_spec(SPEC, switchover="2@1")
    await drive.settle()
    assert drive.status["leader"]["brokerId"] == 2
    assert [path for _, path in drive.kubelet.told if path.endswith("/elect")] == ["/groups/orders/orders/elect"]


@pytest.mark.parametrize("status", [403, 422])
async def test_an_object_that_the_api_server_refuses_is_told_in_the_status(status: int) -> None:
    """As a StatefulSet whose affinity is none: nobody but the API server looks at that."""
    drive = await founded()
    drive.api.faults.refuse = {"statefulsets": status}
    drive.set_spec({**SPEC, "image": "logherd:good-2"})
    await drive.steps(30)
    degraded = drive.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "ObjectRefused")
    assert f"{status}: refused: statefulsets" in degraded["message"]
    told = drive.api.version
    for kind in ("Available", "LeaderElected", "QuorumHealthy"):
        assert drive.condition(kind)["status"] == "True", "the group runs, and was looked at"
    assert drive.status["phase"] == "Blocked"
    await drive.steps(30)
    assert drive.api.version == told, "and nothing is written again and again"
    drive.kubelet.world.pods[0].started_at = drive.kubelet.world.now  # the leader's process begins anew
    await drive.steps(10)
    assert drive.status["leader"]["epoch"] == 2, "what becomes of it is told meanwhile"
    drive.api.faults.refuse = {}
    await drive.settle()
    assert (drive.condition("Degraded")["status"], drive.status["phase"]) == ("False", "Running")


async def test_events_that_cannot_be_kept_stop_nothing() -> None:
    """As where they have a storage of their own, which is away."""
    drive = await founded()
    drive.api.faults.refuse = {"/events": 500}
    drive.kubelet.world.pods[0].started_at = drive.kubelet.world.now  # the leader's process begins anew
    await drive.steps(6)
    assert drive.status["leader"]["epoch"] == 2


async def test_what_went_between_look_and_act_is_looked_at_again_and_is_nobodys_mistake() -> None:
    drive = await founded()
    drive.set_spec({**SPEC, "storage": {"retention": {"whenDeleted": "Delete"}}})
    drive.api.faults.refuse = {"persistentvolumeclaims": 404}
    assert await drive.reconciler.reconcile(drive.key) == 1.0
    drive.api.faults.refuse = {}
    await drive.settle()
    assert "ObjectRefused" not in {each["reason"] for each in drive.api.of_kind("events")}
    assert drive.status["phase"] == "Running"


async def test_what_is_missing_at_the_next_look_too_is_told() -> None:
    """As where the API server does not know a kind: nobody is to look again each second and say nothing."""
    drive = await founded()
    drive.set_spec({**SPEC, "storage": {"retention": {"whenDeleted": "Delete"}}})
    drive.api.faults.refuse = {"persistentvolumeclaims": 404}
    assert await drive.reconciler.reconcile(drive.key) == 1.0
    assert await drive.reconciler.reconcile(drive.key) > 1.0
    assert drive.condition("Degraded")["reason"] == "ObjectRefused"


async def test_conflicts_and_refusals_of_every_write_end_in_the_same_state() -> None:
    drive = await founded()
    for word, status in (("status", 409), ("configmaps", 500), ("statefulsets", 409), ("eviction", 429)):
        drive.api.faults.refuse = {word: status}
        drive.set_spec({**SPEC, "image": f"logherd:good-{status}-{word}"})
        await drive.steps(60)
        drive.api.faults.refuse = {}
        await drive.settle()
        assert drive.status["updatedReplicas"] == 3
        assert drive.status["phase"] == "Running"
    assert drive.kubelet.world.faults == []
