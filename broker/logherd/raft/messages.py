"""What Raft says beside shipping: votes, the order to take over, and what a doubtful member says.

The envelope's epoch is the sender's term, with one exception: a pre-vote request and its granted answer carry the term
that the candidate would have, and nobody adopts it.
"""

from dataclasses import dataclass

from logherd.model.names import Position
from logherd.replication.epochs import Point
from logherd.replication.messages import ShippingAnswer

__all__ = ["Doubtful", "TimeoutNow", "Trusted", "VoteAnswer", "VoteRequest"]


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
class Doubtful:
    """An answer that must not be counted: my disk may have lost what I promised. `number` asks to be told `Trusted`.

    It is drawn anew with every start and every leader, so that nothing said before can be taken for the answer.
    """

    number: int
    answer: ShippingAnswer


@dataclass(frozen=True, slots=True)
class Trusted:
    """Once you hold the record that ends at `position` durably, and know it committed, your vote counts again.

    It was appended after the question and committed by others, so whatever you may have forgotten can elect nobody.
    """

    number: int
    position: Position
