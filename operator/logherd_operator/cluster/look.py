"""Pods, claims and StatefulSets as places. Only what the API server said; what it did not say is not guessed."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from logherd_operator.cluster.budgets import budgets_over
from logherd_operator.observed.observed import Orders, Platform
from logherd_operator.observed.slots import Instance, Report, Slot, Volume
from logherd_operator.spec.errors import OperatorError
from logherd_operator.spec.group import API_GROUP
from logherd_operator.spec.machine import quantity_value

__all__ = ["NotSettled", "orders_of", "platform_of", "slots_of"]

Object = Mapping[str, Any]
_FAILING = frozenset({
    "CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "ErrImagePull",
    "ImageInspectError", "ImagePullBackOff", "InvalidImageName", "RunContainerError",
})  # fmt: skip
_DIGITS_MAX = 18
"""Of a number in an order: Python converts no text of any length, and the API server keeps one of 256 KiB."""
_NODE_GONE = frozenset({"NodeLost", "NodeNotReady", "NodeUnreachable"})


class NotSettled(OperatorError):
    """A StatefulSet was changed a moment ago and nobody has said yet which revision its pods should have."""


def platform_of(brokers: Object | None, controllers: Object | None) -> Platform:
    """What the two StatefulSets keep; None for one that does not exist.

    Raises: NotSettled; to be looked at again a moment later.
    """
    return Platform(
        brokers=None if brokers is None else int(brokers["spec"]["replicas"]),
        controllers=None if controllers is None else int(controllers["spec"]["replicas"]),
        broker_revision=_revision(brokers),
        controller_revision=_revision(controllers),
        broker_claim=None if brokers is None else _claim(brokers),
        controller_claim=None if controllers is None else _claim(controllers),
    )


def _revision(workload: Object | None) -> str:
    if workload is None:
        return ""
    status, metadata = workload.get("status", {}), workload["metadata"]
    # Not `currentRevision`, which stays behind with OnDelete.
    if int(status.get("observedGeneration", 0)) < int(metadata.get("generation", 0)) or "updateRevision" not in status:
        raise NotSettled(f"the StatefulSet {metadata['name']} was changed and its controller has not seen it yet")
    return str(status["updateRevision"])


def _claim(workload: Object) -> int | None:
    for template in workload["spec"].get("volumeClaimTemplates", ()):
        if template["metadata"]["name"] == "data":
            return _bytes(template["spec"]["resources"]["requests"]["storage"])
    return None


def slots_of(
    workload: str, pods: Iterable[Object], claims: Iterable[Object], reports: Mapping[int, Report] | None = None,
    budgets: Sequence[Object] = (),
) -> tuple[Slot, ...]:  # fmt: skip
    """Places of the StatefulSet called `workload`, by ordinal, also those of which only a claim is left. `budgets`: all
    disruption budgets of their namespace."""
    instances = {n: _instance(each, budgets) for each in pods if (n := _ordinal(each, f"{workload}-")) is not None}
    volumes = {n: _volume(each) for each in claims if (n := _ordinal(each, f"data-{workload}-")) is not None}
    told = reports or {}
    return tuple(
        Slot(ordinal=n, instance=instances.get(n), volume=volumes.get(n), report=told.get(n))
        for n in sorted({*instances, *volumes})
    )


def _ordinal(thing: Object, prefix: str) -> int | None:
    name = str(thing["metadata"]["name"])
    rest = name.removeprefix(prefix)
    return int(rest) if rest != name and rest.isascii() and rest.isdigit() else None


def _instance(pod: Object, budgets: Sequence[Object]) -> Instance:
    metadata, status = pod["metadata"], pod.get("status", {})
    conditions = {each["type"]: each for each in status.get("conditions", ())}
    ready, scheduled = conditions.get("Ready", {}), conditions.get("PodScheduled", {})
    leaves = metadata.get("deletionTimestamp")
    node = str(pod.get("spec", {}).get("nodeName") or "")
    starved = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
    return Instance(
        uid=str(metadata["uid"]),
        revision=str(metadata.get("labels", {}).get("controller-revision-hash", "")),
        started_at=_seconds(metadata["creationTimestamp"]),
        ready=ready.get("status") == "True",
        leaves_by=None if leaves is None else _seconds(leaves),
        unreachable=status.get("reason") in _NODE_GONE or ready.get("reason") in _NODE_GONE,
        failing=_failing(status) or ("" if ready.get("status") == "True" else _deaf(status)),
        unschedulable=str(scheduled.get("message") or "no node fits") if starved else "",
        unstarted=bool(node) and _never_ran(status),
        node=node,
        zone=str(metadata.get("labels", {}).get("topology.kubernetes.io/zone", "")),
        budgets=budgets_over(pod, budgets),
    )


def _failing(status: Object) -> str:
    if status.get("phase") == "Failed":
        return str(status.get("reason") or "Failed")
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        waiting = container.get("state", {}).get("waiting") or {}
        if waiting.get("reason") in _FAILING:
            words = str(waiting.get("message") or "")
            return f"{waiting['reason']}: {words}" if words else str(waiting["reason"])
    return ""


def _deaf(status: Object) -> str:
    """The kubelet asks a pod at its first address, and never finds one ready that does not listen there."""
    address = str(status.get("podIP") or "")
    return f"its first address is {address}, and only on IPv4 anything listens" if ":" in address else ""


def _never_ran(status: Object) -> bool:
    """Pending is also a pod of which one container runs, and another waits for its image."""
    containers = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    return status.get("phase") == "Pending" and all(
        (each.get("state") or {}).get("waiting") and not each.get("restartCount") for each in containers
    )


def _volume(claim: Object) -> Volume:
    status = claim.get("status", {})
    waiting = next(
        (each for each in status.get("conditions", ())
         if each["type"] == "FileSystemResizePending" and each["status"] == "True"), None,
    )  # fmt: skip
    return Volume(
        uid=str(claim["metadata"]["uid"]),
        requested=_bytes(claim["spec"]["resources"]["requests"]["storage"]),
        capacity=_bytes(status.get("capacity", {}).get("storage", "0")),
        lost=status.get("phase") == "Lost",
        leaving=claim["metadata"].get("deletionTimestamp") is not None,
        # Whoever wrote the condition need not have said since when it is so: then nobody waits for a restart.
        resize_waits_since=None if waiting is None else _time_or_none(waiting.get("lastTransitionTime") or ""),
    )


def orders_of(metadata: Object) -> Orders:
    """What people asked for by annotations; what cannot be read is no order."""
    notes: Mapping[str, str] = metadata.get("annotations") or {}
    generation = str(metadata.get("generation", ""))
    return Orders(
        restart_at=_time_or_none(notes.get(f"{API_GROUP}/restart-at", "")),
        accepted_risks=frozenset(
            code.strip()
            for code, _, accepted in (
                each.partition("@") for each in notes.get(f"{API_GROUP}/accept-risk", "").split(",")
            )
            if accepted.strip() == generation
        ),
        rebuild=_rebuild(notes.get(f"{API_GROUP}/rebuild", "")),
        switchover=_switchover(notes.get(f"{API_GROUP}/switchover", "")),
    )


def _rebuild(text: str) -> tuple[int, str] | None:
    """Without the volume that is meant it would hold for the next one, too."""
    ordinal, _, volume = text.partition("@")
    place = _number(ordinal)
    return None if place is None or not volume else (place, volume)


def _switchover(text: str) -> tuple[int, int] | None:
    target, _, epoch = text.partition("@")
    to, ending = _number(target), _number(epoch)
    return None if to is None or ending is None else (to, ending)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else None


def _time_or_none(text: str) -> float | None:
    try:
        return _seconds(text)
    except ValueError:
        return None


def _seconds(text: str) -> float:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text}: a time needs its zone")
    return moment.timestamp()


def _bytes(quantity: str) -> int:
    return int(quantity_value(str(quantity)))
