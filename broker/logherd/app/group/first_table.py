"""Who is to lead, and may lack what others have, hears them first: with nothing in its store, or, where nobody is
awaited, with one whose machine went down before everything was flushed.

    waits --all others have said where they are, and none has other roles--------------------------> leads, if it can
      |-----its time is over, and none that was heard has other roles------------------------------> leads, if it can
      '-----a replica with something in its log has other roles, and this one has nothing----------> takes those

Settings can be edited after a group has begun, and a broker with a new disk goes by what they say then. Asynchronous,
it would lead beside the group's leader, under the same number of the table, and clients could be sent to its empty log.
Where its table is the group's, it would acknowledge messages until a follower had told it what it lacks; whether it
lacks something the machine knows from what those said before (static_core.py).
"""

from collections.abc import Iterable

from logherd.controller.values import BrokerId

__all__ = ["FirstTable"]


class FirstTable:
    """Invariant: while somebody is known to have other roles under the same number, nobody leads by either's."""

    def __init__(self, others: Iterable[BrokerId], *, until: int) -> None:
        """`until`: when it waits no longer for those who say nothing, in milliseconds of `boot_ms`."""
        self._silent = {*others}
        self._until = until
        self._differing: set[BrokerId] = set()

    def heard(self, broker_id: BrokerId, *, agrees: bool) -> None:
        """A replica has told its table."""
        (self._differing.discard if agrees else self._differing.add)(broker_id)

    def greeted(self, broker_id: BrokerId) -> None:
        """A replica has said up to where it knows the log to be committed, and the machine has heard it."""
        self._silent.discard(broker_id)

    def settled(self, now: int) -> bool:
        """Whether the machine may be told who leads."""
        return not self._differing and (not self._silent or now >= self._until)

    @property
    def obstacle(self) -> str:
        """Why not, however long it waits; empty if only its time has not come."""
        if not self._differing:
            return ""
        named = ", ".join(f"broker {each}" for each in sorted(self._differing))
        return f"other roles of the same number are known at {named}: replication.static differs, or two were promoted"
