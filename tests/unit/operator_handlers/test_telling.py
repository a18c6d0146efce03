"""What becomes an Event when one status follows another."""

from itertools import pairwise
from typing import Any

from logherd_operator.clients.events import event_document
from logherd_operator.handlers.telling import happenings

GROUP: dict[str, Any] = {
    "apiVersion": "logherd.dev/v1alpha1", "kind": "BrokerGroup",
    "metadata": {"name": "orders", "namespace": "shop", "uid": "u"},
}  # fmt: skip


def status(kind: str, value: str, reason: str, *, since: str = "12:00") -> dict[str, Any]:
    condition = {"type": kind, "status": value, "reason": reason, "message": f"it is {reason}"}
    return {"conditions": [{**condition, "lastTransitionTime": since}]}


def events(*statuses: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(kind, reason, note) of each Event that there is after all of these; of two under one name the first is kept."""
    named: dict[str, tuple[str, str, str]] = {}
    for before, now in pairwise(statuses):
        for each in happenings(before, now):
            name = event_document(GROUP, each, "operator", 0.0)["metadata"]["name"]
            named.setdefault(name, (each.kind, each.reason, each.note))
    return list(named.values())


def test_a_group_that_stays_degraded_for_another_reason_is_told_of_it() -> None:
    away, behind = status("Degraded", "True", "PodNotReady"), status("Degraded", "True", "FollowerLagging")
    well = status("Degraded", "False", "AllWell", since="11:00")
    assert events(well, away, behind, behind) == [
        ("Warning", "PodNotReady", "Degraded: it is PodNotReady"),
        ("Warning", "FollowerLagging", "Degraded: it is FollowerLagging"),
    ]


def test_reasons_that_come_and_go_are_told_once_while_it_stays_degraded() -> None:
    away, behind = status("Degraded", "True", "PodNotReady"), status("Degraded", "True", "FollowerLagging")
    well = status("Degraded", "False", "AllWell", since="11:00")
    told = [reason for _, reason, _ in events(well, *[away, behind] * 20)]
    assert told == ["PodNotReady", "FollowerLagging"]


def test_another_reason_of_what_is_well_is_not_worth_an_event() -> None:
    assert events(status("Degraded", "False", "AllWell"), status("Degraded", "False", "Other")) == []
    assert events(status("Available", "True", "SingleReplica"), status("Available", "True", "WritesAccepted")) == []
