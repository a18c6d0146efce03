"""Groups whose rendered objects are kept as golden files; `python -m unit.operator_resources.examples` renews them."""

import sys
from pathlib import Path
from typing import Any

import yaml

from logherd_operator.resources.group_objects import Rendered, render_group
from logherd_operator.resources.site import Shape, Site
from logherd_operator.spec.group import BrokerGroup

__all__ = ["EXAMPLES", "GOLDEN", "golden_text", "rendered", "site_of"]

GOLDEN = Path(__file__).parent / "golden"

EVERYTHING: dict[str, Any] = {
    "clusterName": "shop",
    "image": "registry.example/logherd@sha256:0123",
    "imagePullSecrets": [{"name": "pull"}],
    "replicas": 5,
    "replication": {"minInSyncReplicas": 3, "flush": "Async", "lagTimeoutMs": 2000},
    "failover": {"heartbeatIntervalMs": 500, "leaseMs": 6000},
    "controllers": {"embedded": {"replicas": 5, "storage": {"size": "2Gi"}}},
    "nameService": {"mode": "External", "addresses": ["names.example:9876"]},
    "storage": {"size": "100Gi", "storageClassName": "fast"},
    "resources": {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"memory": "4Gi"}},
    "config": {"fileReservedTime": "96", "maxMessageSize": "1048576"},
    "clusterDomain": "k8s.example",
    "placement": {
        "hostSpread": "Required",
        "zoneSpread": "Required",
        "nodeSelector": {"disk": "nvme"},
        "tolerations": [{"key": "log", "operator": "Exists"}],
        "priorityClassName": "high",
    },
    "podTemplate": {
        "labels": {"team": "data"},
        "annotations": {"example.com/owner": "data"},
        "env": [{"name": "TZ", "value": "UTC"}],
        "volumes": [{"name": "extra", "emptyDir": {"sizeLimit": "1Mi"}}],
        "volumeMounts": [{"name": "extra", "mountPath": "/extra"}],
        "sidecars": [{"name": "agent", "image": "agent:1"}],
    },
    "spark": {"template": {"enabled": True, "image": "registry.example/logherd-spark:1", "serviceAccountName": "data"}},
}

EXAMPLES: dict[str, tuple[dict[str, Any], Shape]] = {
    "default": ({}, Shape(brokers=3, controllers=3)),
    "single": (
        {"replicas": 1, "controllers": {"embedded": {"replicas": 1}}, "networkPolicy": {"enabled": False}},
        Shape(brokers=1, controllers=1),
    ),
    "everything": (EVERYTHING, Shape(brokers=4, controllers=5, first_learner=3, broker_claim="50Gi")),
    "voting": (
        {"replicas": 5, "replication": {"mode": "Raft"}, "failover": {"leaseMs": 6000}},
        Shape(brokers=4, controllers=3, founders=3),
    ),
    "table": (
        {"replication": {"mode": "Static", "static": {"leader": 2, "synchronous": [1, 3], "copies": 2}}},
        Shape(brokers=3, controllers=3, founders=3),
    ),
    "shared": ({"controllers": {"ref": {"name": "other"}}}, Shape(brokers=3, controllers=3)),
}


def site_of(spec: dict[str, Any], *, version: str = "1.2.3", controllers: int = 3) -> Site:
    group = BrokerGroup.model_validate({
        "apiVersion": "logherd.dev/v1alpha1", "kind": "BrokerGroup", "metadata": {"name": "orders"}, "spec": spec,
    })  # fmt: skip
    return Site(
        group=group, namespace="shop", uid="6f1c", image=group.spec.image or "logherd:1.2.3",
        operator_image="logherd-operator:1.2.3", operator_version=version, controller_count=controllers,
    )  # fmt: skip


def rendered(name: str) -> Rendered:
    spec, shape = EXAMPLES[name]
    return render_group(site_of(spec, controllers=shape.controllers), shape)


def golden_text(name: str) -> str:
    found = rendered(name)
    return yaml.safe_dump_all([*found.made_once, *found.kept], sort_keys=False, width=120)


if __name__ == "__main__":
    for example in EXAMPLES:
        (GOLDEN / f"{example}.yaml").write_text(golden_text(example))
        sys.stdout.write(f"{example}\n")
