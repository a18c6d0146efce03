"""Beside each controller: who keeps the leader's endpoint, so that clients follow a new leader without the operator.

It may change one EndpointSlice and nothing else; its token is in its own container only, not in the controller's (H18).
"""

from pathlib import Path
from typing import Any

from logherd_operator.resources.member_files import ADMIN_TOKEN_FILE
from logherd_operator.resources.site import Document, Ports, Site

__all__ = ["SLICE_TOKEN_VOLUME", "leader_access", "leader_keeper", "leader_keeper_volume", "leader_slice"]

SLICE_TOKEN_VOLUME = "leader-endpoint-token"  # noqa: S105 -- a name
_TOKEN_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 -- a place
_TOKEN_SECONDS = 3600


def leader_keeper(site: Site) -> Document:
    """The container. It reads the controller beside it, and speaks to the API server when the leader changes, and each
    ten seconds to see whether that still stands.

    Of a group that leads itself the controllers know no leader, so it is there for those that share the controllers.
    """
    own = [] if site.group.spec.by_controllers else ["--only-others"]
    return {
        "name": "leader-endpoint",
        "image": site.operator_image,
        "imagePullPolicy": site.group.spec.image_pull_policy,
        "command": [
            "logherd", "operator", "keep-leader", "--controller", f"http://127.0.0.1:{Ports.ADMIN}",
            "--cluster", site.cluster, "--group", site.name, "--namespace", site.namespace, "--slice", _name(site),
            "--token-file", ADMIN_TOKEN_FILE, "--lease-ms", str(site.group.spec.failover.lease_ms), *own,
        ],
        "resources": {"requests": {"cpu": "10m", "memory": "48Mi"}, "limits": {"memory": "96Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": SLICE_TOKEN_VOLUME, "mountPath": _TOKEN_DIR, "readOnly": True},
            {"name": "admin", "mountPath": str(Path(ADMIN_TOKEN_FILE).parent), "readOnly": True},
        ],
    }  # fmt: skip


def leader_keeper_volume() -> Document:
    """What Kubernetes would mount into every container of the pod, here for one."""
    return {
        "name": SLICE_TOKEN_VOLUME,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_SECONDS}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            ],
        },
    }


def leader_slice(site: Site) -> Document:
    """The endpoint of `leader`, empty: made once, then it is the sidecars'."""
    metadata = site.metadata(_name(site))
    metadata["labels"] = {
        **metadata["labels"],
        "kubernetes.io/service-name": f"{site.name}-leader",
        "endpointslice.kubernetes.io/managed-by": "leader-endpoint.logherd.dev",
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [{"name": "client", "port": Ports.CLIENT, "protocol": "TCP"}],
    }


def leader_access(site: Site) -> list[Document]:
    """A role for exactly that one object, bound to the account of the controllers, own ones or another group's."""
    name = f"{site.name}-leader-endpoint"
    account = f"{site.controllers_of}-controller"
    rules: list[dict[str, Any]] = [
        {
            "apiGroups": ["discovery.k8s.io"],
            "resources": ["endpointslices"],
            "resourceNames": [_name(site)],
            "verbs": ["get", "patch"],
        }
    ]
    kind = "rbac.authorization.k8s.io/v1"
    return [
        {"apiVersion": kind, "kind": "Role", "metadata": site.metadata(name), "rules": rules},
        {
            "apiVersion": kind,
            "kind": "RoleBinding",
            "metadata": site.metadata(name),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": site.namespace}],
        },
    ]


def _name(site: Site) -> str:
    return f"{site.name}-leader"
