"""Services, and who may connect to what."""

from typing import Any

from logherd_operator.observed.slots import Component
from logherd_operator.resources.site import Document, Ports, Site

__all__ = ["network_policies", "services"]


def services(site: Site) -> list[Document]:
    """Names for pods, for the name service, and for whoever leads."""
    found = [_headless(site, "broker", _BROKER_PORTS)]
    if site.group.spec.by_controllers:
        found.append(_leader(site))
    if site.group.spec.controllers.embedded is not None:
        found += [_headless(site, "controller", _CONTROLLER_PORTS), _bootstrap(site)]
    return found


_BROKER_PORTS = (
    ("client", Ports.CLIENT), ("replica", Ports.REPLICA), ("relay", Ports.RELAY), ("admin", Ports.ADMIN),
)  # fmt: skip
_CONTROLLER_PORTS = (
    ("controller", Ports.CONTROLLER), ("peer", Ports.CONTROLLER_PEER), ("names", Ports.NAMES), ("admin", Ports.ADMIN),
)  # fmt: skip


def _headless(site: Site, component: Component, ports: tuple[tuple[str, int], ...]) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": site.metadata(site.headless(component), component),
        "spec": {
            "clusterIP": "None",
            # Peers have to find each other before any of them is ready.
            "publishNotReadyAddresses": True,
            "selector": site.selector(component),
            "ports": [_port(name, number) for name, number in ports],
        },
    }


def _bootstrap(site: Site) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": site.metadata(f"{site.name}-bootstrap", "controller"),
        "spec": {"selector": site.selector("controller"), "ports": [_port("names", Ports.NAMES)]},
    }


def _leader(site: Site) -> Document:
    """Without a selector: the controllers' sidecars keep its endpoint, so it moves without the operator."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": site.metadata(f"{site.name}-leader", "broker"),
        "spec": {"ports": [_port("client", Ports.CLIENT)]},
    }


def _port(name: str, number: int) -> Document:
    return {"name": name, "port": number, "targetPort": number, "protocol": "TCP"}


def network_policies(site: Site, operator_peer: Document) -> list[Document]:
    """What may connect from where; only what comes in. `operator_peer` selects the operator's own pods."""
    policy = site.group.spec.network_policy
    if not policy.enabled:
        return []
    own = [_pods(site, "broker"), _pods(site, "controller")]
    clients: list[Any] = [*policy.client_selectors, *own]
    brokers = [
        _allow(clients, Ports.CLIENT), _allow([_pods(site, "broker")], Ports.REPLICA, Ports.RELAY),
        _allow([operator_peer, *policy.metrics_selectors], Ports.ADMIN),
    ]  # fmt: skip
    found = [_policy(site, "broker", brokers)]
    if site.group.spec.controllers.embedded is not None:
        # Groups that share these controllers are other instances in the same namespace.
        anywhere = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "logherd"}}}
        controllers = [
            _allow([anywhere], Ports.CONTROLLER), _allow([_pods(site, "controller")], Ports.CONTROLLER_PEER),
            _allow([*policy.client_selectors, anywhere], Ports.NAMES),
            _allow([operator_peer, _pods(site, "controller"), *policy.metrics_selectors], Ports.ADMIN),
        ]  # fmt: skip
        found.append(_policy(site, "controller", controllers))
    return found


def _policy(site: Site, component: Component, ingress: list[Document]) -> Document:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": site.metadata(site.workload(component), component),
        "spec": {
            "podSelector": {"matchLabels": site.selector(component)},
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    }


def _allow(peers: list[Any], *ports: int) -> Document:
    return {"from": peers, "ports": [{"port": each, "protocol": "TCP"} for each in ports]}


def _pods(site: Site, component: Component) -> Document:
    return {"podSelector": {"matchLabels": site.selector(component)}}
