"""Who may do what for a Spark job: what `spark-submit` and a driver ask of the API server, and nothing else."""

from typing import Final

from logherd_operator.resources.site import Document

__all__ = ["SUBMITTER", "access"]

SUBMITTER: Final = "-submit"
"""What the submitting account's name ends with; before it stands the driver's."""
_API = "rbac.authorization.k8s.io"
_Rules = tuple[tuple[str, tuple[str, ...]], ...]
_DRIVER: _Rules = (
    ("pods", ("create", "get", "list", "watch", "delete", "deletecollection")),
    ("configmaps", ("create", "deletecollection")),
)
_SUBMIT: _Rules = (
    ("pods", ("create", "get", "watch")), ("configmaps", ("create", "patch")), ("services", ("create", "patch")),
)  # fmt: skip


def access(account: str, namespace: str) -> list[Document]:
    """Two accounts: the driver's, and that of whoever submits. Neither has rights on anything of LogHerd's."""
    return [*_account(account, namespace, _DRIVER), *_account(f"{account}{SUBMITTER}", namespace, _SUBMIT)]


def _account(name: str, namespace: str, rules: _Rules) -> list[Document]:
    # Several jobs of a namespace may share them, so they name none.
    metadata = {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/name": "logherd-spark"}}
    granted = [{"apiGroups": [""], "resources": [resource], "verbs": list(verbs)} for resource, verbs in rules]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": False},
        {"apiVersion": f"{_API}/v1", "kind": "Role", "metadata": metadata, "rules": granted},
        {
            "apiVersion": f"{_API}/v1", "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": _API, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        },
    ]  # fmt: skip
