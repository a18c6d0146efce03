"""Specs that are right or wrong, for the models and for the API server's rules alike. `{}` stands for the defaults."""

from typing import Any, NamedTuple

__all__ = ["CHANGES", "DOCUMENTS", "Change", "Document"]


class Document(NamedTuple):
    """A new object; `refused` is None, or a part of what either end says."""

    spec: dict[str, Any]
    refused: str | None = None
    name: str = "orders"


class Change(NamedTuple):
    """A change of an object, which only the API server can judge."""

    old: dict[str, Any]
    new: dict[str, Any]
    refused: str | None = None


def _resources(requests: dict[str, str], limits: dict[str, str]) -> dict[str, Any]:
    return {"resources": {"requests": requests, "limits": limits}}


def _pod(**fields: Any) -> dict[str, Any]:
    return {"podTemplate": fields}


def _static(refused: str | None = None, **roles: Any) -> Document:
    return Document({"replication": {"mode": "Static", "static": roles}}, refused)


def _names(address: str, refused: str | None = None) -> Document:
    return Document({"nameService": {"mode": "External", "addresses": [address]}}, refused)


DOCUMENTS: tuple[Document, ...] = (
    Document({}),
    Document({}, name="a" * 40),
    Document({}, "40 characters", name="a" * 41),
    Document({}, "characters", name="or.ders"),
    Document({}, "characters", name="1orders"),
    Document({}, name="o1"),
    Document({"replicas": 7}),
    Document({"replicas": 8}, "spec.replicas: "),
    Document({"replicas": 2, "replication": {"minInSyncReplicas": 2}}),
    Document({"replicas": 2, "replication": {"minInSyncReplicas": 3}}, "is above replicas"),
    Document({"replication": {"mode": "Raft"}}),
    Document({"replication": {"mode": "Raft", "flush": "Async"}}, "needs flush Sync"),
    Document({"replication": {"mode": "Raft", "minInSyncReplicas": 2}}, "minInSyncReplicas is for mode Controller"),
    Document({"replication": {"mode": "Static"}}),
    _static(),
    _static(leader=3, synchronous=[1, 2], copies=2),
    _static(synchronous=[], copies=1),
    _static("names followers, each once", synchronous=[1, 2]),
    _static("names followers, each once", synchronous=[2, 2]),
    _static("copies needs synchronous", copies=2),
    _static("copies is from 2 to one more", synchronous=[2], copies=3),
    _static("copies is from 2 to one more", synchronous=[2, 3], copies=1),
    _static("names a broker above replicas", synchronous=[2, 4]),
    _static("names a broker above replicas", leader=4),
    Document({"replication": {"mode": "Raft", "static": {}}}, "static is for mode Static"),
    Document({"terminationGracePeriodSeconds": 75}),
    Document({"terminationGracePeriodSeconds": 74}, "should be at least switchoverTimeoutSeconds + 45"),
    Document({"placement": {"ackAcrossZones": True, "zoneSpread": "Required"}}),
    Document({"placement": {"ackAcrossZones": True}}, "needs zoneSpread Required and at least 3 replicas"),
    Document(
        {"replicas": 2, "placement": {"ackAcrossZones": True, "zoneSpread": "Required"}}, "and at least 3 replicas"
    ),
    Document({"controllers": {"ref": {"name": "other"}}}),
    Document({"controllers": {"ref": {"name": "orders"}}}, "names this group itself"),
    Document({"controllers": {"ref": {"name": "orders"}}, "replication": {"mode": "Raft"}}),
    Document({"controllers": {"ref": {"name": "orders"}}, "replication": {"mode": "Static"}}),
    Document({"controllers": {}}, "exactly one of embedded and ref"),
    Document({"controllers": {"embedded": {}, "ref": {"name": "other"}}}, "exactly one of embedded and ref"),
    Document({"failover": {"heartbeatIntervalMs": 500, "leaseMs": 1500}}),
    Document({"failover": {"leaseMs": 2999}}, "failover.leaseMs should be at least 3 x failover.heartbeatIntervalMs"),
    Document({"replication": {"mode": "Raft"}, "failover": {"leaseMs": 600}}),
    Document({"controllers": {"ref": {"name": "other"}}, "failover": {"heartbeatIntervalMs": 2000}}),
    Document({"nameService": {"mode": "External", "addresses": ["a:9876"]}}),
    Document({"nameService": {"mode": "External"}}, "at least one address"),
    Document({"nameService": {"addresses": ["a:9876"]}}, "needs no"),
    Document({"nameService": {"mode": "External", "addresses": ["a"]}}, "addresses"),
    *(_names(f"10.0.0.1:{port}") for port in ("1", "9876", "60000", "65535")),
    *(_names(f"a:{port}", "addresses") for port in ("0", "65536", "70000", "99999", "100000")),
    *(_names(f"{host}:9876", "addresses") for host in ("-", ".", "a.", "-a", "a" * 254)),
    Document(_resources({"memory": "1Gi"}, {"memory": "1024Mi"})),
    Document(_resources({"memory": "1Gi"}, {"memory": "1023Mi"}), "requests.memory should not be above limits.memory"),
    Document(_resources({}, {"cpu": "1"}), "limits.memory is required"),
    Document(
        {"controllers": {"embedded": _resources({"memory": "2Gi"}, {"memory": "1Gi"})}}, "should not be above limits"
    ),
    Document({"config": {"fileReservedTime": "72"}}),
    Document({"config": {"brokerName": "x"}}, "owned by another field"),
    Document({"config": {"storePathCommitLog": "/x"}}, "owned by another field"),
    Document({"config": {"a.b": "x"}}, "no property name"),
    Document({"tls": {"mode": "Required", "secretName": "cert"}}),
    Document({"tls": {"mode": "Required"}}, "exactly one of secretName and certManager"),
    Document(
        {"tls": {"mode": "Permissive", "secretName": "cert", "certManager": {"issuerRef": {"name": "ca"}}}},
        "exactly one of secretName and certManager",
    ),
    Document(_pod(labels={"team": "a"}, annotations={"example.com/a": "b"})),
    Document(_pod(labels={"logherd.dev/role": "leader"}), "prefix that is reserved"),
    Document(_pod(annotations={"kubernetes.io/x": "y"}), "prefix that is reserved"),
    Document(_pod(env=[{"name": "TZ", "value": "UTC"}])),
    Document(_pod(env=[{"name": "LOGHERD_X", "value": "1"}]), "LOGHERD_"),
    Document(_pod(env=[{"name": "POD_NAME", "value": "other-0"}]), "POD_NAME"),
    Document(_pod(env=[{"value": "1"}]), "name"),
    Document(_pod(volumes=[{"name": "extra", "emptyDir": {"sizeLimit": "1Gi"}}])),
    Document(_pod(volumes=[{"name": "host", "hostPath": {"path": "/"}}]), "volume that moves with the pod"),
    Document(_pod(volumes=[{"name": "data", "emptyDir": {}}]), "each pod has"),
    Document(_pod(volumes=[{"name": "tmp", "emptyDir": {}}]), "each pod has"),
    Document(_pod(sidecars=[{"name": "broker", "image": "a:1"}]), "each pod has"),
    Document(_pod(sidecars=[{"name": "agent", "image": "a:1", "securityContext": {"runAsUser": 1000}}])),
    Document(_pod(sidecars=[{"name": "agent", "securityContext": {"privileged": True}}]), "weakens the pod"),
    Document(_pod(sidecars=[{"name": "agent", "securityContext": {"runAsUser": 0}}]), "weakens the pod"),
    Document({"update": {"windows": [{"cron": "0 3 * * 6", "durationMinutes": 60}]}}),
    Document({"update": {"windows": [{"cron": "0 3 * *", "durationMinutes": 60}]}}, "cron"),
    Document({"storage": {"size": "3Q"}}, "size"),
)

CHANGES: tuple[Change, ...] = (
    Change({}, {"replicas": 5}),
    Change({}, {"clusterName": "shop"}, "clusterName cannot be changed"),
    Change({"clusterName": "shop"}, {}, "clusterName cannot be changed"),
    Change({"clusterName": "shop"}, {"clusterName": "store"}, "clusterName cannot be changed"),
    Change({}, {"clusterDomain": "example.org"}, "clusterDomain cannot be changed"),
    Change({}, {"config": {"mappedFileSizeCommitLog": "67108864"}}, "mappedFileSizeCommitLog cannot be changed"),
    Change({"config": {"mappedFileSizeCommitLog": "67108864"}}, {}, "mappedFileSizeCommitLog cannot be changed"),
    Change(
        {"config": {"maxMessageSize": "3145728"}},
        {"config": {"maxMessageSize": "3145728", "mappedFileSizeCommitLog": "67108864"}},
        "mappedFileSizeCommitLog cannot be changed",
    ),
    Change({"config": {"maxMessageSize": "3145728"}}, {}),
    Change(
        {"config": {"mappedFileSizeCommitLog": "67108864"}},
        {"config": {"mappedFileSizeCommitLog": "33554432"}},
        "mappedFileSizeCommitLog cannot be changed",
    ),
    Change(
        {"config": {"mappedFileSizeCommitLog": "67108864"}},
        {"config": {"mappedFileSizeCommitLog": "67108864", "maxMessageSize": "3145728"}},
    ),
    Change({}, {"replication": {"mode": "Raft"}}, "mode cannot be changed"),
    Change(
        {"replication": {"mode": "Static", "static": {"synchronous": [2]}}},
        {"replication": {"mode": "Static", "static": {"synchronous": [3]}}},
        "static cannot be changed",
    ),
    Change({"replication": {"mode": "Static"}}, {"replication": {"mode": "Static", "static": {}}}, "static cannot be"),
    Change({"storage": {"size": "20Gi"}}, {"storage": {"size": "20480Mi"}}),
    Change({"storage": {"size": "20Gi"}}, {"storage": {"size": "21Gi"}}),
    Change({"storage": {"size": "20Gi"}}, {"storage": {"size": "20479Mi"}}, "never shrinks"),
    Change({}, {"storage": {"storageClassName": "fast"}}, "storageClassName cannot be changed"),
    Change({}, {"controllers": {"ref": {"name": "other"}}}, "embedded and ref cannot be exchanged"),
    Change({}, {"controllers": {"embedded": {"replicas": 5}}}, "number of controllers cannot be changed"),
    Change({}, {"controllers": {"embedded": {"storage": {"size": "1Gi"}}}}, "never shrinks"),
    Change(
        {"controllers": {"ref": {"name": "a"}}}, {"controllers": {"ref": {"name": "b"}}}, "the controllers cannot be"
    ),
    Change({}, {"auth": {"mode": "Permissive"}}),
    Change({}, {"auth": {"mode": "Required"}}, "one step at a time"),
    Change({"tls": {"mode": "Required", "secretName": "c"}}, {"tls": {"mode": "Disabled"}}, "one step at a time"),
)
