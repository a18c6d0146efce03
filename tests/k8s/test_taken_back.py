"""A change of the spec that is taken back before its time came: nobody is restarted for what came with it."""

from typing import Any

import pytest

from k8s.driving import Drive
from k8s.kubelet import NAME, NAMESPACE
from k8s.test_templates import LATER, founded, secrets_of, uids

CONTROLLERS = {f"{NAME}-controller-{n}" for n in range(3)}
CHANGED: dict[str, Any] = {**LATER, "config": {"mappedFileSizeCommitLog": "1048576"}}


def kept_templates(drive: Drive) -> dict[str, str]:
    found = drive.api.find(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}-template")
    assert found is not None
    return dict(found["data"])


@pytest.mark.parametrize("how", ["held", "refused", "by another operator"])
async def test_what_was_taken_back_before_it_was_applied_restarts_nobody(how: str) -> None:
    drive = await founded()
    drive.set_spec(LATER)
    await drive.settle()
    before = uids(drive)
    if how == "refused":
        drive.api.faults.refuse = {f"statefulsets/{NAME}-broker": 422}
    else:
        drive.kubelet.silent |= CONTROLLERS
    drive.set_spec(CHANGED)
    await drive.steps(60)
    if how == "by another operator":
        drive.begin()
    drive.set_spec(LATER)
    drive.api.faults.refuse = {}
    drive.kubelet.silent.clear()
    await drive.settle()
    assert (secrets_of(drive, "broker"), uids(drive)) == (None, before)
    assert drive.status["template"]["newerAvailable"] is True


async def test_an_image_that_was_taken_back_before_it_was_applied_is_not_used() -> None:
    spec = {"replicas": 3}
    drive = Drive.of(spec)
    await drive.settle()
    before = uids(drive)
    drive.kubelet.silent |= CONTROLLERS
    drive.set_spec({**spec, "image": "logherd:bad-1"})
    await drive.steps(60)
    drive.set_spec(spec)
    drive.kubelet.silent.clear()
    await drive.settle()
    assert (uids(drive), drive.status["versions"]["image"]) == (before, "logherd:1")


async def test_what_was_taken_back_before_an_order_restarts_nobody() -> None:
    drive = await founded()
    manual = {"update": {"strategy": "Manual"}}
    drive.set_spec({**LATER, **manual})
    await drive.settle()
    before = uids(drive)
    drive.set_spec({**CHANGED, **manual})
    await drive.steps(60)
    assert drive.status["updatedReplicas"] == 0
    drive.begin()
    drive.set_spec(LATER)
    await drive.settle()
    assert (secrets_of(drive, "broker"), uids(drive)) == (None, before)


async def test_once_all_are_made_from_a_template_only_that_is_kept() -> None:
    drive = await founded()
    drive.set_spec(CHANGED)
    await drive.look()
    assert '"former"' in kept_templates(drive)["broker.json"]
    await drive.settle()
    assert '"former"' not in kept_templates(drive)["broker.json"]
    drive.set_spec(LATER)
    await drive.settle()
    assert secrets_of(drive, "broker") == [{"name": "pull"}]
