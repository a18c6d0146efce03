"""The group under test, `orders` in the namespace `shop`: as it is applied, and as controllers and API show it."""

import http.client
import json
import os
import signal
from pathlib import Path
from typing import Any

from e2e.cluster.cluster import Cluster
from e2e.cluster.kube import Object, Refused, eventually
from e2e.cluster.machine import run

__all__ = ["GROUP", "LEADER", "NAMES", "NAMESPACE", "PODS", "Orders", "admin_page", "is_ready"]

NAMESPACE, GROUP = "shop", "orders"
LEADER = f"{GROUP}-leader.{NAMESPACE}.svc.cluster.local:10911"
NAMES = f"{GROUP}-bootstrap.{NAMESPACE}.svc.cluster.local:9876"
_ADMIN = 8088
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_PATH = f"/apis/logherd.dev/v1alpha1/namespaces/{NAMESPACE}/brokergroups/{GROUP}"
_SLICE = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/{GROUP}-leader"
_CONTROLLERS = 3
_CONTENT = {
    "Available": "True", "Progressing": "False", "LeaderElected": "True",
    "QuorumHealthy": "True", "ConfigApplied": "True", "StorageReady": "True", "Upgradeable": "True",
}  # fmt: skip
_SMALL = {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}}
# Every volume is a folder of the machine's one disk: its share to keep is told by the disk's size, not by the volume's.
STORAGE = {"size": "1Gi", "reservedPercent": 2}


def manifest(image: str) -> str:
    """What a user applies."""
    return json.dumps({
        "apiVersion": "logherd.dev/v1alpha1", "kind": "BrokerGroup",
        "metadata": {"name": GROUP, "namespace": NAMESPACE},
        "spec": {
            "replicas": 3, "image": image, "imagePullPolicy": "Never", "resources": _SMALL,
            "storage": STORAGE,
            "controllers": {"embedded": {"replicas": _CONTROLLERS, "resources": _SMALL, "storage": {"size": "1Gi"}}},
            "update": {"soakSeconds": 2}, "config": {"fileReservedTime": "72", "mappedFileSizeCommitLog": "67108864"},
        },
    })  # fmt: skip


class Orders:
    """Looks at the group, and lays hands on its pods."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._addresses: dict[str, str] = {}
        self.brokers = 3

    # What the API server says

    def pods(self, component: str) -> dict[str, Object]:
        """By name. Raises Refused."""
        chosen = f"labelSelector=app.kubernetes.io/instance={GROUP},app.kubernetes.io/component={component}"
        found = {each["metadata"]["name"]: each for each in self._cluster.kube.items(f"{PODS}?{chosen}")}
        self._addresses.update({
            name: each["status"]["podIP"] for name, each in found.items() if each.get("status", {}).get("podIP")
        })  # fmt: skip
        return found

    def pod(self, name: str) -> Object | None:
        """Raises Refused."""
        return self._cluster.kube.find(f"{PODS}/{name}")

    def is_ready(self, name: str) -> bool:
        """Whether the pod is there and serves. Raises Refused."""
        pod = self.pod(name)
        return pod is not None and is_ready(pod)

    def node(self, pod: str) -> str:
        """Where a pod runs. Raises Refused."""
        return str(self._cluster.kube.get(f"{PODS}/{pod}")["spec"]["nodeName"])

    @property
    def status(self) -> Object:
        """What the operator last wrote. Raises Refused."""
        return dict(self._cluster.kube.get(_PATH).get("status", {}))

    def change(self, **spec: Any) -> None:
        """Change the spec. Raises Refused."""
        self._cluster.kube.merge(_PATH, {"spec": spec})

    @property
    def generation(self) -> int:
        """Of the spec. Raises Refused."""
        return int(self._cluster.kube.get(_PATH)["metadata"]["generation"])

    @property
    def slice(self) -> Object:
        """The EndpointSlice of the leader's Service. Raises Refused."""
        return self._cluster.kube.get(_SLICE)

    @property
    def endpoint(self) -> str:
        """To which pod's address the leader's Service leads; "" for none. Raises Refused."""
        found = self.slice.get("endpoints") or ()
        return str(found[0]["addresses"][0]) if found else ""

    # What the controllers say, with or without an API server

    def page(self) -> Object | None:
        """The group as the leading controller confirms it; None if none does right now."""
        for name in (f"{GROUP}-controller-{n}" for n in range(_CONTROLLERS)):
            if name not in self._addresses:
                self._learn("controller")
            found = admin_page(self._addresses.get(name, ""), f"/groups/{GROUP}/{GROUP}")
            if found is None:
                self._learn("controller")
            elif found.get("confirmed") and found.get("live"):
                return found
        return None

    def _learn(self, component: str) -> None:
        try:
            self.pods(component)
        except Refused:
            return

    def leader(self) -> str:
        """The pod that leads."""
        found = eventually(self._leader, "a leader", seconds=240, words=lambda: str(self.page()))
        return str(found)

    def _leader(self) -> str:
        page = self.page() or {}
        leader = page.get("leader") or {}
        return f"{GROUP}-broker-{int(leader['brokerId']) - 1}" if leader.get("serving") else ""

    @property
    def epoch(self) -> int:
        """Of the group's leadership."""
        page = eventually(self.page, "a page of the group", seconds=240)
        return int(page["epoch"])

    def leading_controller(self) -> str:
        """The pod that leads the controllers, as the operator last saw it; "" for none. Raises Refused."""
        node = self.status.get("controllers", {}).get("leader") or ""
        return f"{GROUP}-controller-{node.removeprefix('c')}" if node else ""

    def wait_for_epoch(self, above: int) -> None:
        """Until another leadership has begun and serves."""
        eventually(lambda: self.epoch > above and self._leader(), f"an epoch above {above}", seconds=240)

    def settled(self) -> bool:
        """All brokers in sync, the operator content with this very spec, all pods ready, the Service at the leader."""
        page, status = self.page(), self.status
        if page is None or set(page["inSync"]) != set(range(1, self.brokers + 1)):
            return False
        pods, controllers = self.pods("broker"), self.pods("controller")
        conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
        leader = self._leader()
        return (
            len(pods) == self.brokers and len(controllers) == _CONTROLLERS
            and all(is_ready(each) for each in (*pods.values(), *controllers.values()))
            and status.get("observedGeneration") == self.generation and status.get("operation") is None
            and conditions.items() >= _CONTENT.items()
            and bool(leader) and self.endpoint == self._addresses[leader]
        )  # fmt: skip

    def settle(self, seconds: float = 600) -> None:
        """Wait for that."""
        eventually(self.settled, "the group is settled", seconds=seconds, pause=0.5, words=self.words)

    def words(self) -> str:
        """What there is to say when something did not happen."""
        try:
            pods = self._cluster.kubectl("-n", NAMESPACE, "get", "pods", "-o", "wide")
            events = self._cluster.kubectl("-n", NAMESPACE, "get", "events", "--sort-by=.lastTimestamp")
            operator = self._cluster.kubectl("-n", NAMESPACE, "logs", "deployment/logherd-operator", "--tail=15")
            return f"{pods}\n{events[-3000:]}\n{operator[-3000:]}\n{json.dumps(self.status)}\n{self.page()}"
        except (RuntimeError, Refused) as error:
            return str(error)

    # Hands on

    def kill_process(self, pod: str) -> None:
        """kill -9 of the broker; its guardian lives. Raises Refused."""
        self.kill(self.process(pod))

    def pause_process(self, pod: str) -> None:
        """It stands still until somebody kills it. Raises Refused."""
        os.kill(self.process(pod), signal.SIGSTOP)

    def process(self, pod: str) -> int:
        """The broker in a pod, below its guardian. Raises Refused."""
        guardian = self._cluster.container_process(self.node(pod), pod, "broker")
        return int(Path(f"/proc/{guardian}/task/{guardian}/children").read_text().split()[0])

    @staticmethod
    def kill(pid: int) -> None:
        """kill -9."""
        os.kill(pid, signal.SIGKILL)

    def delete_pod(self, pod: str, *, grace: int | None = None) -> None:
        """As a user does. Raises Refused."""
        self._cluster.kube.delete(f"{PODS}/{pod}", grace=grace)

    def empty_slice(self) -> None:
        """The leader's endpoint leads nowhere. Raises Refused."""
        self._cluster.kube.merge(_SLICE, {"endpoints": []})

    def delete_slice(self) -> None:
        """There is no leader's endpoint. Raises Refused."""
        self._cluster.kube.delete(_SLICE)

    def lose_volume(self, pod: str) -> None:
        """Its claim, its pod and all bytes.

        The StatefulSet may make the pod anew before it has heard that the claim goes; that pod then keeps the claim. So
        pods are deleted until the claim is gone.
        """
        claim = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims/data-{pod}"
        volume = self._cluster.kube.get(claim)["spec"]["volumeName"]
        self._cluster.kube.delete(claim)
        path = self._cluster.kube.get(f"/api/v1/persistentvolumes/{volume}")["spec"]["local"]["path"]
        eventually(lambda: self._new_claim(claim, volume, pod), f"a new claim of {pod}", words=self.words)
        self._cluster.kube.delete(f"/api/v1/persistentvolumes/{volume}")
        run("find", path, "-mindepth", "1", "-delete")

    def _new_claim(self, path: str, volume: str, pod: str) -> bool:
        claim = self._cluster.kube.find(path)
        if claim is not None and claim["spec"].get("volumeName") == volume and self.pod(pod) is not None:
            self.delete_pod(pod, grace=0)
            return False
        return claim is not None and claim["spec"].get("volumeName") not in (None, volume)

    def scale_operator(self, count: int) -> None:
        """None, or one again."""
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/logherd-operator"
        self._cluster.kube.merge(path, {"spec": {"replicas": count}})

        def status() -> Object:
            return dict(self._cluster.kube.get(path).get("status", {}))

        if count:
            eventually(lambda: status().get("readyReplicas") == count, "the operator is ready", words=self.words)
            return
        chosen = "labelSelector=app.kubernetes.io/name=logherd-operator"
        eventually(lambda: not self._cluster.kube.items(f"{PODS}?{chosen}"), "the operator is gone")


def is_ready(pod: Object) -> bool:
    """Whether a pod is ready and is to stay."""
    conditions = {each["type"]: each["status"] for each in pod.get("status", {}).get("conditions", ())}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


def admin_page(address: str, path: str) -> Object | None:
    """What a pod's admin port tells; None if it does not."""
    if not address:
        return None
    connection = http.client.HTTPConnection(address, _ADMIN, timeout=3)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        found = json.loads(answer.read())
        return found if answer.status == 200 and isinstance(found, dict) else None
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()
