"""Events about a group: one for each thing that happened, under a name that derives from it, so that saying it again
after a crash makes no second one.
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from logherd_operator.clients.api import Api
from logherd_operator.clients.errors import Refused

__all__ = ["Happening", "event_document", "post"]

_NOTE_LENGTH_MAX = 1000
_REASON_LENGTH_MAX = 128


class Happening(NamedTuple):
    """Something worth saying. `identity`: two with the same are one."""

    kind: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str
    identity: str


def event_document(about: Mapping[str, Any], happening: Happening, reporter: str, now: float) -> dict[str, Any]:
    """The Event; `about` is the object's document, `reporter` the operator's process."""
    metadata = about["metadata"]
    seed = f"{metadata['uid']}|{happening.reason}|{happening.identity}"
    digest = hashlib.sha256(seed.encode()).hexdigest()[:16]
    note = happening.note
    if len(note.encode()) > _NOTE_LENGTH_MAX:
        note = note.encode()[:_NOTE_LENGTH_MAX].decode(errors="ignore") + "..."
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": metadata["namespace"], "name": f"{metadata['name']}.{digest}"},
        "eventTime": datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": "logherd.dev/operator",
        "reportingInstance": reporter[:_REASON_LENGTH_MAX],
        "action": happening.action[:_REASON_LENGTH_MAX],
        "reason": happening.reason[:_REASON_LENGTH_MAX],
        "type": happening.kind,
        "note": note,
        "regarding": {
            "apiVersion": about["apiVersion"], "kind": about["kind"], "namespace": metadata["namespace"],
            "name": metadata["name"], "uid": metadata["uid"],
        },
    }  # fmt: skip


async def post(api: Api, document: Mapping[str, Any]) -> None:
    """Say it. What cannot be said stops nothing. Raises: Unreachable."""
    try:
        await api.create(document)
    except Refused:
        return
