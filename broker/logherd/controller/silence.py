"""A leader of the quorum whom no broker reaches gives way, though the other controllers hear it well.

They send every broker to whoever leads, so nobody would get a lease for as long as the way there is broken: a port that
a rule of the network has closed, a name that leads elsewhere. The next controller may be within reach. If the brokers
are gone, and not the way to them, the quorum changes its leader for nothing: so each time in a row waits twice as long.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from logherd.controller.office import Office

__all__ = ["PATIENCE_MS", "Silence", "successor"]

PATIENCE_MS: Final = 10_000
"""Some leases: brokers that look for the leader have found it long before."""
_PATIENCES_MAX: Final = 60

VoterT = TypeVar("VoterT")


@dataclass(slots=True)
class Silence:
    """One controller's; it outlives offices. Milliseconds of the clock of leases."""

    _looked_at: int = 0
    _silent: int = 0
    """So many patiences in a row this office has heard nobody."""
    _turns: int = 0
    """How often in a row this controller gave way."""

    def begin(self, now: int) -> None:
        """An office begins: so far nobody could be heard."""
        self._looked_at, self._silent = now, 0

    def gives_way(self, office: Office, now: int) -> int | None:
        """To be asked at every tick; it looks now and then. If nobody was heard for too long who should be, how often
        before this that was so in a row."""
        if now - self._looked_at < PATIENCE_MS:
            return None
        nobody, self._looked_at = office.hears_nobody(self._looked_at), now
        if not nobody:
            self._silent = self._turns = 0
            return None
        self._silent += 1
        if self._silent < min(1 << self._turns, _PATIENCES_MAX):
            return None
        self._silent, self._turns = 0, min(self._turns + 1, _PATIENCES_MAX)
        return self._turns - 1


def successor(voters: Sequence[VoterT], own: VoterT, turn: int) -> VoterT | None:
    """Who shall lead next: the next one in the order that all of them know, so that each of several that no broker
    reaches hands it on; at another turn another one, for that one may be dead. None if there is no other."""
    if own not in voters:
        return None
    at = voters.index(own) + 1
    others = [*voters[at:], *voters[: at - 1]]
    return others[turn % len(others)] if others else None
