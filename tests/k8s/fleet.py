"""Many groups at one API server."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from k8s.api_server import ApiServer
from k8s.kubelet import NAMESPACE, Kubelet
from logherd_operator.clients.api import Reply

__all__ = ["Fleet"]

SPEC = {"replicas": 3, "image": "logherd:good-1"}


@dataclass
class Fleet:
    """`Admins` of all of them."""

    count: int
    api: ApiServer = field(default_factory=lambda: ApiServer(clock=time.time))
    kubelets: dict[str, Kubelet] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for n in range(self.count):
            name = f"g{n}"
            self.kubelets[name] = Kubelet.make(SPEC, name, self.api)
            self.set_spec(name, SPEC)

    def path(self, name: str) -> str:
        return f"/apis/logherd.dev/v1alpha1/namespaces/{NAMESPACE}/brokergroups/{name}"

    def set_spec(self, name: str, spec: Mapping[str, Any]) -> None:
        before = self.api.find(self.path(name)) or {}
        metadata = {"name": name, "namespace": NAMESPACE, **before.get("metadata", {})}
        self.api.put(self.path(name), {
            **before, "apiVersion": "logherd.dev/v1alpha1", "kind": "BrokerGroup", "metadata": metadata,
            "spec": dict(spec),
        })  # fmt: skip

    def tick(self, seconds: float) -> None:
        for each in self.kubelets.values():
            each.tick(seconds)

    def running(self) -> int:
        found = self.api.of_kind("brokergroups")
        return sum((each.get("status") or {}).get("phase") == "Running" for each in found)

    async def ask(self, host: str, path: str) -> Reply | None:
        return await self.kubelets[host.partition("-")[0]].ask(host, path)

    async def tell(self, host: str, path: str, body: Mapping[str, Any], token: str) -> Reply | None:
        return await self.kubelets[host.partition("-")[0]].tell(host, path, body, token)
