"""Everything that the operator asks of the API server is in its chart's roles, and what it must not have is not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from k8s.driving import Drive
from k8s.test_process import SPEC, operating, running, served, until

CHART = Path(__file__).parents[1] / "compat/charts/operator.yaml"
Right = tuple[str, str, str]
DISCOVERY = {("", "namespaces", "list")}
MERGED = {("logherd.dev", "brokergroups/status"), ("", "persistentvolumeclaims")}
"""What is changed and never made by the operator."""
WHILE_A_WATCH_IS_LATE = {("", "pods", "get")}
"""A pod that was told to stop is read anew until the watch has said so."""


def rights() -> set[Right]:
    """Of the namespaced roles, as the chart renders them by default."""
    return {right for each in _documents() if each["kind"] == "Role" for right in _rights(each)}


def _documents() -> Iterator[dict[str, Any]]:
    yield from (each for each in yaml.safe_load_all(CHART.read_text()) if each)


def _rights(role: dict[str, Any]) -> Iterator[Right]:
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            yield from ((group, resource, verb) for resource in rule["resources"] for verb in rule["verbs"])


def needed(asked: set[Right]) -> set[Right]:
    """What an API server demands for these questions.

    Who applies an object may also create it; who lets it hold up its owner's end may change the owner's finalizers;
    and nobody grants what they do not have.
    """
    applied = {(group, kind) for group, kind, verb in asked if verb == "patch"} - MERGED
    granted = {("discovery.k8s.io", "endpointslices", verb) for verb in ("get", "patch")}
    held_up = {("logherd.dev", "brokergroups/finalizers", "update")}
    return asked | {(group, kind, "create") for group, kind in applied} | granted | held_up


async def asked_for() -> set[Right]:
    """By the whole operator while it founds a group, and in the group's life."""
    drive = Drive.of(SPEC)
    async with served(drive.api) as address, operating(drive, address):
        await until(drive, running(drive))
    return (await everything()) | set(drive.api.seen)


async def everything() -> set[Right]:
    """A life of a group: founded, rolled, scaled both ways, grown, given away, left without budgets."""
    drive = Drive.of({**SPEC, "storage": {"retention": {"whenScaled": "Delete"}}})
    await drive.settle()
    kept: dict[str, Any] = {"retention": {"whenDeleted": "Delete", "whenScaled": "Delete"}}
    for change in (
        {"image": "logherd:good-2"}, {"replicas": 4}, {"replicas": 3}, {"storage": {**kept, "size": "40Gi"}},
        {"disruption": {"budget": False}, "networkPolicy": {"enabled": False}},
    ):  # fmt: skip
        drive.set_spec({**SPEC, "storage": kept, **change})
        await drive.settle()
    drive.kubelet.world.pods[1].revision = "bad-old"
    await drive.settle()
    return set(drive.api.seen)


async def test_what_is_asked_is_allowed() -> None:
    asked = await asked_for()
    assert ("", "pods/eviction", "create") in asked
    assert ("coordination.k8s.io", "leases", "update") in asked
    assert ("apps", "statefulsets", "watch") in asked
    assert sorted(asked - rights() - DISCOVERY) == []


async def test_each_right_is_needed() -> None:
    """So that any of them, if it is taken away, makes the test above or this one fail."""
    assert rights() - needed(await asked_for()) == WHILE_A_WATCH_IS_LATE


def test_what_nobody_needs_is_not_allowed() -> None:
    allowed = rights()
    for resource in ("pods/exec", "pods/log", "nodes", "namespaces"):
        assert [each for each in allowed if each[1] == resource] == []
    assert not {("", "secrets", "list"), ("", "secrets", "watch")} & allowed
    assert [each for each in allowed if "*" in each] == []
