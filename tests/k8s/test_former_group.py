"""A group is made again under its name, while what belonged to the former one is still about to go."""

import base64
from typing import Any

from k8s.driving import GROUP_PATH, Drive
from k8s.kubelet import NAME, NAMESPACE

SPEC: dict[str, Any] = {"replicas": 3, "image": "logherd:good-1"}
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/{NAME}-admin"
BROKERS = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{NAME}-broker"


async def made_again(**fields: Any) -> Drive:
    """Whoever collects what has no owner any more has not come yet."""
    drive = Drive.of({**SPEC, **fields})
    await drive.settle()
    drive.api.drop(GROUP_PATH)
    drive.set_spec({**SPEC, **fields})
    return drive


def owner(drive: Drive, path: str) -> str:
    found = drive.api.find(path)
    assert found is not None
    return str(found["metadata"]["ownerReferences"][0]["uid"])


async def test_the_secret_of_a_former_group_is_not_taken_for_the_new_ones() -> None:
    """It goes a moment later, and then no pod of the group could start for ten minutes."""
    drive = await made_again()
    former = owner(drive, SECRET)
    await drive.steps(5)
    drive.api.drop(SECRET)
    await drive.steps(10)
    assert owner(drive, SECRET) == drive.group["metadata"]["uid"] != former
    await drive.settle()
    assert drive.condition("Available")["status"] == "True"


async def test_claims_that_go_with_a_former_group_are_left_to_go() -> None:
    """They have an owner already that stands for what controls them, and only one may: a second is refused."""
    drive = await made_again(storage={"retention": {"whenDeleted": "Delete"}})
    drive.api.drop(SECRET)
    claims = {each["metadata"]["name"]: each["metadata"] for each in drive.api.of_kind("persistentvolumeclaims")}
    former = {name: each["ownerReferences"] for name, each in claims.items()}
    await drive.settle()
    after = {each["metadata"]["name"]: each["metadata"] for each in drive.api.of_kind("persistentvolumeclaims")}
    assert {name: after[name]["ownerReferences"] for name in former} == former
    assert drive.condition("Available")["status"] == "True"


async def test_a_secret_of_that_name_without_a_token_is_told_and_used_for_nothing() -> None:
    drive = Drive.of(SPEC)
    metadata = {"name": f"{NAME}-admin", "namespace": NAMESPACE}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"password": "c2hvcA=="}}
    drive.api.put(SECRET, secret)
    await drive.steps(10)
    degraded = drive.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "NameTaken")
    assert f"the Secret {NAME}-admin is there without the key token" in degraded["message"]
    assert drive.api.of_kind("statefulsets") == []
    token = base64.b64encode(b"said by a person\n").decode()
    drive.api.put(SECRET, {**secret, "metadata": dict(metadata), "data": {"token": token}})
    await drive.settle()
    assert (drive.condition("Degraded")["status"], drive.status["phase"]) == ("False", "Running")
