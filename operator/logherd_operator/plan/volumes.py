"""Chapters: volumes grow before anything is restarted; volumes of removed brokers go if the spec says so."""

from collections.abc import Iterator

from logherd_operator.observed.slots import Slot
from logherd_operator.plan.actions import DeleteVolume, GrowVolume, RenewClaims
from logherd_operator.plan.outcome import Act, Operation, OperationType, Step, Wait
from logherd_operator.plan.situation import Situation
from logherd_operator.spec.machine import quantity_value

__all__ = ["delete_unused", "grow"]


def grow(situation: Situation) -> Iterator[Step]:
    """One volume after the other, the leader's last; then volumes of new brokers begin with the new size.

    A volume that is larger than the spec says is left alone (OP-72).
    """
    claim = situation.observed.platform.broker_claim
    if claim is None:
        return
    size = int(quantity_value(situation.spec.storage.size))
    leader = situation.group.leader if situation.group is not None else None
    slots = sorted(situation.kept(), key=lambda each: (each.broker_id == leader, each.ordinal))
    for slot in slots:
        volume = slot.volume
        if volume is None or volume.lost:
            continue
        if volume.requested < size:
            yield Act(
                action=GrowVolume(
                    component="broker", ordinal=slot.ordinal, uid=volume.uid, size=size,
                    reason=f"{volume.requested} bytes are less than storage.size",
                ),
                operation=_operation("Grow", slot, size),
            )  # fmt: skip
            yield Wait(operation=_operation("Grow", slot, size))
        elif volume.capacity < size and volume.resize_waits_since is None:
            yield Wait(operation=_operation("Resizing", slot, size))
    if claim < size:
        yield Act(
            action=RenewClaims(component="broker", size=size, reason="new brokers should begin with the new size"),
            operation=Operation(
                type=OperationType.GROW, state="RenewClaims", message="the template of the volumes is replaced"
            ),
        )  # fmt: skip


def _operation(state: str, slot: Slot, size: int) -> Operation:
    return Operation(
        type=OperationType.GROW, state=state, ordinal=slot.ordinal,
        message=f"the volume of broker {slot.broker_id} grows to {size} bytes",
    )  # fmt: skip


def delete_unused(situation: Situation) -> Iterator[Step]:
    """Only of brokers that were removed, have gone, and are forgotten by the controllers."""
    group = situation.group
    if group is None or situation.spec.storage.retention.when_scaled != "Delete":
        return
    for slot in situation.removed():
        used = slot.instance is not None or group.replica(slot.broker_id) is not None
        if slot.volume is None or used or slot.ordinal < situation.spec.replicas:
            continue
        yield Act(
            action=DeleteVolume(
                ordinal=slot.ordinal, uid=slot.volume.uid,
                reason=f"broker {slot.broker_id} was removed, and storage.retention.whenScaled is Delete",
            )
        )  # fmt: skip
