"""Where pods stand and what is added to them."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from logherd_operator.spec.base import DnsName, Fragment, Model, Named, OfPod, StringMap

__all__ = [
    "CONTAINER", "OWN_VARIABLES", "OWN_VOLUMES", "RESERVED_PREFIXES", "VARIABLES_PREFIX", "WEAKENING", "Placement",
    "PodTemplate",
]  # fmt: skip

Spread = Literal["Off", "Preferred", "Required"]
RESERVED_PREFIXES = ("logherd.dev/", "app.kubernetes.io/", "kubernetes.io/", "statefulset.kubernetes.io/")
CONTAINER = "broker"
"""Name of the container that a pod has in any case."""
OWN_VOLUMES = ("data", "config", "admin", "run", "tmp")
"""Of each pod. A StatefulSet passes over a second one that is called `data`; with a second of another it is refused."""
OWN_VARIABLES = ("POD_NAME",)
"""The last of two of one name counts, and by this one a broker finds its configuration."""
VARIABLES_PREFIX = "LOGHERD_"
_NAME = {"type": "string", "minLength": 1, "maxLength": 253}
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_CONTEXT = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {
        "privileged": {"type": "boolean"},
        "allowPrivilegeEscalation": {"type": "boolean"},
        "runAsNonRoot": {"type": "boolean"},
        "runAsUser": {"type": "integer", "format": "int64"},
    },
}
EnvVar = Annotated[dict[str, Any], OfPod({"name": _NAME}, required=("name",))]
Volume = Annotated[dict[str, Any], OfPod({"name": _NAME, "hostPath": _ANYTHING}, required=("name",))]
Sidecar = Annotated[dict[str, Any], OfPod({"name": _NAME, "securityContext": _CONTEXT}, required=("name",))]
WEAKENING = {"privileged": True, "allowPrivilegeEscalation": True, "runAsNonRoot": False, "runAsUser": 0}


class Placement(Model):
    """On which nodes brokers stand."""

    host_spread: Spread = Field(default="Preferred", description="Different nodes.")
    zone_spread: Spread = Field(default="Preferred", description="Different zones.")
    ack_across_zones: bool = Field(
        default=False, description="Not yet: true is refused. A committed message is in two zones."
    )
    node_selector: StringMap = Field(default_factory=dict, max_length=50, description="Labels that a node must have.")
    tolerations: tuple[Fragment, ...] = Field(default=(), max_length=100, description="Taints that are no obstacle.")
    affinity: Fragment = Field(default_factory=dict, description="Kubernetes affinity.")
    priority_class_name: DnsName | None = Field(default=None, description="Kubernetes priority class.")


class PodTemplate(Model):
    """What is added to every pod."""

    labels: StringMap = Field(default_factory=dict, max_length=50, description="Own labels.")
    annotations: StringMap = Field(default_factory=dict, max_length=50, description="Own annotations.")
    env: tuple[EnvVar, ...] = Field(default=(), max_length=100, description="Own environment variables.")
    volumes: tuple[Volume, ...] = Field(
        default=(), max_length=50, description=f"Own volumes; no hostPath, none called {', '.join(OWN_VOLUMES)}."
    )
    volume_mounts: tuple[Named, ...] = Field(default=(), max_length=50, description="Where they are mounted.")
    sidecars: tuple[Sidecar, ...] = Field(default=(), max_length=10, description="Own containers beside the broker.")

    @field_validator("labels", "annotations")
    @classmethod
    def _prefixes_are_free(cls, names: StringMap) -> StringMap:
        for name in names:
            if name.startswith(RESERVED_PREFIXES):
                raise ValueError(f"{name} has a prefix that is reserved: {', '.join(RESERVED_PREFIXES)}")
        return names

    @field_validator("env")
    @classmethod
    def _names_are_free(cls, variables: tuple[Fragment, ...]) -> tuple[Fragment, ...]:
        for variable in variables:
            name = variable.get("name")
            if not isinstance(name, str) or not name or name.startswith(VARIABLES_PREFIX) or name in OWN_VARIABLES:
                raise ValueError(
                    f"{name!r} is not right: a variable has a name that does not begin with {VARIABLES_PREFIX} "
                    f"and is not {' or '.join(OWN_VARIABLES)}"
                )
        return variables

    @field_validator("volumes")
    @classmethod
    def _volumes_are_free(cls, volumes: tuple[Fragment, ...]) -> tuple[Fragment, ...]:
        for volume in volumes:
            if volume.get("name") in OWN_VOLUMES:
                raise ValueError(f"{volume['name']!r} is a volume that each pod has: {', '.join(OWN_VOLUMES)}")
            if "hostPath" in volume:
                raise ValueError(f"{volume.get('name')!r} is a hostPath; use a volume that moves with the pod")
        return volumes

    @field_validator("sidecars")
    @classmethod
    def _stay_restricted(cls, containers: tuple[Fragment, ...]) -> tuple[Fragment, ...]:
        for container in containers:
            if container.get("name") == CONTAINER:
                raise ValueError(f"{CONTAINER!r} is the container that each pod has; call yours otherwise")
            context = container.get("securityContext") or {}
            weak = [key for key, value in WEAKENING.items() if isinstance(context, dict) and context.get(key) == value]
            if weak:
                raise ValueError(f"{container.get('name')!r} weakens the pod: securityContext.{weak[0]}")
        return containers
