"""Chapters: what is broken and what a person has to decide; learners that should vote; hand-overs that were ordered."""

from collections.abc import Iterator

from logherd_operator.observed.quorum import Group, Replica
from logherd_operator.observed.slots import COMPONENTS, Slot, Volume
from logherd_operator.plan.actions import Promote, Rebuild, Switchover, TakeLead
from logherd_operator.plan.guards import (
    evictable,
    led_and_quorate,
    name_taken,
    object_refused,
    stalled,
    volume_stays,
    writes_go_on,
)
from logherd_operator.plan.outcome import Act, Block, Code, Operation, OperationType, Step, Wait
from logherd_operator.plan.situation import Situation, order_fact, rebuild_fact, rebuild_order
from logherd_operator.plan.switch import await_transfer

__all__ = [
    "await_learners", "hand_over", "promote_learners", "rebuild", "say_what_is_lost", "say_what_is_taken",
    "say_what_overlaps", "take_lead",
]  # fmt: skip


def say_what_is_lost(situation: Situation) -> Iterator[Step]:
    """What the operator does not touch by itself, because only a person can know what it costs."""
    group = situation.group
    lost = group is not None and group.founded and not group.led and not group.in_sync and not group.eligible
    if lost and situation.by_controllers:
        yield Block(
            code=Code.DATA_LOST,
            message="no replica is left that is known to hold what was committed",
            unblocks="bring a volume back; or elect one and accept the loss: logherd groups elect --unclean",
        )
    for slot in situation.observed.brokers:
        yield from _of_place(situation, slot)


def say_what_is_taken(situation: Situation) -> Iterator[Step]:
    """What only a person can do away with."""
    yield from (block for each in (name_taken, object_refused) if (block := each(situation)) is not None)
    if situation.observed.kept.added:
        yield Block(
            code=Code.TEMPLATE_EDITED,
            message=f"pods are made from more than the group says: {'; '.join(situation.observed.kept.added)}",
            unblocks="take it out of the StatefulSet, for which its pods are restarted once, one after the other, as "
            "they were for it; a broker's variables, volumes, mounts and sidecars can be said in podTemplate of the "
            "group, and labels and annotations, which come there with the next restart",
        )  # fmt: skip


def _of_place(situation: Situation, slot: Slot) -> Iterator[Step]:
    instance, report, rebuild = slot.instance, slot.report, rebuild_order(slot)
    if slot.volume is not None and slot.volume.lost:
        yield Block(
            code=Code.VOLUME_LOST, message=f"the volume of broker {slot.broker_id} is lost",
            unblocks=f"bring the volume back, or {rebuild}",
        )  # fmt: skip
    elif (leaving := volume_stays(slot)) is not None:
        yield leaving
    if report is not None and report.fault:
        yield Block(
            code=Code.STORE_DAMAGED, message=f"broker {slot.broker_id} does not serve: {report.fault}",
            unblocks=f"repair its volume, or {rebuild}",
        )  # fmt: skip
    if instance is None or instance.leaves_by is None or situation.now < instance.leaves_by + situation.pace.stuck:
        return
    if instance.unreachable:
        yield Block(
            code=Code.NODE_UNREACHABLE,
            message=f"broker {slot.broker_id} was told to stop, and its node {instance.node or '(unknown)'} is silent",
            unblocks="when the node is off for certain: "
            "kubectl taint nodes NODE node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
        )
    else:
        yield Block(
            code=Code.STUCK_TERMINATING, message=f"broker {slot.broker_id} was told to stop and does not go",
            unblocks="look at its pod; what is in the way is outside of this operator",
        )  # fmt: skip


def say_what_overlaps(situation: Situation) -> Iterator[Step]:
    """What nobody could evict, though nobody tries to."""
    for component in COMPONENTS:
        for slot in situation.observed.slots(component):
            if (block := evictable(component, slot)) is not None:
                yield block


def rebuild(situation: Situation) -> Iterator[Step]:
    """Give up one volume that somebody named, if it is lost, damaged, deleted already or where no pod can go, as on a
    node that is gone, and the others have everything. The order is about that volume: of what happens to the next one
    it says nothing. One that does not go is tried again now and then, and in between nothing waits for it.
    """
    ordered, group = situation.observed.orders.rebuild, situation.group
    ordinal, volume = ordered or (None, "")
    slot = next((each for each in situation.kept() if each.ordinal == ordinal), None)
    if slot is None or slot.volume is None or slot.volume.uid != volume or group is None:
        return
    fault = _fault(situation, slot, slot.volume)
    if not fault:
        return
    block = led_and_quorate(situation, group) or writes_go_on(situation, group, slot.broker_id)
    # Also where writes may pause: a pause ends, and what only this one has would not come back.
    only = slot.broker_id in group.in_sync and len(group.in_sync) == 1
    if block is None and (only or slot.broker_id in group.eligible):
        block = Block(
            code=Code.LAST_COPY, message=f"broker {slot.broker_id} may hold what no other has",
            unblocks="the others have to be in sync first",
        )  # fmt: skip
    if block is not None:
        yield block
        return
    fact = rebuild_fact(slot)
    if situation.rests(fact):
        return
    yield Act(
        fact=fact,
        action=Rebuild(
            ordinal=slot.ordinal, uid=slot.instance.uid if slot.instance else "", volume_uid=slot.volume.uid,
            reason=f"its volume is {fault}, and giving it up was ordered",
        ),
        operation=Operation(
            type=OperationType.REPAIR, state="Rebuild", ordinal=slot.ordinal,
            message=f"broker {slot.broker_id} starts on an empty volume",
        ),
    )  # fmt: skip


def _fault(situation: Situation, slot: Slot, volume: Volume) -> str:
    """What is wrong with a volume, in a word; empty if nothing is."""
    if slot.report is not None and slot.report.fault:
        return "damaged"
    if volume.lost:
        return "lost"
    if volume.leaving:
        return "deleted"
    return "out of reach" if situation.placeless(slot) else ""


def promote_learners(situation: Situation) -> Iterator[Step]:
    """A learner that the spec wants becomes a full member once it has caught up: after scaling up, a change of mind
    while scaling down, or the loss of a volume. It waits for nobody who is away: without it too few may be in sync.
    """
    group = situation.group
    if group is None or not group.led:
        return
    near = next((each for each, _ in _learners(situation, group) if _is_near(situation, each)), None)
    if near is not None:
        yield _promotion(near, group)


def await_learners(situation: Situation) -> Iterator[Step]:
    """Until each learner that the spec wants is a full member nothing is taken away."""
    group = situation.group
    if group is None:
        return
    for slot, replica in _learners(situation, group):
        if not group.led:
            yield _await(slot, "AwaitLeader", "a learner waits for a leader to copy from")
        elif _is_near(situation, slot):
            yield _await(slot, "Promote", f"broker {slot.broker_id} becomes a full member")
        else:
            yield from stalled(situation, slot)
            yield _await(slot, "CatchUp", f"learner {slot.broker_id} is {_behind(situation, replica)}")


def _learners(situation: Situation, group: Group) -> list[tuple[Slot, Replica]]:
    """Those that the spec wants; in the other modes the brokers' leader gives votes, or nobody does."""
    if not situation.by_controllers:
        return []
    found = ((slot, group.replica(slot.broker_id)) for slot in situation.staying())
    return [(slot, replica) for slot, replica in found if replica is not None and replica.learner]


def _is_near(situation: Situation, slot: Slot) -> bool:
    return situation.lasting(f"near:{slot.broker_id}") >= situation.pace.caught_up


def _promotion(slot: Slot, group: Group) -> Act:
    return Act(
        action=Promote(
            broker_id=slot.broker_id, expected_epoch=group.epoch, reason=f"broker {slot.broker_id} has caught up"
        ),
        operation=Operation(
            type=OperationType.SCALE_UP, state="Promote", ordinal=slot.ordinal,
            message=f"broker {slot.broker_id} becomes a full member",
        ),
    )  # fmt: skip


def _behind(situation: Situation, replica: Replica) -> str:
    if not replica.alive:
        return "not heard of"
    near = replica.lag <= situation.pace.caught_up_bytes
    return "near, and has to stay near for a moment" if near else f"{replica.lag} bytes behind"


def _await(slot: Slot, state: str, message: str) -> Wait:
    return Wait(
        operation=Operation(type=OperationType.SCALE_UP, state=state, message=message, ordinal=slot.ordinal)
    )  # fmt: skip


def hand_over(situation: Situation) -> Iterator[Step]:
    """A switch of the leader that somebody ordered, in the epoch for which it was ordered. While it is refused it is
    asked for now and then, and in between other things go on, one of which may be what it takes.
    """
    ordered, group = situation.observed.orders.switchover, situation.group
    if ordered is None or group is None or group.leader is None or situation.spec.replication.mode == "Static":
        return
    target, epoch = ordered
    if epoch != group.epoch or target == group.leader:
        return
    if group.transfer == target:
        leader = Slot(ordinal=group.leader - 1)
        yield next(await_transfer(situation, group, target, leader, OperationType.SWITCHOVER))
        return
    block = led_and_quorate(situation, group)
    if block is None and target not in group.in_sync:
        block = Block(
            code=Code.NOT_ALL_IN_SYNC, message=f"broker {target} was ordered to lead, and is not in sync",
            unblocks=f"choose one of {', '.join(map(str, group.in_sync))}, or wait until it is in sync",
        )  # fmt: skip
    if block is None and _refused_of_late(situation, group, target):
        block = Block(
            code=Code.SWITCHOVER_FAILED,
            message=f"broker {target} was ordered to lead, and broker {group.leader} still does in epoch {epoch}",
            unblocks="what was answered to the order (with Kubernetes the Event SwitchoverRefused); it is asked again",
        )  # fmt: skip
    if block is not None:
        yield block
        return
    yield Act(
        fact=order_fact(target, epoch),
        action=Switchover(
            target=target, expected_epoch=epoch, request_id=f"ordered-{epoch}-{target}", ordered=True,
            leader=None if situation.by_controllers else group.leader, reason=f"broker {target} was ordered to lead",
        ),
        operation=Operation(
            type=OperationType.SWITCHOVER, state="Switch", ordinal=target - 1, message=f"broker {target} takes over"
        ),
    )  # fmt: skip


def _refused_of_late(situation: Situation, group: Group, target: int) -> bool:
    patience = situation.spec.switchover_timeout_seconds
    asked = situation.lasting(order_fact(target, group.epoch)) % (patience + situation.pace.stuck)
    return group.transfer is None and asked >= patience


def take_lead(situation: Situation) -> Iterator[Step]:
    """Mode Static: a promotion that somebody ordered, if it loses nothing; also without a leader, for then it is how
    there is one again. Whoever was awaited stays so; but nobody waits for one that is away.
    """
    ordered, group = situation.observed.orders.switchover, situation.group
    table = group.own.table if group is not None and group.own is not None else None
    if ordered is None or group is None or table is None or ordered[1] != group.epoch or ordered[0] == table.leader:
        return
    target = ordered[0]
    if target not in table.promotable:
        able = ", ".join(map(str, table.promotable))
        choice = f"choose one of {able}" if able else "wait for one that surely has everything"
        yield Block(
            code=Code.NOT_ALL_IN_SYNC,
            message=f"broker {target} was ordered to lead, and may lack what table {table.number} acknowledged",
            unblocks=f"{choice}; or accept the loss: logherd replica promote --accept-loss",
        )
        return
    there = {each.broker_id for each in situation.kept() if each.ready}
    awaited = [each for each in (table.leader, *table.synchronous) if each != target]
    synchronous = tuple(sorted(each for each in awaited if group.led or each in there))
    yield Act(
        action=TakeLead(
            target=target, after=table.number, synchronous=synchronous, copies=min(table.copies, len(synchronous) + 1),
            reason=f"broker {target} was ordered to lead in place of table {table.number}",
        ),
        operation=Operation(
            type=OperationType.SWITCHOVER, state="Switch", ordinal=target - 1, message=f"broker {target} takes over"
        ),
    )  # fmt: skip
