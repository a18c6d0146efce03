"""A group's StatefulSet that somebody edits by hand, field by field: it is set right, and no pod is lost by it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from k8s.driving import Drive
from k8s.kubelet import NAME, NAMESPACE

SPEC: dict[str, Any] = {"replicas": 3, "image": "logherd:good-1"}
ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
"""The API server adds the partition, and takes none beside another type."""
BROKER = 'k:{"name":"broker"}'
EDITS: dict[str, Callable[[dict[str, Any]], object]] = {
    "more replicas": lambda edited: edited["spec"].update(replicas=5),
    "a strategy that restarts by itself": lambda edited: edited["spec"].update(updateStrategy=ROLLING),
    "volumes that go with places": lambda edited: edited["spec"].update(
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete", "whenScaled": "Delete"}
    ),
    "a label": lambda edited: edited["metadata"]["labels"].update({"app.kubernetes.io/part-of": "other"}),
    "no owner": lambda edited: edited["metadata"].pop("ownerReferences"),
}


# Controllers are not scaled.
@pytest.mark.parametrize(
    ("edit", "component"), [*((each, "broker") for each in EDITS), *((each, "controller") for each in [*EDITS][1:])]
)
async def test_what_somebody_edits_is_set_right_and_no_pod_is_touched(edit: str, component: str) -> None:
    drive = Drive.of(SPEC)
    await drive.settle()
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{NAME}-{component}"
    before = drive.api.find(path)
    assert before is not None
    pods = {each["metadata"]["uid"] for each in drive.api.of_kind("pods")}
    edited = json.loads(json.dumps(before))
    EDITS[edit](edited)
    drive.api.put(path, edited)
    drive.kubelet.world.now += 700  # what is not watched is applied again after a while
    await drive.settle()
    after = drive.api.find(path)
    assert after is not None
    assert after["spec"] == before["spec"]
    for name in ("labels", "ownerReferences", "uid"):
        assert after["metadata"][name] == before["metadata"][name]
    assert {each["metadata"]["uid"] for each in drive.api.of_kind("pods")} == pods
    assert (drive.status["phase"], drive.condition("Degraded")["status"]) == ("Running", "False")
    assert drive.kubelet.world.faults == []


def others_say(manager: str, fields: dict[str, Any]) -> list[dict[str, Any]]:
    """As the API server keeps it: who said what in the template; our own is what is applied."""
    ours = {"f:metadata": {"f:annotations": {"f:logherd.dev/roll-hash": {}}}, "f:spec": {"f:containers": {BROKER: {}}}}
    said = (("logherd-operator", "Apply", ours), (manager, "Update", fields))
    return [
        {"manager": who, "operation": how, "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:template": each}}}
        for who, how, each in said
    ]


async def test_what_somebody_adds_to_the_template_is_told_and_restarts_each_broker_once() -> None:
    """As `kubectl rollout restart` does. It stays: who put it there may put it there again."""
    drive = Drive.of(SPEC)
    await drive.settle()
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{NAME}-broker"
    before, evicted = drive.api.find(path), list[str]()
    assert before is not None
    drive.api.evicting = lambda where, _pod: evicted.append(where.rpartition("/")[2]) or 201
    edited = json.loads(json.dumps(before))
    edited["spec"]["template"]["metadata"]["annotations"]["team"] = "shop"
    edited["metadata"]["managedFields"] = others_say(
        "kubectl-edit", {"f:metadata": {"f:annotations": {".": {}, "f:team": {}}}}
    )
    drive.api.put(path, edited)
    drive.kubelet.tick(1.0)
    await drive.look()
    (block,) = drive.status["blocked"]
    assert block["code"] == "TemplateEdited"
    said = [each["reason"] for each in drive.api.of_kind("events")]
    assert said.index("TemplateEdited") < said.index("SpecChanged"), "it is told before anything is restarted"
    assert f"StatefulSet {NAME}-broker" in block["message"]
    assert "kubectl-edit: metadata.annotations.team" in block["message"]
    await drive.settle()
    drive.begin()
    drive.kubelet.tick(700)
    await drive.settle()
    assert sorted(evicted) == [f"{NAME}-broker-{n}" for n in range(3)], "each once"
    assert (drive.status["phase"], drive.condition("Degraded")["status"]) == ("Running", "False")
    assert [each["code"] for each in drive.status["blocked"]] == ["TemplateEdited"]
    assert [each["reason"] for each in drive.api.of_kind("events")].count("TemplateEdited") == 1
    without = {name: each for name, each in before["metadata"].items() if name != "managedFields"}
    drive.api.put(path, {**before, "metadata": {**without, "managedFields": others_say("kubectl-edit", {})}})
    await drive.settle()
    assert drive.status["blocked"] == []
    assert drive.kubelet.world.faults == []
