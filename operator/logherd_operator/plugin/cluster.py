"""A cluster as the plugin reads it: objects from the API server, and admin pages through its proxy to pods."""

import http
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from logherd_operator.clients.api import Api, Reply, collection_of
from logherd_operator.clients.errors import ClusterError, NotFound, Refused
from logherd_operator.handlers.known import Key
from logherd_operator.resources.site import Ports
from logherd_operator.spec.group import API_VERSION

__all__ = ["NoSuchGroup", "PodPages", "Read", "group_path", "read_group_objects"]

Document = Mapping[str, Any]
_LABEL = "app.kubernetes.io/instance"


class NoSuchGroup(ClusterError):
    """There is no BrokerGroup of that name."""


def group_path(key: Key) -> str:
    """Where the object stands."""
    return f"{collection_of(API_VERSION, 'BrokerGroup', key.namespace)}/{key.name}"


class Read:
    """`Known` of one reading: a BrokerGroup and what belongs to it."""

    def __init__(self, group: Document, objects: Mapping[str, Sequence[Document]]) -> None:
        self._groups = [group]
        self.objects = objects
        """Pods, PersistentVolumeClaims, StatefulSets, and all PodDisruptionBudgets of the namespace, by kind."""

    def group(self, key: Key) -> Document | None:
        """See Known. Of other groups only what was `added`."""
        return next((each for each in self._groups if each["metadata"]["name"] == key.name), None)

    def add(self, group: Document) -> None:
        """Another group that was read: the one whose controllers are used."""
        self._groups.append(group)

    def workload(self, key: Key, name: str) -> Document | None:
        """See Known."""
        del key
        return next((each for each in self.objects["StatefulSet"] if each["metadata"]["name"] == name), None)

    def pods(self, key: Key) -> Sequence[Document]:
        """See Known."""
        del key
        return self.objects["Pod"]

    def claims(self, key: Key) -> Sequence[Document]:
        """See Known."""
        del key
        return self.objects["PersistentVolumeClaim"]

    def budgets(self, namespace: str) -> Sequence[Document]:
        """See Known. Who may not read them sees none."""
        del namespace
        return self.objects.get("PodDisruptionBudget", ())

    def has_slice(self, key: Key) -> bool:
        """See `Known`; nothing is made here."""
        del key
        return True


async def read_group_objects(api: Api, key: Key) -> Read:
    """Read it all now. Raises: NoSuchGroup; ClusterError as the API server has it."""
    try:
        group = await api.call("GET", group_path(key))
    except NotFound as error:
        raise NoSuchGroup(f"there is no BrokerGroup {key.name} in the namespace {key.namespace}") from error
    query = urlencode({"labelSelector": f"{_LABEL}={key.name}"})
    kinds = {"Pod": "v1", "PersistentVolumeClaim": "v1", "StatefulSet": "apps/v1"}
    objects: dict[str, Sequence[Document]] = {}
    for kind, version in kinds.items():
        found = await api.call("GET", f"{collection_of(version, kind, key.namespace)}?{query}")
        objects[kind] = tuple(found.get("items", ()))
    with suppress(Refused):
        found = await api.call("GET", collection_of("policy/v1", "PodDisruptionBudget", key.namespace))
        objects["PodDisruptionBudget"] = tuple(found.get("items", ()))
    return Read(group, objects)


class PodPages:
    """`Admins` through the API server, which proxies to pods for who may `get` `pods/proxy`; it orders nothing."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    async def ask(self, host: str, path: str) -> Reply | None:
        """See Admins: a host name's first label is the pod's name. Raises: Refused, which names the right, for who may
        not ask: that says nothing of the pod."""
        pod = host.partition(".")[0]
        where = f"{collection_of('v1', 'Pod', self._namespace)}/{pod}:{Ports.ADMIN}/proxy{path}"
        try:
            return Reply(200, await self._api.call("GET", where))
        except Refused as refusal:
            if refusal.status == http.HTTPStatus.FORBIDDEN:
                raise
            return Reply(refusal.status, refusal.document)
        except ClusterError:
            return None

    async def tell(self, host: str, path: str, body: Document, token: str) -> Reply | None:
        """See Admins: who reads with the proxy has no business there with orders."""
        del host, path, body, token
        return None
