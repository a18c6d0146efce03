"""The broker's side of a lease: whether it may act as leader right now. Asked before each leader duty and each answer.

Source: controller-ha R1, R3, R5; a pause of the process is noticed because the clock went on.
"""

from logherd.controller.reports import Granted
from logherd.model.names import Epoch

__all__ = ["LeaseHolder"]


class LeaseHolder:
    """Starts fenced. One per broker process.

    Invariant: `epoch_at(now)` names an epoch only while the newest lease runs by the broker's own clock, and never one
    that was resigned, nor one below it.
    """

    def __init__(self) -> None:
        self._epoch = Epoch(0)
        self._until: int | None = None
        self._resigned = Epoch(0)

    def granted(self, grant: Granted, *, sent: int) -> None:
        """Take the answer to the heartbeat that was sent at `sent`. Answers may come late, twice, or out of order."""
        epoch = grant.view.epoch
        if epoch <= self._resigned or epoch < self._epoch:
            return
        until = sent + grant.holder_ms
        if epoch > self._epoch or self._until is None or until > self._until:
            self._epoch, self._until = epoch, until

    def epoch_at(self, now: int) -> Epoch | None:
        """The epoch in which this broker leads at this moment; None if it does not."""
        if self._until is None or now >= self._until:
            return None
        return self._epoch

    @property
    def until(self) -> int | None:
        """When the newest lease ends, by the clock it was granted by; None without one."""
        return self._until

    @property
    def resigned(self) -> Epoch:
        """What each heartbeat must say from now on."""
        return self._resigned

    def resign(self, epoch: Epoch) -> None:
        """Lead no more in this epoch or an earlier one, whatever arrives; to be done before a release is sent."""
        self._resigned = max(self._resigned, epoch)
        if self._epoch <= self._resigned:
            self._until = None
