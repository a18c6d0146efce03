"""The status of a BrokerGroup as a document, made from a look and a plan. Equal looks give equal documents."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from logherd_operator.observed.slots import Slot
from logherd_operator.plan.outcome import Code
from logherd_operator.status.conditions import Finding, Look, findings

__all__ = ["read_since", "status_document"]

_MIB = 1 << 20
_LAG_LOW, _LAG_HIGH = 16 * _MIB, 256 * _MIB
_BROKERS_MAX, _MESSAGE_MAX = 16, 4096
"""What the definition takes: of a status with more the API server takes nothing, and nothing is done then."""
_CLOCK = re.compile(r"\b[0-9]+ ms\b")
_LAG = re.compile(r"\b[0-9]+ bytes behind\b")
_ROLES = {"leader": "Leader", "follower": "Follower", "learner": "Learner"}
_PHASES = {
    "Provision": "Provisioning", "Update": "Updating", "ScaleUp": "Scaling", "ScaleDown": "Scaling",
    "Switchover": "Switching", "Grow": "Updating", "Repair": "Degraded", "Configure": "Updating",
}  # fmt: skip

Document = dict[str, Any]


def status_document(look: Look, before: Mapping[str, Any], *, name: str, generation: int, now: float) -> Document:
    """What is written to the status subresource. `before` is what stands there: times of what has not changed stay.

    Nothing in it changes by itself: no positions, no times of looking (OP-18).
    """
    observed, plan = look.observed, look.plan
    found = findings(look)
    group = observed.group
    in_sync = len(group.in_sync) if group is not None else int(before.get("inSyncReplicas", 0))
    wanted = None if observed.platform.broker_template_old else observed.platform.broker_revision
    running = [each for each in observed.brokers if each.instance is not None]
    return {
        "observedGeneration": generation,
        "phase": _phase(look, found),
        "replicas": observed.platform.brokers or 0,
        "readyReplicas": sum(each.ready for each in running),
        "inSyncReplicas": in_sync,
        "updatedReplicas": sum(each.instance.revision == wanted for each in running if each.instance),
        "inSync": f"{in_sync}/{look.spec.replicas}",
        "selector": (
            f"app.kubernetes.io/name=logherd,app.kubernetes.io/instance={name},app.kubernetes.io/component=broker"
        ),
        **_disruptions(look),
        **_leader(look, before, name, now),
        "brokers": [_broker(look, each, name, before) for each in running[:_BROKERS_MAX]],
        **_operation(look, name, before, now),
        "blocked": [
            {"code": each.code.value, "message": _words(each.message),
             "since": _time(plan.since[f"blocked:{each.code}"]), "unblocks": each.unblocks[:_MESSAGE_MAX]}
            for each in plan.blocked
        ],
        "since": {fact: _time(first) for fact, first in sorted(plan.since.items())},
        "conditions": [_condition(kind, each, before, generation, now) for kind, each in found.items()],
    }  # fmt: skip


def read_since(status: Mapping[str, Any]) -> dict[str, float]:
    """What `since` of a status says, for the next look; what cannot be read is left out, which only costs time."""
    found: dict[str, float] = {}
    for fact, text in dict(status.get("since") or {}).items():
        try:
            found[str(fact)] = datetime.fromisoformat(str(text)).timestamp()
        except ValueError:
            continue
    return found


def _phase(look: Look, found: Mapping[str, Finding]) -> str:
    plan = look.plan
    if Code.PAUSED in plan.codes:
        return "Paused"
    if any(each.holds for each in plan.blocked):
        return "Blocked"
    if plan.operation is not None:
        return _PHASES[plan.operation.type.value]
    if found["Degraded"].status == "True" and found["Degraded"].reason != "SharedNode":
        return "Degraded"
    available = found["Available"]
    refused = available.reason == "WritesRefused"
    return "Running" if available.status == "True" else "Degraded" if refused else "Pending"


def _disruptions(look: Look) -> Document:
    group = look.observed.group
    if group is None or not group.led:
        return {"disruptionsAllowed": 0, "disruptionsReason": "nobody leads the group"}
    spare = len(group.in_sync) - group.rules.min_in_sync
    if look.plan.operation is not None:
        return {"disruptionsAllowed": 0, "disruptionsReason": f"{look.plan.operation.type.value} is under way"}
    if Code.OVERLAPPING_BUDGET in look.plan.codes:
        return {"disruptionsAllowed": 0, "disruptionsReason": "several disruption budgets are over one pod"}
    if spare < 1:
        return {"disruptionsAllowed": 0, "disruptionsReason": "no replica in sync can be spared"}
    return {"disruptionsAllowed": 1, "disruptionsReason": f"{spare} replicas in sync more than needed"}


def _leader(look: Look, before: Mapping[str, Any], name: str, now: float) -> Document:
    group = look.observed.group
    if group is None:
        return {"leader": before["leader"]} if before.get("leader") else {}
    if group.leader is None:
        return {}
    replica = group.replica(group.leader)
    first = look.plan.since.get(f"leader:{group.leader}@{group.epoch}", now)
    return {
        "leader": {
            "pod": f"{name}-broker-{group.leader - 1}", "brokerId": group.leader, "epoch": group.epoch,
            "address": replica.address if replica is not None else "", "since": _time(first),
        }
    }  # fmt: skip


def _broker(look: Look, slot: Slot, name: str, before: Mapping[str, Any]) -> Document:
    group, instance = look.observed.group, slot.instance
    replica = group.replica(slot.broker_id) if group is not None else None
    leads = group is not None and group.leader == slot.broker_id
    role = "leader" if leads else "unknown" if replica is None else "learner" if replica.learner else "follower"
    pod = f"{name}-broker-{slot.ordinal}"
    told = next((each.get("lag") for each in before.get("brokers") or () if each.get("pod") == pod), None)
    entry: Document = {
        "pod": pod,
        "brokerId": slot.broker_id,
        "role": _ROLES.get(role, "Unknown"),
        "inSync": group is not None and slot.broker_id in group.in_sync,
        "lag": "Unknown" if replica is None else _lag(replica.lag, told),
        "ready": slot.ready,
    }
    optional = {
        "storeId": replica.store_id if replica is not None else "",
        "revision": instance.revision if instance is not None else "",
        "node": instance.node if instance is not None else "",
        "zone": instance.zone if instance is not None else "",
        "reason": (instance.failing or instance.unschedulable) if instance is not None else "",
    }
    return entry | {key: value for key, value in optional.items() if value}


def _lag(behind: int, told: str | None) -> str:
    """It goes back at half, so that who is around a bound is not told anew at each look (OP-19)."""
    high = _LAG_HIGH // 2 if told == "High" else _LAG_HIGH
    low = _LAG_LOW // 2 if told in ("Low", "High") else _LAG_LOW
    return "High" if behind >= high else "Low" if behind >= low else "None"


def _operation(look: Look, name: str, before: Mapping[str, Any], now: float) -> Document:
    operation = look.plan.operation
    if operation is None:
        return {}
    message = _words(operation.message)
    entry: Document = {"type": operation.type.value, "state": operation.state, "message": message}
    if operation.ordinal is not None:
        entry["pod"] = f"{name}-{operation.component}-{operation.ordinal}"
    old = before.get("operation") or {}
    same = all(old.get(key) == entry.get(key) for key in ("type", "state", "pod"))
    entry["stateSince"] = old["stateSince"] if same and "stateSince" in old else _time(now)
    goes_on = old.get("type") == entry["type"] and "startedAt" in old
    entry["startedAt"] = old["startedAt"] if goes_on else _time(now)
    return {"operation": entry}


def _condition(kind: str, found: Finding, before: Mapping[str, Any], generation: int, now: float) -> Document:
    empty: Document = {}
    old = next((each for each in before.get("conditions", ()) if each.get("type") == kind), empty)
    changed = old.get("status") != found.status or "lastTransitionTime" not in old
    return {
        "type": kind, "status": found.status, "reason": found.reason, "message": _words(found.message),
        "lastTransitionTime": _time(now) if changed else old["lastTransitionTime"], "observedGeneration": generation,
    }  # fmt: skip


def _words(said: str) -> str:
    """As much as the definition takes; without the controllers' clocks and what is copied, others at each look."""
    return _LAG.sub("behind", _CLOCK.sub("a while", said))[:_MESSAGE_MAX]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
