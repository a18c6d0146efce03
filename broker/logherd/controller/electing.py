"""The election of a replica as it is proposed: on which grounds, and in which epoch.

Source: controller-ha R10, R12, R20.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import UNSET

from logherd.controller.commands import Elect, Grounds
from logherd.controller.values import BrokerId, Group, Replica
from logherd.model.names import Epoch

__all__ = ["elect_command", "grounds_of"]

_LEAP: Final = 1 << 12
"""How many epochs are passed over where decisions were lost: some may have begun of which no broker has told yet."""

_LEAPING: Final = (Grounds.OUTRUN, Grounds.UNCLEAN, Grounds.FIRST_BY_OPERATOR)
"""Where decisions were lost, or may have been: who is absent when an operator accepts a loss may come back, and what it
has must not pass for what is there. So it is where a group is founded that has been led."""


def elect_command(
    group: Group, best: Replica, alive: Iterable[BrokerId], grounds: Grounds, request: str = ""
) -> Elect:  # fmt: skip
    """The election of this replica's process, from the state as it is."""
    leaps = grounds in _LEAPING or (grounds is Grounds.FIRST and group.epoch > 0)
    return Elect(
        group=group.key, expected_epoch=group.epoch, broker_id=best.broker_id, registration=best.registration,
        alive=tuple(alive), grounds=grounds, request=request,
        epoch=Epoch(group.epoch + _LEAP) if leaps else UNSET,
    )  # fmt: skip


def grounds_of(group: Group) -> Grounds:
    """Why nobody leads a founded group whose lease is over."""
    if group.outrun:
        return Grounds.OUTRUN
    if not group.sync.holders:
        return Grounds.DOUBTED
    released = group.tenure is not None and group.tenure.released
    return Grounds.RELEASED if released else Grounds.LEASE_OVER
