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
    BUDGETS,
    CLAIMS,
    GROUPS,
    PODS,
    SLICES,
    WATCHED,
    WORKLOADS,
    Key,
    Watched,
    led_anew,
    serves_leader,
)
from logherd_operator.spec.group import API_GROUP

__all__ = ["Watches", "login_of", "registry_of"]

_PREFIX = f"progress.{API_GROUP}"

Document = Mapping[str, Any]


class Watches:
    """`Known` from kopf's indices. They are filled before the first handler runs, which hands them over."""

    def __init__(self) -> None:
        self._indices: Mapping[str, kopf.Index[Any, Any]] = {}

    def bind(self, handed: Mapping[str, Any]) -> None:
        """Take the indices from what a handler was called with; they stay the same objects."""
        self._indices = {name: handed[name] for name, *_ in WATCHED}

    def group(self, key: Key) -> Document | None:
        """See `Known`."""
        return next(iter(self._of(GROUPS, key)), None)

    def groups(self) -> Sequence[Key]:
        """All that there are."""
        index = self._indices.get(GROUPS)
        return [Key(*each) for each in index] if index is not None else []

    def workload(self, key: Key, name: str) -> Document | None:
        """See `Known`."""
        return next((each for each in self._of(WORKLOADS, key) if each["metadata"]["name"] == name), None)

    def pods(self, key: Key) -> Sequence[Document]:
        """See `Known`."""
        return self._of(PODS, key)

    def claims(self, key: Key) -> Sequence[Document]:
        """See `Known`."""
        return self._of(CLAIMS, key)

    def budgets(self, namespace: str) -> Sequence[Document]:
        """See `Known`."""
        return self._of(BUDGETS, namespace)

    def has_slice(self, key: Key) -> bool:
        """See `Known`."""
        return any(serves_leader(each, key) for each in self._of(SLICES, key))

    def things(self, kind: str) -> set[Thing]:
        """See `Shown`."""
        index = self._indices.get(kind)
        metadata = [each["metadata"] for key in index for each in index[key]] if index is not None else []
        return {Thing(kind, str(each["name"]), str(each["uid"])) for each in metadata}

    def _of(self, name: str, key: Key | str) -> list[Document]:
        index = self._indices.get(name)
        return list(index[key]) if index is not None and key in index else []


def registry_of(watches: Watches, wake: Callable[[Key], None], access: ClusterAccess) -> kopf.OperatorRegistry:
    """Everything that kopf is told."""
    registry = kopf.OperatorRegistry()
    kopf.on.startup(registry=registry)(_configure)
    kopf.on.login(registry=registry)(login_of(access))
    for kind in WATCHED:
        where = (kind.group, kind.version, kind.plural)
        kopf.index(*where, id=kind.name, registry=registry)(_indexing(kind))
        kopf.on.event(*where, id=f"wake-by-{kind.name}", registry=registry)(_waking(kind, watches, wake))
    return registry


def _indexing(kind: Watched) -> Callable[..., dict[Key | str, Any]]:
    def index(body: kopf.Body, **_: Any) -> dict[Key | str, Any]:
        key = kind.key_of(body)
        return {} if key is None else {key: kind.slim(body)}

    return index


def _waking(kind: Watched, watches: Watches, wake: Callable[[Key], None]) -> Callable[..., None]:
    def wake_owner(type: str | None, body: kopf.Body, **handed: Any) -> None:  # noqa: A002 -- as kopf calls it
        watches.bind(handed)
        key = kind.key_of(body)
        if isinstance(key, Key) and (kind.name != SLICES or _is_news(type, body, watches.group(key))):
            wake(key)

    return wake_owner


def _is_news(change: str | None, piece: Document, group: Document | None) -> bool:
    """It is gone, or somebody else leads, of which no pod need tell. All else in a slice is the sidecars' work."""
    return change == "DELETED" or (group is not None and led_anew(piece, group))


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
    settings.watching.label_selectors.update({each.plural: each.labels for each in WATCHED if each.labels})
    settings.watching.chunk_size = 200
    settings.watching.server_timeout = 300  # reconnect now and then, whatever is said in between
    settings.networking.connect_timeout, settings.networking.request_timeout = 5, 30
    settings.networking.error_backoffs = (0.5, 1, 2, 4, 8)
    settings.execution.max_workers = 4
    settings.persistence.finalizer = f"{API_GROUP}/never-used"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=_PREFIX)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=_PREFIX)
