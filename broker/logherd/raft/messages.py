"""What Raft says beside shipping: votes, the order to take over, and reads asked of the leader.

The envelope's epoch is the sender's term, with one exception: a pre-vote request and its granted answer carry the term
that the candidate would have, and nobody adopts it.
"""

from dataclasses import dataclass

from logherd.model.names import Position
from logherd.replication.epochs import Point

__all__ = ["ReadAsk", "ReadGrant", "TimeoutNow", "VoteAnswer", "VoteRequest"]


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """May I lead? `last` is the end of the candidate's log. `transfer`: the leader itself asked for this election."""

    last: Point
    pre: bool = False
    transfer: bool = False


@dataclass(frozen=True, slots=True)
class VoteAnswer:
    """Yes or no to a vote of this term, or to a pre-vote for it."""

    granted: bool
    pre: bool = False


@dataclass(frozen=True, slots=True)
class TimeoutNow:
    """Your log is complete and flushed: stand for election at once."""


@dataclass(frozen=True, slots=True)
class ReadAsk:
    """A follower wants to read. `number` is unique over its restarts (boot nonce and counter)."""

    number: int


@dataclass(frozen=True, slots=True)
class ReadGrant:
    """Once you have applied up to `position` your read is as new as when it was asked. None: ask somebody else."""

    number: int
    position: Position | None
