"""Somebody else's objects under the names that a group needs, and the group's own without their marks."""

import json
from typing import Any

import pytest

from k8s.driving import KEPT_SLICES, MANAGED, Drive
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
    assert f"NameTaken: the StatefulSet {NAME}-broker, which the group needs, is there" in told(drive)
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
        ("v1", "Service", f"{NAME}-leader"),
        ("v1", "ServiceAccount", f"{NAME}-controller"),
        ("rbac.authorization.k8s.io/v1", "Role", f"{NAME}-leader-endpoint"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding", f"{NAME}-leader-endpoint"),
        ("discovery.k8s.io/v1", "EndpointSlice", f"{NAME}-leader"),
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
    assert f"NameTaken: the {kind} {name}, which the group needs, is there" in told(drive)
    assert drive.api.find(path) is theirs
    drive.api.drop(path)
    drive.kubelet.tick(2.0)
    await drive.settle()
    assert drive.status["phase"] == "Running"


@pytest.mark.parametrize("dies", [False, True])
async def test_with_how_many_brokers_a_group_begins_may_change_until_there_is_one(dies: bool) -> None:
    """The files are written before the name is free; brokers that wait for others that never come elect nobody."""
    spec = {**SPEC, "replication": {"mode": "Raft"}}
    drive = Drive.of(spec)
    service = f"/api/v1/namespaces/{NAMESPACE}/services/{NAME}-bootstrap"
    theirs_at(drive, service, "v1", "Service")
    await drive.steps(5)
    drive.set_spec({**spec, "replicas": 1})
    if dies:
        drive.begin()
    await drive.steps(5)
    drive.api.drop(service)
    await drive.settle()
    assert founders(drive) == ([1], "1")
    assert drive.status["phase"] == "Running"


async def test_with_how_many_brokers_a_group_begins_stays_once_their_keeper_is_made() -> None:
    """Though the watch has shown nothing of it yet."""
    spec = {**SPEC, "replication": {"mode": "Raft"}}
    drive = Drive.of(spec)
    await drive.look()
    for found in drive.api.of_kind("statefulsets"):
        drive.api.put(path_of(found), {**found, "metadata": {**found["metadata"], "labels": {}}})
    drive.set_spec({**spec, "replicas": 1})
    await drive.look()
    assert founders(drive) == ([1, 2, 3], "3")


def founders(drive: Drive) -> tuple[list[int], str]:
    """As the brokers' files have it, and as it is kept."""
    root = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}"
    files, kept = drive.api.find(f"{root}-broker-config"), drive.api.find(f"{root}-template")
    assert files is not None
    assert kept is not None
    document = json.loads(files["data"][f"{NAME}-broker-0.json"])
    return document["replication"]["raft"]["founders"], kept["data"]["founders"]


async def founded(**fields: Any) -> Drive:
    drive = Drive.of({**SPEC, **fields})
    await drive.settle()
    return drive


def uids(drive: Drive) -> set[str]:
    return {each["metadata"]["uid"] for each in drive.api.of_kind("pods")}


def theirs_at(drive: Drive, path: str, version: str, kind: str) -> dict[str, Any]:
    """In place of ours."""
    drive.api.drop(path)
    metadata = {"name": path.rpartition("/")[2], "namespace": NAMESPACE, "labels": {"team": "shop"}}
    return drive.api.put(path, {"apiVersion": version, "kind": kind, "metadata": metadata})


@pytest.mark.parametrize(
    ("version", "kind", "plural", "name"),
    [
        ("v1", "ConfigMap", "configmaps", f"{NAME}-broker-config"),
        ("v1", "Service", "services", f"{NAME}-bootstrap"),
        ("v1", "Secret", "secrets", f"{NAME}-admin"),
        ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", f"{NAME}-leader"),
    ],
)
async def test_a_group_that_runs_is_looked_after_while_somebody_else_has_one_of_its_names(
    version: str, kind: str, plural: str, name: str
) -> None:
    """But nothing is restarted, because it might start from that."""
    drive = await founded()
    root = "/api" if version == "v1" else "/apis"
    path = f"{root}/{version}/namespaces/{NAMESPACE}/{plural}/{name}"
    theirs = theirs_at(drive, path, version, kind)
    before = uids(drive)
    drive.begin()
    drive.api.drop(f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/{NAME}-broker")
    drive.set_spec({**SPEC, "image": "logherd:good-2"})
    drive.kubelet.world.pods[0].started_at = drive.kubelet.world.now  # the leader's process begins anew
    await drive.steps(60)
    assert told(drive).startswith(f"NameTaken: the {kind} {name}")
    assert drive.condition("Degraded")["observedGeneration"] == drive.group["metadata"]["generation"]
    assert [each["code"] for each in drive.status["blocked"]] == ["NameTaken"]
    assert drive.status["leader"]["epoch"] == 2
    assert drive.condition("Available")["status"] == "True"
    progressing = drive.condition("Progressing")
    assert (progressing["status"], progressing["reason"]) == ("False", "NameTaken")
    assert len(drive.api.of_kind("poddisruptionbudgets")) == 2, "what else the group needs is kept"
    assert (uids(drive), drive.api.find(path)) == (before, theirs)
    said = [each["reason"] for each in drive.api.of_kind("events")]
    assert said.count("NameTaken") == 2, "of the block, and of Degraded"
    written = drive.api.version
    await drive.steps(60)
    assert drive.api.version == written
    drive.api.drop(path)
    await drive.settle()
    assert (drive.status["phase"], drive.status["updatedReplicas"]) == ("Running", 3)
    assert not before & uids(drive)


@pytest.mark.parametrize("component", ["broker", "controller"])
async def test_a_stateful_set_that_is_deleted_while_its_pods_stay_comes_back_though_a_name_is_taken(
    component: str,
) -> None:
    """Without it nobody makes a pod anew that goes."""
    drive = await founded()
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{NAME}-{component}"
    theirs_at(drive, f"/api/v1/namespaces/{NAMESPACE}/services/{NAME}-bootstrap", "v1", "Service")
    before, count = uids(drive), (drive.api.find(path) or {})["spec"]["replicas"]
    drive.begin()
    drive.api.drop(path)
    await drive.steps(20)
    assert told(drive).startswith(f"NameTaken: the Service {NAME}-bootstrap")
    assert (drive.api.find(path) or {})["spec"]["replicas"] == count
    assert uids(drive) == before


async def test_what_somebody_put_in_place_of_ours_meanwhile_is_not_taken_either() -> None:
    """It is applied again now and then, and not read before: it has to be the one that was applied."""
    drive = await founded()
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}-client"
    theirs = theirs_at(drive, path, "v1", "ConfigMap")
    drive.kubelet.tick(700)
    await drive.steps(10)
    assert drive.api.find(path) == theirs
    assert told(drive).startswith(f"NameTaken: the ConfigMap {NAME}-client")
    drive.api.drop(path)
    await drive.settle()
    assert drive.status["phase"] == "Running"


async def test_what_somebody_deleted_is_made_again() -> None:
    drive = await founded()
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}-client"
    before = drive.api.find(path)
    drive.api.drop(path)
    drive.kubelet.tick(700)
    await drive.steps(10)
    after = drive.api.find(path)
    assert before is not None
    assert after is not None
    assert after["data"] == before["data"]
    assert drive.status["phase"] == "Running"


@pytest.mark.parametrize("kept", [(), (MANAGED, "app.kubernetes.io/instance", KEPT_SLICES)])
@pytest.mark.parametrize("dies", [False, True])
async def test_an_endpoint_whose_labels_somebody_took_away_gets_them_back(kept: tuple[str, ...], dies: bool) -> None:
    """By one its Service finds it, by others the watch, which may go on showing it."""
    drive = await founded()
    path = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/{NAME}-leader"
    found = drive.api.find(path)
    assert found is not None
    wanted = found["metadata"]["labels"]
    left = {name: wanted[name] for name in kept}
    drive.api.put(path, {**found, "metadata": {**found["metadata"], "labels": left}})
    if dies:
        drive.begin()
    await drive.steps(10)
    assert (drive.api.find(path) or {})["metadata"]["labels"] == wanted
    assert drive.status["phase"] == "Running"


async def test_where_the_operator_may_not_look_it_goes_on_and_its_log_says_what_it_lacks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As with the roles of an older chart."""
    drive = Drive.of(SPEC)
    drive.api.faults.unreadable = ("/services/", "/roles/")
    await drive.settle()
    assert drive.status["phase"] == "Running"
    said = [each.getMessage() for each in caplog.records if "cannot be told" in each.getMessage()]
    assert [each.rpartition("the kind ")[2] for each in said] == [
        "Role, as its chart does",
        "Service, as its chart does",
    ]
