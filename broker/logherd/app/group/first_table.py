"""Who is to lead, and may lack what others have, hears them first: with nothing in its store, or with one whose machine
went down before everything was flushed.

    waits --all others have said where they are, and none has other roles--------------------------> leads, if it can
      |-----its time is over, and none that was heard has other roles------------------------------> leads, if it can
      |-----a replica with something in its log has other roles, and this one has nothing----------> takes those
      '-----a replica that sends wait for has more of the log, and it is known that some is lost---> until a promotion

Settings can be edited after a group has begun, and a broker with a new disk goes by what they say then. Asynchronous,
it would lead beside the group's leader, under the same number of the table, and clients could be sent to its empty log.
Where its table is the group's, it would acknowledge messages until a follower had told it what it lacks; whether it
lacks something the machine knows from what those said before (static_core.py).

Where sends wait for followers, those have what this one has lost. They may not know yet that it was acknowledged, and
would cut it: so where their logs end decides, and all of them are waited for if all are needed for an acknowledgement.
"""

from collections.abc import Iterable

from logherd.controller.values import BrokerId

__all__ = ["FirstTable"]


class FirstTable:
    """Invariant: while somebody is known to have other roles under the same number, nobody leads by either's."""

    def __init__(self, others: Iterable[BrokerId], *, until: int | None, ends: bool = False) -> None:
        """`until`: when it waits no longer for those who say nothing, in milliseconds of `boot_ms`; None: never.
        `ends`: it matters where their logs end."""
        self._silent = {*others}
        self._uncompared = {*self._silent} if ends else set[BrokerId]()
        self._until = until
        self._differing: set[BrokerId] = set()
        self._ahead: set[BrokerId] = set()

    def heard(self, broker_id: BrokerId, *, agrees: bool) -> None:
        """A replica has told its table."""
        (self._differing.discard if agrees else self._differing.add)(broker_id)

    def compared(self, broker_id: BrokerId, *, ahead: bool, final: bool) -> None:
        """A replica has told where its log ends, if it can: whether that is not here. `final`: it follows nobody else
        any more, so that its log does not grow behind what it has told."""
        (self._ahead.add if ahead else self._ahead.discard)(broker_id)
        if final:
            self._uncompared.discard(broker_id)

    def greeted(self, broker_id: BrokerId) -> None:
        """A replica has said up to where it knows the log to be committed, and the machine has heard it."""
        self._silent.discard(broker_id)

    def settled(self, now: int) -> bool:
        """Whether the machine may be told who leads."""
        over = self._until is not None and now >= self._until
        waits = bool(self._silent or self._uncompared)
        return not self._differing and not self._ahead and (not waits or over)

    @property
    def obstacle(self) -> str:
        """Why not, however long it waits; empty if only its time has not come."""
        if self._differing:
            named = f"other roles of the same number are known at {_named(self._differing)}"
            return f"{named}: replication.static differs, or two were promoted"
        if self._ahead:
            lost = "its machine went down before everything was flushed"
            return f"{lost}, and more is at {_named(self._ahead)}: promote that"
        waits = self._silent | self._uncompared
        return f"waits to hear where these logs end: {_named(waits)}" if waits and self._until is None else ""


def _named(brokers: Iterable[BrokerId]) -> str:
    return ", ".join(f"broker {each}" for each in sorted(brokers))
