"""A group that uses another group's controllers: what that one has to have, and what is said where it has not."""

from typing import Any

import pytest

from k8s.driving import GROUP_PATH, Drive
from k8s.kubelet import NAME, NAMESPACE

SPEC: dict[str, Any] = {"image": "logherd:good-1", "controllers": {"ref": {"name": "shared"}}}


def lend(drive: Drive, spec: dict[str, Any] | None) -> None:
    """Let there be a group that is named `shared`; None: let there be none."""
    path = f"/apis/logherd.dev/v1alpha1/namespaces/{NAMESPACE}/brokergroups/shared"
    if spec is None:
        drive.api.drop(path)
        return
    kind = {"apiVersion": "logherd.dev/v1alpha1", "kind": "BrokerGroup"}
    drive.api.put(path, {**kind, "metadata": {"name": "shared", "namespace": NAMESPACE}, "spec": spec})


async def looked(lender: dict[str, Any] | None, **fields: Any) -> Drive:
    drive = Drive.of({**SPEC, **fields})
    lend(drive, lender)
    await drive.steps(10)
    return drive


def blocked(drive: Drive) -> dict[str, str]:
    return {each["code"]: f"{each['message']}; {each['unblocks']}" for each in drive.status.get("blocked", ())}


async def test_a_group_without_controllers_of_its_own_lends_none_and_nothing_is_made() -> None:
    drive = await looked({"controllers": {"ref": {"name": "third"}}})
    found = drive.condition("Degraded")
    assert found["reason"] == "InvalidSpec"
    assert "spec.controllers.ref.name: the group shared has no controllers of its own" in found["message"]
    assert "it uses those of third" in found["message"]
    assert drive.api.of_kind("statefulsets") == []


@pytest.mark.parametrize("mode", ["Raft", "Static"])
async def test_a_group_that_needs_no_controllers_may_name_one_that_has_none(mode: str) -> None:
    """It was reconciled by former versions, and can name no other: nothing else leads it than its brokers."""
    names = {"mode": "External", "addresses": ["10.1.1.1:9876"]}
    drive = await looked({"controllers": {"ref": {"name": "third"}}}, nameService=names, replication={"mode": mode})
    assert drive.condition("Degraded")["reason"] != "InvalidSpec"
    assert drive.api.of_kind("statefulsets") != []


async def test_a_group_that_is_not_there_is_named_and_awaited() -> None:
    drive = await looked(None)
    assert ", and there is no BrokerGroup shared in this namespace" in blocked(drive)["QuorumUnreachable"]
    lend(drive, {})
    await drive.steps(10)
    assert "no controller of the group shared tells" in blocked(drive)["QuorumUnreachable"]


async def test_heartbeats_are_compared_with_the_lease_of_those_controllers() -> None:
    drive = await looked({"failover": {"leaseMs": 2000, "heartbeatIntervalMs": 600}})
    said = blocked(drive)["LeaseTooShort"]
    assert "failover.leaseMs of the group shared is 2000" in said
    assert "failover.heartbeatIntervalMs" in said
    assert drive.api.of_kind("statefulsets") != []
    drive.set_spec({**SPEC, "failover": {"heartbeatIntervalMs": 666}})
    await drive.steps(10)
    assert "LeaseTooShort" not in blocked(drive)


async def test_a_group_whose_brokers_vote_has_no_lease_of_controllers() -> None:
    drive = await looked({"failover": {"leaseMs": 2000, "heartbeatIntervalMs": 600}}, replication={"mode": "Raft"})
    assert "LeaseTooShort" not in blocked(drive)


async def test_what_belonged_to_a_former_group_is_left_to_go_before_the_new_one_is_made() -> None:
    """Taken over, its pods would run on, on volumes that go with the former one."""
    drive = await looked({}, storage={"retention": {"whenDeleted": "Delete"}})
    former = drive.group["metadata"]["uid"]
    drive.api.drop(GROUP_PATH)
    drive.set_spec(SPEC)
    await drive.steps(5)

    def owned_by_former() -> list[str]:
        owners = {path: each["metadata"].get("ownerReferences", ()) for path, each in drive.api.objects.items()}
        return [path for path, each in owners.items() if any(one["uid"] == former for one in each)]

    service = f"/api/v1/namespaces/{NAMESPACE}/services/{NAME}-brokers"
    assert service in owned_by_former()
    for path in owned_by_former():
        drive.api.drop(path)
    await drive.steps(10)
    made = drive.api.find(service)
    assert made is not None
    assert [each["uid"] for each in made["metadata"]["ownerReferences"]] == [drive.group["metadata"]["uid"]]


async def test_defaults_agree() -> None:
    assert blocked(await looked({})).keys() == {"QuorumUnreachable"}
