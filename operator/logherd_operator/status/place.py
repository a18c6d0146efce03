"""What a group's status says of where it is and what it is made from."""

import re
from collections.abc import Mapping
from typing import Any

from logherd_operator.observed.observed import Observed
from logherd_operator.observed.slots import Component
from logherd_operator.resources.pinning import Pinned
from logherd_operator.resources.site import Ports, Site

__all__ = ["place_document"]

_LAG_MAX = 1 << 20


def place_document(site: Site, observed: Observed, pins: Mapping[Component, Pinned] | None) -> dict[str, Any]:
    """Addresses for clients, versions, the template in use, the controllers. Nothing in it changes by itself."""
    spec = site.group.spec
    domain = f"{site.namespace}.svc.{spec.cluster_domain}"
    names = ";".join(spec.name_service.addresses) or f"{site.controllers_of}-bootstrap.{domain}:{Ports.NAMES}"
    leader = {"leader": f"{site.name}-leader.{domain}:{Ports.CLIENT}"} if spec.by_controllers else {}
    reports = [each.report for each in observed.brokers if each.report is not None and each.report.version]
    versions: dict[str, Any] = {
        "operator": site.operator_version, "image": site.image, "compatibilityLevel": spec.compatibility_level,
        **({"broker": min((each.version for each in reports), key=_age)} if reports else {}),
    }  # fmt: skip
    found: dict[str, Any] = {
        "endpoints": {"bootstrap": names, **leader},
        "versions": versions,
    }
    pinned = (pins or {}).get("broker")
    if pinned is not None:
        found["template"] = {
            "renderedBy": pinned.rendered_by, "rollHash": pinned.roll_hash,
            "newerAvailable": any(each.newer for each in (pins or {}).values()),
        }  # fmt: skip
    if spec.controllers.embedded is not None:
        quorum = observed.quorum
        quorate = quorum is not None and quorum.leader is not None and quorum.survives_without(None, lag_max=_LAG_MAX)
        found["controllers"] = {
            "replicas": spec.controllers.embedded.replicas,
            "readyReplicas": sum(each.ready for each in observed.controllers),
            "quorate": quorate,
            **({"leader": quorum.leader} if quorum is not None and quorum.leader is not None else {}),
        }  # fmt: skip
    return found


def _age(version: str) -> tuple[list[int], str]:
    """By numbers: 0.10.0 is newer than 0.9.0."""
    return [int(each[:9]) for each in re.findall(r"[0-9]+", version)], version
