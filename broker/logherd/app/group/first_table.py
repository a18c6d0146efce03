"""Who is to lead by the settings alone, with nothing in its store, hears first what the others know of the group.

    waits --all others are heard, and nothing that they said stands against it--------------------> leads
      |-----its time is over, and nothing that was heard stands against it------------------------> leads
      |-----a replica with something in its log has other roles: those are in force here, too-----> follows
      '-----its table is asynchronous, and a replica has something in its log---------------------> until a promotion

Settings can be edited after a group has begun, and a broker with a new disk goes by what they say then. Asynchronous,
it would lead beside the group's leader, under the same number of the table, and clients could be sent to its empty log.
Where its table is the group's, its disk was lost: with nobody to wait for it would acknowledge messages until a
follower's greeting told it what it lacks. Where others are awaited those greet it before anything is acknowledged.
"""

from collections.abc import Iterable

from logherd.controller.values import BrokerId
from logherd.group.output import Closed

__all__ = ["FirstTable"]


class FirstTable:
    """Invariant: while somebody is known to have other roles, nobody leads by either's; and nobody leads alone who is
    known to have lost what others have."""

    def __init__(self, others: Iterable[BrokerId], *, until: int) -> None:
        """`until`: when it waits no longer for those who are not heard, in milliseconds of `boot_ms`."""
        self._silent = {*others}
        self._until = until
        self._differing: set[BrokerId] = set()
        self._lost = False

    def heard(self, broker_id: BrokerId, *, agrees: bool, lost: bool) -> None:
        """A replica has told its table. `lost`: it has something, and nobody would tell this one of that in time."""
        self._silent.discard(broker_id)
        (self._differing.discard if agrees else self._differing.add)(broker_id)
        self._lost = self._lost or lost

    def settled(self, now: int) -> bool:
        """Whether it may lead by its settings."""
        return not self._lost and not self._differing and (not self._silent or now >= self._until)

    @property
    def obstacle(self) -> str:
        """Why it may not lead, however long it waits; empty if only its time has not come."""
        if self._lost:
            return Closed.LACKING.value
        if not self._differing:
            return ""
        return f"other first roles (replication.static) than here are set at {_brokers(self._differing)}"


def _brokers(numbers: Iterable[BrokerId]) -> str:
    return ", ".join(f"broker {each}" for each in sorted(numbers))
