"""A leader of the quorum whom too few brokers reach gives way, though the other controllers hear it well.

They send every broker to whoever leads, so nobody would get a lease for as long as the way there is broken: a port that
a rule of the network has closed, a name that leads elsewhere. The next controller may be within reach. It may be within
that of fewer, too; so this one stays as long as it grants a lease in any group, and gives nothing up. If the brokers
are gone, and not the way to them, the quorum changes its leader for nothing: so each time in a row waits twice as long.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

from logherd.controller.office import Office
from logherd.controller.values import Group
from logherd.kit.recurrence import Recurrence

__all__ = ["PATIENCE_MS", "Silence", "patience_ms", "successor"]

PATIENCE_MS: Final = 10_000
_DOUBLINGS_MAX: Final = 6

VoterT = TypeVar("VoterT")


def patience_ms(lease_ms: int) -> int:
    """How long nobody may get a lease at first: some leases, so that brokers which look for the leader have found it
    long before, and several heartbeats of each."""
    return max(PATIENCE_MS, 3 * lease_ms)


class Silence:
    """One controller's; it outlives offices. Milliseconds of the clock of leases."""

    __slots__ = ("_asked", "_first_ms", "_gave_way", "_since")

    def __init__(self, first_ms: int) -> None:
        """`first_ms`: see `patience_ms`."""
        self._first_ms = first_ms
        self._since = 0
        """When this office began, or asked last that another one lead."""
        self._asked = 0
        """How often this office has asked for that."""
        self._gave_way = Recurrence(doublings_max=_DOUBLINGS_MAX)

    def begin(self, now: int) -> None:
        """An office begins: so far nobody could get a lease."""
        self._since, self._asked = now, 0

    def end(self, now: int) -> None:
        """The office is over, maybe because another one was asked to lead."""
        if self._asked:
            self._gave_way.come(now)
        self._asked = 0

    def gives_way(self, office: Office, now: int) -> int | None:
        """To be asked at every tick. If no lease was granted for too long, and brokers are not heard that should be,
        how often before this that was so in a row."""
        if office.granted_at > self._since:
            self._since, self._asked = office.granted_at, 0
            self._gave_way.forget()
        if now - self._since < self._gave_way.wait_ms(self._first_ms, now):
            return None
        self._since = now
        if not any(_misses(group, office, now) for group in office.machine):
            return None
        self._asked += 1
        return self._gave_way.count(now) + self._asked - 1


def _misses(group: Group, office: Office, now: int) -> bool:
    """Whether brokers should report that do not. A group is founded by all that are configured, or after a while by
    those who are there, which is counted by one office: another one need not try before nobody at all is heard."""
    due = [each.broker_id for each in group.replicas if each.registration and not each.exited and not each.learner]
    heard = sum(office.alive(group, broker_id, now) for broker_id in due)
    return heard < len(due) and (group.founded or not heard)


def successor(voters: Sequence[VoterT], own: VoterT, turn: int) -> VoterT | None:
    """Who shall lead next: the next one in the order that all of them know, so that each of several that no broker
    reaches hands it on; at another turn another one, for that one may be dead. None if there is no other."""
    if own not in voters:
        return None
    at = voters.index(own) + 1
    others = [*voters[at:], *voters[: at - 1]]
    return others[turn % len(others)] if others else None
