"""A group's status for people and programs, and everything that somebody who helps needs to see."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from logherd_operator.clients.api import Api, collection_of
from logherd_operator.clients.errors import ClusterError
from logherd_operator.handlers.known import Key
from logherd_operator.plugin.cluster import PodPages, Read
from logherd_operator.spec.group import KIND

__all__ = ["is_available", "report_document", "status_document", "status_text"]

Document = Mapping[str, Any]
_TOLD = (
    "phase", "inSync", "replicas", "readyReplicas", "leader", "controllers", "brokers", "operation", "blocked",
    "conditions", "endpoints", "versions", "config", "disruptionsAllowed", "disruptionsReason",
)  # fmt: skip
_PARTS = r"(data-)?{name}-(broker|controller)(s|-\d+|-config)?|{name}-(bootstrap|client|leader(-endpoint)?|template)"
"""Names of a group's objects, also of those that are gone: another group's may begin in the same way."""


def status_document(group: Document) -> dict[str, Any]:
    """What the operator last saw; keys of the object's status, and whether it is of this spec (`current`)."""
    status, metadata = group.get("status") or {}, group["metadata"]
    return {
        "name": metadata["name"], "namespace": metadata["namespace"],
        "current": status.get("observedGeneration") == metadata.get("generation"),
        "reconcile": (group.get("spec") or {}).get("reconcile", "Full"),
        **{name: status.get(name) for name in _TOLD},
    }  # fmt: skip


def is_available(document: Document) -> bool:
    """Are writes taken, as far as the operator knows?"""
    conditions = document.get("conditions") or ()
    return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)


def status_text(document: Document) -> str:
    """The same for people."""
    leader, controllers = document["leader"], document["controllers"] or {}
    leading = f"{leader['pod']} (broker {leader['brokerId']}), epoch {leader['epoch']}" if leader else "none"
    paused = "" if document["reconcile"] == "Full" else f", reconcile: {document['reconcile']}"
    head = [
        f"group        {document['namespace']}/{document['name']}: {document['phase'] or 'not seen yet'}{paused}",
        f"leader       {leading}",
        f"in sync      {document['inSync'] or 'unknown'}",
        (
            f"controllers  {controllers.get('readyReplicas', 0)} of {controllers.get('replicas', 0)} ready, "
            f"{controllers.get('leader') or 'nobody'} leads"
        ),
    ]
    if not document["current"]:
        head.append("note         the operator has not seen the last change of the spec yet")
    if document["operation"]:
        head.append(f"doing        {document['operation']['message']}")
    head += [f"held         {each['message']}; it takes: {each['unblocks']}" for each in document["blocked"] or ()]
    rows = [("POD", "ROLE", "IN SYNC", "LAG", "READY", "NODE"), *map(_row, document["brokers"] or ())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    table = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*head, "", *table])


def _row(broker: Document) -> tuple[str, ...]:
    def flag(name: str) -> str:
        return "yes" if broker.get(name) else "no"

    lag, node = str(broker.get("lag") or ""), str(broker.get("node") or "")
    return str(broker["pod"]), str(broker["role"]), flag("inSync"), lag, flag("ready"), node


async def report_document(api: Api, key: Key, read: Read) -> dict[str, Any]:
    """The object, what belongs to it, its events, and what each pod says of itself. No Secret is read.

    What could not be read stands as its error. Raises: nothing of the API server's.
    """
    pages = PodPages(api, key.namespace)
    pods = [str(each["metadata"]["name"]) for each in read.objects["Pod"]]
    asked = [(pod, path) for pod in pods for path in _pages_of(pod)]
    answers = await asyncio.gather(*(_page(pages, pod, path) for pod, path in asked))
    said: dict[str, dict[str, Any]] = {pod: {} for pod in pods}
    for (pod, path), answer in zip(asked, answers, strict=True):
        said[pod][path] = answer
    return {
        "group": read.group(key), "objects": dict(read.objects), "pages": said, "events": await _events(api, key),
    }  # fmt: skip


async def _page(pages: PodPages, pod: str, path: str) -> object:
    try:
        answer = await pages.ask(pod, path)
    except ClusterError as error:
        return {"error": str(error)}
    return answer.document if answer is not None else None


def _pages_of(pod: str) -> tuple[str, ...]:
    return ("/status", "/quorum", "/groups") if "-controller-" in pod else ("/status", "/config")


async def _events(api: Api, key: Key) -> object:
    try:
        found = await api.call("GET", collection_of("events.k8s.io/v1", "Event", key.namespace))
    except ClusterError as error:
        return {"error": str(error)}
    return [
        {name: each.get(name) for name in ("eventTime", "reason", "note", "type", "regarding")}
        for each in found.get("items", ())
        if _is_about(each.get("regarding") or {}, key)
    ]


def _is_about(regarding: Document, key: Key) -> bool:
    name = str(regarding.get("name", ""))
    if regarding.get("kind") == KIND:
        return name == key.name
    return re.fullmatch(_PARTS.format(name=re.escape(key.name)), name) is not None
