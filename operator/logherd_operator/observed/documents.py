"""From the JSON documents of the admin ports to what the planner looks at. What cannot be read counts as not answered.

GET /groups/{cluster}/{name}, GET /quorum   of a controller
GET /status                                 of a broker
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from logherd_operator.observed.quorum import Group, Member, Quorum, Replica, Rules
from logherd_operator.observed.slots import Report

__all__ = ["group_of", "quorum_of", "report_of", "seen_by_leader", "unknown_group"]

Document = Mapping[str, Any]


def group_of(document: Document) -> Group | None:
    """The group page of the controller that leads, confirmed by its quorum; None for any other."""
    try:
        if not (document["confirmed"] and document["live"]):
            return None
        leader, rules, transfer = document["leader"], document["rules"], document["transfer"]
        return Group(
            epoch=int(document["epoch"]),
            founded=bool(document["founded"]),
            rules=Rules(
                replicas=int(rules["replicas"]), min_in_sync=int(rules["minInSync"]), preferred=rules["preferred"]
            ),
            leader=int(leader["brokerId"]) if leader is not None else None,
            serving=bool(leader is not None and leader["serving"]),
            in_sync=tuple(int(each) for each in document["inSync"]),
            eligible=tuple(int(each) for each in document["eligible"]),
            replicas=_replicas(document),
            transfer=int(transfer["target"]) if transfer is not None else None,
            why=str(document["why"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _replicas(document: Document) -> tuple[Replica, ...]:
    brokers = [each for each in document["brokers"] if each["registration"]]
    longest = max(((int(each["end"]["epoch"]), int(each["end"]["position"])) for each in brokers), default=(0, 0))
    return tuple(
        Replica(
            broker_id=int(each["brokerId"]), store_id=str(each["storeId"]), alive=each["alive"],
            learner=bool(each["learner"]), lag=_lag(longest, each["end"]), address=str(each["address"]),
        )
        for each in brokers
    )  # fmt: skip


def _lag(longest: tuple[int, int], end: Document) -> int:
    """Bytes behind the longest log. What was written in an older epoch may still be cut, so all of it is missing."""
    epoch, position = longest
    return max(0, position - int(end["position"])) if int(end["epoch"]) == epoch else position


def seen_by_leader(group: Group | None, pages: Iterable[Document]) -> Group | None:
    """With lags as the leader tells them, if one of the brokers' pages is its own, of this epoch. Heartbeats tell of
    moments up to a second apart, and in that time a log under load grows by more than anybody lacks."""
    if group is None or not group.led:
        return group
    for page in pages:
        try:
            said = page["replication"]
            lags = {int(each["brokerId"]): each["lagBytes"] for each in said["followers"]}
            told = (int(page["brokerId"]), int(said["epoch"]), said["role"])
        except (KeyError, TypeError, ValueError):
            continue
        if told == (group.leader, group.epoch, "leader"):
            known = {number: lag for number, lag in lags.items() if isinstance(lag, int)} | {told[0]: 0}
            found = tuple(replace(each, lag=known.get(each.broker_id, each.lag)) for each in group.replicas)
            return replace(group, replicas=found)
    return group


def unknown_group(replicas: int, min_in_sync: int) -> Group:
    """For the answer that there is no such group, confirmed by the quorum: it is still to be founded."""
    return Group(epoch=0, founded=False, rules=Rules(replicas=replicas, min_in_sync=min_in_sync), why="it is not known")


def quorum_of(document: Document) -> Quorum | None:
    """The quorum page; best the leader's, which alone knows how far the others are."""
    try:
        leader = document["leader"]
        members = tuple(
            Member(
                node=str(each["node"]), identity=str(each["identity"]), voter=bool(each["voter"]),
                connected=bool(each["connected"] or each["node"] == document["node"]), lag=each["lagBytes"],
            )
            for each in document["members"]
        )  # fmt: skip
        return Quorum(
            leader=str(leader["node"]) if leader is not None else None, term=int(document["term"]), members=members
        )
    except (KeyError, TypeError, ValueError):
        return None


def report_of(document: Document) -> Report | None:
    """The status page of a broker."""
    try:
        return Report(
            broker_id=int(document["brokerId"]), role=str(document["role"]), epoch=int(document["epoch"]),
            store_id=str(document.get("storeId") or ""), end=int(document["endPosition"]),
            committed=int(document["committedPosition"]), version=str(document.get("version") or ""),
            address=str(document.get("address") or ""), fault=str(document.get("fault") or ""),
            refuses=str(document.get("refuses") or ""), hot=dict(document.get("hot") or {}),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        return None
