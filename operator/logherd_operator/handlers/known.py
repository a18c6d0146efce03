"""What the watches have brought, cut to what is looked at: pods are large, and there are many."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from logherd_operator.observed.observed import Lender
from logherd_operator.resources.pinning import ROLL_HASH, roll_hash_in
from logherd_operator.spec.group import API_GROUP, VERSION
from logherd_operator.spec.replication import Failover

__all__ = [
    "BUDGETS", "CLAIMS", "EPOCH", "GROUPS", "PODS", "SLICES", "WATCHED", "WORKLOADS", "Key", "Known", "Watched",
    "controllers_in", "key_of_child", "key_of_group", "led_anew", "lender_in", "serves_leader", "slim_claim",
    "slim_pod", "slim_workload",
]  # fmt: skip

Document = Mapping[str, Any]
GROUPS, WORKLOADS, PODS, CLAIMS, SLICES, BUDGETS = "groups", "workloads", "pods", "claims", "slices", "budgets"
_MANAGED = "app.kubernetes.io/managed-by=logherd-operator"
EPOCH = "logherd.dev/epoch"
"""Annotation of a leader's slice, as the sidecars write it."""
_KEPT_SLICES = "endpointslice.kubernetes.io/managed-by=leader-endpoint.logherd.dev"
"""Of the leaders' endpoints; those that Kubernetes makes for our Services are labelled as the Services are."""
_SERVICE = "kubernetes.io/service-name"
_INSTANCE = "app.kubernetes.io/instance"
_KEPT_META = ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp")


class Key(NamedTuple):
    """A BrokerGroup."""

    namespace: str
    name: str


class Known(Protocol):
    """The watches' present content; it may be a moment old."""

    def group(self, key: Key) -> Document | None:
        """The BrokerGroup, whole."""

    def workload(self, key: Key, name: str) -> Document | None:
        """A StatefulSet of the group, slim."""

    def pods(self, key: Key) -> Sequence[Document]:
        """Of the group, slim."""

    def claims(self, key: Key) -> Sequence[Document]:
        """Of the group, slim."""

    def budgets(self, namespace: str) -> Sequence[Document]:
        """All disruption budgets of a namespace, ours and others', slim."""

    def has_slice(self, key: Key) -> bool:
        """Is the endpoint of the group's leader there, and does its Service find it?"""


def key_of_group(body: Document) -> Key:
    """Of a BrokerGroup."""
    return Key(body["metadata"]["namespace"], body["metadata"]["name"])


def controllers_in(body: Document) -> int:
    """How many controllers a BrokerGroup says that it has."""
    embedded = (body.get("spec", {}).get("controllers") or {}).get("embedded") or {}
    return int(embedded.get("replicas", 3))


def lender_in(body: Document | None) -> Lender:
    """What a BrokerGroup says to those that use its controllers; None: there is none of that name."""
    if body is None:
        return Lender(there=False)
    spec = body.get("spec", {})
    lease = (spec.get("failover") or {}).get("leaseMs", Failover().lease_ms)
    ref = (spec.get("controllers") or {}).get("ref") or {}
    return Lender(lease_ms=int(lease), uses=str(ref.get("name", "")))


def key_of_child(body: Document) -> Key | None:
    """Of the group that a pod, claim or StatefulSet belongs to."""
    metadata = body["metadata"]
    name = (metadata.get("labels") or {}).get(_INSTANCE)
    return None if not name else Key(metadata["namespace"], name)


def _metadata(body: Document) -> dict[str, Any]:
    metadata = body["metadata"]
    return {name: metadata[name] for name in _KEPT_META if name in metadata}


def _whole(value: Any) -> Any:
    """Of our own, because kopf goes on using what it hands over; what others said of fields is not kept."""
    if isinstance(value, Mapping):
        return {name: _whole(each) for name, each in value.items() if name != "managedFields"}
    return [_whole(each) for each in value] if isinstance(value, list | tuple) else value


def slim_workload(body: Document) -> dict[str, Any]:
    """What is looked at of a StatefulSet."""
    spec = body["spec"]
    claims = [
        {"metadata": {"name": each["metadata"]["name"]}, "spec": {"resources": dict(each["spec"]["resources"])}}
        for each in spec.get("volumeClaimTemplates", ())
    ]
    status = body.get("status") or {}
    kept = {name: status[name] for name in ("observedGeneration", "updateRevision") if name in status}
    return {
        "metadata": _metadata(body),
        "spec": {
            "replicas": spec.get("replicas", 1),
            "volumeClaimTemplates": claims,
            "updateStrategy": dict(spec.get("updateStrategy") or {}),
            "template": {"metadata": {"annotations": {ROLL_HASH: roll_hash_in(spec["template"])}}},
        },
        "status": kept,
    }


def slim_pod(body: Document) -> dict[str, Any]:
    """What is looked at of a pod."""
    status = body.get("status") or {}
    kept: dict[str, Any] = {name: status[name] for name in ("phase", "reason", "podIP") if name in status}
    kept["conditions"] = [
        {name: each[name] for name in ("type", "status", "reason", "message") if name in each}
        for each in status.get("conditions") or ()
        if each.get("type") in ("Ready", "PodScheduled")
    ]
    for name in ("containerStatuses", "initContainerStatuses"):
        kept[name] = [_slim_container(each) for each in status.get(name) or ()]
    node = (body.get("spec") or {}).get("nodeName")
    # All labels: by any of them somebody may select it.
    metadata = {**_metadata(body), "labels": dict(body["metadata"].get("labels") or {})}
    return {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": kept}


def _slim_container(status: Document) -> dict[str, Any]:
    """What it waits for, if it does, and whether it has run before."""
    waiting = (status.get("state") or {}).get("waiting")
    return {
        **({"state": {"waiting": dict(waiting)}} if waiting else {}),
        **({"restartCount": status["restartCount"]} if status.get("restartCount") else {}),
    }


def slim_claim(body: Document) -> dict[str, Any]:
    """What is looked at of a volume claim."""
    status = body.get("status") or {}
    kept: dict[str, Any] = {name: status[name] for name in ("phase", "capacity") if name in status}
    kept["conditions"] = [dict(each) for each in status.get("conditions") or ()]
    metadata = _metadata(body)
    metadata["ownerReferences"] = [dict(each) for each in body["metadata"].get("ownerReferences") or ()]
    return {
        "metadata": metadata, "spec": {"resources": {"requests": dict(body["spec"]["resources"]["requests"])}},
        "status": kept,
    }  # fmt: skip


def _slim_slice(body: Document) -> dict[str, Any]:
    """Of a leader's endpoint only whether it is there for its Service is looked at: what is in it is the sidecars'."""
    metadata = {name: body["metadata"][name] for name in ("name", "uid")}
    return {"metadata": {**metadata, "labels": dict(body["metadata"].get("labels") or {})}}


def _slim_budget(body: Document) -> dict[str, Any]:
    """Of a disruption budget only over which pods it is."""
    metadata = {name: body["metadata"][name] for name in ("name", "uid")}
    return {"metadata": metadata, "spec": {"selector": _whole((body.get("spec") or {}).get("selector"))}}


def _namespace_of(body: Document) -> str:
    return str(body["metadata"]["namespace"])


def serves_leader(piece: Document, key: Key) -> bool:
    """Does the Service of the group's leader find this slice? By that label alone it does."""
    return (piece["metadata"].get("labels") or {}).get(_SERVICE) == f"{key.name}-leader"


def led_anew(piece: Document, group: Document) -> bool:
    """Does the leader's slice name an epoch that the group's status does not know yet?"""
    named = (piece["metadata"].get("annotations") or {}).get(EPOCH)
    leader = (group.get("status") or {}).get("leader") or {}
    return named is not None and named != str(leader.get("epoch"))


class Watched(NamedTuple):
    """A kind that is watched: where it is listed, those of its objects that have `labels`, of which group one is (None:
    of none, and nobody looks at it), and what is looked at of it. What matters to all groups of a namespace stands
    under its name, and wakes none of them: each looks once a minute."""

    name: str
    group: str
    version: str
    plural: str
    labels: str
    key_of: Callable[[Document], Key | str | None]
    slim: Callable[[Document], dict[str, Any]]


WATCHED = (
    Watched(GROUPS, API_GROUP, VERSION, "brokergroups", "", key_of_group, _whole),
    Watched(WORKLOADS, "apps", "v1", "statefulsets", _MANAGED, key_of_child, slim_workload),
    Watched(PODS, "", "v1", "pods", _MANAGED, key_of_child, slim_pod),
    Watched(CLAIMS, "", "v1", "persistentvolumeclaims", _MANAGED, key_of_child, slim_claim),
    Watched(SLICES, "discovery.k8s.io", "v1", "endpointslices", _KEPT_SLICES, key_of_child, _slim_slice),
    Watched(BUDGETS, "policy", "v1", "poddisruptionbudgets", "", _namespace_of, _slim_budget),
)
"""All that the operator hears of without asking; what the watches show is compared with lists of the same."""
