"""Pod templates: one container under its guardian, restricted, with probes that ask the process itself."""

from typing import Any

from logherd_operator.observed.slots import Component
from logherd_operator.resources.member_files import DATA_DIR, RUN_DIR
from logherd_operator.resources.pinning import ROLL_HASH, roll_hash
from logherd_operator.resources.sidecar import leader_keeper, leader_keeper_volume
from logherd_operator.resources.site import Document, Ports, Site
from logherd_operator.spec.machine import Resources

__all__ = ["broker_template", "controller_template"]

USER = 10911
_STARTUP_PROBES = 360
"""Five seconds each: recovery of a large store may take half an hour before anybody loses patience."""
_DEAF_PROBES: dict[Component, int] = {"broker": 30, "controller": 6}
"""Ten seconds each. A guardian starts a broker again in place, and until its store is recovered nobody answers: that is
no reason to end the guardian, too, and the connections that it passes on meanwhile. A leader that hangs it ends itself.
"""
_CONTROLLER_GRACE_SECONDS = 30
_LOOKUP_THREADS = 32


def broker_template(site: Site) -> Document:
    """Of the brokers."""
    spec = site.group.spec
    container = {
        **_container(site, "broker", spec.resources),
        "ports": [
            _port("client", Ports.CLIENT), _port("replica", Ports.REPLICA), _port("relay", Ports.RELAY),
            _port("admin", Ports.ADMIN),
        ],
    }  # fmt: skip
    pod = spec.pod_template
    container["env"] = [*container["env"], *pod.env]
    container["volumeMounts"] = [*container["volumeMounts"], *pod.volume_mounts]
    inner = _pod_spec(site, "broker", spec.termination_grace_period_seconds, [container, *pod.sidecars])
    inner["volumes"] = [*inner["volumes"], *pod.volumes]
    return _template(site, "broker", inner)


def controller_template(site: Site) -> Document:
    """Of the controllers, and beside each the keeper of the leader's endpoint."""
    embedded = site.group.spec.controllers.embedded
    resources = embedded.resources if embedded is not None else Resources()
    container = {
        **_container(site, "controller", resources),
        "ports": [
            _port("controller", Ports.CONTROLLER), _port("peer", Ports.CONTROLLER_PEER), _port("names", Ports.NAMES),
            _port("admin", Ports.ADMIN),
        ],
    }  # fmt: skip
    inner = _pod_spec(site, "controller", _CONTROLLER_GRACE_SECONDS, [container, leader_keeper(site)])
    inner["volumes"].append(leader_keeper_volume())
    return _template(site, "controller", inner)


def _template(site: Site, component: Component, inner: Document) -> Document:
    pod = site.group.spec.pod_template
    own = pod if component == "broker" else None
    return {
        "metadata": {
            "labels": {**(own.labels if own else {}), **site.labels(component)},
            "annotations": {**(own.annotations if own else {}), ROLL_HASH: roll_hash(site, component)},
        },
        "spec": inner,
    }


def _container(site: Site, component: Component, resources: Resources) -> Document:
    return {
        "name": component,
        "image": site.image,
        "imagePullPolicy": site.group.spec.image_pull_policy,
        # The guardian is the pod's first process; it needs no shell, and reaps what its child leaves behind.
        "command": ["logherd", component, "--guarded", "--config", "/etc/logherd/$(POD_NAME).json"],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            # Half of these look up names. Without them two do, and while DNS is away the names of peers that do not
            # exist hold up those of the controllers.
            {"name": "UV_THREADPOOL_SIZE", "value": str(_LOOKUP_THREADS)},
        ],
        "resources": resources.model_dump(mode="json", exclude_none=True),
        "securityContext": _container_context(),
        "startupProbe": _probe("/health", period=5, failures=_STARTUP_PROBES),
        "livenessProbe": _probe("/health", period=10, failures=_DEAF_PROBES[component]),
        "readinessProbe": _probe("/ready", period=5, failures=3),
        "volumeMounts": [
            {"name": "data", "mountPath": DATA_DIR},
            {"name": "config", "mountPath": "/etc/logherd", "readOnly": True},
            {"name": "admin", "mountPath": "/etc/logherd-admin", "readOnly": True},
            {"name": "run", "mountPath": RUN_DIR},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 -- a volume of its own
        ],
    }


def _pod_spec(site: Site, component: Component, grace: int, containers: list[Any]) -> Document:
    spec = site.group.spec
    placement = spec.placement
    optional = {
        "imagePullSecrets": list(spec.image_pull_secrets), "nodeSelector": dict(placement.node_selector),
        "tolerations": list(placement.tolerations), "affinity": dict(placement.affinity),
        "priorityClassName": placement.priority_class_name, "topologySpreadConstraints": _spread(site, component),
    }  # fmt: skip
    return {
        "serviceAccountName": site.workload(component),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **{name: value for name, value in optional.items() if value},
        "containers": containers,
        "volumes": [
            {"name": "config", "configMap": {"name": f"{site.workload(component)}-config"}},
            {"name": "admin", "secret": {"secretName": f"{site.controllers_of}-admin", "defaultMode": 0o440}},
            {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
        ],
    }


def _spread(site: Site, component: Component) -> list[Document]:
    placement = site.group.spec.placement
    wanted = (("kubernetes.io/hostname", placement.host_spread), ("topology.kubernetes.io/zone", placement.zone_spread))
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule" if spread == "Required" else "ScheduleAnyway",
            "labelSelector": {"matchLabels": site.selector(component)},
        }
        for key, spread in wanted
        if spread != "Off"
    ]


def _container_context() -> Document:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _probe(path: str, *, period: int, failures: int) -> Document:
    return {
        "httpGet": {"path": path, "port": "admin"}, "periodSeconds": period, "failureThreshold": failures,
        "timeoutSeconds": 2,
    }  # fmt: skip


def _port(name: str, number: int) -> Document:
    return {"name": name, "containerPort": number, "protocol": "TCP"}
