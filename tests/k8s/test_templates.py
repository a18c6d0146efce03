"""What comes with the next restart, for which nothing is restarted by itself: it does come with one that is ordered."""

from typing import Any

from k8s.api_server import stamp
from k8s.driving import Drive
from k8s.kubelet import NAME, NAMESPACE

SPEC: dict[str, Any] = {"replicas": 3, "image": "logherd:good-1"}
LATER: dict[str, Any] = {**SPEC, "imagePullSecrets": [{"name": "pull"}], "placement": {"hostSpread": "Off"}}


async def founded() -> Drive:
    drive = Drive.of(SPEC)
    await drive.settle()
    return drive


def uids(drive: Drive) -> set[str]:
    return {each["metadata"]["uid"] for each in drive.api.of_kind("pods")}


def secrets_of(drive: Drive, component: str) -> object:
    found = drive.api.find(f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{NAME}-{component}")
    assert found is not None
    return found["spec"]["template"]["spec"].get("imagePullSecrets")


async def test_fields_that_come_with_the_next_restart_come_with_one_that_is_ordered() -> None:
    drive = await founded()
    before = uids(drive)
    drive.set_spec(LATER)
    await drive.settle()
    assert (uids(drive), secrets_of(drive, "broker"), secrets_of(drive, "controller")) == (before, None, None)
    assert drive.status["template"]["newerAvailable"] is True
    evicted: list[str] = []
    drive.api.evicting = lambda _path, pod: evicted.append(pod["metadata"]["uid"]) or 201
    drive.set_spec(LATER, **{"restart-at": stamp(drive.kubelet.world.now)})
    await drive.settle()
    assert secrets_of(drive, "broker") == secrets_of(drive, "controller") == [{"name": "pull"}]
    assert sorted(evicted) == sorted(before), "each once"
    assert (drive.status["template"]["newerAvailable"], drive.status["updatedReplicas"]) == (False, 3)
    assert drive.kubelet.world.faults == []


async def test_an_order_that_was_carried_out_brings_nothing_later() -> None:
    drive = await founded()
    order = {"restart-at": stamp(drive.kubelet.world.now)}
    drive.set_spec(SPEC, **order)
    await drive.settle()
    before = uids(drive)
    drive.set_spec(LATER, **order)
    drive.begin()
    await drive.settle()
    assert (uids(drive), secrets_of(drive, "broker")) == (before, None)
    assert drive.status["template"]["newerAvailable"] is True


async def test_a_group_that_cannot_start_for_want_of_them_takes_them_too() -> None:
    drive = Drive.of({**SPEC, "image": "logherd:bad-1"})
    await drive.steps(60)
    assert drive.status.get("leader") is None
    before = uids(drive)
    order = {"restart-at": stamp(drive.kubelet.world.now)}
    drive.set_spec({**LATER, "image": "logherd:bad-1"}, **order)
    await drive.steps(120)
    assert secrets_of(drive, "broker") == secrets_of(drive, "controller") == [{"name": "pull"}]
    assert not before & uids(drive)
