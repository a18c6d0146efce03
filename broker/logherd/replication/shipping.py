"""What goes into a Shipper and what comes out of it."""

from dataclasses import dataclass

import msgspec

from logherd.model.names import Position
from logherd.replication.messages import ReplicaId, ShippingAnswer, ShippingRequest

__all__ = [
    "Beat",
    "Committed",
    "Connected",
    "FollowersSet",
    "FromFollower",
    "Grown",
    "LostData",
    "MutedSet",
    "RefusedAck",
    "ShipInput",
    "ShipOutput",
    "ShipperTick",
]


@dataclass(frozen=True, slots=True)
class FollowersSet:
    """From now on these are the followers, in the order in which they are served; as time passes, who has most is the
    first. Known ones keep their state."""

    peers: tuple[ReplicaId, ...]


@dataclass(frozen=True, slots=True)
class Connected:
    """A new connection to this follower: whatever was under way on the old one no longer counts."""

    peer: ReplicaId


class FromFollower(msgspec.Struct, frozen=True, gc=False):
    """An answer of a follower, in the leader's own epoch."""

    peer: ReplicaId
    body: ShippingAnswer


class Grown(msgspec.Struct, frozen=True, gc=False):
    """The leader appended to its log."""


class Committed(msgspec.Struct, frozen=True, gc=False):
    """The owner's commit position moved; it rides on the next message."""

    position: Position


@dataclass(frozen=True, slots=True)
class Beat:
    """Start a heartbeat round now, for a reader that waits for one."""


@dataclass(frozen=True, slots=True)
class ShipperTick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class MutedSet:
    """No heartbeats while the leader's own disk does not answer: it must not look alive then."""

    muted: bool


ShipInput = FollowersSet | Connected | FromFollower | Grown | Committed | Beat | ShipperTick | MutedSet


@dataclass(frozen=True, slots=True)
class LostData:
    """A follower no longer has what it once called durable."""

    peer: ReplicaId
    had: Position
    has: Position


@dataclass(frozen=True, slots=True)
class RefusedAck:
    """A follower confirmed more than it was ever sent; its answer was dropped."""

    peer: ReplicaId
    claimed: Position
    end: Position


class ShipOutput(msgspec.Struct):
    """Messages that may leave at once, in order; `moved`: somebody's flushed position or answered round is news."""

    messages: list[tuple[ReplicaId, ShippingRequest]] = []
    events: list[LostData | RefusedAck] = []
    moved: bool = False
