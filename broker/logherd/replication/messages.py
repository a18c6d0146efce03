"""What a leader and its followers say to each other while shipping. Plain values; wire layouts are not decided here.

Every body travels in an envelope that names the cluster, both replicas and the sender's epoch. `generation` numbers the
leader's attempts with one follower: it rises with every connection and every new probe, so that a straggler of an old
connection is told from the answer that is waited for.
"""

from dataclasses import dataclass
from typing import NewType

from logherd.model.names import Epoch, Position
from logherd.replication.epochs import Point
from logherd.replication.log import Image, Span

__all__ = [
    "Append",
    "AppendAck",
    "AppendReject",
    "ClusterId",
    "CopyAck",
    "CopyChunk",
    "Envelope",
    "Heartbeat",
    "HeartbeatAck",
    "ReadAsk",
    "ReadGrant",
    "ReplicaId",
    "ShippingAnswer",
    "ShippingRequest",
    "Stale",
]

ReplicaId = NewType("ReplicaId", str)
"""One incarnation of one replica: its name and what its data directory drew when it was made.

A wiped replica comes back with another identity under its old name, so it is a stranger: nothing that the lost disk
promised is credited to it, and it has no vote until a configuration names it."""


@dataclass(frozen=True, slots=True)
class ClusterId:
    """Which cluster, and how often an operator has rebuilt its quorum; both must be equal to talk."""

    name: str
    reset: int = 0


@dataclass(frozen=True, slots=True)
class Append:
    """Records to append after `span.previous`, or, without data, the question whether that point is shared.

    `commit` may lie beyond the span; the receiver trusts only what this exchange has verified.
    """

    generation: int
    span: Span
    commit: Position


@dataclass(frozen=True, slots=True)
class AppendAck:
    """Cumulative. `verified`: my log equals yours up to here. `durable`: and up to here it is flushed."""

    generation: int
    verified: Position
    durable: Position


@dataclass(frozen=True, slots=True)
class AppendReject:
    """The point at `asked` is not in my log; `hint` is the last one of mine that may be in yours."""

    generation: int
    asked: Position
    hint: Point


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Asks for a sign of life; apart from data, outside every window. `round` is the leader's, and rises."""

    round: int
    commit: Position


@dataclass(frozen=True, slots=True)
class HeartbeatAck:
    """`end` is the durable end of the log; `busy` asks the leader to send nothing but heartbeats for now."""

    round: int
    end: Position
    busy: bool = False


@dataclass(frozen=True, slots=True)
class CopyChunk:
    """Bytes of a full copy from `offset`. Without data it asks how far the receiver already is."""

    generation: int
    image: Image
    offset: int
    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class CopyAck:
    """I hold the named image up to `offset`; go on from there. An installed image is told by an AppendAck."""

    generation: int
    image: str
    offset: int


@dataclass(frozen=True, slots=True)
class Stale:
    """Your epoch is over; the envelope carries mine."""


@dataclass(frozen=True, slots=True)
class ReadAsk:
    """A follower wants to answer reads itself. `number` is never used again under the name of the sender."""

    number: int


@dataclass(frozen=True, slots=True)
class ReadGrant:
    """Once you have applied up to `position` your read is as new as when it was asked. None: ask somebody else."""

    number: int
    position: Position | None


ShippingRequest = Append | Heartbeat | CopyChunk
ShippingAnswer = AppendAck | AppendReject | HeartbeatAck | CopyAck


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message on its way. `body` is one of this room's or of the room that built the envelope."""

    cluster: ClusterId
    sender: ReplicaId
    to: ReplicaId
    epoch: Epoch
    body: object
