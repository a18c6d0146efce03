"""An operator in virtual time: one look after the other, as often as it asks for, and the cluster moves in between."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from k8s.api_server import ApiServer, Killed
from k8s.kubelet import NAME, NAMESPACE, Kubelet
from logherd_operator.clients.api import Api
from logherd_operator.clients.errors import ClusterError
from logherd_operator.handlers.known import (
    Key,
    key_of_child,
    serves_leader,
    slim_claim,
    slim_pod,
    slim_workload,
)
from logherd_operator.handlers.reconcile import Means, Options, Reconciler
from logherd_operator.spec.group import BrokerGroupSpec

__all__ = ["GROUP_PATH", "KEPT_SLICES", "MANAGED", "OPTIONS", "Drive", "Seen", "final_state"]

GROUP_PATH = f"/apis/logherd.dev/v1alpha1/namespaces/{NAMESPACE}/brokergroups/{NAME}"
OPTIONS = Options(
    broker_image="logherd:1", operator_image="logherd-operator:1", version="1.2.3", namespace=NAMESPACE, reporter="op-0"
)
Document = Mapping[str, Any]
_QUIET_SECONDS = 45.0
MANAGED = "app.kubernetes.io/managed-by"
KEPT_SLICES = "endpointslice.kubernetes.io/managed-by"
"""Labels, without which a watch passes over an object: the latter over a leader's slice."""


@dataclass
class Seen:
    """`Known` of a watch that is never late."""

    api: ApiServer

    def group(self, key: Key) -> Document | None:
        return self.api.find(f"/apis/logherd.dev/v1alpha1/namespaces/{key.namespace}/brokergroups/{key.name}")

    def workload(self, key: Key, name: str) -> Document | None:
        found = self.api.find(f"/apis/apps/v1/namespaces/{key.namespace}/statefulsets/{name}")
        if found is None or key_of_child(found) != key or found["metadata"]["labels"].get(MANAGED) is None:
            return None
        return slim_workload(found)

    def pods(self, key: Key) -> Sequence[Document]:
        return [slim_pod(each) for each in self.api.of_kind("pods") if key_of_child(each) == key]

    def claims(self, key: Key) -> Sequence[Document]:
        found = self.api.of_kind("persistentvolumeclaims")
        return [slim_claim(each) for each in found if key_of_child(each) == key]

    def budgets(self, namespace: str) -> Sequence[Document]:
        found = self.api.of_kind("poddisruptionbudgets")
        return [each for each in found if each["metadata"]["namespace"] == namespace]

    def has_slice(self, key: Key) -> bool:
        found = (each for each in self.api.of_kind("endpointslices") if key_of_child(each) == key)
        return any(serves_leader(each, key) for each in found if KEPT_SLICES in each["metadata"]["labels"])


@dataclass
class Drive:
    """One group, its cluster, and an operator that may be killed and begun anew."""

    kubelet: Kubelet
    key: Key = field(default_factory=lambda: Key(NAMESPACE, NAME))
    lives: int = 0
    options: Options = OPTIONS
    reconciler: Reconciler = field(init=False)
    looks: int = 0

    def __post_init__(self) -> None:
        self.begin()

    @staticmethod
    def of(spec: Mapping[str, Any]) -> "Drive":
        drive = Drive(Kubelet.make(spec))
        drive.set_spec(spec)
        return drive

    @property
    def api(self) -> ApiServer:
        return self.kubelet.api

    @property
    def group(self) -> dict[str, Any]:
        found = self.api.find(GROUP_PATH)
        assert found is not None
        return found

    @property
    def status(self) -> dict[str, Any]:
        return dict(self.group.get("status") or {})

    def condition(self, kind: str) -> dict[str, Any]:
        return next(each for each in self.status["conditions"] if each["type"] == kind)

    def begin(self) -> None:
        """A new process: it remembers nothing."""
        world = self.kubelet.world
        self.lives += 1
        means = Means(
            known=Seen(self.api), api=Api(self.api), admins=self.kubelet, now=lambda: world.now,
            ticks=lambda: world.now,
        )  # fmt: skip
        self.reconciler = Reconciler(means, self.options)

    def set_spec(self, spec: Mapping[str, Any], **annotations: str) -> None:
        before = self.api.find(GROUP_PATH) or {}
        metadata = {"name": NAME, "namespace": NAMESPACE, **before.get("metadata", {})}
        if annotations:
            metadata["annotations"] = {f"logherd.dev/{name}": value for name, value in annotations.items()}
        self.kubelet.world.spec = BrokerGroupSpec.model_validate(spec)
        self.api.put(GROUP_PATH, {
            **before, "apiVersion": "logherd.dev/v1alpha1", "kind": "BrokerGroup", "metadata": metadata,
            "spec": dict(spec),
        })  # fmt: skip

    async def look(self) -> float:
        """One look, and the time until the next. An operator that dies begins anew; one that fails tries again."""
        self.looks += 1
        try:
            again = await self.reconciler.reconcile(self.key)
        except Killed:
            self.api.faults.kill_after = None
            self.begin()
            return 1.0
        except ClusterError:
            return 2.0
        return 60.0 if again is None else again

    async def settle(self, *, seconds: float = 3000.0) -> None:
        """Until nothing has changed for some looks. Raises: AssertionError if that does not happen in time."""
        world, last = self.kubelet.world, -1
        end = changed = world.now
        end += seconds
        while world.now < end:
            again = await self.look()
            self.kubelet.tick(max(1.0, min(again, 10.0)))
            if self.api.version != last or self.status.get("phase") in (None, "Provisioning"):
                changed, last = world.now, self.api.version
            if world.now - changed >= _QUIET_SECONDS:
                return
        raise AssertionError(f"not settled: {self.status}")

    async def steps(self, seconds: float) -> None:
        """Go on for so long; what changes wakes the operator soon."""
        end = self.kubelet.world.now + seconds
        while self.kubelet.world.now < end:
            again = await self.look()
            self.kubelet.tick(max(1.0, min(again, 2.0)))


def final_state(drive: Drive) -> dict[str, Any]:
    """What must not depend on when the operator died: everything but times, names drawn by chance, and events."""
    shown: dict[str, Any] = {}
    for path, each in drive.api.objects.items():
        kind = path.split("/")[-2]
        if kind == "events":
            continue
        if kind in ("pods", "persistentvolumeclaims"):
            shown[path] = each.get("metadata", {}).get("labels")
        elif kind == "brokergroups":
            status = each["status"]
            shown[path] = {
                "spec": each["spec"], "phase": status["phase"], "blocked": status.get("blocked"),
                "conditions": {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]},
                "ready": status["readyReplicas"],
            }  # fmt: skip
        elif kind == "secrets":
            shown[path] = sorted(each["data"])
        else:
            shown[path] = {name: value for name, value in each.items() if name not in ("metadata", "status")}
    return shown
