"""The API server's verbs as the operator uses them: server-side apply, creation once, patches with preconditions."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlencode

from logherd_operator.clients.errors import Conflict, NotFound, refusal

__all__ = ["APPLY", "FIELD_MANAGER", "JSON", "MERGE", "Api", "Reply", "Transport", "collection_of", "path_of"]

FIELD_MANAGER = "logherd-operator"
JSON = "application/json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"

Document = Mapping[str, Any]

_PLURALS = {
    "BrokerGroup": "brokergroups", "ConfigMap": "configmaps", "EndpointSlice": "endpointslices", "Event": "events",
    "Lease": "leases", "NetworkPolicy": "networkpolicies", "PersistentVolumeClaim": "persistentvolumeclaims",
    "Pod": "pods", "PodDisruptionBudget": "poddisruptionbudgets", "Role": "roles", "RoleBinding": "rolebindings",
    "Secret": "secrets", "Service": "services", "ServiceAccount": "serviceaccounts", "StatefulSet": "statefulsets",
}  # fmt: skip


class Reply(NamedTuple):
    """A status, and the JSON object that came with it."""

    status: int
    document: dict[str, Any]


class Transport(Protocol):
    """Carries one request to the API server."""

    async def send(self, method: str, path: str, body: Document | None, content_type: str) -> Reply:
        """`path` begins with a slash and may have a query. Raises: Unreachable within its deadline."""


def collection_of(api_version: str, kind: str, namespace: str) -> str:
    """Where objects of a kind stand in a namespace."""
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    return f"{root}/namespaces/{namespace}/{_PLURALS[kind]}"


def path_of(document: Document) -> str:
    """Where an object stands."""
    metadata = document["metadata"]
    return f"{collection_of(document['apiVersion'], document['kind'], metadata['namespace'])}/{metadata['name']}"


class Api:
    """One API server. `sent` counts requests by method, kind in the plural and status, 0 for no answer."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.sent: Counter[tuple[str, str, int]] = Counter()

    async def call(
        self, method: str, path: str, body: Document | None = None, content_type: str = JSON
    ) -> dict[str, Any]:
        """One request, and the object of its answer. Raises: Unreachable or a kind of Refused."""
        kind, status = _kind(path), 0
        try:
            reply = await self._transport.send(method, path, body, content_type)
            status = reply.status
        finally:
            self.sent[method, kind, status] += 1
        if status >= 300:
            raise refusal(f"{method} {path.partition('?')[0]}", status, reply.document)
        return reply.document

    async def find(self, path: str) -> dict[str, Any] | None:
        """The object, or None if there is none. Raises: as `call`."""
        try:
            return await self.call("GET", path)
        except NotFound:
            return None

    async def apply(self, document: Document, *, subresource: str = "") -> dict[str, Any]:
        """Make the object say what `document` says, and nothing that an earlier one of ours said beside it.

        With a `resourceVersion` in it the object must still be that one. Raises: as `call`; Conflict if it is not.
        """
        query = urlencode({"fieldManager": FIELD_MANAGER, "force": "true"})
        path = f"{path_of(document)}{f'/{subresource}' if subresource else ''}?{query}"
        return await self.call("PATCH", path, document, APPLY)

    async def create(self, document: Document) -> dict[str, Any] | None:
        """Make the object; None if there is one of that name already. Raises: as `call`."""
        where = collection_of(document["apiVersion"], document["kind"], document["metadata"]["namespace"])
        try:
            return await self.call("POST", f"{where}?{urlencode({'fieldManager': FIELD_MANAGER})}", document)
        except Conflict:
            return None

    async def merge(self, path: str, body: Document) -> dict[str, Any]:
        """Change what `body` names. Raises: as `call`."""
        return await self.call("PATCH", f"{path}?{urlencode({'fieldManager': FIELD_MANAGER})}", body, MERGE)

    async def delete(self, path: str, body: Document | None = None) -> bool:
        """Delete the object; False if there was none. Raises: as `call`."""
        try:
            await self.call("DELETE", path, body)
        except NotFound:
            return False
        return True


def _kind(path: str) -> str:
    """`pods/eviction` of `/api/v1/namespaces/shop/pods/orders-broker-0/eviction`."""
    parts = path.partition("?")[0].strip("/").split("/")
    inner = parts[parts.index("namespaces") + 2 :] if "namespaces" in parts else parts[-1:]
    return "/".join([*inner[:1], *inner[2:]])
