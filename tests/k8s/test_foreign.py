"""Somebody else's objects under the names that a group needs, and the group's own without their marks."""

from typing import Any

import pytest

from k8s.driving import MANAGED, Drive
from k8s.kubelet import NAME, NAMESPACE
from logherd_operator.clients.api import path_of

SPEC: dict[str, Any] = {"replicas": 3, "image": "logherd:good-1"}
BROKERS = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{NAME}-broker"


def told(drive: Drive) -> str:
    found = drive.condition("Degraded")
    return f"{found['reason']}: {found['message']}"


async def test_a_stateful_set_of_somebody_else_is_named_and_left_as_it_is() -> None:
    drive = Drive.of(SPEC)
    metadata = {"name": f"{NAME}-broker", "namespace": NAMESPACE, "labels": {"team": "shop"}}
    spec = {"replicas": 1, "template": {"spec": {"containers": [{"name": "db", "image": "db:1"}]}}}
    theirs = drive.api.put(
        BROKERS, {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}
    )
    for _ in range(3):
        await drive.look()
    assert f"InvalidSpec: the StatefulSet {NAME}-broker, which the group needs, is there" in told(drive)
    assert drive.api.find(BROKERS) is theirs
    drive.api.drop(BROKERS)
    await drive.settle()
    assert drive.status["phase"] == "Running"


@pytest.mark.parametrize("label", [MANAGED, "app.kubernetes.io/instance"])
async def test_a_stateful_set_whose_labels_somebody_took_away_gets_them_back_and_no_pod_is_touched(label: str) -> None:
    drive = Drive.of(SPEC)
    await drive.settle()
    before, pods = drive.api.find(BROKERS), drive.api.of_kind("pods")
    assert before is not None
    labels = {name: value for name, value in before["metadata"]["labels"].items() if name != label}
    drive.api.put(BROKERS, {**before, "metadata": {**before["metadata"], "labels": labels}})
    await drive.settle()
    after = drive.api.find(BROKERS)
    assert after is not None
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])
    assert [each["metadata"]["uid"] for each in drive.api.of_kind("pods")] == [each["metadata"]["uid"] for each in pods]
    assert drive.status["phase"] == "Running"


@pytest.mark.parametrize(
    ("version", "kind", "name"),
    [
        ("v1", "ConfigMap", f"{NAME}-client"),
        ("policy/v1", "PodDisruptionBudget", f"{NAME}-broker"),
        ("networking.k8s.io/v1", "NetworkPolicy", f"{NAME}-broker"),
    ],
)
async def test_what_somebody_else_has_under_such_a_name_is_named_and_not_taken(
    version: str, kind: str, name: str
) -> None:
    """The group would be its owner, and it would be deleted with the group."""
    drive = Drive.of(SPEC)
    metadata = {"name": name, "namespace": NAMESPACE}
    document: dict[str, Any] = {"apiVersion": version, "kind": kind, "metadata": metadata}
    if kind == "ConfigMap":
        document["data"] = {"mine": "kept"}
    path = path_of(document)
    theirs = drive.api.put(path, document)
    for _ in range(3):
        await drive.look()
    assert f"InvalidSpec: the {kind} {name}, which the group needs, is there" in told(drive)
    assert drive.api.find(path) is theirs
    drive.api.drop(path)
    drive.kubelet.tick(2.0)
    await drive.settle()
    assert drive.status["phase"] == "Running"
