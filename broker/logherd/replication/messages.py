"""What a leader and its followers say to each other while shipping. Plain values; wire layouts are not decided here.

Every body travels in an envelope that names the cluster, both replicas and the sender's epoch. `generation` numbers the
leader's attempts with one follower: it rises with every connection and every new probe, so that a straggler of an old
connection is told from the answer that is waited for. They are Structs because several are made for each message:
that takes no Python code. None can be part of a cycle, so the collector need not look at them.
"""

from typing import NewType

import msgspec

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


class ClusterId(msgspec.Struct, frozen=True, gc=False):
    """Which cluster, and how often an operator has rebuilt its quorum; both must be equal to talk."""

    name: str
    reset: int = 0


class Append(msgspec.Struct, frozen=True, gc=False):
    """Records to append after `span.previous`, or, without data, the question whether that point is shared.

    `commit` may lie beyond the span; the receiver trusts only what this exchange has verified.
    """

    generation: int
    span: Span
    commit: Position


class AppendAck(msgspec.Struct, frozen=True, gc=False):
    """Cumulative. `verified`: my log equals yours up to here. `durable`: and up to here it is flushed."""

    generation: int
    verified: Position
    durable: Position


class AppendReject(msgspec.Struct, frozen=True, gc=False):
    """The point at `asked` is not in my log; `hint` is the last one of mine that may be in yours."""

    generation: int
    asked: Position
    hint: Point


class Heartbeat(msgspec.Struct, frozen=True, gc=False):
    """Asks for a sign of life; apart from data, outside every window. `round` is the leader's, and rises."""

    round: int
    commit: Position


class HeartbeatAck(msgspec.Struct, frozen=True, gc=False):
    """`end` is the durable end of the log; `busy` asks the leader to send nothing but heartbeats for now. `short`: this
    replica takes records, but as a leader it would refuse those of clients for want of space, or it will not lead."""

    round: int
    end: Position
    busy: bool = False
    short: bool = False


class CopyChunk(msgspec.Struct, frozen=True, gc=False):
    """Bytes of a full copy from `offset`. Without data it asks how far the receiver already is."""

    generation: int
    image: Image
    offset: int
    data: bytes | memoryview


class CopyAck(msgspec.Struct, frozen=True, gc=False):
    """I hold the named image up to `offset`; go on from there. An installed image is told by an AppendAck."""

    generation: int
    image: str
    offset: int


class Stale(msgspec.Struct, frozen=True, gc=False):
    """Your epoch is over; the envelope carries mine."""


class ReadAsk(msgspec.Struct, frozen=True, gc=False):
    """A follower wants to answer reads itself. `number` is never used again under the name of the sender."""

    number: int


class ReadGrant(msgspec.Struct, frozen=True, gc=False):
    """Once you have applied up to `position` your read is as new as when it was asked. None: ask somebody else."""

    number: int
    position: Position | None


ShippingRequest = Append | Heartbeat | CopyChunk
ShippingAnswer = AppendAck | AppendReject | HeartbeatAck | CopyAck


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """A message on its way. `body` is one of this room's or of the room that built the envelope."""

    cluster: ClusterId
    sender: ReplicaId
    to: ReplicaId
    epoch: Epoch
    body: object
