"""Who asked the API server for what; never what was in it."""

import json
from pathlib import Path
from typing import NamedTuple

__all__ = ["Asked", "asked_by", "write_policy"]


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


def asked_by(user: str, log: Path) -> frozenset[Asked]:
    """What the account asked, each kind of question once; what is no object (`/version`) is left out."""
    found = set()
    for line in log.read_text().splitlines():
        event = json.loads(line)
        thing = event.get("objectRef")
        if event["user"]["username"] == user and thing is not None:
            what = "/".join(filter(None, (thing.get("resource"), thing.get("subresource"))))
            found.add(Asked(event["verb"], what, thing.get("name", ""), event["responseStatus"]["code"]))
    return frozenset(found)
