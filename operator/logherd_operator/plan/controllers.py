"""Chapters about the controllers: one that came back on an empty disk votes again; a rolling restart, leader last."""

from collections.abc import Iterator

from logherd_operator.observed.quorum import Member, Quorum, controller_name
from logherd_operator.observed.slots import Instance, Slot
from logherd_operator.plan.actions import Restart, RestartReason, SettleQuorum, TransferQuorum
from logherd_operator.plan.guards import quorate, unordered
from logherd_operator.plan.outcome import Act, Block, Code, Operation, OperationType, Step, Wait
from logherd_operator.plan.situation import Situation, held_for_orders

__all__ = ["heal_controllers", "replace_voters", "roll_controllers", "say_who_waits"]

_NEAR = 4 << 20


def replace_voters(situation: Situation) -> Iterator[Step]:
    """A node whose disk was lost has joined without a vote, and its former self still has one: exchange them."""
    quorum = situation.observed.quorum
    if situation.spec.controllers.embedded is None or quorum is None or quorum.leader is None:
        return
    for member in quorum.members:
        former = _former(quorum, member)
        if former is None or not member.connected or (member.lag or 0) > _NEAR:
            continue
        block = quorate(situation)
        if block is not None:
            yield block
            return
        voters = tuple(sorted({each.node for each in quorum.voters}))
        yield Act(
            action=SettleQuorum(
                voters=voters, expected_term=quorum.term,
                reason=f"controller {member.node} came back on an empty disk and has caught up",
            ),
            operation=Operation(type=OperationType.REPAIR, state="SettleQuorum", message=f"{member.node} votes again"),
        )  # fmt: skip
        return


def _former(quorum: Quorum, member: Member) -> Member | None:
    if member.voter:
        return None
    return next(
        (each for each in quorum.voters if each.node == member.node and not each.connected), None
    )  # fmt: skip


def heal_controllers(situation: Situation) -> Iterator[Step]:
    """Replace one that does not run and was made from what is not wanted any more: it serves nobody."""
    wanted = situation.observed.platform.controller_revision
    for slot in situation.observed.controllers:
        instance = slot.instance
        if not wanted or instance is None or not situation.broken(instance, wanted, situation.observed.controllers):
            continue
        yield Act(
            action=Restart(
                component="controller", ordinal=slot.ordinal, uid=instance.uid, why=RestartReason.STUCK, serving=False,
                reason=f"controller {slot.ordinal} cannot start ({instance.failing or 'not ready'}), and what it was "
                "made from is not wanted any more",
            ),
            operation=_update("Heal", f"controller {slot.ordinal} is replaced", slot),
        )  # fmt: skip


def roll_controllers(situation: Situation) -> Iterator[Step]:
    """Restart what was made from another revision: first what is not ready; the one that leads last, handed over.

    Without their keeper, as while it is replaced by one of larger volumes, nobody says what is wanted.
    """
    slots, wanted = situation.controllers(), situation.observed.platform.controller_revision
    stale = _stale(situation)
    if not stale or held_for_orders(situation, stale):
        return
    yield from _rest(situation, slots, wanted)
    victim = min(stale, key=lambda each: _rank(situation, each))
    instance = victim.instance
    if instance is None or situation.starting(instance):
        yield Wait(operation=_update("AwaitReady", f"controller {victim.ordinal} is starting", victim))
        return
    yield from _take(situation, victim, instance)


def say_who_waits(situation: Situation) -> Iterator[Step]:
    """Of controllers that are restarted only when that is ordered; after all that goes on by itself."""
    stale = _stale(situation)
    block = unordered(situation, stale, f"{len(stale)} of {len(situation.controllers())} controllers")
    if block is not None:
        yield block


def _stale(situation: Situation) -> list[Slot]:
    """Which have to be restarted; none while nobody says what is wanted."""
    wanted = situation.observed.platform.controller_revision
    return [each for each in situation.controllers() if wanted and _reason(situation, each, wanted)]


def _rest(situation: Situation, slots: tuple[Slot, ...], wanted: str) -> Iterator[Step]:
    """Whatever is new has to serve before anything else is touched."""
    for slot in slots:
        instance = slot.instance
        if instance is None or instance.terminating:
            yield Wait(operation=_update("AwaitGone", f"controller {slot.ordinal} is being replaced", slot))
            return
        if instance.revision == wanted and not instance.ready:
            yield from _stalled(situation, slot, instance)
            yield Wait(operation=_update("AwaitReady", f"controller {slot.ordinal} is not ready yet", slot))
            return


def _stalled(situation: Situation, slot: Slot, instance: Instance) -> Iterator[Step]:
    if instance.failing or situation.overdue(instance):
        yield Block(
            code=Code.UPDATE_STALLED,
            message=f"controller {slot.ordinal} does not become ready: {instance.failing or 'it is too slow'}",
            unblocks="revert what was changed, or change it again; no other controller is touched",
        )


def _take(situation: Situation, victim: Slot, instance: Instance) -> Iterator[Step]:
    quorum, node = situation.observed.quorum, controller_name(victim.ordinal)
    block = quorate(situation, without=node)
    alone = len(situation.controllers()) == 1
    if block is not None and not alone:
        yield block
        yield Wait(operation=_update("Guard", block.message, victim))
        return
    why = _reason(situation, victim, situation.observed.platform.controller_revision) or RestartReason.SPEC_CHANGED
    if quorum is not None and quorum.leader == node and not alone:
        yield Act(
            action=TransferQuorum(
                node=_successor(quorum, node), reason=f"{node} leads and is restarted last",
                ordered=why is RestartReason.MANUAL,
            ),
            operation=_update("Switch", "the controllers' leadership is handed over", victim),
        )  # fmt: skip
        return
    yield Act(
        action=Restart(
            component="controller", ordinal=victim.ordinal, uid=instance.uid, why=why, serving=instance.ready,
            reason=f"controller {victim.ordinal}: {why.value}",
        ),
        operation=_update("Restart", f"controller {victim.ordinal} is restarted", victim),
    )  # fmt: skip


def _successor(quorum: Quorum, leaving: str) -> str:
    others = [each for each in quorum.voters if each.connected and each.node != leaving]
    return min(others, key=lambda each: (each.lag or 0, each.node)).node


def _reason(situation: Situation, slot: Slot, wanted: str) -> RestartReason | None:
    instance = slot.instance
    if instance is None:
        return None
    if instance.revision != wanted and not instance.ready:
        return RestartReason.STUCK
    if situation.ordered_anew(instance):
        return RestartReason.MANUAL
    if instance.revision != wanted:
        return RestartReason.SPEC_CHANGED
    return RestartReason.VOLUME_RESIZE if not instance.terminating and situation.resize_is_due(slot) else None


def _rank(situation: Situation, slot: Slot) -> tuple[bool, bool, int]:
    quorum = situation.observed.quorum
    leads = quorum is not None and quorum.leader == controller_name(slot.ordinal)
    return slot.ready, leads, -slot.ordinal


def _update(state: str, message: str, slot: Slot) -> Operation:
    return Operation(
        type=OperationType.UPDATE, state=state, message=message, ordinal=slot.ordinal, component="controller"
    )  # fmt: skip
