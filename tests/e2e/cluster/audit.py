"""Who asked the API server for what; never what was in it."""

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

__all__ = ["Asked", "asked_by", "write_policy"]


_FORBIDDEN = 403


class Asked(NamedTuple):
    """A question to the API server, as `patch statefulsets orders-broker`, and the status of the answer."""

    verb: str
    what: str
    name: str
    status: int


def write_policy(folder: Path) -> Path:
    """The policy by which the API server keeps its log: what accounts of pods ask."""
    path = folder / "audit-policy.yaml"
    path.write_text(
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived, ResponseStarted]\nrules:\n"
        "- level: Metadata\n  userGroups: ['system:serviceaccounts']\n- level: None\n"
    )
    return path


def asked_by(user: str, log: Path, starts: Sequence[tuple[float, float]]) -> frozenset[Asked]:
    """What the account asked, each kind of question once; what is no object (`/version`) is left out.

    So is what an API server refused in one of `starts`, seconds since 1970: it answers before it has read the roles.
    """
    found = set()
    for line in log.read_text().splitlines():
        event = json.loads(line)
        thing = event.get("objectRef")
        if event["user"]["username"] == user and thing is not None:
            what = "/".join(filter(None, (thing.get("resource"), thing.get("subresource"))))
            asked = Asked(event["verb"], what, thing.get("name", ""), event["responseStatus"]["code"])
            at = datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()
            if asked.status != _FORBIDDEN or not any(begin <= at <= end for begin, end in starts):
                found.add(asked)
    return frozenset(found)
