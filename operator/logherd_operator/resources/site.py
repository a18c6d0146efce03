"""What the builders are told besides the spec: names, addresses, ports, labels. All derive from the group's name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from logherd_operator.observed.slots import Component
from logherd_operator.spec.group import API_GROUP, API_VERSION, KIND, BrokerGroup

__all__ = ["PLACES_MAX", "Document", "Ports", "Shape", "Site"]

Document = dict[str, Any]
PLACES_MAX: Final = 7
"""Most brokers that a group may have. Addresses of all of them are known from the start: nobody has to be told."""


class Ports:
    """The same in every pod; fixed, so that nothing has to be looked up."""

    CLIENT: Final = 10911
    REPLICA: Final = 10912
    RELAY: Final = 10914
    NAMES: Final = 9876
    CONTROLLER: Final = 9878
    CONTROLLER_PEER: Final = 9879
    ADMIN: Final = 8088


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How many places there are now. Brokers from `first_learner` on begin as learners; None: all found the group.

    The claims: size of the volumes that a StatefulSet makes, if there is one; it cannot be changed in place.
    `founders`: with so many brokers a group began that leads itself. `members`: so many are to belong to it, which is
    more than there are while places are being added; None: as many as there are. `renewed`: components that are to be
    made from the newest template. `rolled`: of a component all of whose pods are made from what its StatefulSet says,
    the roll hash of that.
    """

    brokers: int
    controllers: int
    first_learner: int | None = None
    broker_claim: str | None = None
    controller_claim: str | None = None
    founders: int | None = None
    members: int | None = None
    renewed: frozenset[Component] = frozenset()
    rolled: Mapping[Component, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where the group is built. `uid` is the BrokerGroup's own, by which its objects are its children.

    `controller_count`: of the controllers that are used, own ones or another group's. `operator_image` runs beside the
    controllers and keeps the leader's endpoint.
    """

    group: BrokerGroup
    namespace: str
    uid: str
    image: str
    operator_image: str
    operator_version: str
    controller_count: int = 3

    @property
    def name(self) -> str:
        """Of the group."""
        return self.group.metadata.name

    @property
    def cluster(self) -> str:
        """RocketMQ's cluster, in which groups are."""
        return self.group.spec.cluster_name or self.name

    @property
    def controllers_of(self) -> str:
        """The group whose controllers elect this one's leader."""
        ref = self.group.spec.controllers.ref
        return self.name if ref is None else ref.name

    def headless(self, component: Component) -> str:
        """The Service that gives each pod a name."""
        return f"{self.name}-{component}s"

    def workload(self, component: Component) -> str:
        """The StatefulSet, its pods' prefix, and what else there is one of for each component."""
        return f"{self.name}-{component}"

    def pod(self, component: Component, ordinal: int) -> str:
        """The pod at a place."""
        return f"{self.workload(component)}-{ordinal}"

    def broker_host(self, ordinal: int) -> str:
        """The name by which a broker is reached, as the spec's template says. It outlives the pod."""
        values = {
            "pod": self.pod("broker", ordinal), "headless": self.headless("broker"), "namespace": self.namespace,
            "domain": self.group.spec.cluster_domain,
        }  # fmt: skip
        text = self.group.spec.advertised.address_template
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def inner_host(self, component: Component, ordinal: int, *, of: str | None = None) -> str:
        """The name by which pods of the cluster reach each other, whatever clients are told."""
        owner = of or self.name
        domain = self.group.spec.cluster_domain
        return f"{owner}-{component}-{ordinal}.{owner}-{component}s.{self.namespace}.svc.{domain}"

    def leader_host(self) -> str:
        """The name of the Service whose endpoint is whoever leads."""
        return f"{self.name}-leader.{self.namespace}.svc.{self.group.spec.cluster_domain}"

    def controller_hosts(self) -> list[str]:
        """Of all controllers that this group uses."""
        return [self.inner_host("controller", n, of=self.controllers_of) for n in range(self.controller_count)]

    def selector(self, component: Component) -> dict[str, str]:
        """By which pods are found: never changes, and never fits another workload."""
        return {
            "app.kubernetes.io/name": "logherd",
            "app.kubernetes.io/instance": self.name,
            "app.kubernetes.io/component": component,
        }

    def labels(self, component: Component | None = None) -> dict[str, str]:
        """Of everything that belongs to the group."""
        return {
            "app.kubernetes.io/name": "logherd",
            "app.kubernetes.io/instance": self.name,
            **({"app.kubernetes.io/component": component} if component else {}),
            "app.kubernetes.io/part-of": self.cluster,
            "app.kubernetes.io/managed-by": "logherd-operator",
            f"{API_GROUP}/group": self.name,
        }

    def metadata(self, name: str, component: Component | None = None, **fields: Any) -> Document:
        """Of a child: it goes when the group goes."""
        owner = {
            "apiVersion": API_VERSION, "kind": KIND, "name": self.name, "uid": self.uid, "controller": True,
            "blockOwnerDeletion": True,
        }  # fmt: skip
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": self.labels(component),
            "ownerReferences": [owner],
            **fields,
        }
