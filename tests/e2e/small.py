"""Groups beside `orders` that serve one chapter: small, with few pods, and gone when it is over."""

import json
from contextlib import suppress
from typing import Any

from compat.driver import message
from e2e.cluster.kube import Object, eventually
from e2e.orders import NAMESPACE, PODS, STORAGE, is_ready
from e2e.scene import FIRST, Scene

__all__ = ["QUEUES", "SmallGroup"]

_SMALL = {"requests": {"cpu": "30m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}}
_CONTROLLERS = {"embedded": {"replicas": 1, "resources": _SMALL, "storage": {"size": "1Gi"}}}
QUEUES = 4
_GROUPS = f"/apis/logherd.dev/v1alpha1/namespaces/{NAMESPACE}/brokergroups"


class SmallGroup:
    """One of them. `owner`: the group whose controllers it uses, and so whose name service; none: its own."""

    def __init__(self, scene: Scene, name: str, owner: str = "") -> None:
        self.scene = scene
        self.name = name
        self.brokers = 0
        self.names = f"{owner or name}-bootstrap.{NAMESPACE}.svc.cluster.local:9876"

    def apply(self, *, replicas: int, **spec: Any) -> None:
        """As a user does."""
        self.brokers = replicas
        self.scene.cluster.kubectl("apply", "-f", "-", text=json.dumps({
            "apiVersion": "logherd.dev/v1alpha1", "kind": "BrokerGroup",
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "spec": {
                "replicas": replicas, "image": FIRST, "imagePullPolicy": "Never", "resources": _SMALL,
                "storage": STORAGE, "controllers": _CONTROLLERS,
                "config": {"mappedFileSizeCommitLog": "67108864"}, **spec,
            },
        }))  # fmt: skip

    def remove(self) -> None:
        """As a user does; a volume that it leaves is used by no other test."""
        self.scene.cluster.kubectl("-n", NAMESPACE, "delete", "brokergroup", self.name, "--ignore-not-found")

    def pods(self) -> dict[str, Object]:
        """By name. Raises Refused."""
        found = self.scene.cluster.kube.items(f"{PODS}?labelSelector=app.kubernetes.io/instance={self.name}")
        return {each["metadata"]["name"]: each for each in found}

    def uids(self) -> dict[str, str]:
        """Of the pods. Raises Refused."""
        return {name: each["metadata"]["uid"] for name, each in self.pods().items()}

    @property
    def status(self) -> Object:
        """What the operator last wrote of it. Raises Refused."""
        return dict(self.scene.cluster.kube.get(f"{_GROUPS}/{self.name}").get("status", {}))

    def all_ready(self) -> bool:
        """Whether all pods are there and ready, whatever the operator has heard of it. Raises Refused."""
        pods = self.pods()
        return sum("-broker-" in name for name in pods) == self.brokers and all(map(is_ready, pods.values()))

    @property
    def leader(self) -> str:
        """The pod that leads, once all brokers are in sync and the operator is content; "" before. Raises Refused."""
        status = self.status
        content = status.get("phase") == "Running" and status.get("inSync") == f"{self.brokers}/{self.brokers}"
        return str((status.get("leader") or {}).get("pod") or "") if content and self.all_ready() else ""

    def settle(self) -> str:
        """Wait until it is led and all are in sync; the pod that leads."""
        return str(eventually(lambda: self.leader, f"{self.name} is led", seconds=900, pause=0.5, words=self.words))

    def routes_name(self, address: str, topic: str) -> None:
        """Wait until clients are told so."""
        eventually(
            lambda: self.scene.routed(self.names, topic) == address, f"routes name {address}", seconds=600, pause=1,
            words=self.words,
        )  # fmt: skip

    def make_topic(self, topic: str) -> None:
        """On this group's brokers only. Raises: TimeoutError with what was said, if that did not work in time."""
        command = [
            "updateTopic", "-n", self.names, "-c", self.name, "-t", topic, "-r", str(QUEUES), "-w", str(QUEUES),
        ]  # fmt: skip
        told: list[str] = []

        def made() -> bool:
            told.append(self.scene.driver.call("mqadmin", command=command)["out"])
            return "success" in told[-1]

        eventually(made, "the topic is made", pause=1, words=lambda: told[-1])

    def send(self, sender: str, topic: str, count: int) -> None:
        """Some messages, each answered, by a stock producer that begins now."""
        driver = self.scene.driver
        driver.call("producer.start", name=sender, group=sender, nameServer=self.names)
        try:
            messages = [message(f"{sender} {n}") for n in range(count)]
            sent = driver.call("producer.send", name=sender, topic=topic, mode="sync", messages=messages)
        finally:
            driver.call("producer.stop", name=sender)
        assert {answer["status"] for answer in sent} == {"SEND_OK"}

    def hear(self, hearer: str, topic: str, count: int) -> None:
        """So many messages, by a stock consumer of this group of consumers; what it has read is committed then."""
        driver = self.scene.driver
        driver.call("consumer.push", name=hearer, topic=topic, nameServer=self.names, group=hearer)
        try:
            seen = driver.call("consumer.received", name=hearer, count=count, timeoutMs=50_000)
        finally:
            driver.call("consumer.stop", name=hearer)
        assert len(seen) == count

    def words(self) -> str:
        """What there is to say when something did not happen."""
        said = self.scene.orders.words()
        for pod in self.pods():
            with suppress(RuntimeError):  # nothing is said by a pod that has not begun
                said += self.scene.cluster.kubectl("-n", NAMESPACE, "logs", pod, "--all-containers", "--tail=20")
        return f"{said}\n{json.dumps(self.status)}"
