"""What must be so before something is taken away. Each answers with what is in the way, or None."""

from collections.abc import Iterator, Sequence

from logherd_operator.observed.quorum import Group
from logherd_operator.observed.slots import Component, Slot
from logherd_operator.plan.outcome import Block, Code
from logherd_operator.plan.situation import Situation, held_for_orders, rebuild_order

__all__ = [
    "evictable", "led_and_quorate", "name_taken", "not_kept", "object_refused", "overruled", "paused", "quorate",
    "stalled", "unordered", "volume_stays", "writes_go_on",
]  # fmt: skip

_LAG_MAX = 1 << 20
"""Bytes of the controllers' log: about what one election time-out lets through."""


def quorate(situation: Situation, *, without: str | None = None) -> Block | None:
    """Would a majority of the controllers remain? Where controllers are another group's, that group's plan cares."""
    quorum = situation.observed.quorum
    if situation.spec.controllers.embedded is None and without is None:
        return None
    if quorum is None or quorum.leader is None:
        return Block(
            code=Code.QUORUM_UNHEALTHY,
            message="nobody leads the controllers, so nothing may be taken away",
            unblocks="a majority of the controllers has to be up and to reach each other",
        )
    if not quorum.survives_without(without, lag_max=_LAG_MAX):
        missing = "no majority of them" if without is None else f"without {without} no majority of them"
        return Block(
            code=Code.QUORUM_UNHEALTHY,
            message=f"of {len(quorum.voters)} controllers {missing} is connected and caught up",
            unblocks="controllers that are down or behind have to come back first",
        )
    return None


_LEADS_AGAIN = {
    "Controller": "a replica that is in sync has to come back",
    "Raft": "a majority of the brokers has to come back; if it is lost for good: logherd replica recover",
    "Static": "that broker has to come back; or promote another one: logherd replica promote (with Kubernetes kubectl "
    "logherd switchover --to BROKER)",
}


def led_and_quorate(situation: Situation, group: Group) -> Block | None:
    """Is the group led by somebody who may act, and could the controllers elect another, if they do?"""
    if not group.led:
        return Block(
            code=Code.NO_LEADER,
            message=f"the group has no leader: {group.why or 'none was elected'}",
            unblocks=_LEADS_AGAIN[situation.spec.replication.mode],
        )
    return quorate(situation) if situation.by_controllers else None


_WRITES_GO_ON = {
    "Controller": "more replicas, a lower replication.minInSyncReplicas",
    "Raft": "more replicas",
    "Static": "a table of roles with fewer copies: logherd replica promote",
}


def writes_go_on(situation: Situation, group: Group, broker_id: int) -> Block | None:
    """Would enough replicas remain in sync without this one?"""
    if broker_id not in group.in_sync:
        return None
    left = [each for each in group.in_sync if each != broker_id]
    least = group.rules.min_in_sync
    if len(left) >= least or situation.spec.update.allow_write_pause:
        return None
    return Block(
        code=Code.WOULD_STOP_WRITES,
        message=f"without broker {broker_id} {len(left)} of at least {least} replicas would be in sync",
        unblocks=f"{_WRITES_GO_ON[situation.spec.replication.mode]}, or update.allowWritePause: true",
    )


def stalled(situation: Situation, slot: Slot) -> Iterator[Block]:
    """Does what stands here not become ready, for a reason of its own or for too long?"""
    instance = slot.instance
    if instance is None or instance.ready:
        return
    if instance.failing or situation.overdue(instance):
        back = ", or, if it was added, lower replicas again" if _is_newest(situation, slot) else ""
        yield Block(
            code=Code.UPDATE_STALLED,
            message=f"broker {slot.broker_id} does not become ready: {instance.failing or 'it takes too long'}",
            unblocks=f"revert what was changed, or change it again{back}; no other broker that is ready is touched",
        )


def _is_newest(situation: Situation, slot: Slot) -> bool:
    """May it have been added last, and be taken away again? It has the highest place, and is no full member."""
    replica = situation.group.replica(slot.broker_id) if situation.group is not None else None
    return slot.broker_id == situation.observed.platform.brokers and (replica is None or replica.learner)


def evictable(component: Component, slot: Slot) -> Block | None:
    """Could what stands there be evicted? Under several disruption budgets nobody can do it (OP-43)."""
    budgets = slot.instance.budgets if slot.instance is not None else ()
    if len(budgets) < 2:
        return None
    who = f"broker {slot.broker_id}" if component == "broker" else f"controller {slot.ordinal}"
    return Block(
        code=Code.OVERLAPPING_BUDGET,
        message=f"nothing can evict {who}, because several disruption budgets are over it: {', '.join(budgets)}",
        unblocks="only one of them may select it; disruption.budget: false takes the operator's own away",
    )


_UNTIL_THEN = (
    "until then no pod that serves is restarted, none is added or removed, and a group that is not there is not made"
)


def name_taken(situation: Situation) -> Block | None:
    """Does somebody else have what the group needs? What is started then might start from it."""
    if not situation.observed.kept.taken:
        return None
    return Block(
        code=Code.NAME_TAKEN,
        message="; ".join(situation.observed.kept.taken),
        unblocks=f"delete it, if nobody needs it; {_UNTIL_THEN}",
    )


def object_refused(situation: Situation) -> Block | None:
    """Does the API server refuse something that the group needs? What is started then might start from what is old."""
    if not situation.observed.kept.refused:
        return None
    return Block(
        code=Code.OBJECT_REFUSED,
        message="; ".join(situation.observed.kept.refused),
        unblocks="correct the spec, or the operator's rights, or what else the API server goes by; it is tried again; "
        f"{_UNTIL_THEN}",
    )


def not_kept(situation: Situation) -> Block | None:
    """Is something not as the group needs it?"""
    return name_taken(situation) or object_refused(situation)


def unordered(situation: Situation, pending: Sequence[Slot], whom: str) -> Block | None:
    """Do these wait for a person who orders that they are restarted?"""
    if not pending or not held_for_orders(situation, pending):
        return None
    return Block(
        code=Code.WAITING_FOR_APPROVAL, message=f"{whom} wait for a restart",
        unblocks="kubectl logherd restart, because update.strategy is Manual",
    )  # fmt: skip


def paused(held: str) -> Block:
    """What is not done because nothing is to be taken away."""
    return Block(
        code=Code.PAUSED, message=f"held back: {held}",
        unblocks="reconcile: Full, because NoDisruption takes nothing away",
    )  # fmt: skip


def volume_stays(slot: Slot) -> Block | None:
    """Would a broker find its volume again? What somebody deletes stays while a pod on a node uses it."""
    instance, volume = slot.instance, slot.volume
    if instance is None or instance.terminating or not instance.node or volume is None or not volume.leaving:
        return None
    return Block(
        code=Code.VOLUME_LOST,
        message=f"the volume of broker {slot.broker_id} was deleted, and is there only until its pod stops",
        unblocks=f"nothing restarts it by itself; once others have everything, {rebuild_order(slot)}",
    )


def overruled(situation: Situation, block: Block) -> bool:
    """Did somebody accept this risk for this generation of the spec? Some cannot be accepted (OP-61): in mode Static
    whoever is awaited would be so for ever.
    """
    if situation.spec.replication.mode == "Static":
        return False
    if block.code in (Code.LAST_COPY, Code.NO_LEADER):
        return False
    return block.code.value in situation.observed.orders.accepted_risks
