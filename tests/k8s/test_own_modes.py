"""Groups in an emulated cluster whose brokers vote: the operator goes by what the brokers say, not the controllers."""

import base64
import json
from typing import Any

import pytest

from k8s.driving import Drive
from k8s.kubelet import NAME, NAMESPACE
from logherd_operator.resources.site import PLACES_MAX

SPEC: dict[str, Any] = {"replicas": 3, "image": "logherd:good-1", "replication": {"mode": "Raft"}}


async def founded(**fields: Any) -> Drive:
    drive = Drive.of({**SPEC, **fields})
    await drive.settle()
    return drive


def pods(drive: Drive) -> dict[str, str]:
    """Of the brokers: uid by name."""
    found = (each["metadata"] for each in drive.api.of_kind("pods"))
    return {each["name"]: each["uid"] for each in found if "-broker-" in each["name"]}


def config(drive: Drive, name: str) -> dict[str, str]:
    found = drive.api.find(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}-{name}")
    assert found is not None
    return dict(found["data"])


def replication(drive: Drive, ordinal: int = 0) -> dict[str, Any]:
    """What a broker would be started with."""
    document = json.loads(config(drive, "broker-config")[f"{NAME}-broker-{ordinal}.json"])
    return dict(document["replication"])


async def test_a_voting_group_is_founded_and_says_so() -> None:
    drive = await founded()
    assert (drive.status["phase"], drive.status["inSync"]) == ("Running", "3/3")
    assert drive.status["leader"]["pod"] == "orders-broker-0"
    for kind, reason in (("Available", "WritesAccepted"), ("LeaderElected", "Elected"), ("Degraded", "AllWell")):
        assert drive.condition(kind)["reason"] == reason
    assert drive.kubelet.world.faults == []


async def test_routes_name_pods_because_nobody_keeps_an_endpoint_of_the_leader() -> None:
    drive = await founded()
    assert "leaderAddress" not in replication(drive)
    assert [path for path in drive.api.objects if path.endswith(f"/{NAME}-leader")] == []
    assert "leader" not in config(drive, "client")
    assert drive.status["endpoints"].keys() == {"bootstrap"}
    (template,) = [
        each["spec"]["template"]["spec"]
        for path, each in drive.api.objects.items()
        if path.endswith(f"statefulsets/{NAME}-controller")
    ]
    (sidecar,) = [each for each in template["containers"] if each["name"] == "leader-endpoint"]
    assert sidecar["command"][-1] == "--only-others", "those of groups that share the controllers are kept"


async def test_a_voting_group_grows_and_shrinks_without_replacing_a_pod() -> None:
    drive = await founded()
    before = pods(drive)
    drive.set_spec({**SPEC, "replicas": 5})
    await drive.settle()
    assert drive.status["inSync"] == "5/5"
    assert before.items() <= pods(drive).items()
    assert replication(drive, 4)["raft"]["members"] == [1, 2, 3, 4, 5]
    assert (replication(drive, 4)["raft"]["founders"], replication(drive, 4)["replicas"]) == ([1, 2, 3], 3)
    assert len(replication(drive)["peers"]) == PLACES_MAX
    drive.begin()  # whom it began with outlives the operator's process
    drive.set_spec(SPEC)
    await drive.settle()
    assert (drive.status["inSync"], pods(drive)) == ("3/3", before)
    assert replication(drive)["raft"]["members"] == [1, 2, 3]
    assert config(drive, "template")["founders"] == "3"
    assert drive.kubelet.world.faults == []


async def test_voters_whose_places_somebody_took_away_find_files_in_which_they_belong_to_the_group() -> None:
    drive = await founded()
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{NAME}-broker"
    found = drive.api.find(path)
    assert found is not None
    drive.api.put(path, {
        **found, "metadata": dict(found["metadata"]), "spec": {**found["spec"], "replicas": 1},
    })  # fmt: skip
    drive.set_spec({**SPEC, "failover": {"leaseMs": 6000}})
    while (drive.api.find(path) or {})["spec"]["replicas"] < 3:
        drive.kubelet.tick(await drive.look())
        assert replication(drive, 2)["raft"]["members"] == [1, 2, 3]
    assert replication(drive, 2)["raft"]["election"]["timeoutMs"] == "2000ms"
    await drive.settle()
    assert drive.status["inSync"] == "3/3"


@pytest.mark.parametrize("mode", ["Raft", "Static"])
async def test_what_kept_all_brokers_from_starting_is_mended_in_their_files(mode: str) -> None:
    """Nobody answers then, and there are no controllers to tell of the group: the files do not depend on that here."""
    spec = {**SPEC, "replication": {"mode": mode}}
    drive = Drive.of({**spec, "image": "logherd:bad-1", "config": {"storeWriteThreads": "none"}})
    await drive.steps(200)
    assert all(each.startswith("bad") for each in (pod.revision for pod in drive.kubelet.world.pods.values()))
    drive.set_spec({**spec, "image": "logherd:bad-1", "config": {"storeWriteThreads": "2"}})
    await drive.steps(60)
    document = json.loads(config(drive, "broker-config")[f"{NAME}-broker-0.json"])
    assert document["properties"] == {"storeWriteThreads": "2"}


async def test_files_leave_nobody_out_while_no_voter_answers_and_somebody_took_places_away() -> None:
    drive = await founded()
    drive.kubelet.silent |= set(pods(drive))
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{NAME}-broker"
    found = drive.api.find(path)
    assert found is not None
    drive.api.put(path, {
        **found, "metadata": dict(found["metadata"]), "spec": {**found["spec"], "replicas": 1},
    })  # fmt: skip
    drive.set_spec({**SPEC, "config": {"fileReservedTime": "96"}})
    await drive.steps(10)
    document = json.loads(config(drive, "broker-config")[f"{NAME}-broker-0.json"])
    assert (document["properties"], document["replication"]["raft"]["members"]) == (
        {"fileReservedTime": "96"}, [1, 2, 3],
    )  # fmt: skip


async def test_a_new_image_reaches_every_voter_and_the_leader_hands_over_itself() -> None:
    drive = await founded()
    before = pods(drive)
    drive.set_spec({**SPEC, "image": "logherd:good-2"})
    await drive.settle()
    assert not set(before.values()) & set(pods(drive).values())
    assert ("orders-broker-0", "/replica/hand-over") in drive.kubelet.told
    assert drive.kubelet.world.group is not None
    assert drive.kubelet.world.group.epoch == 2
    assert drive.kubelet.world.faults == []


async def test_an_ordered_switchover_is_asked_of_the_leader() -> None:
    drive = await founded()
    drive.set_spec(SPEC, switchover="3@1")
    await drive.settle()
    assert drive.status["leader"]["brokerId"] == 3


async def test_a_shorter_lease_needs_a_restart_because_elections_go_by_it() -> None:
    drive = await founded()
    before = pods(drive)
    drive.set_spec({**SPEC, "failover": {"leaseMs": 6000}})
    await drive.settle()
    assert not set(before.values()) & set(pods(drive).values())
    assert replication(drive)["raft"]["election"]["timeoutMs"] == "2000ms"


async def test_a_table_of_roles_is_replaced_by_order_only_and_its_leader_restarted_in_place() -> None:
    static = {**SPEC, "replication": {"mode": "Static"}}
    drive = Drive.of(static)
    await drive.settle()
    assert (drive.status["phase"], drive.status["inSync"]) == ("Running", "3/3")
    assert replication(drive, 2)["static"] == {"leader": 1, "synchronous": [2, 3]}
    before = pods(drive)
    drive.set_spec({**static, "image": "logherd:good-2"})
    await drive.settle()
    assert (pods(drive), drive.status["blocked"][0]["code"]) == (before, "WouldStopWrites")
    drive.set_spec({**static, "image": "logherd:good-2", "update": {"allowWritePause": True}})
    await drive.settle()
    assert not set(before.values()) & set(pods(drive).values())
    assert drive.status["leader"]["brokerId"] == 1
    epoch = drive.status["leader"]["epoch"]
    drive.set_spec({**static, "image": "logherd:good-2"}, switchover=f"3@{epoch}")
    await drive.settle()
    assert drive.status["leader"]["brokerId"] == 3
    assert drive.kubelet.told[-1] == ("orders-broker-2", "/replica/promote")


async def test_a_secret_that_was_made_anew_is_read_again_when_a_broker_refuses_the_old_one() -> None:
    """Nothing is ordered of controllers here, who would refuse it, too."""
    drive = await founded()
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{NAME}-admin"
    secret = drive.api.find(path)
    assert secret is not None
    fresh = base64.b64encode(b"another").decode()
    drive.api.put(path, {**secret, "metadata": dict(secret["metadata"]), "data": {"token": fresh}})
    drive.set_spec({**SPEC, "config": {"fileReservedTime": "96"}})
    await drive.steps(60)
    assert drive.condition("ConfigApplied")["reason"] == "Applied"
