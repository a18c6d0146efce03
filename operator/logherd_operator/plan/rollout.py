"""Chapter: restart brokers one after the other, the leader last and only after somebody else leads. In mode Static
nobody takes over by itself: there the leader is restarted in place, last.

It stops at the first one that does not come back: nothing new is touched while something new is not ready and in sync.
What was made from a revision that is no longer wanted and does not run is replaced first: that heals by reverting.
"""

from collections.abc import Iterator

from logherd_operator.observed.quorum import Group
from logherd_operator.observed.slots import Instance, Slot
from logherd_operator.plan.actions import Restart, RestartReason
from logherd_operator.plan.guards import (
    led_and_quorate,
    not_kept,
    paused,
    stalled,
    unordered,
    volume_stays,
    writes_go_on,
)
from logherd_operator.plan.outcome import Act, Block, Code, Operation, OperationType, Step, Wait
from logherd_operator.plan.situation import Situation, held_for_orders, unready_fact
from logherd_operator.plan.switch import switch_from

__all__ = ["hand_over_stuck", "heal_stuck", "restart_reason", "roll_brokers"]


def restart_reason(situation: Situation, slot: Slot) -> RestartReason | None:
    """Why this broker has to be restarted, if it has to. What was ordered waits for no window, whatever else is so."""
    instance = slot.instance
    if instance is None or instance.terminating:
        return None
    wanted, siblings = situation.observed.platform.broker_revision, situation.observed.brokers
    if situation.broken(instance, wanted, siblings):
        return RestartReason.STUCK
    if situation.ordered_anew(instance):
        return RestartReason.MANUAL
    if situation.stale(slot):
        return RestartReason.SPEC_CHANGED
    return RestartReason.VOLUME_RESIZE if situation.resize_is_due(slot) else None


def heal_stuck(situation: Situation) -> Iterator[Step]:
    """Replace one broker that does not run and was made from what is not wanted any more, before all else (OP-51)."""
    group = situation.group
    if group is None:
        return
    for slot in situation.kept():
        instance = slot.instance
        if instance is None or restart_reason(situation, slot) is not RestartReason.STUCK:
            continue
        if group.led and group.leader == slot.broker_id:
            continue
        # Whoever is known to be dead keeps no write going, and may be the one that everybody waits for.
        replica = group.replica(slot.broker_id)
        dead = replica is not None and replica.alive is False
        block = volume_stays(slot) or (None if dead else writes_go_on(situation, group, slot.broker_id))
        if block is not None:
            yield block
            continue
        yield _restart(slot, instance, RestartReason.STUCK)


def hand_over_stuck(situation: Situation) -> Iterator[Step]:
    """Let a leader that does not run as it should hand over, to be replaced then as every other is. Last of all, as an
    update has it, it would wait for those that a name, a refused object or a window holds back, however long.

    Not for a moment in which it is not ready. While nobody is able to take over, or a person has to begin, that is
    told, and all else goes on.
    """
    group, spec = situation.group, situation.spec
    able = spec.replication.mode != "Static" and len(situation.kept()) > 1
    if group is None or not able or _is_new(situation, group):
        return
    for slot in situation.kept():
        instance = slot.instance
        if instance is None or slot.broker_id != group.leader:
            continue
        lasting = instance.failing or situation.lasting(unready_fact(instance)) >= situation.pace.stuck
        if lasting and restart_reason(situation, slot) is RestartReason.STUCK:
            block = led_and_quorate(situation, group)
            if block is None and spec.reconcile == "NoDisruption":
                block = paused(f"broker {slot.broker_id} leads and does not run as it should; another is to lead")
            if block is not None:
                yield block
            elif spec.update.strategy == "Automatic":
                yield next(switch_from(situation, group, slot, OperationType.UPDATE, RestartReason.STUCK))
            else:
                yield from _waits_for_a_person(situation, group, slot)


def _waits_for_a_person(situation: Situation, group: Group, leader: Slot) -> Iterator[Step]:
    """For one who has it hand over; of a switchover, or of restarts, that were ordered already other chapters tell."""
    ordered, strategy = situation.observed.orders.switchover, situation.spec.update.strategy
    pending = [each for each in situation.kept() if restart_reason(situation, each) is not None]
    if ordered is not None and ordered[1] == group.epoch:
        return
    if strategy == "Supervised" or held_for_orders(situation, pending):
        yield Block(
            code=Code.WAITING_FOR_APPROVAL,
            message=f"broker {leader.broker_id} leads and does not run as it should; it is replaced once another leads",
            unblocks=f"kubectl logherd switchover, because update.strategy is {strategy}",
        )


def roll_brokers(situation: Situation) -> Iterator[Step]:
    """Restart one, when everything else serves and is in sync."""
    group = situation.group
    pending = [each for each in situation.kept() if restart_reason(situation, each) is not None]
    if group is None or not pending:
        return
    block = unordered(situation, pending, f"{len(pending)} brokers")
    if block is not None:
        yield block
        return
    block = led_and_quorate(situation, group)
    if block is not None:
        yield block
        yield _wait("Precheck", block.message, pending[0])
    yield from _settled(situation, group)
    yield from _soaked(situation, group)
    victim = min(pending, key=lambda each: _rank(group, each))
    if victim.instance is None:
        return
    why = restart_reason(situation, victim) or RestartReason.SPEC_CHANGED
    leads, alone = victim.broker_id == group.leader, situation.spec.replicas == 1
    in_place = leads and not alone and situation.spec.replication.mode == "Static"
    if leads and not alone and not in_place:
        yield from _hand_over(situation, group, victim)
        return
    if in_place and why is not RestartReason.MANUAL:
        yield from _approved(situation, victim)
    block = None if alone or in_place else writes_go_on(situation, group, victim.broker_id)
    if block is not None:
        yield block
        yield _wait("Guard", block.message, victim)
    yield _restart(victim, victim.instance, why, in_place=in_place)


def _settled(situation: Situation, group: Group) -> Iterator[Step]:
    """Whatever is not about to be replaced serves, and is in sync."""
    for slot in situation.kept():
        instance, reason = slot.instance, restart_reason(situation, slot)
        if instance is None or instance.terminating:
            yield _wait("AwaitGone", f"broker {slot.broker_id} is being replaced", slot)
        elif not instance.ready and reason is not RestartReason.STUCK:
            yield from stalled(situation, slot)
            yield _wait("AwaitReady", f"broker {slot.broker_id} is not ready yet", slot)
        elif reason is None and not group.settled(slot.broker_id):
            yield from _lagging(situation, slot)
            yield _wait("AwaitInSync", f"broker {slot.broker_id} is not in sync yet", slot)


def _lagging(situation: Situation, slot: Slot) -> Iterator[Step]:
    if situation.lasting(f"behind:{slot.broker_id}") >= situation.pace.stalled:
        yield Block(
            code=Code.UPDATE_STALLED,
            message=f"broker {slot.broker_id} does not come in sync",
            unblocks="its disk or network has to keep up with the leader; no other broker is touched",
        )


def _soaked(situation: Situation, group: Group) -> Iterator[Step]:
    """After a change of leader, and after each restart, a rest in which trouble would show."""
    if _is_new(situation, group):
        rest = situation.pace.election_rest
        yield _wait("Precheck", f"broker {group.leader} has led for less than {rest:g} s", None)
    soak = situation.spec.update.soak_seconds
    for slot in situation.kept():
        if restart_reason(situation, slot) is None and situation.lasting(f"in-sync:{slot.broker_id}") < soak:
            yield _wait("AwaitInSync", f"broker {slot.broker_id} has been in sync for less than {soak} s", slot)


def _is_new(situation: Situation, group: Group) -> bool:
    return situation.lasting(f"leader:{group.leader}@{group.epoch}") < situation.pace.election_rest


def _hand_over(situation: Situation, group: Group, leader: Slot) -> Iterator[Step]:
    """For a restart that is not held back, as of what does not run it never is: else another would lead for nothing."""
    why = restart_reason(situation, leader)
    block = None if why is RestartReason.STUCK else not_kept(situation)
    if block is not None:
        yield block
        yield _wait("Guard", block.message, leader)
    yield from _approved(situation, leader)
    yield from switch_from(situation, group, leader, OperationType.UPDATE, why)


def _approved(situation: Situation, leader: Slot) -> Iterator[Step]:
    if situation.spec.update.strategy == "Supervised":
        message = f"broker {leader.broker_id} leads and is the last to be restarted"
        yield Block(
            code=Code.WAITING_FOR_APPROVAL, message=message,
            unblocks="kubectl logherd switchover, because update.strategy is Supervised",
        )  # fmt: skip
        yield _wait("AwaitApproval", message, leader)


def _rank(group: Group, slot: Slot) -> tuple[bool, bool, bool, bool, int]:
    """What does not count for writes goes first, the leader last; of equals the highest."""
    replica = group.replica(slot.broker_id)
    learner = replica is not None and replica.learner
    return (
        slot.broker_id == group.leader, slot.ready and slot.broker_id in group.in_sync, slot.ready, not learner,
        -slot.ordinal,
    )  # fmt: skip


def _restart(slot: Slot, instance: Instance, why: RestartReason, *, in_place: bool = False) -> Act:
    meanwhile = "; it leads, and nothing is acknowledged until it is back" if in_place else ""
    reason = f"broker {slot.broker_id}: {why.value}" + (f" ({instance.failing})" if instance.failing else "")
    return Act(
        action=Restart(
            component="broker", ordinal=slot.ordinal, uid=instance.uid, why=why, serving=instance.ready,
            leads=in_place, reason=f"{reason}{meanwhile}",
        ),
        operation=Operation(
            type=OperationType.UPDATE, state="Restart", ordinal=slot.ordinal,
            message=f"broker {slot.broker_id} is restarted: {why.value}{meanwhile}",
        ),
    )  # fmt: skip


def _wait(state: str, message: str, slot: Slot | None) -> Wait:
    return Wait(
        operation=Operation(
            type=OperationType.UPDATE, state=state, message=message, ordinal=None if slot is None else slot.ordinal
        )
    )  # fmt: skip
