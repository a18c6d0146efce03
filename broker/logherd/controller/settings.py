"""What can be set at the controllers while they run: replicated, so that a new leader goes on in the same way."""

from dataclasses import dataclass
from typing import Final

from logherd.kit.errors import ensure
from logherd.model.names import Epoch

__all__ = ["LEASE_WAIT", "RECORDED", "TUNABLE", "OfficeOptions", "epochs_above"]

_DAY_MS: Final = 86_400_000

TUNABLE: Final[dict[str, tuple[int, int]]] = {
    "gatherMs": (0, 60_000),
    "transferMs": (500, 600_000),
    "preferAfterMs": (0, _DAY_MS),
    "bootstrapMs": (0, _DAY_MS),
}
"""Name -> smallest and largest value. The length of a lease is not here: brokers hold leases of the old length."""

LEASE_WAIT: Final = "leaseWaitMs"
RECORDED: Final[dict[str, tuple[int, int]]] = {LEASE_WAIT: (1, _DAY_MS)}
"""The same for what offices record for those that come after them, and nobody sets."""


_LEAP: Final = 1 << 18
_LEAP_MAX: Final = 1 << 29


def epochs_above(recoveries: int) -> Epoch:
    """What every epoch is above that is given after an operator has recovered the quorum so often.

    Controllers that were given up may have granted epochs of which no survivor knows, nor any broker that is here. Up
    to so many for each recovery, an election every four seconds for twelve days, none of them is granted again. They
    never leap so far that the numbers run out which a registration may bring.
    """
    return Epoch(min(recoveries * _LEAP, _LEAP_MAX))


@dataclass(frozen=True, slots=True)
class OfficeOptions:
    """How the leader decides. Milliseconds."""

    fresh_ms: int = 1_500
    """A report of a broker counts this long: some heartbeats. The processes take five sixths of a lease."""
    gather_ms: int = 500
    """How long an election waits for the reports of other members, to elect the longest log of them."""
    transfer_ms: int = 2_000
    """How long a planned transfer may take before the master goes on."""
    prefer_after_ms: int = 0
    """How long the preferred broker must have been in sync before it is given the leadership; 0: never by itself."""
    relieve_after_ms: int = 10_000
    """How long a master must have had no space before it hands over to who has (H4): retention may be about to delete,
    and brokers that share a disk do not all look at once. Twice as long each time; see Phases."""
    bootstrap_ms: int = 0
    """After this time a new group with empty logs is founded by fewer brokers than configured; 0: never."""
    retry_ms: int = 100
    """How soon a group in which something is under way is looked at again."""
    idle_ms: int = 1_000
    """How soon a group is looked at again in which nobody can do anything; any report hastens it."""
    epochs_above: Epoch = Epoch(0)  # noqa: RUF009
    """Nobody is elected in this epoch or an earlier one; see the function of this name."""

    def __post_init__(self) -> None:
        ensure(self.retry_ms > 0 and self.fresh_ms > 0, "options: time passes", self)

    def tuned(self, settings: dict[str, int]) -> "OfficeOptions":
        """The same with what was set at run time."""
        return OfficeOptions(
            fresh_ms=self.fresh_ms,
            gather_ms=settings.get("gatherMs", self.gather_ms),
            transfer_ms=settings.get("transferMs", self.transfer_ms),
            prefer_after_ms=settings.get("preferAfterMs", self.prefer_after_ms),
            relieve_after_ms=self.relieve_after_ms,
            bootstrap_ms=settings.get("bootstrapMs", self.bootstrap_ms),
            retry_ms=self.retry_ms,
            idle_ms=self.idle_ms,
            epochs_above=self.epochs_above,
        )
