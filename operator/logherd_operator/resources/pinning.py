"""Template pinning: an operator that renders pods in another way than its predecessor restarts none of them (OP-8).

The template that is in use is kept until something changes that needs a restart. What that is, is the *roll hash*: a
hash over fields of the spec, never over what the renderer makes of them.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

from logherd_operator.observed.slots import Component
from logherd_operator.resources.site import Document, Site
from logherd_operator.spec.effects import CONFIG_LIVE
from logherd_operator.spec.group import API_GROUP

__all__ = ["ROLL_HASH", "Pinned", "pin", "roll_hash", "roll_hash_in"]

ROLL_HASH = f"{API_GROUP}/roll-hash"
_LENGTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A template in use. `newer`: this operator would render another. `former`: of another roll hash, from which some
    pods still are, or all while the StatefulSet may not be changed."""

    template: Document
    roll_hash: str
    rendered_by: str
    newer: bool = False
    former: "Pinned | None" = None


def pin(
    site: Site, component: Component, fresh: Document, before: Pinned | None, *, renewed: bool = False,
    rolled: str | None = None,
) -> Pinned:  # fmt: skip
    """The template to apply: the one in use, unless something needs a restart anyway or the spec says otherwise.
    `renewed`: a restart of all that is made from it was ordered. `rolled`: the roll hash of what all pods are made
    from, None if not all are from the same. Until they are, a change that is taken back restarts only who was restarted
    for it."""
    wanted = roll_hash(site, component)
    now = Pinned(template=fresh, roll_hash=wanted, rendered_by=site.operator_version)
    if before is None:
        return now
    former = before.former if rolled != before.roll_hash else None
    if before.roll_hash != wanted:
        former = former or replace(before, former=None)
        if former.roll_hash != wanted:
            return replace(now, former=former)
        before, former = former, None
    newer = before.template != fresh
    if newer and (renewed or site.group.spec.update.adopt_new_template == "Automatic"):
        return replace(now, former=former)
    return replace(before, newer=newer, former=former)


def roll_hash(site: Site, component: Component) -> str:
    """Of what takes effect by a restart only. Fields that come with the next restart are not in it."""
    fields = _broker_fields(site) if component == "broker" else _controller_fields(site)
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]


def roll_hash_in(template: Document) -> str:
    """As a template carries it; empty where it does not."""
    notes = (template.get("metadata") or {}).get("annotations") or {}
    return str(notes.get(ROLL_HASH, ""))


def _broker_fields(site: Site) -> dict[str, Any]:
    spec = site.group.spec
    placement, pod = spec.placement, spec.pod_template
    return {
        "image": site.image,
        "resources": spec.resources.model_dump(mode="json"),
        "runtime": spec.runtime.model_dump(mode="json"),
        "flush": spec.replication.flush,
        "nameService": spec.name_service.model_dump(mode="json"),
        "advertised": spec.advertised.address_template,
        "tls": spec.tls.mode,
        "auth": spec.auth.mode,
        "monitoring": spec.monitoring.port,
        "placement": [
            dict(placement.node_selector), list(placement.tolerations), dict(placement.affinity),
            placement.priority_class_name,
        ],
        "pod": [list(pod.env), list(pod.volumes), list(pod.volume_mounts), list(pod.sidecars)],
        "config": {name: value for name, value in spec.config.items() if name not in CONFIG_LIVE},
        # How soon those who vote elect another leader.
        **({"leaseMs": spec.failover.lease_ms} if spec.replication.mode == "Raft" else {}),
    }  # fmt: skip


def _controller_fields(site: Site) -> dict[str, Any]:
    spec = site.group.spec
    embedded = spec.controllers.embedded
    return {
        "image": site.image,
        "resources": embedded.resources.model_dump(mode="json") if embedded is not None else None,
        "leaseMs": spec.failover.lease_ms,
        "nameService": spec.name_service.mode,
        "placement": [
            dict(spec.placement.node_selector), list(spec.placement.tolerations), dict(spec.placement.affinity),
            spec.placement.priority_class_name,
        ],
    }  # fmt: skip
