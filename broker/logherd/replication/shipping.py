"""What goes into a Shipper and what comes out of it."""

from dataclasses import dataclass, field

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
    """From now on these are the followers, in the order in which they are served. Known ones keep their state."""

    peers: tuple[ReplicaId, ...]


@dataclass(frozen=True, slots=True)
class Connected:
    """A new connection to this follower: whatever was under way on the old one no longer counts."""

    peer: ReplicaId


@dataclass(frozen=True, slots=True)
class FromFollower:
    """An answer of a follower, in the leader's own epoch."""

    peer: ReplicaId
    body: ShippingAnswer


@dataclass(frozen=True, slots=True)
class Grown:
    """The leader appended to its log."""


@dataclass(frozen=True, slots=True)
class Committed:
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


@dataclass(slots=True)
class ShipOutput:
    """Messages that may leave at once, in order; `moved`: somebody's flushed position or answered round is news."""

    messages: list[tuple[ReplicaId, ShippingRequest]] = field(default_factory=list)
    events: list[LostData | RefusedAck] = field(default_factory=list)
    moved: bool = False
