"""What a member of a group asks of a state machine, and what it tells whoever proposed or read."""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import msgspec

from logherd.model.names import Position
from logherd.raft.output import Refusal
from logherd.raft.record import Record
from logherd.replication.messages import ReplicaId

__all__ = ["Applied", "Outcome", "ReadAt", "ReadOutcome", "Rejected", "StateMachine", "Uncertain"]

ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)


class Applied(msgspec.Struct, Generic[ResultT], frozen=True):
    """Committed, durable on a majority, and applied here with this result. `position` is the record's end."""

    position: Position
    result: ResultT


@dataclass(frozen=True, slots=True)
class Rejected:
    """Nothing was appended: it may be sent again, to `leader` if one is known."""

    reason: Refusal
    leader: ReplicaId | None


@dataclass(frozen=True, slots=True)
class Uncertain:
    """It was appended, but this member stopped leading before it was committed: it may be decided yet, or never."""


@dataclass(frozen=True, slots=True)
class ReadAt:
    """The state applied here now holds everything that was committed when the read was asked for."""

    position: Position


Outcome = Applied[ResultT] | Rejected | Uncertain
ReadOutcome = ReadAt | Rejected


class StateMachine(Protocol[ResultT_co]):
    """The replicated state. Every method runs on the loop's thread and must be short.

    All members apply the same records in the same order; what differs between them must not enter.
    """

    def apply(self, record: Record) -> ResultT_co:
        """Take the next data record."""

    def save(self) -> bytes:
        """The state as bytes, for an image."""

    def load(self, data: bytes) -> None:
        """Become what an image says; no bytes mean the state before the first record."""
