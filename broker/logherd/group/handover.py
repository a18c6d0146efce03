"""Giving leadership away in an orderly manner: writes stop, everything is committed, then the lease is released.

Source: controller-ha R2, R10; a planned switch costs the time of a few messages, not a lease.
"""

from logherd.controller.values import BrokerId
from logherd.group.attendance import Attendance
from logherd.group.ground import Ground
from logherd.group.output import Draining, Resumed
from logherd.model.names import Epoch

__all__ = ["Handover"]


class Handover:
    """One leadership's. `stopping` is for good; a target may be withdrawn by the controllers."""

    def __init__(self, ground: Ground, attendance: Attendance, epoch: Epoch) -> None:
        self._ground = ground
        self._attendance = attendance
        self._epoch = epoch
        self._target: BrokerId | None = None
        self._stopping = False

    @property
    def draining(self) -> bool:
        """Whether no more writes are taken."""
        return self._stopping or self._target is not None

    def order(self, target: BrokerId | None) -> None:
        """The controllers want this broker to lead next; None: nobody in particular, or not any more."""
        if target == self._target:
            return
        self._target = target
        if target is None and not self._stopping:
            self._ground.report(Resumed(self._epoch))
        elif target is not None:
            self._ground.report(Draining(self._epoch, target))

    def stop(self) -> None:
        """This process is about to stop."""
        if not self._stopping:
            self._stopping = True
            self._ground.report(Draining(self._epoch, self._target))

    def due(self) -> str | None:
        """Why leadership is to be released now; None while there is no reason, or something is still on its way.

        Everything is committed, so every member has it; and the target, whoever that is. The shell has been told in an
        earlier step, so all who waited have their answers.
        """
        ground = self._ground
        if not (self._stopping or self._target is not None) or ground.told < ground.log.end:
            return None
        if self._target is not None:
            process = ground.standing.latest(self._target)
            if self._attendance.flushed_by(self._target, process) < ground.log.end:
                return None
            return f"leadership is handed over to broker {self._target}"
        return "this process is about to stop"
