"""kopf as what watches and wakes: indices of slim values, and handlers that only put a key on the desk (OP-91 to 93).

No handler here changes an object, so kopf keeps no progress and sets no finalizer; where it would keep it is set to a
prefix of ours all the same.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import kopf

from logherd_operator.clients.session import ClusterAccess
from logherd_operator.handlers.audit import Thing
from logherd_operator.handlers.known import (
    KEPT_SLICES,
    MANAGED,
    Key,
    key_of_child,
    key_of_group,
    led_anew,
    slim_claim,
    slim_pod,
    slim_slice,
    slim_workload,
)
from logherd_operator.spec.group import API_GROUP, VERSION

__all__ = ["Watches", "login_of", "registry_of"]

_GROUPS, _WORKLOADS, _PODS, _CLAIMS, _SLICES = "groups", "workloads", "pods", "claims", "slices"
_CHILDREN = (
    (_WORKLOADS, "apps", "v1", "statefulsets", slim_workload), (_PODS, "", "v1", "pods", slim_pod),
    (_CLAIMS, "", "v1", "persistentvolumeclaims", slim_claim),
)  # fmt: skip
_PREFIX = f"progress.{API_GROUP}"

Document = Mapping[str, Any]


class Watches:
    """`Known` from kopf's indices. They are filled before the first handler runs, which hands them over."""

    def __init__(self) -> None:
        self._indices: Mapping[str, kopf.Index[Any, Any]] = {}

    def bind(self, handed: Mapping[str, Any]) -> None:
        """Take the indices from what a handler was called with; they stay the same objects."""
        self._indices = {name: handed[name] for name in (_GROUPS, _WORKLOADS, _PODS, _CLAIMS, _SLICES)}

    def group(self, key: Key) -> Document | None:
        """See `Known`."""
        return next(iter(self._of(_GROUPS, key)), None)

    def groups(self) -> Sequence[Key]:
        """All that there are."""
        index = self._indices.get(_GROUPS)
        return [Key(*each) for each in index] if index is not None else []

    def workload(self, key: Key, name: str) -> Document | None:
        """See `Known`."""
        return next((each for each in self._of(_WORKLOADS, key) if each["metadata"]["name"] == name), None)

    def pods(self, key: Key) -> Sequence[Document]:
        """See `Known`."""
        return self._of(_PODS, key)

    def claims(self, key: Key) -> Sequence[Document]:
        """See `Known`."""
        return self._of(_CLAIMS, key)

    def has_slice(self, key: Key) -> bool:
        """See `Known`."""
        return bool(self._of(_SLICES, key))

    def things(self, kind: str) -> set[Thing]:
        """See `Shown`."""
        index = self._indices.get(kind)
        metadata = [each["metadata"] for key in index for each in index[key]] if index is not None else []
        return {Thing(kind, str(each["name"]), str(each["uid"])) for each in metadata}

    def _of(self, name: str, key: Key) -> list[Document]:
        index = self._indices.get(name)
        return list(index[key]) if index is not None and key in index else []


def registry_of(watches: Watches, wake: Callable[[Key], None], access: ClusterAccess) -> kopf.OperatorRegistry:
    """Everything that kopf is told."""
    registry = kopf.OperatorRegistry()
    kopf.on.startup(registry=registry)(_configure)
    kopf.on.login(registry=registry)(login_of(access))

    def index_group(body: kopf.Body, **_: Any) -> dict[Key, Any]:
        return {key_of_group(body): _plain(body)}

    def wake_group(body: kopf.Body, **handed: Any) -> None:
        watches.bind(handed)
        wake(key_of_group(body))

    def wake_owner(body: kopf.Body, **handed: Any) -> None:
        watches.bind(handed)
        key = key_of_child(body)
        if key is not None:
            wake(key)

    def wake_if_news(type: str | None, body: kopf.Body, **handed: Any) -> None:  # noqa: A002 -- as kopf calls it
        """It is gone, or somebody else leads, of which no pod need tell. All else in a slice is the sidecars' work."""
        watches.bind(handed)
        key = key_of_child(body)
        group = watches.group(key) if key is not None else None
        if key is not None and (type == "DELETED" or (group is not None and led_anew(body, group))):
            wake(key)

    kopf.index(API_GROUP, VERSION, "brokergroups", id=_GROUPS, registry=registry)(index_group)
    kopf.on.event(API_GROUP, VERSION, "brokergroups", id="wake-group", registry=registry)(wake_group)
    for name, group, version, plural, slim in _CHILDREN:
        kopf.index(group, version, plural, id=name, registry=registry)(_indexing(slim))
        kopf.on.event(group, version, plural, id=f"wake-owner-of-{name}", registry=registry)(wake_owner)
    kopf.index("discovery.k8s.io", "v1", "endpointslices", id=_SLICES, registry=registry)(_indexing(slim_slice))
    kopf.on.event("discovery.k8s.io", "v1", "endpointslices", id="wake-owner-of-slices", registry=registry)(
        wake_if_news
    )
    return registry


def _indexing(slim: Callable[[Document], dict[str, Any]]) -> Callable[..., dict[Key, Any]]:
    def index_child(body: kopf.Body, **_: Any) -> dict[Key, Any]:
        key = key_of_child(body)
        return {} if key is None else {key: slim(body)}

    return index_child


def _plain(value: Any) -> Any:
    """Of our own, because kopf goes on using what it hands over; what others said of fields is not kept."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items() if name != "managedFields"}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def login_of(access: ClusterAccess) -> Callable[..., Awaitable[kopf.ConnectionInfo]]:
    """kopf connects as our own client does, with the token as it is then."""

    async def login(**_: Any) -> kopf.ConnectionInfo:
        header = await access.get_api_key_with_prefix("BearerToken", alias="authorization")
        return kopf.ConnectionInfo(
            server=access.host, ca_path=access.ssl_ca_cert, insecure=not access.verify_ssl,
            token=header.removeprefix("Bearer ").removeprefix("bearer ") if header else None,
            certificate_path=access.cert_file, private_key_path=access.key_file,
        )  # fmt: skip

    return login


async def _configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.peering.standalone = True  # the Lease decides who acts
    settings.scanning.disabled = True  # no right to watch definitions and namespaces
    settings.posting.enabled = False  # we post our own events
    for kind in ("pods", "statefulsets", "persistentvolumeclaims"):
        settings.watching.label_selectors[kind] = MANAGED
    settings.watching.label_selectors["endpointslices"] = KEPT_SLICES
    settings.watching.chunk_size = 200
    settings.watching.server_timeout = 300  # reconnect now and then, whatever is said in between
    settings.networking.connect_timeout, settings.networking.request_timeout = 5, 30
    settings.networking.error_backoffs = (0.5, 1, 2, 4, 8)
    settings.execution.max_workers = 4
    settings.persistence.finalizer = f"{API_GROUP}/never-used"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=_PREFIX)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=_PREFIX)
