"""What this version can do with a BrokerGroup on one machine. Nothing is ignored in silence: a field that asks for more
is refused by its name; a field that only has a meaning on Kubernetes is named in a note.
"""

from pydantic import BaseModel

from logherd_operator.spec.group import BrokerGroup

__all__ = ["kubernetes_only", "refusals"]

_KUBERNETES = (
    "image", "image_pull_policy", "image_pull_secrets", "resources", "placement", "pod_template", "advertised",
    "cluster_domain", "termination_grace_period_seconds", "disruption", "network_policy", "monitoring", "spark",
)  # fmt: skip
_KUBERNETES_STORAGE = ("size", "storage_class_name")
_KUBERNETES_UPDATE = ("pod_ready_timeout_seconds", "adopt_new_template")
_LATER = ("runtime",)
_LATER_REPLICATION = ("unclean_election",)

_IDLE_REPLICATION = {"Controller": (), "Raft": ("lag_timeout_ms",), "Static": ()}
_IDLE_FAILOVER = {"Controller": (), "Raft": ("heartbeat_interval_ms",), "Static": ("heartbeat_interval_ms",)}


def refusals(group: BrokerGroup) -> list[str]:
    """One sentence for each field that this version cannot act on; empty if it can run the group."""
    spec, replication = group.spec, group.spec.replication
    found: list[str] = []
    if spec.controllers.embedded is None:
        found.append("spec.controllers.ref: is not supported on one machine; a group there has controllers of its own")
    if spec.update.strategy != "Automatic":
        found.append(f"spec.update.strategy: {spec.update.strategy} is not supported on one machine; leave it out")
    found += [
        f"{path}: has no effect with replication.mode {replication.mode}; leave it out"
        for path in _set_paths(replication, _IDLE_REPLICATION[replication.mode], "spec.replication")
        + _set_paths(spec.failover, _IDLE_FAILOVER[replication.mode], "spec.failover")
    ]
    found += [
        f"spec.{name}.mode: {mode} is not supported yet; this version knows Disabled"
        for name, mode in (("tls", spec.tls.mode), ("auth", spec.auth.mode))
        if mode != "Disabled"
    ]
    later = _set_paths(spec, _LATER, "spec") + _set_paths(replication, _LATER_REPLICATION, "spec.replication")
    return found + [f"{path}: is not supported yet; leave it out" for path in later]


def kubernetes_only(group: BrokerGroup) -> list[str]:
    """Paths that the document sets and that take effect only on Kubernetes."""
    spec = group.spec
    own = spec.controllers.embedded
    return [
        *_set_paths(spec, _KUBERNETES, "spec"),
        *_set_paths(spec.storage, _KUBERNETES_STORAGE, "spec.storage"),
        *_set_paths(spec.update, _KUBERNETES_UPDATE, "spec.update"),
        *(_set_paths(own, ("resources", "storage"), "spec.controllers.embedded") if own is not None else ()),
    ]


def _set_paths(model: BaseModel, names: tuple[str, ...], prefix: str) -> list[str]:
    fields = type(model).model_fields
    return [f"{prefix}.{fields[name].alias}" for name in names if name in model.model_fields_set]
