"""The limits of the links, and what is shown of them."""

from dataclasses import dataclass

from logherd.kit.errors import ensure
from logherd.peers.hello import HELLO_BYTES_MAX
from logherd.replication.messages import ReplicaId

__all__ = ["LinkOptions", "PeerView"]

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkOptions:
    """Times in milliseconds, sizes in bytes.

    Invariants: (1) several pings fit into the idle time-out; (2) a waiting lane holds what one leader's window has
    under way, else dropping would be the rule for a peer that is merely slow.
    """

    connect_ms: int = 2_000
    hello_ms: int = 3_000
    """From the connection to the end of the hellos."""
    idle_ms: int = 3_000
    """Silence after which a connection is given up; pings go four times as often."""
    backoff_ms_min: int = 50
    backoff_ms_max: int = 1_000
    frame_bytes_max: int = 16 * _MIB
    unsent_bytes_max: int = 16 * _MIB
    """Records and images that may wait for one peer."""
    unsent_urgent_bytes_max: int = 256 * 1024
    """Everything else that may wait for one peer."""
    buffer_bytes: int = 128 * 1024
    """What may lie unsent in the transport, and again in the kernel: everything later overtakes only up to there."""
    accepted_max: int = 64
    """Connections from others, with those that have not said hello."""

    def __post_init__(self) -> None:
        ensure(0 < self.backoff_ms_min <= self.backoff_ms_max, "back-off starts below its limit", self)
        ensure(min(self.connect_ms, self.hello_ms, self.idle_ms) > 0, "times are positive", self)
        ensure(self.idle_ms >= 8, "options 1: pings fit the idle time-out", self)
        ensure(self.frame_bytes_max >= HELLO_BYTES_MAX, "a hello is a frame", self)
        ensure(
            min(self.unsent_bytes_max, self.unsent_urgent_bytes_max, self.buffer_bytes) > 0, "sizes are positive", self
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerView:
    """One peer as its links are now; counters since the start of this process.

    `connected`: messages can be sent to it. `since_ms` and `heard_ms` are how long ago that connection was made and
    anything was heard of the peer. `refused`: why one side would not talk when it was last tried.
    """

    name: str
    address: str
    identity: ReplicaId | None
    connected: bool
    since_ms: int | None
    heard_ms: int | None
    refused: str | None
    bytes_in: int
    bytes_out: int
    messages_in: int
    messages_out: int
    dropped: int
