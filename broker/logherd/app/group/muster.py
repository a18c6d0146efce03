"""Whether all brokers that may hold what a healing replica lacks have answered it, though maybe not all places have.

`replication.peers` may name more places than there are brokers, so that a place that does not answer is either empty or
the broker that holds the last whole copy. Taking an empty one for a broker costs patience; the other mistake tells a
person that messages are lost which are not. So every doubt counts as a broker that is away.

Who may hold a byte that was acknowledged:

* Mode controller: at first the in-sync set of then, later whoever has copied from it. All of them have registered, and
  only an operator takes their rows out of the controllers' record. A record that began anew, or lost its end, when the
  controllers were lost knows only who came since. So this replica and all that answer must stand in it, and it must not
  be of an epoch before this replica's; and it is not believed alone: every broker that was ever heard of here or at one
  that answers (`roster.py`) counts, too. Only a broker that all of them have forgotten with their disks, and the
  controllers with theirs, would be missed. Of a replica without such a list nothing is known.
* Mode raft: at first a majority, later every member. The roster is the configuration: of all that may still be in
  force, the members. This one may have been away while members changed, but of two configurations that follow each
  other the majorities have somebody in common (while they change both are needed). So if all members of what is known
  here have answered, somebody among them has told of the next configuration, and so on to the last, of which then all
  have answered as well. Whoever was removed does not count, nor do those that a rebuilt quorum has given up.
* Mode static: the table of roles names the leader and those that sends wait for. Who copies without being awaited, and
  who led under an earlier table, may hold as much, and nobody keeps a list of them. So nothing is known, and every
  place has to answer.

If all places have answered, nothing has to be known. But whoever is known all the same counts: the settings here may be
older than a broker that came while this replica was away.

In all modes, the members must answer *definitely*: that something is not known to be committed at a replica whose log
goes on behind it, or which does not say where its log ends, means that it may be there. One of a release that does not
say whom it knows leaves everything open while a place has not answered. What is concluded may be told to a person, and
lets a log begin later where another one has deleted by its age what is damaged, as if the empty places had answered;
nothing else.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from logherd.peers.pieces import Given
from logherd.service.controllers.asking import Enrolled
from logherd.store.pieces import PieceState

__all__ = ["Muster"]

_ASK_SECONDS = 10.0
"""A replica that waits for bytes that nobody has waits for long; so often the controllers are asked meanwhile."""


class Muster:
    """What one replica knows about who belongs to its group. While it heals only the controllers say anything new."""

    def __init__(
        self, broker_id: int, roster: frozenset[int] | None, *,
        enrolled: Callable[[], Awaitable[Enrolled | None]] | None = None, epoch: int | None = None,
    ) -> None:  # fmt: skip
        """`roster`, `epoch`: None if it is not known. `enrolled` asks the controllers, where they lead the group;
        `epoch` is the highest that this replica has seen."""
        self._broker_id = broker_id
        self._roster = roster
        self._enrolled = enrolled
        self._record: Enrolled | None = None
        self._asked_at: float | None = None
        self.epoch = epoch

    @property
    def known(self) -> tuple[int, ...] | None:
        """As others are told."""
        return tuple(sorted(self._roster)) if self._roster is not None else None

    async def complete(
        self, answers: Mapping[str, Given], position: int, *, all_places: bool, anew: bool = False
    ) -> bool:  # fmt: skip
        """Whether nobody else can hold what is at `position`. `all_places`: no configured place is without an answer.
        The controllers are asked only if all others agree, and after them: who has registered meanwhile is missed
        then. What they said counts for ten seconds, or with `anew` not at all."""
        answered = {int(name) for name in answers} | {self._broker_id}
        said = [self._roster, *(given.knows for given in answers.values())]
        if None in said and not all_places:
            return False
        if any(_may_hold(given, position) for given in answers.values()):
            return False
        if not answered.issuperset(each for known in said for each in known or ()):
            return False
        if self._enrolled is None:
            return True
        if anew or self._asked_at is None or _now() - self._asked_at >= _ASK_SECONDS:
            self._record = await self._enrolled()
            self._asked_at = _now()
        record = self._record
        if all_places:
            return record is None or record.brokers <= answered
        return record is not None and record.brokers == answered and record.epoch >= (self.epoch or 0)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _may_hold(given: Given, position: int) -> bool:
    """Whether a replica may hold what it does not know to be committed."""
    return given.state is PieceState.NOT_YET and (given.log_end is None or given.log_end > position)
