"""The conditions of a group, one function each: whether it is so, one word for programs, a sentence for people."""

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from logherd_operator.observed.observed import Observed
from logherd_operator.observed.slots import Slot
from logherd_operator.plan.outcome import Code, Plan
from logherd_operator.plan.situation import flapping_fact
from logherd_operator.spec.group import BrokerGroupSpec

__all__ = ["Finding", "Look", "findings"]

Truth = Literal["True", "False", "Unknown"]
_STALLED = (
    Code.UPDATE_STALLED, Code.SWITCHOVER_FAILED, Code.WAITING_FOR_WINDOW, Code.WAITING_FOR_APPROVAL,
    Code.VOLUME_NOT_GROWN,
)  # fmt: skip
_BROKEN = (
    Code.DATA_LOST, Code.VOLUME_LOST, Code.STORE_DAMAGED, Code.NODE_UNREACHABLE, Code.STUCK_TERMINATING,
    Code.NAME_TAKEN, Code.OBJECT_REFUSED,
)  # fmt: skip
"""The gravest first: that one is told."""
_NUMBER = re.compile(r"[0-9]+([.][0-9]+)?")


class Finding(NamedTuple):
    """One condition, without times."""

    status: Truth
    reason: str
    message: str


class Look(NamedTuple):
    """What there is to say something about."""

    observed: Observed
    spec: BrokerGroupSpec
    plan: Plan


def findings(look: Look) -> dict[str, Finding]:
    """All conditions by type."""
    return {name: find(look) for name, find in _CONDITIONS.items()}


def _available(look: Look) -> Finding:
    group = look.observed.group
    if group is None:
        return Finding("Unknown", "QuorumUnreachable", f"no {_teller(look)} tells how the group stands")
    if not group.led:
        return Finding("False", "NoLeader", group.why or "nobody leads the group")
    if len(group.in_sync) < group.rules.min_in_sync:
        return Finding(
            "False", "BelowMinInSync",
            f"{len(group.in_sync)} of at least {group.rules.min_in_sync} replicas are in sync, so writes are refused",
        )  # fmt: skip
    if group.transfer is None and (said := _refusal(look, look.observed.broker(group.leader or 0))):
        return Finding("False", "WritesRefused", f"broker {group.leader} leads and takes no messages: {said}")
    if look.spec.replicas == 1:
        return Finding("True", "SingleReplica", "writes are accepted; there is one copy, and its disk is the only one")
    return Finding("True", "WritesAccepted", f"broker {group.leader} leads, {len(group.in_sync)} replicas are in sync")


def _refusal(look: Look, slot: Slot | None) -> str:
    """Why a broker takes no messages, or would not if it led. Of one that does so by turns it is told all the time."""
    if slot is None or look.observed.refusal(slot):
        return _own_words(slot)
    return "it refused them a moment ago, and again and again" if flapping_fact(slot) in look.plan.since else ""


def _own_words(slot: Slot | None) -> str:
    """Why a broker takes no messages, or would not if it led, in its own words but for numbers: what is free of a disk
    always changes."""
    report = slot.report if slot is not None else None
    return _NUMBER.sub("...", report.fault or report.refuses) if report is not None else ""


def _leader_elected(look: Look) -> Finding:
    group = look.observed.group
    if group is None:
        return Finding("Unknown", "QuorumUnreachable", f"no {_teller(look)} tells who leads")
    if not group.led or group.leader is None:
        return Finding("False", "Electing", group.why or "nobody leads the group")
    slot = look.observed.broker(group.leader)
    report = slot.report if slot is not None else None
    if report is not None and (report.role != "leader" or report.epoch != group.epoch):
        said = f"broker {group.leader} says {report.role} in epoch {report.epoch}"
        return Finding("False", "Disagreement", f"the controllers say leader in epoch {group.epoch}, {said}")
    return Finding("True", "Elected", f"broker {group.leader} leads in epoch {group.epoch}")


def _quorum_healthy(look: Look) -> Finding:
    quorum = look.observed.quorum
    if quorum is None or quorum.leader is None:
        if look.spec.controllers.embedded is None and look.observed.group is not None:
            return Finding("True", "Elsewhere", "the controllers are another group's, and they answer")
        return Finding("False", "MajorityLost", f"nobody leads the controllers{_controllers_away(look)}")
    lost = [each.node for each in quorum.voters if not each.connected]
    if lost:
        return Finding("True", "MinorityLost", f"{', '.join(lost)} cannot be reached{_controllers_away(look)}")
    return Finding("True", "AllConnected", f"{len(quorum.voters)} controllers, {quorum.leader} leads them")


def _progressing(look: Look) -> Finding:
    operation = look.plan.operation
    blocked = [each for each in look.plan.blocked if each.holds]
    for block in blocked:
        if block.code in _STALLED:
            return Finding("False", block.code.value, f"{block.message}; what unblocks it: {block.unblocks}")
    if operation is None:
        return Finding("False", "Idle", "nothing is under way")
    if blocked:
        block = blocked[0]
        return Finding("False", block.code.value, f"{block.message}; what unblocks it: {block.unblocks}")
    return Finding("True", operation.type.value, f"{operation.state}: {operation.message}")


def _degraded(look: Look) -> Finding:
    broken = [each for each in look.plan.blocked if each.code in _BROKEN]
    if broken:
        block = min(broken, key=lambda each: _BROKEN.index(each.code))
        return Finding("True", block.code.value, f"{block.message}; what unblocks it: {block.unblocks}")
    away = [each for each in _wanted(look) if not each.ready]
    if away:
        words = ", ".join(f"broker {each.broker_id}{_trouble(each)}" for each in away)
        return Finding("True", "PodNotReady", f"not ready: {words}")
    group = look.observed.group
    if group is None:
        return Finding("True", "QuorumUnreachable", f"no {_teller(look)} tells who is in sync")
    behind = [n + 1 for n in range(look.spec.replicas) if not group.settled(n + 1)]
    if behind:
        return Finding("True", "FollowerLagging", f"not in sync: {_brokers(look, behind)}")
    quorum = _quorum_healthy(look)
    if quorum.reason == "MajorityLost":
        return Finding("True", "MajorityLost", quorum.message)
    if quorum.reason == "MinorityLost" and look.spec.controllers.embedded is not None:
        return Finding("True", "MinorityLost", quorum.message)
    refusing = [
        f"broker {each.broker_id} ({said})"
        for each in _wanted(look) if each.broker_id != group.leader and (said := _refusal(look, each))
    ]  # fmt: skip
    if refusing:
        return Finding("True", "FollowerRefuses", f"would take no messages as leader: {', '.join(refusing)}")
    nodes = [each.instance.node for each in _wanted(look) if each.instance is not None and each.instance.node]
    if len(set(nodes)) < len(nodes):
        return Finding("True", "SharedNode", f"several brokers stand on {max(nodes, key=nodes.count)}")
    return Finding("False", "AllWell", f"{look.spec.replicas} brokers are ready and in sync")


def _storage_ready(look: Look) -> Finding:
    volumes = [each.volume for each in _wanted(look)]
    known = [each for each in volumes if each is not None]
    if any(each.lost for each in known):
        return Finding("False", "VolumeLost", "a volume is lost")
    if any(each.leaving for each in known):
        return Finding("False", "VolumeLost", "a volume was deleted, and is there only until its pod stops")
    for block in look.plan.blocked:
        if block.code is Code.VOLUME_NOT_GROWN:
            return Finding("False", "NotGrown", f"{block.message}; what unblocks it: {block.unblocks}")
    if any(each.resize_waits_since is not None for each in known):
        return Finding("False", "RestartNeeded", "a volume has grown and waits for a restart of its broker")
    bound = [each for each in known if each.capacity]
    if any(each.capacity < each.requested for each in bound):
        return Finding("False", "Resizing", "a volume is growing")
    if len(bound) < look.spec.replicas:
        return Finding("False", "Missing", f"{len(bound)} of {look.spec.replicas} volumes exist")
    return Finding("True", "AllBound", f"{len(known)} volumes")


def _config_applied(look: Look) -> Finding:
    rejected = sorted({each for slot in look.observed.brokers if slot.report for each in slot.report.rejected})
    if rejected:
        return Finding("False", "Rejected", f"brokers refused {', '.join(rejected)}")
    wanted = look.observed.platform.broker_revision
    old = [each.broker_id for each in look.observed.brokers if each.instance and each.instance.revision != wanted]
    if old:
        return Finding("False", "PendingRestart", f"brokers {old} run from an older template")
    differing = [
        each.broker_id for each in look.observed.brokers
        if each.report is not None and not look.observed.hot.items() <= each.report.hot.items()
    ]  # fmt: skip
    if differing:
        return Finding("False", "Pending", f"brokers {differing} have not taken all settings yet")
    observed = look.observed
    if observed.kept.held:
        held = ", ".join(observed.kept.held)
        return Finding("Unknown", "QuorumUnreachable", f"not changed before a controller answers: {held}")
    if observed.kept.refused or observed.kept.taken:
        return Finding("False", "NotKept", "; ".join((*observed.kept.refused, *observed.kept.taken)))
    if observed.platform.broker_template_old:
        return Finding("False", "PendingRestart", "what brokers are made from is not changed to what the spec says yet")
    return Finding("True", "Applied", "all brokers run with the wanted settings")


def _upgradeable(look: Look) -> Finding:
    if look.plan.operation is not None:
        return Finding("False", "OperationRunning", f"{look.plan.operation.type.value} is under way")
    for find, reason in ((_quorum_healthy, "QuorumLoss"), (_available, "NotAvailable")):
        found = find(look)
        if found.status != "True" or found.reason == "MinorityLost":
            return Finding("False", reason, found.message)
    degraded = _degraded(look)
    if degraded.status == "True" and degraded.reason != "SharedNode":
        return Finding("False", "Degraded", degraded.message)
    for block in look.plan.blocked:
        if block.code is Code.WAITING_FOR_APPROVAL:
            return Finding("False", "WaitingForApproval", f"{block.message}; what unblocks it: {block.unblocks}")
    return Finding("True", "Ready", "an upgrade may begin")


def _teller(look: Look) -> str:
    ref = look.spec.controllers.ref
    of = f" of the group {ref.name}" if ref is not None else ""
    return f"controller{of}" if look.spec.by_controllers else "broker"


def _wanted(look: Look) -> list[Slot]:
    known = {each.ordinal: each for each in look.observed.brokers}
    return [known.get(ordinal, Slot(ordinal=ordinal)) for ordinal in range(look.spec.replicas)]


def _brokers(look: Look, numbers: list[int]) -> str:
    """With what each says of itself."""
    words = {each: _own_words(look.observed.broker(each)) for each in numbers}
    return ", ".join(f"broker {each} ({said})" if said else f"broker {each}" for each, said in words.items())


def _controllers_away(look: Look) -> str:
    """Whose pods do not run, and why: of controllers nothing else says it."""
    troubles = [(each.ordinal, _trouble(each)) for each in look.observed.controllers if each.instance is not None]
    words = ", ".join(f"controller {ordinal}{trouble}" for ordinal, trouble in troubles if trouble)
    return f"; not ready: {words}" if words else ""


def _trouble(slot: Slot) -> str:
    if slot.instance is None:
        return " (does not exist)"
    words = slot.instance.failing or slot.instance.unschedulable
    return f" ({words})" if words else ""


_CONDITIONS: dict[str, Callable[[Look], Finding]] = {
    "Available": _available, "Progressing": _progressing, "Degraded": _degraded, "LeaderElected": _leader_elected,
    "QuorumHealthy": _quorum_healthy, "ConfigApplied": _config_applied, "StorageReady": _storage_ready,
    "Upgradeable": _upgradeable,
}  # fmt: skip
