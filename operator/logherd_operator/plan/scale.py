"""Chapters: one more broker, or one fewer, at a time.

Up: a new place, a learner that copies, then a full member (`promote_learners`), then the next.

Down, from the highest number: hand over if it leads, demote it, wait until it is out of sync, take it away, and only
then let the controllers forget it, because a living one would register again. Until it is taken away, a higher
`replicas` makes it a full member again.

In mode Raft the brokers are told who belongs to the group (by `settings` when it grows, here when it shrinks); their
leader gives votes and takes them. In mode Static a new broker copies without being awaited, and only such a one may go.
"""

from collections.abc import Iterator

from logherd_operator.observed.quorum import Group
from logherd_operator.observed.slots import Slot
from logherd_operator.plan.actions import Demote, Forget, LeaveOut, RemoveMember, SetMembers
from logherd_operator.plan.guards import led_and_quorate, not_kept, overruled, stalled
from logherd_operator.plan.outcome import Act, Block, Code, Operation, OperationType, Step, Wait
from logherd_operator.plan.settings import members_of
from logherd_operator.plan.situation import Situation, rebuild_order, removed_fact
from logherd_operator.plan.switch import switch_from
from logherd_operator.spec.effects import MEMBERS

__all__ = ["forget_removed", "scale_down", "scale_up", "settle"]


def settle(situation: Situation) -> Iterator[Step]:
    """Wait until every place that the spec wants holds a full member: a new broker comes before anything goes."""
    group = situation.group
    if group is None:
        return
    for slot in situation.staying():
        if slot.instance is None:
            yield _wait(OperationType.REPAIR, "AwaitPod", f"broker {slot.broker_id} does not exist yet", slot)
        elif slot.instance.unschedulable:
            yield from _unschedulable(situation, slot, slot.instance.unschedulable)
        elif group.replica(slot.broker_id) is None and not situation.stale(slot):
            yield from stalled(situation, slot)
            yield _wait(OperationType.SCALE_UP, "AwaitRegistered", _unheard(situation, slot), slot)


def _unheard(situation: Situation, slot: Slot) -> str:
    """Without controllers nobody registers, and one that was there before may be down or hang."""
    if situation.by_controllers:
        return f"broker {slot.broker_id} has not registered yet"
    if slot.report is None:
        return f"broker {slot.broker_id} does not answer"
    return f"nobody who leads has heard of broker {slot.broker_id} yet"


def _unschedulable(situation: Situation, slot: Slot, words: str) -> Iterator[Step]:
    if situation.placeless(slot):
        bound = slot.volume is not None and slot.volume.capacity > 0
        away = f"; if its volume is on a node that is gone for good, {rebuild_order(slot)}" if bound else ""
        yield Block(
            code=Code.UNSCHEDULABLE,
            message=f"no node takes broker {slot.broker_id}: {words}",
            unblocks=f"make room or change the placement; lowering replicas again removes it without risk{away}",
        )
    yield _wait(OperationType.SCALE_UP, "AwaitNode", f"no node takes broker {slot.broker_id} yet: {words}", slot)


def scale_up(situation: Situation) -> Iterator[Step]:
    """One more place, when all that are there are full members in sync, and if it could be taken away again."""
    group, have = situation.group, situation.observed.platform.brokers or 0
    if group is None or have >= situation.spec.replicas:
        return
    operation = _operation(OperationType.SCALE_UP, "Check", f"{have} of {situation.spec.replicas} brokers exist", None)
    block = not_kept(situation) or led_and_quorate(situation, group)
    if block is not None:
        yield block
        yield Wait(operation=operation)
    behind = [each.broker_id for each in situation.kept() if not group.settled(each.broker_id) or not each.ready]
    if behind:
        yield Wait(operation=_operation(
            OperationType.SCALE_UP, "AwaitInSync", f"{_named(behind)} not in sync or not ready", None,
        ))  # fmt: skip
    yield Act(
        action=SetMembers(
            component="broker", count=have + 1, before=have, reason=f"the spec wants {situation.spec.replicas} brokers"
        ),
        operation=_operation(OperationType.SCALE_UP, "AddReplica", f"broker {have + 1} is added", None),
    )
    yield Wait(operation=operation)


def scale_down(situation: Situation) -> Iterator[Step]:
    """Take the highest one away, if what remains is complete and enough."""
    group, have = situation.group, situation.observed.platform.brokers or 0
    if group is None or have <= situation.spec.replicas:
        return
    victim = situation.kept()[-1]
    block = next((each for each in _refusals(situation, group, victim) if not overruled(situation, each)), None)
    if block is not None:
        yield block
        yield _wait(OperationType.SCALE_DOWN, "Check", block.message, victim)
    if group.leader == victim.broker_id:
        yield from switch_from(situation, group, victim, OperationType.SCALE_DOWN)
    if not (situation.by_controllers and situation.observed.platform.leader_address):
        yield from _forgotten_by_clients(situation, group, victim)
    if situation.spec.replication.mode == "Raft":
        yield from _leave_out(situation, group, victim)
    replica = group.replica(victim.broker_id)
    if situation.by_controllers and replica is not None and not replica.learner:
        yield Act(
            action=Demote(
                broker_id=victim.broker_id, expected_epoch=group.epoch,
                reason=f"{situation.spec.replicas} of {have} brokers are wanted, and {victim.broker_id} is the last",
            ),
            operation=_operation(OperationType.SCALE_DOWN, "Demote", "it stops to count", victim),
        )  # fmt: skip
    if victim.broker_id in group.in_sync:
        yield _wait(OperationType.SCALE_DOWN, "AwaitOutOfSync", f"broker {victim.broker_id} still counts", victim)
    instance = victim.instance
    yield Act(
        action=RemoveMember(
            ordinal=victim.ordinal,
            count=have - 1,
            uid=instance.uid if instance is not None else "",
            reason=f"broker {victim.broker_id} holds nothing that the others lack",
        ),
        operation=_operation(OperationType.SCALE_DOWN, "Remove", f"broker {victim.broker_id} is taken away", victim),
    )


def _forgotten_by_clients(situation: Situation, group: Group, victim: Slot) -> Iterator[Step]:
    """Here routes name the leader itself, and stock clients ask for them each 30 s: who led before is asked no more."""
    if situation.lasting(f"leader:{group.leader}@{group.epoch}") < situation.pace.routes:
        message = f"clients may still know broker {victim.broker_id} as the leader"
        yield _wait(OperationType.SCALE_DOWN, "AwaitRoutes", message, victim)


def _leave_out(situation: Situation, group: Group, victim: Slot) -> Iterator[Step]:
    """Mode Raft: those that stay are told that it belongs to the group no more, the leader, who acts on it, last."""
    members = members_of(victim.ordinal)
    staying = sorted(situation.kept()[:-1], key=lambda each: each.broker_id == group.leader)
    for slot in staying:
        if slot.report is not None and slot.report.hot.get(MEMBERS) != members:
            yield Act(
                action=LeaveOut(
                    ordinal=slot.ordinal, values={MEMBERS: members},
                    reason=f"{situation.spec.replicas} of {victim.ordinal + 1} brokers are wanted, and "
                    f"{victim.broker_id} is the last",
                ),
                operation=_operation(OperationType.SCALE_DOWN, "Demote", "it stops to count", victim),
            )  # fmt: skip
    if group.replica(victim.broker_id) is not None or (group.own is not None and group.own.changing):
        yield _wait(OperationType.SCALE_DOWN, "AwaitOutOfSync", f"broker {victim.broker_id} still votes", victim)


def _awaited(group: Group, number: int) -> Block | None:
    """Mode Static: is it part of the table of roles, or can nobody tell?"""
    table = group.own.table if group.own is not None else None
    if table is not None and number not in (table.leader, *table.synchronous):
        return None
    if table is None:
        message, unblocks = "no broker tells which table of roles is in force", "a broker has to answer"
    elif number == table.leader:
        message = f"broker {number} leads by table {table.number}"
        unblocks = "promote another one, that does not wait for it: logherd replica promote"
    else:
        left = " ".join(f"--synchronous {each}" for each in table.synchronous if each != number)
        message = f"sends wait for broker {number} by table {table.number}"
        unblocks = f"at broker {table.leader}: logherd replica promote --after {table.number} {left}".rstrip()
    return Block(code=Code.BELOW_MIN_IN_SYNC, message=message, unblocks=unblocks)


def _least(situation: Situation, group: Group) -> int:
    """So many have to be in sync without the one that goes."""
    match situation.spec.replication.mode:
        case "Raft":
            return ((situation.observed.platform.brokers or 1) - 1) // 2 + 1
        case "Static":
            return group.rules.min_in_sync
        case _:
            return max(situation.spec.min_in_sync, group.rules.min_in_sync)


def _refusals(situation: Situation, group: Group, victim: Slot) -> Iterator[Block]:
    """Why the highest broker may not go, the gravest reason first: who accepts one has not accepted the next."""
    block = led_and_quorate(situation, group)
    if block is not None:
        yield block
    number = victim.broker_id
    if number in group.eligible:
        yield Block(
            code=Code.LAST_COPY, message=f"broker {number} may hold messages that no other has",
            unblocks="the others have to come in sync with it first",
        )  # fmt: skip
    if situation.spec.replication.mode == "Static" and (block := _awaited(group, number)) is not None:
        yield block
    left, least = [each for each in group.in_sync if each != number], _least(situation, group)
    if len(left) < least:
        yield Block(
            code=Code.BELOW_MIN_IN_SYNC, message=f"without broker {number} {len(left)} of at least {least} are in sync",
            unblocks="the others have to come in sync, or replication.minInSyncReplicas has to be lower",
        )  # fmt: skip
    behind = [each.broker_id for each in situation.staying() if not group.settled(each.broker_id) or not each.ready]
    if behind:
        yield Block(
            code=Code.NOT_ALL_IN_SYNC, message=f"{_named(behind)} not in sync or not ready, and to stay",
            unblocks="wait for them, or accept it: logherd.dev/accept-risk: NotAllInSync@GENERATION",
        )  # fmt: skip


def forget_removed(situation: Situation) -> Iterator[Step]:
    """Let the controllers forget who was taken away and has gone, once nobody counts on it."""
    group = situation.group
    count = situation.observed.platform.brokers or 0
    if group is None:
        return
    for slot in situation.removed():
        if slot.instance is not None:
            # Of one that was told to stop and does not it is said with all others that do not.
            if not slot.instance.terminating and situation.lasting(removed_fact(slot.instance)) >= situation.pace.stuck:
                yield _left_behind(slot)
            yield _wait(OperationType.SCALE_DOWN, "AwaitGone", f"broker {slot.broker_id} is stopping", slot)
    for replica in group.replicas if situation.by_controllers else ():
        number = replica.broker_id
        if number <= count or number in group.in_sync or number in group.eligible or replica.alive is not False:
            continue
        # One that is to come back soon keeps what it has.
        if number <= situation.spec.replicas:
            continue
        yield Act(
            action=Forget(
                broker_id=number, expected_epoch=group.epoch, reason=f"broker {number} was removed and is gone"
            )
        )


def _left_behind(slot: Slot) -> Block:
    return Block(
        code=Code.STUCK_TERMINATING, message=f"broker {slot.broker_id} was taken away, and nobody tells it to stop",
        unblocks="the cluster's controller of StatefulSets has to delete its pod; if it does not run, or the pod is "
        "its own no more: kubectl delete pod",
    )  # fmt: skip


def _operation(kind: OperationType, state: str, message: str, slot: Slot | None) -> Operation:
    return Operation(type=kind, state=state, message=message, ordinal=slot.ordinal if slot is not None else None)


def _wait(kind: OperationType, state: str, message: str, slot: Slot) -> Wait:
    return Wait(operation=_operation(kind, state, message, slot))


def _named(brokers: list[int]) -> str:
    return (
        f"broker{'s' if len(brokers) > 1 else ''} {', '.join(map(str, brokers))} {'are' if len(brokers) > 1 else 'is'}"
    )
