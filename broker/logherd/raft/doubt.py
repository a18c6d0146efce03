"""A member whose disk was damaged: it may have forgotten its newest term or vote, or records that it acknowledged.

It joins without a vote. It never stands, votes for nobody, and its answers count in no majority, until it holds durably
a record that the leader appended after hearing of the doubt and that a majority of the *others* has committed. From
then on nothing that was forgotten can do harm:

- A leader elected with the forgotten vote, in a later term, shares a voter with the majority that took the record; that
  voter would have had to go back in term.
- A candidate that still holds the forgotten vote lacks the record, so nobody of that majority votes for it.
- A forgotten acknowledgement was for something below the record.

The only voter of a group has nobody who could help it. But what was lost may have named others: so it waits for them
for some election time-outs, and whoever leads, or asks for its vote with a longer log, shows that it is not the only
one. Source: raft-log rule 5.10.
"""

from collections.abc import Collection
from dataclasses import dataclass

from logherd.model.names import Position
from logherd.raft.ground import Ground
from logherd.raft.messages import Trusted
from logherd.replication.messages import ReplicaId

__all__ = ["Doubts"]


@dataclass(frozen=True, slots=True)
class _Doubt:
    """The question of one life of a member, and the end of the record that was appended for it."""

    number: int
    position: Position | None


class Doubts:
    """What a leader knows of doubtful members. Ends with the leadership: the next leader is asked again."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._doubts: dict[ReplicaId, _Doubt] = {}

    @property
    def peers(self) -> Collection[ReplicaId]:
        """Whose answers may not be part of a majority, now and whenever it is looked into."""
        return self._doubts

    def hear(self, peer: ReplicaId, number: int, *, ready: bool) -> bool:
        """Take a question; True if a record is to be appended for it, whose end `expect` is then told."""
        known = self._doubts.get(peer)
        if known is None or known.number != number:
            self._doubts[peer] = known = _Doubt(number, None)
        if known.position is not None and known.position <= self._ground.progress.commit:
            self._ground.send(peer, Trusted(number, known.position))
        return ready and known.position is None

    def expect(self, peer: ReplicaId, position: Position) -> None:
        """The record for the peer's question ends at `position`."""
        self._doubts[peer] = _Doubt(self._doubts[peer].number, position)

    def end(self, peer: ReplicaId) -> None:
        """The peer answered without a doubt. Before its record is committed that is a straggler of a former life."""
        known = self._doubts.get(peer)
        if known is not None and known.position is not None and known.position <= self._ground.progress.commit:
            del self._doubts[peer]
