"""Chapters: volumes grow before anything is restarted; volumes of removed brokers go if the spec says so."""

from collections.abc import Iterable, Iterator

from logherd_operator.observed.quorum import controller_name
from logherd_operator.observed.slots import Component, Slot
from logherd_operator.plan.actions import DeleteVolume, GrowVolume, RenewClaims
from logherd_operator.plan.outcome import Act, Block, Code, Operation, OperationType, Step, Wait
from logherd_operator.plan.situation import Situation, deletion_fact, growth_fact, resizing_fact
from logherd_operator.spec.machine import quantity_value

__all__ = ["delete_unused", "grow"]


def grow(situation: Situation) -> Iterator[Step]:
    """One volume after the other, the leaders' last; then volumes of new places begin with the new size.

    A volume that is larger than the spec says is left alone (OP-72), and so is one that was never bound: its broker has
    no node yet. One that is not let grow is tried again now and then, and in between nothing waits for it; nor for one
    that was let, and has stayed as it was for long.
    """
    platform, embedded = situation.observed.platform, situation.spec.controllers.embedded
    group, quorum = situation.group, situation.observed.quorum
    leader = group.leader - 1 if group is not None and group.leader is not None else None
    brokers = _last(situation.kept(), leader)
    yield from _grow(situation, "broker", brokers, platform.broker_claim, situation.spec.storage.size)
    if embedded is None:
        return
    leading = quorum.leader if quorum is not None else None
    ordinal = next((n for n in range(embedded.replicas) if controller_name(n) == leading), None)
    controllers = _last(situation.observed.controllers[: embedded.replicas], ordinal)
    yield from _grow(situation, "controller", controllers, platform.controller_claim, embedded.storage.size)


def _last(slots: Iterable[Slot], leader: int | None) -> list[Slot]:
    return sorted(slots, key=lambda each: (each.ordinal == leader, each.ordinal))


def _grow(
    situation: Situation, component: Component, slots: Iterable[Slot], claim: int | None, wanted: str
) -> Iterator[Step]:
    """Of one component. `claim`: what its keeper makes now; None where volumes have no size."""
    if claim is None:
        return
    size = int(quantity_value(wanted))
    for slot in slots:
        volume = slot.volume
        if volume is None or volume.lost:
            continue
        if volume.requested < size:
            yield from _refused(situation, component, slot, wanted)
            if situation.rests(growth_fact(component, slot)):
                return
            yield Act(
                action=GrowVolume(
                    component=component, ordinal=slot.ordinal, uid=volume.uid, size=size,
                    reason=f"{volume.requested} bytes are less than {wanted}",
                ),
                operation=_operation("Grow", component, slot, size),
            )  # fmt: skip
            yield Wait(operation=_operation("Grow", component, slot, size))
        elif 0 < volume.capacity < size and volume.resize_waits_since is None:
            if situation.lasting(resizing_fact(component, slot)) >= situation.pace.stalled:
                yield _not_grown(component, slot, wanted)
                return
            yield Wait(operation=_operation("Resizing", component, slot, size))
    if claim < size:
        yield Act(
            action=RenewClaims(
                component=component, size=size, reason=f"new {component}s should begin with the new size"
            ),
            operation=Operation(
                type=OperationType.GROW, state="RenewClaims", message="the template of the volumes is replaced"
            ),
        )  # fmt: skip


def _refused(situation: Situation, component: Component, slot: Slot, wanted: str) -> Iterator[Step]:
    """Say that a volume that was asked to grow is still as it was; who never asked remembers that it asks now."""
    fact = growth_fact(component, slot)
    situation.since.setdefault(fact, situation.now)
    if situation.lasting(fact) >= situation.pace.stuck:
        yield _not_grown(component, slot, wanted)


def _not_grown(component: Component, slot: Slot, wanted: str) -> Block:
    return Block(
        code=Code.VOLUME_NOT_GROWN,
        message=f"the volume of {_whose(component, slot)} should grow to {wanted}, and does not",
        unblocks="a StorageClass with allowVolumeExpansion: true, or what the Event GrowVolumeRefused or those of its "
        "claim name",
    )


def _whose(component: Component, slot: Slot) -> str:
    return f"broker {slot.broker_id}" if component == "broker" else f"controller {slot.ordinal}"


def _operation(state: str, component: Component, slot: Slot, size: int) -> Operation:
    return Operation(
        type=OperationType.GROW, state=state, ordinal=slot.ordinal, component=component,
        message=f"the volume of {_whose(component, slot)} grows to {size} bytes",
    )  # fmt: skip


def delete_unused(situation: Situation) -> Iterator[Step]:
    """Only of brokers that were removed, have gone, and are forgotten by the controllers, or by the leader of a group
    that leads itself, which alone knows who belongs to it. Who may delete none, as the chart can have it, tries again
    now and then, and in between nothing waits for it.
    """
    group = situation.group
    if group is None or situation.spec.storage.retention.when_scaled != "Delete":
        return
    if not (situation.by_controllers or group.led):
        return
    for slot in situation.removed():
        used = slot.instance is not None or group.replica(slot.broker_id) is not None
        if slot.volume is None or used or slot.ordinal < situation.spec.replicas:
            continue
        fact = deletion_fact(slot)
        situation.since.setdefault(fact, situation.now)
        if situation.rests(fact):
            continue
        yield Act(
            action=DeleteVolume(
                ordinal=slot.ordinal, uid=slot.volume.uid,
                reason=f"broker {slot.broker_id} was removed, and storage.retention.whenScaled is Delete",
            )
        )  # fmt: skip
