"""Whether clients find a leader at the address that follows it, as far as the controllers confirm that.

They are told by whoever keeps that address, some times in each lease. A leader that has just begun, and one whose
controllers have just changed, is given a lease to be confirmed in: until then the old address is no worse, because the
former leader's guardian passes on what arrives there, and a client that is sent elsewhere stays there for its 30 s.

Source: design 4 and H17.
"""

from typing import Final

from logherd.controller.reports import Granted
from logherd.model.names import Epoch

__all__ = ["Endpoint"]

_PATIENCE_MS: Final = 3_000
"""At least; a longer lease is waited out."""


class Endpoint:
    """Of one replica. Times in milliseconds of the leases' clock."""

    def __init__(self) -> None:
        self._epoch = Epoch(0)
        self._until = 0
        self._patience = _PATIENCE_MS

    def granted(self, answer: Granted, sent: int) -> None:
        """A lease, in answer to a heartbeat that left at `sent`."""
        self._patience = max(_PATIENCE_MS, answer.holder_ms)
        if answer.endpoint and answer.view.epoch == self._epoch:
            self._until = max(self._until, sent + self._patience)

    def holds(self, epoch: Epoch, now: int) -> bool:
        """Whether routes should name that address while this replica leads in this epoch."""
        if epoch != self._epoch:
            self._epoch, self._until = epoch, now + self._patience
        return now < self._until
