"""A group without controllers of its own (`controllers.ref`): `bills` is led by those of `till`."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from compat.driver import message
from e2e.cluster.kube import Object, eventually
from e2e.orders import NAMESPACE
from e2e.scene import FIRST, Scene

pytestmark = [pytest.mark.timeout(1800, func_only=True)]
_OWNER, _USER = "till", "bills"
_NAMES = f"{_OWNER}-bootstrap.{NAMESPACE}.svc.cluster.local:9876"
_LEADER = f"{_USER}-leader.{NAMESPACE}.svc.cluster.local:10911"
_TOPIC, _QUEUES, _COUNT = "invoices", 4, 20
_SMALL = {"requests": {"cpu": "30m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}}
_GROUPS = f"/apis/logherd.dev/v1alpha1/namespaces/{NAMESPACE}/brokergroups"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def _manifest(name: str, replicas: int, controllers: dict[str, Any]) -> str:
    return json.dumps({
        "apiVersion": "logherd.dev/v1alpha1", "kind": "BrokerGroup", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas, "image": FIRST, "imagePullPolicy": "Never", "resources": _SMALL,
            "storage": {"size": "1Gi"}, "controllers": controllers, "config": {"mappedFileSizeCommitLog": "67108864"},
        },
    })  # fmt: skip


_TILL = _manifest(_OWNER, 1, {"embedded": {"replicas": 1, "resources": _SMALL, "storage": {"size": "1Gi"}}})


@pytest.fixture(scope="module")
def bills(scene: Scene) -> Iterator["Bills"]:
    """Both groups, each place with a volume. They are gone when the tests here are over."""
    for pod in (f"{_OWNER}-controller-0", f"{_OWNER}-broker-0", *(f"{_USER}-broker-{n}" for n in range(3))):
        scene.cluster.add_volume("node1", NAMESPACE, f"data-{pod}")
    scene.orders.settle()
    made = Bills(scene)
    try:
        scene.cluster.kubectl("apply", "-f", "-", text=_TILL)
        scene.cluster.kubectl("apply", "-f", "-", text=_manifest(_USER, 3, {"ref": {"name": _OWNER}}))
        yield made
    finally:
        scene.cluster.kubectl("-n", NAMESPACE, "delete", "brokergroup", _USER, _OWNER, "--ignore-not-found")
        eventually(lambda: not made.pods(_USER) and not made.pods(_OWNER), "their pods are gone", words=made.words)


class Bills:
    """The group that uses another's controllers."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._kube = scene.cluster.kube

    def pods(self, group: str) -> dict[str, str]:
        """Uids of the pods of a group by name. Raises Refused."""
        found = self._kube.items(f"{_PODS}?labelSelector=app.kubernetes.io/instance={group}")
        return {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}

    @property
    def status(self) -> Object:
        """What the operator last wrote of it. Raises Refused."""
        return dict(self._kube.get(f"{_GROUPS}/{_USER}").get("status", {}))

    @property
    def leader(self) -> str:
        """The pod that leads, once all of them are in sync; "" before. Raises Refused."""
        status = self.status
        content = status.get("phase") == "Running" and status.get("inSync") == "3/3"
        return str((status.get("leader") or {}).get("pod") or "") if content else ""

    def settle(self) -> str:
        """Wait until it is led, and routes name its Service; the pod that leads."""
        pod = eventually(lambda: self.leader, f"{_USER} is led", seconds=900, pause=0.5, words=self.words)
        eventually(
            lambda: self._scene.routed(_NAMES, _TOPIC) == _LEADER, f"routes name {_LEADER}", seconds=600, pause=1,
            words=self.words,
        )  # fmt: skip
        return str(pod)

    def make_topic(self) -> None:
        """On this group's brokers only. Raises: AssertionError with what was said, if that did not work in time."""
        command = [
            "updateTopic", "-n", _NAMES, "-c", _USER, "-t", _TOPIC, "-r", str(_QUEUES), "-w", str(_QUEUES),
        ]  # fmt: skip
        told: list[str] = []

        def made() -> bool:
            told.append(self._scene.driver.call("mqadmin", command=command)["out"])
            return "success" in told[-1]

        eventually(made, "the topic is made", pause=1, words=lambda: told[-1])

    def send(self, group: str) -> None:
        """Some messages, each answered, by a stock producer that begins now."""
        driver = self._scene.driver
        driver.call("producer.start", name=group, group=group, nameServer=_NAMES)
        try:
            messages = [message(f"{group} {n}") for n in range(_COUNT)]
            sent = driver.call("producer.send", name=group, topic=_TOPIC, mode="sync", messages=messages)
        finally:
            driver.call("producer.stop", name=group)
        assert {answer["status"] for answer in sent} == {"SEND_OK"}

    def stored(self) -> int:
        """As its leader says through its Service."""
        count = eventually(lambda: self._scene.stored(_TOPIC, _QUEUES, _USER), "the leader answers", words=self.words)
        return int(count)

    def words(self) -> str:
        """What there is to say when something did not happen."""
        said = self._scene.orders.words()
        for pod in self.pods(_OWNER):
            if "controller" in pod:
                said += self._scene.cluster.kubectl("-n", NAMESPACE, "logs", pod, "-c", "leader-endpoint", "--tail=20")
        return f"{said}\n{json.dumps(self.status)}"


def test_a_group_is_led_by_another_groups_controllers_and_clients_use_its_service(scene: Scene, bills: Bills) -> None:
    eventually(lambda: bills.leader, f"{_USER} is led", seconds=900, pause=0.5, words=bills.words)
    bills.make_topic()
    bills.settle()
    bills.send("first")
    assert bills.stored() >= _COUNT
    assert not [name for name in bills.pods(_USER) if "controller" in name]


def test_its_leaders_pod_is_deleted_and_it_goes_on(scene: Scene, bills: Bills) -> None:
    leader = bills.settle()
    epoch = int(bills.status["leader"]["epoch"])
    scene.cluster.kube.delete(f"{_PODS}/{leader}")
    eventually(
        lambda: int((bills.status.get("leader") or {}).get("epoch") or 0) > epoch, "another epoch", seconds=600,
        words=bills.words,
    )  # fmt: skip
    bills.settle()
    bills.send("second")
    assert bills.stored() >= 2 * _COUNT


def test_the_sidecar_of_those_controllers_touches_both_slices_and_nothing_else(scene: Scene, bills: Bills) -> None:
    asked = scene.cluster.asked(f"system:serviceaccount:{NAMESPACE}:{_OWNER}-controller")
    assert {f"{each.verb} {each.what} {each.name}" for each in asked} == {
        f"{verb} endpointslices {group}-leader" for verb in ("get", "patch") for group in (_OWNER, _USER)
    }
    assert 403 not in {each.status for each in asked}


def test_the_group_with_the_controllers_is_deleted_and_made_again_and_nothing_is_lost(
    scene: Scene, bills: Bills
) -> None:
    bills.settle()
    before = bills.pods(_USER)
    scene.cluster.kubectl("-n", NAMESPACE, "delete", "brokergroup", _OWNER)
    eventually(lambda: not bills.pods(_OWNER), "its pods are gone", seconds=600, words=bills.words)
    eventually(
        lambda: "QuorumUnreachable" in json.dumps(bills.status), "the operator says that no controller answers",
        words=bills.words,
    )  # fmt: skip
    scene.cluster.kubectl("apply", "-f", "-", text=_TILL)
    bills.settle()
    bills.send("third")
    assert bills.stored() >= 3 * _COUNT
    assert bills.pods(_USER) == before, "no broker was restarted for it"
