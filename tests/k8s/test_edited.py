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
