"""A group in an emulated cluster: founded, changed, grown, shrunk, and what people are told of it."""

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from k8s.driving import GROUP_PATH, Drive
from k8s.kubelet import NAME, NAMESPACE, Kubelet
from logherd_operator.clients.api import Reply
from logherd_operator.handlers.known import Key

SPEC: dict[str, Any] = {"replicas": 3, "image": "logherd:good-1"}
CONFIG = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}-broker-config"
BROKERS = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{NAME}-broker"


async def founded(**fields: Any) -> Drive:
    drive = Drive.of({**SPEC, **fields})
    await drive.settle()
    return drive


def uids(drive: Drive) -> list[str]:
    return sorted(each["metadata"]["uid"] for each in drive.api.of_kind("pods"))


def reasons(drive: Drive) -> list[str]:
    return [each["reason"] for each in drive.api.of_kind("events")]


async def test_a_group_is_founded_and_says_so() -> None:
    drive = await founded()
    assert drive.status["phase"] == "Running"
    assert drive.status["inSync"] == "3/3"
    assert drive.condition("Available")["reason"] == "WritesAccepted"
    assert {each["observedGeneration"] for each in drive.status["conditions"]} == {1}
    assert drive.status["leader"]["pod"] == "orders-broker-0"
    assert drive.status["controllers"] == {"replicas": 3, "readyReplicas": 3, "quorate": True, "leader": "c0"}
    assert "LeaderChanged" in reasons(drive)
    assert drive.kubelet.world.faults == []


async def test_a_thousand_looks_at_what_does_not_change_write_nothing() -> None:
    drive = await founded()
    before = drive.api.writes
    for _ in range(1000):
        await drive.look()
    assert drive.api.writes == before


async def test_what_stands_is_applied_again_after_a_while_and_a_few_at_a_time() -> None:
    drive = await founded()
    before, drive.kubelet.world.now = drive.api.writes, drive.kubelet.world.now + 700.0
    await drive.look()
    applied = drive.api.writes - before
    assert 10 < applied <= 30
    await drive.look()
    assert drive.api.writes - before == applied


async def test_a_service_that_somebody_changed_is_as_it_should_be_after_that() -> None:
    drive = await founded()
    path = f"/api/v1/namespaces/{NAMESPACE}/services/{NAME}-bootstrap"
    found = drive.api.find(path)
    assert found is not None
    wanted = found["spec"]["ports"]
    drive.api.put(path, {**found, "metadata": dict(found["metadata"]), "spec": {**found["spec"], "ports": []}})
    drive.kubelet.world.now += 700.0
    await drive.look()
    assert (drive.api.find(path) or {})["spec"]["ports"] == wanted


async def test_a_stateful_set_that_somebody_changed_is_set_right_before_any_pod_follows_it() -> None:
    drive = await founded()
    before, found = uids(drive), drive.api.find(BROKERS)
    assert found is not None
    spec = json.loads(json.dumps(found["spec"]))
    spec["template"]["spec"]["containers"][0]["image"] = "other:2"
    drive.api.put(BROKERS, {**found, "metadata": dict(found["metadata"]), "spec": spec})
    await drive.settle()
    after = drive.api.find(BROKERS)
    assert after is not None
    assert after["spec"]["template"]["spec"]["containers"][0]["image"] == "logherd:good-1"
    assert uids(drive) == before


async def test_a_new_image_reaches_every_pod_and_the_leader_last() -> None:
    drive = await founded()
    before = uids(drive)
    drive.set_spec({**SPEC, "image": "logherd:good-2"})
    await drive.settle()
    assert not set(before) & set(uids(drive))
    assert drive.status["updatedReplicas"] == 3
    assert drive.status["versions"]["image"] == "logherd:good-2"
    assert drive.kubelet.world.group is not None
    assert drive.kubelet.world.group.epoch == 2  # one switchover
    assert {"SpecChanged", "Switchover", "LeaderChanged"} <= set(reasons(drive))
    assert drive.kubelet.world.faults == []


async def test_a_bad_image_touches_one_pod_of_a_kind_and_a_revert_heals() -> None:
    drive = await founded()
    before = uids(drive)
    drive.set_spec({**SPEC, "image": "logherd:bad-2"})
    await drive.settle()
    assert len(set(before) - set(uids(drive))) == 1
    assert drive.condition("Available")["status"] == "True"
    assert drive.status["blocked"] != []
    drive.set_spec(SPEC)
    await drive.settle()
    assert drive.status["phase"] == "Running"
    assert drive.kubelet.world.faults == []


async def test_a_new_default_image_is_for_new_groups() -> None:
    drive = Drive.of({"replicas": 3})
    await drive.settle()
    before = uids(drive)
    drive.options = replace(drive.options, broker_image="logherd:9")
    drive.begin()
    await drive.settle()
    assert uids(drive) == before


async def test_an_upgraded_operator_restarts_nothing() -> None:
    drive = await founded()
    before = uids(drive)
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}-template"
    found = drive.api.find(path)
    assert found is not None
    data = {}
    for name, text in found["data"].items():  # as an older operator rendered it
        kept = json.loads(text)
        kept["template"]["spec"]["enableServiceLinks"] = True
        data[name] = json.dumps(kept)
    for component in ("broker", "controller"):
        where = BROKERS.replace("-broker", f"-{component}")
        workload = drive.api.find(where)
        assert workload is not None
        spec = {**workload["spec"], "template": json.loads(data[f"{component}.json"])["template"]}
        drive.api.put(where, {**workload, "metadata": dict(workload["metadata"]), "spec": spec})
    drive.api.put(path, {**found, "metadata": dict(found["metadata"]), "data": data})
    for pod in [*drive.kubelet.world.pods.values(), *drive.kubelet.world.controllers.values()]:
        pod.revision = ""
    drive.kubelet.tick(1)
    for component, pods in (("broker", drive.kubelet.world.pods), ("controller", drive.kubelet.world.controllers)):
        for pod in pods.values():
            pod.revision = drive.kubelet.world.wanted[component]
    drive.kubelet.tick(1)
    drive.begin()
    await drive.settle()
    assert uids(drive) == before
    assert drive.status["template"]["newerAvailable"]


async def test_lost_pins_are_read_from_the_stateful_sets() -> None:
    drive = await founded()
    before = uids(drive)
    drive.api.drop(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}-template")
    drive.begin()
    await drive.settle()
    assert uids(drive) == before
    assert drive.api.find(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}-template") is not None


async def test_more_brokers_come_as_learners_one_at_a_time_and_go_again() -> None:
    drive = await founded()
    drive.set_spec({**SPEC, "replicas": 5})
    await drive.steps(20)
    files = (drive.api.find(CONFIG) or {})["data"]
    assert json.loads(files["orders-broker-3.json"])["replication"]["learner"]
    assert "learner" not in json.loads(files["orders-broker-2.json"])["replication"]
    await drive.settle()
    assert drive.status["inSync"] == "5/5"
    drive.set_spec(SPEC)
    await drive.settle()
    assert drive.status["inSync"] == "3/3"
    assert len(drive.api.of_kind("persistentvolumeclaims")) == 5 + 3  # kept: whenScaled is Retain
    assert drive.kubelet.world.faults == []


async def test_a_new_broker_becomes_a_full_member_also_under_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats tell of different moments; the leader's own page tells how far the others are behind."""
    drive = await founded()
    kubelet = drive.kubelet
    group_page, broker_page = kubelet.group_page, kubelet._broker_page

    def of_group() -> dict[str, Any]:
        page = dict(group_page())
        leads = page["leader"]["brokerId"]
        ahead = {"epoch": 1, "position": (1 << 40) + (8 << 20)}
        page["brokers"] = [each | ({"end": ahead} if each["brokerId"] == leads else {}) for each in page["brokers"]]
        return page

    def of_broker(n: int) -> Reply | None:
        reply = broker_page(n)
        if reply is not None and reply.document["role"] == "leader":
            followers = [{"brokerId": each.broker_id, "lagBytes": each.lag} for each in kubelet.world.group.replicas]  # type: ignore[union-attr]
            view = {"role": "leader", "epoch": reply.document["epoch"], "followers": followers}
            reply.document["replication"] = view
        return reply

    monkeypatch.setattr(kubelet, "group_page", of_group)
    monkeypatch.setattr(kubelet, "_broker_page", of_broker)
    drive.set_spec({**SPEC, "replicas": 4})
    await drive.settle()
    assert drive.status["inSync"] == "4/4"
    assert {each["lag"] for each in drive.status["brokers"]} == {"None"}


async def test_a_broker_that_is_added_finds_the_files_of_the_spec_that_its_template_is_of() -> None:
    """Else nothing would ever tell that it runs with the old ones."""
    drive = await founded()
    drive.set_spec({**SPEC, "replicas": 4, "replication": {"flush": "Async"}})
    while (drive.api.find(BROKERS) or {})["spec"]["replicas"] < 4:
        drive.kubelet.tick(await drive.look())
    files = (drive.api.find(CONFIG) or {})["data"]
    found = json.loads(files["orders-broker-3.json"])
    assert (found["flush"], found["replication"]["replicas"], found["replication"]["learner"]) == ("async", 4, True)
    assert len(found["guardian"]["peers"]) == 4


async def test_volumes_grow_and_no_pod_is_touched() -> None:
    drive = await founded()
    before = uids(drive)
    drive.set_spec({**SPEC, "storage": {"size": "40Gi"}})
    await drive.settle()
    sizes = {
        each["spec"]["resources"]["requests"]["storage"]
        for each in drive.api.of_kind("persistentvolumeclaims")
        if "broker" in each["metadata"]["name"]
    }
    assert sizes == {str(40 << 30)}
    found = drive.api.find(BROKERS)
    assert found is not None
    assert found["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] == "40Gi"
    assert uids(drive) == before


async def test_volumes_of_controllers_grow_and_no_pod_is_touched() -> None:
    drive = await founded()
    before = uids(drive)
    drive.set_spec({**SPEC, "controllers": {"embedded": {"storage": {"size": "8Gi"}}}})
    await drive.settle()
    sizes = {
        each["metadata"]["name"]: each["spec"]["resources"]["requests"]["storage"]
        for each in drive.api.of_kind("persistentvolumeclaims")
    }
    assert sizes == {
        **{f"data-orders-controller-{n}": str(8 << 30) for n in range(3)},
        **{f"data-orders-broker-{n}": str(20 << 30) for n in range(3)},
    }
    found = drive.api.find(BROKERS.replace("-broker", "-controller"))
    assert found is not None
    assert found["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] == "8Gi"
    assert (uids(drive), drive.status["phase"]) == (before, "Running")


async def test_a_volume_that_may_not_grow_is_said_holds_nothing_up_and_is_tried_again() -> None:
    drive = await founded()
    before = uids(drive)
    drive.api.faults.refuse = {"persistentvolumeclaims": 403}
    drive.set_spec({**SPEC, "storage": {"size": "40Gi"}, "image": "logherd:good-2"})
    await drive.steps(550)
    assert not set(before) & set(uids(drive))
    assert [each["code"] for each in drive.status["blocked"]] == ["VolumeNotGrown"]
    assert [drive.condition(each)["reason"] for each in ("StorageReady", "Progressing")] == [
        "NotGrown", "VolumeNotGrown",
    ]  # fmt: skip
    assert 1 <= reasons(drive).count("GrowVolumeRefused") <= 3  # once for each volume that was tried
    drive.api.faults.refuse = {}
    await drive.steps(720)
    sizes = {each["spec"]["resources"]["requests"]["storage"] for each in drive.api.of_kind("persistentvolumeclaims")}
    assert str(40 << 30) in sizes
    await drive.settle()
    assert (drive.status["phase"], drive.condition("StorageReady")["status"]) == ("Running", "True")


async def test_a_volume_that_may_not_be_deleted_holds_nothing_up_and_is_tried_again() -> None:
    """As the chart has it with rbac.allowVolumeDelete: false."""
    spec = {**SPEC, "storage": {"retention": {"whenScaled": "Delete"}}}
    drive = await founded(**{**spec, "replicas": 4})
    before = uids(drive)
    drive.api.faults.refuse = {"persistentvolumeclaims": 403}
    drive.set_spec({**spec, "image": "logherd:good-2"})
    await drive.steps(500)
    assert not set(before) & set(uids(drive))
    assert reasons(drive).count("DeleteVolumeRefused") == 1
    assert len(drive.api.of_kind("persistentvolumeclaims")) == 4 + 3
    drive.api.faults.refuse = {}
    await drive.steps(620)
    assert len(drive.api.of_kind("persistentvolumeclaims")) == 3 + 3


async def test_hot_settings_reach_running_brokers() -> None:
    drive = await founded()
    before = uids(drive)
    drive.set_spec({
        **SPEC, "config": {"fileReservedTime": "96"}, "storage": {"reservedPercent": 12},
        "replication": {"lagTimeoutMs": 2000}, "failover": {"heartbeatIntervalMs": 500},
    })  # fmt: skip
    await drive.settle()
    assert {pod: path for pod, path in drive.kubelet.told if path == "/config"}.keys() == {
        f"orders-broker-{n}" for n in range(3)
    }
    assert drive.condition("ConfigApplied")["status"] == "True"
    assert uids(drive) == before
    drive.set_spec(SPEC)  # what was given is given no more: the defaults come back, live too
    await drive.settle()
    assert {each["fileReservedTime"] for each in drive.kubelet.world.hot.values()} == {"72"}
    assert uids(drive) == before


async def test_a_setting_that_needs_a_restart_restarts_one_after_the_other() -> None:
    drive = await founded()
    before = uids(drive)
    drive.set_spec({**SPEC, "config": {"maxMessageSize": "65536", "fileReservedTime": "96"}})
    await drive.settle()
    brokers = [each for each in before if each not in uids(drive)]
    assert len(brokers) == 3
    assert drive.condition("ConfigApplied")["status"] == "True"
    assert drive.kubelet.world.faults == []


async def test_a_spec_that_cannot_be_read_changes_nothing_but_what_is_said() -> None:
    drive = await founded()
    before = {path: each for path, each in drive.api.objects.items() if path != GROUP_PATH}
    group = drive.group
    spec = {**SPEC, "replication": {"minInSyncReplicas": 7}}
    drive.api.put(GROUP_PATH, {**group, "metadata": dict(group["metadata"]), "spec": spec})
    await drive.steps(30)
    degraded = drive.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "InvalidSpec")
    assert "minInSyncReplicas 7 is above replicas 3" in degraded["message"]
    assert degraded["observedGeneration"] == drive.group["metadata"]["generation"]
    assert (drive.status["updatedReplicas"], drive.status["readyReplicas"]) == (0, 3)
    told = drive.api.version
    others = [each for each in drive.status["conditions"] if each["type"] != "Degraded"]
    assert len(others) > 5
    assert {(each["status"], each["reason"]) for each in others} == {("Unknown", "InvalidSpec")}
    assert all(each["message"].startswith("not told while the spec") for each in others)
    said = [each["reason"] for each in drive.api.of_kind("events")]
    assert said.count("InvalidSpec") == 1, "one Event is enough"
    await drive.steps(90)
    assert drive.api.version == told, "and nothing is written again and again"
    kept = {path: each for path, each in drive.api.objects.items() if path in before}
    assert kept == before
    drive.set_spec(SPEC)
    await drive.settle()
    assert drive.condition("Degraded")["status"] == "False"
    assert drive.condition("Available")["status"] == "True"


async def test_a_group_that_asks_for_encryption_is_told_that_there_is_none() -> None:
    drive = await founded()
    drive.set_spec({**SPEC, "tls": {"mode": "Permissive", "secretName": "cert"}})
    await drive.steps(30)
    degraded = drive.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "InvalidSpec")
    assert "spec.tls.mode: Permissive is not supported yet; this version knows Disabled" in degraded["message"]


async def test_off_means_that_nothing_is_done() -> None:
    drive = await founded()
    drive.set_spec({**SPEC, "image": "logherd:good-2", "reconcile": "Off"})
    await drive.steps(60)
    before = drive.api.version
    await drive.steps(300)
    assert drive.api.version == before
    assert drive.status["phase"] == "Paused"
    applied, generation = drive.condition("ConfigApplied"), drive.group["metadata"]["generation"]
    assert (applied["status"], applied["reason"]) == ("False", "PendingRestart")
    assert (applied["observedGeneration"], drive.status["updatedReplicas"]) == (generation, 0)
    assert (drive.api.find(BROKERS) or {})["spec"]["template"]["spec"]["containers"][0]["image"] == "logherd:good-1"


@pytest.mark.parametrize(("when_deleted", "owned"), [("Delete", True), ("Retain", False)])
async def test_volumes_have_an_owner_only_where_they_go_with_the_group(when_deleted: str, owned: bool) -> None:
    drive = await founded(storage={"retention": {"whenDeleted": "Delete"}})
    drive.set_spec({**SPEC, "storage": {"retention": {"whenDeleted": when_deleted}}})
    await drive.settle()
    owners = {bool(each["metadata"].get("ownerReferences")) for each in drive.api.of_kind("persistentvolumeclaims")}
    assert owners == {owned}


@pytest.mark.parametrize("when_deleted", ["Delete", "Retain"])
async def test_owners_of_volumes_that_somebody_else_has_set_stay(when_deleted: str) -> None:
    drive = await founded(storage={"retention": {"whenDeleted": "Retain" if when_deleted == "Delete" else "Delete"}})
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "name": "keep", "uid": "theirs"}
    for claim in drive.api.of_kind("persistentvolumeclaims"):
        path = f"/api/v1/namespaces/shop/persistentvolumeclaims/{claim['metadata']['name']}"
        owners = [theirs, *claim["metadata"].get("ownerReferences", ())]
        drive.api.put(path, {**claim, "metadata": {**claim["metadata"], "ownerReferences": owners}})
    drive.set_spec({**SPEC, "storage": {"retention": {"whenDeleted": when_deleted}}})
    await drive.settle()
    claims = drive.api.of_kind("persistentvolumeclaims")
    assert claims
    for claim in claims:
        first, *rest = claim["metadata"]["ownerReferences"]
        assert first == theirs
        assert [each["kind"] for each in rest] == (["BrokerGroup"] if when_deleted == "Delete" else [])


async def test_budgets_and_policies_that_nothing_wants_go() -> None:
    drive = await founded()
    assert len(drive.api.of_kind("poddisruptionbudgets")) == 2
    drive.set_spec({**SPEC, "disruption": {"budget": False}, "networkPolicy": {"enabled": False}})
    await drive.settle()
    assert drive.api.of_kind("poddisruptionbudgets") == []
    assert drive.api.of_kind("networkpolicies") == []


async def test_what_somebody_else_made_under_such_a_name_stays() -> None:
    drive = await founded()
    drive.set_spec({**SPEC, "disruption": {"budget": False}, "networkPolicy": {"enabled": False}})
    await drive.settle()
    theirs = {"name": f"{NAME}-broker", "namespace": NAMESPACE}
    for kind, version, plural in (
        ("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets"),
        ("NetworkPolicy", "networking.k8s.io/v1", "networkpolicies"),
    ):
        path = f"/apis/{version}/namespaces/{NAMESPACE}/{plural}/{NAME}-broker"
        selector = {"selector": {"matchLabels": {}}, "podSelector": {}}
        drive.api.put(path, {"apiVersion": version, "kind": kind, "metadata": dict(theirs), "spec": selector})
    drive.begin()
    await drive.settle()
    assert len(drive.api.of_kind("poddisruptionbudgets")) == len(drive.api.of_kind("networkpolicies")) == 1


async def test_no_object_carries_a_finalizer_or_a_mark_of_a_framework() -> None:
    drive = await founded()
    text = json.dumps(drive.api.objects)
    assert "finalizers" not in text
    assert "kopf" not in text


async def test_the_secret_is_drawn_once_and_never_written_again() -> None:
    drive = await founded()
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{NAME}-admin"
    before = drive.api.find(path)
    drive.begin()
    drive.set_spec({**SPEC, "image": "logherd:good-2"})
    await drive.settle()
    assert drive.api.find(path) == before


async def test_settings_that_were_refused_are_told_again_once_the_spec_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker takes all of an order or nothing, so that a wrong value has others refused that are right."""
    drive = await founded()
    told = type(drive.kubelet).tell

    async def tell(kubelet: Kubelet, host: str, path: str, body: Any, token: str) -> Reply | None:
        if "wrong" in body.get("values", {}).values():
            return Reply(400, {"error": "one is wrong"})
        return await told(kubelet, host, path, body, token)

    monkeypatch.setattr(Kubelet, "tell", tell)
    drive.set_spec({**SPEC, "config": {"fileReservedTime": "96", "autoCreateTopicEnable": "wrong"}})
    await drive.steps(20)
    applied = drive.condition("ConfigApplied")
    assert (applied["reason"], reasons(drive).count("PushConfigRefused")) == ("Rejected", 3)
    drive.set_spec({**SPEC, "config": {"fileReservedTime": "96", "autoCreateTopicEnable": "false"}})
    await drive.settle()
    assert drive.condition("ConfigApplied")["reason"] == "Applied"


async def test_settings_that_are_right_come_into_force_beside_one_that_a_broker_refuses_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one that brokers of an older version do not know yet: it is told with all others, for ever."""
    drive = await founded()
    told = type(drive.kubelet).tell

    async def tell(kubelet: Kubelet, host: str, path: str, body: Any, token: str) -> Reply | None:
        if "autoCreateTopicEnable" in body.get("values", {}):
            return Reply(400, {"error": "cannot be changed while this runs", "field": "autoCreateTopicEnable"})
        return await told(kubelet, host, path, body, token)

    monkeypatch.setattr(Kubelet, "tell", tell)
    drive.set_spec({**SPEC, "config": {"fileReservedTime": "96", "autoCreateTopicEnable": "false"}})
    await drive.steps(20)
    assert {each["fileReservedTime"] for each in drive.kubelet.world.hot.values()} == {"96"}
    applied = drive.condition("ConfigApplied")
    assert applied["message"] == "brokers refused autoCreateTopicEnable=false"
    assert reasons(drive).count("PushConfigRefused") == 3


async def test_a_broker_that_can_take_no_settings_is_restarted_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one without the memory to check them: the restart is what gives it more."""
    drive = await founded()
    before = uids(drive)
    told = type(drive.kubelet).tell

    async def tell(kubelet: Kubelet, host: str, path: str, body: Any, token: str) -> Reply | None:
        return Reply(503, {"error": "busy"}) if path == "/config" else await told(kubelet, host, path, body, token)

    monkeypatch.setattr(Kubelet, "tell", tell)
    drive.set_spec({**SPEC, "config": {"fileReservedTime": "96"}, "image": "logherd:good-2"})
    await drive.settle()
    assert not set(before) & set(uids(drive))
    assert drive.kubelet.world.faults == []
    assert "PushConfigRefused" in reasons(drive)


async def test_a_secret_that_somebody_deletes_is_drawn_anew_without_another_operator() -> None:
    """Whatever starts after that waits for it."""
    drive = await founded()
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{NAME}-admin"
    before = drive.api.find(path)
    drive.api.drop(path)
    await drive.steps(1300)
    drawn = drive.api.find(path)
    assert drawn is not None
    assert before is not None
    assert drawn["data"] != before["data"]
    drive.set_spec({**SPEC, "config": {"fileReservedTime": "96"}})
    await drive.settle()
    assert drive.condition("ConfigApplied")["status"] == "True"


async def test_a_secret_that_somebody_made_from_a_file_may_end_with_a_line() -> None:
    drive = Drive.of(SPEC)
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{NAME}-admin"
    data = {"token": base64.b64encode(b"said by a person\n").decode()}
    metadata = {"name": f"{NAME}-admin", "namespace": NAMESPACE}
    drive.api.put(path, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    await drive.settle()
    drive.set_spec({**SPEC, "config": {"fileReservedTime": "96"}})
    await drive.settle()
    assert drive.condition("ConfigApplied")["status"] == "True"


async def test_a_group_that_is_gone_is_forgotten() -> None:
    drive = await founded()
    drive.api.drop(GROUP_PATH)
    assert await drive.reconciler.reconcile(Key(NAMESPACE, NAME)) is None
    assert drive.reconciler._memories == {}
