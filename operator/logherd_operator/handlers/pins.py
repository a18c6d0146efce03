"""The templates that a group's pods are made from, as they were kept: in a ConfigMap, else in the StatefulSets."""

import json
from collections.abc import Mapping
from typing import Any

from logherd_operator.clients.api import Api, collection_of
from logherd_operator.handlers.known import Key
from logherd_operator.observed.slots import COMPONENTS, Component
from logherd_operator.resources.pinning import Pinned, roll_hash_in

__all__ = ["image_of", "read_founders", "read_pins"]


async def read_pins(api: Api, key: Key) -> dict[Component, Pinned]:
    """What is in use; empty for a group that has no pods yet. Raises: as `Api.call`."""
    kept = await api.find(f"/api/v1/namespaces/{key.namespace}/configmaps/{key.name}-template")
    texts: Mapping[str, str] = (kept or {}).get("data") or {}
    found: dict[Component, Pinned] = {}
    for component in COMPONENTS:
        pinned = _kept(_read(texts.get(f"{component}.json", "")), component)
        if pinned is None:
            workloads = collection_of("apps/v1", "StatefulSet", key.namespace)
            pinned = _in_use(await api.find(f"{workloads}/{key.name}-{component}"))
        if pinned is not None:
            found[component] = pinned
    return found


async def read_founders(api: Api, key: Key) -> int | None:
    """With how many brokers a group began that leads itself; None if that was never kept. Raises: as `Api.call`."""
    kept = await api.find(f"/api/v1/namespaces/{key.namespace}/configmaps/{key.name}-template")
    text = str(((kept or {}).get("data") or {}).get("founders", ""))
    return int(text) if text.isascii() and text.isdigit() else None


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _kept(document: Any, component: Component) -> Pinned | None:
    """None also for what somebody has edited so that no pod of the component can be made from it."""
    try:
        if not any(each["name"] == component and each["image"] for each in document["template"]["spec"]["containers"]):
            return None
        return Pinned(
            template=dict(document["template"]), roll_hash=str(document["rollHash"]),
            rendered_by=str(document["renderedBy"]), former=_kept(document.get("former"), component),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError):
        return None


def _in_use(workload: Mapping[str, Any] | None) -> Pinned | None:
    """The ConfigMap is lost or unusable: what the StatefulSet says is what the pods run."""
    if workload is None:
        return None
    template = dict(workload["spec"]["template"])
    return Pinned(template=template, roll_hash=roll_hash_in(template), rendered_by="")


def image_of(pins: Mapping[Component, Pinned], brokers: Mapping[str, Any] | None) -> str | None:
    """The image that the brokers were made from: a new default is for new groups. `brokers`: their StatefulSet, which
    may not have been changed to what is kept yet."""
    pinned = pins.get("broker")
    if pinned is None:
        return None
    if pinned.former is not None and brokers is not None:
        applied = roll_hash_in(brokers["spec"]["template"])
        pinned = pinned.former if applied == pinned.former.roll_hash else pinned
    containers = pinned.template["spec"]["containers"]
    return next((str(each["image"]) for each in containers if each["name"] == "broker"), None)
