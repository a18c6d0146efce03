"""All objects of a group, in the order in which they are applied: what others refer to comes first."""

import json
from dataclasses import dataclass
from typing import Any

from logherd_operator.observed.slots import Component
from logherd_operator.resources.member_files import broker_files, controller_files
from logherd_operator.resources.network import network_policies, services
from logherd_operator.resources.pinning import Pinned, pin
from logherd_operator.resources.pods import broker_template, controller_template
from logherd_operator.resources.sidecar import leader_access, leader_slice
from logherd_operator.resources.site import Document, Ports, Shape, Site
from logherd_operator.resources.spark_template import bootstrap_of, spark_template
from logherd_operator.resources.workloads import workload

__all__ = ["OPERATOR_PEER", "Rendered", "render_group"]

OPERATOR_PEER: Document = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "logherd-operator"}}}
"""The operator in the group's own namespace; the chart gives another where it runs elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """`kept`: applied whenever they differ. `made_once`: only created, because somebody else fills them then."""

    kept: tuple[Document, ...]
    made_once: tuple[Document, ...]
    pinned: dict[Component, Pinned]


def render_group(
    site: Site, shape: Shape, before: dict[Component, Pinned] | None = None, operator_peer: Document | None = None
) -> Rendered:
    """What a group consists of. `before`: templates in use, by component; see `pin`."""
    before = before or {}
    templates: dict[Component, Document] = {"broker": broker_template(site)}
    own = site.group.spec.controllers.embedded is not None
    if own:
        templates["controller"] = controller_template(site)
    pinned: dict[Component, Pinned] = {
        component: pin(
            site, component, fresh, before.get(component), renewed=component in shape.renewed,
            rolled=shape.rolled.get(component),
        )
        for component, fresh in templates.items()
    }  # fmt: skip
    by_controllers = site.group.spec.by_controllers
    kept = [
        *_accounts(site), *(leader_access(site) if by_controllers else ()), *_config_maps(site, shape, pinned),
        *spark_template(site), *services(site), *network_policies(site, operator_peer or OPERATOR_PEER),
        *_budgets(site, shape),
    ]  # fmt: skip
    if own:
        template = pinned["controller"].template
        kept.append(workload(site, "controller", template, shape.controllers, claim=shape.controller_claim))
    brokers = workload(site, "broker", pinned["broker"].template, shape.brokers, claim=shape.broker_claim)
    kept.append(brokers)
    return Rendered(kept=tuple(kept), made_once=(leader_slice(site),) if by_controllers else (), pinned=pinned)


def _accounts(site: Site) -> list[Document]:
    components: tuple[Component, ...] = ("broker",)
    if site.group.spec.controllers.embedded is not None:
        components = ("broker", "controller")
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": site.metadata(site.workload(each), each),
            "automountServiceAccountToken": False,
        }
        for each in components
    ]


def _config_maps(site: Site, shape: Shape, pinned: dict[Component, Pinned]) -> list[Document]:
    found = [_config_map(site, f"{site.workload('broker')}-config", _texts(broker_files(site, shape)), "broker")]
    controllers = controller_files(site)
    if controllers:
        found.append(
            _config_map(site, f"{site.workload('controller')}-config", _texts(controllers), "controller")
        )  # fmt: skip
    templates = {f"{component}.json": _text(_kept(each)) for component, each in pinned.items()}
    if shape.founders is not None:
        templates["founders"] = str(shape.founders)
    found.append(_config_map(site, f"{site.name}-template", templates))
    found.append(_config_map(site, f"{site.name}-client", _client(site)))
    return found


def _kept(pinned: Pinned) -> Document:
    former = {} if pinned.former is None else {"former": _kept(pinned.former)}
    return {"rollHash": pinned.roll_hash, "renderedBy": pinned.rendered_by, "template": pinned.template, **former}


def _client(site: Site) -> dict[str, str]:
    domain = f"{site.namespace}.svc.{site.group.spec.cluster_domain}"
    leader = {"leader": f"{site.name}-leader.{domain}:{Ports.CLIENT}"} if site.group.spec.by_controllers else {}
    return {"bootstrap": bootstrap_of(site, ";"), "cluster": site.cluster, "group": site.name, **leader}


def _config_map(
    site: Site, name: str, data: dict[str, str], component: Component | None = None
) -> Document:  # fmt: skip
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": site.metadata(name, component), "data": data}


def _texts(files: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: _text(document) for name, document in files.items()}


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def _budgets(site: Site, shape: Shape) -> list[Document]:
    """One for each component, over disjoint pods; none where a single pod could then never be moved (OP-43)."""
    spec = site.group.spec
    if not spec.disruption.budget:
        return []
    counts: list[tuple[Component, int]] = [("broker", max(spec.replicas, shape.brokers))]
    if spec.controllers.embedded is not None:
        counts.append(("controller", spec.controllers.embedded.replicas))
    return [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": site.metadata(site.workload(component), component),
            "spec": {
                "maxUnavailable": 1,
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
                "selector": {"matchLabels": site.selector(component)},
            },
        }
        for component, count in counts
        if count > 1
    ]
