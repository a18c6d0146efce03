"""What an API server says of itself to programs that ask first: kinds, their versions, and that it checks fields."""

from typing import Any

__all__ = ["KINDS", "described"]

_VERBS = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
KINDS: dict[str, list[tuple[str, str, bool]]] = {
    "/api/v1": [
        ("namespaces", "Namespace", False), ("nodes", "Node", False), ("pods", "Pod", True),
        ("persistentvolumeclaims", "PersistentVolumeClaim", True), ("events", "Event", True),
        ("services", "Service", True), ("configmaps", "ConfigMap", True), ("secrets", "Secret", True),
        ("serviceaccounts", "ServiceAccount", True),
    ],
    "/apis/apps/v1": [("statefulsets", "StatefulSet", True), ("deployments", "Deployment", True)],
    "/apis/batch/v1": [("jobs", "Job", True)],
    "/apis/policy/v1": [("poddisruptionbudgets", "PodDisruptionBudget", True)],
    "/apis/discovery.k8s.io/v1": [("endpointslices", "EndpointSlice", True)],
    "/apis/networking.k8s.io/v1": [("networkpolicies", "NetworkPolicy", True)],
    "/apis/rbac.authorization.k8s.io/v1": [
        ("roles", "Role", True), ("rolebindings", "RoleBinding", True), ("clusterroles", "ClusterRole", False),
        ("clusterrolebindings", "ClusterRoleBinding", False),
    ],
    "/apis/apiextensions.k8s.io/v1": [("customresourcedefinitions", "CustomResourceDefinition", False)],
    "/apis/logherd.dev/v1alpha1": [("brokergroups", "BrokerGroup", True)],
}  # fmt: skip


def described(path: str) -> dict[str, Any] | None:
    """The page at `path`, if it is one of those."""
    if path == "/version":
        return {"major": "1", "minor": "34", "gitVersion": "v1.34.4"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        return {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(each) for each in KINDS if "/apis/" in each],
        }
    if path == "/openapi/v3":
        return {"paths": {each[1:]: {"serverRelativeURL": f"/openapi/v3{each}"} for each in KINDS}}
    if path.startswith("/openapi/v3/"):
        return _openapi(path.removeprefix("/openapi/v3"))
    return _resources(path) if path in KINDS else None


def _group(root: str) -> dict[str, Any]:
    name, version = root.removeprefix("/apis/").split("/")
    found = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [found], "preferredVersion": found}


def _resources(root: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = [
        {"name": plural, "kind": kind, "singularName": kind.lower(), "namespaced": spaced, "verbs": _VERBS,
         "shortNames": [], "categories": []}
        for plural, kind, spaced in KINDS[root]
    ]  # fmt: skip
    if root.startswith("/apis/logherd.dev"):
        found.append({
            "name": "brokergroups/scale", "kind": "Scale", "group": "autoscaling", "version": "v1", "singularName": "",
            "namespaced": True, "verbs": ["get", "update", "patch"],
        })  # fmt: skip
    version = root.removeprefix("/apis/").removeprefix("/api/")
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": found}


def _openapi(root: str) -> dict[str, Any]:
    """Only that patches of every kind may ask for their fields to be checked; then nobody needs the schemas."""
    *_, version = root.split("/")
    group = root.split("/")[2] if root.startswith("/apis/") else ""
    paths = {}
    for plural, kind, spaced in KINDS.get(root, ()):
        place = f"{root}/namespaces/{{namespace}}/{plural}/{{name}}" if spaced else f"{root}/{plural}/{{name}}"
        paths[place] = {"patch": {
            "parameters": [{"name": "fieldValidation", "in": "query"}],
            "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
        }}  # fmt: skip
    return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.34.4"}, "paths": paths}
