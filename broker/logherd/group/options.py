"""The settings of one core."""

from dataclasses import dataclass, field

from logherd.kit.errors import ensure
from logherd.replication.sender import ShipOptions

__all__ = ["GroupOptions"]


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """Times in milliseconds.

    Invariant: a member that stops answering is noticed only after several heartbeats, so that losing one costs nothing.
    """

    beat_ms: int = 500
    """How often the controllers hear of this process; a lease lives for several of these."""
    urgent_ms: int = 100
    """The same while nobody is heard that leads, and while this process waits to be let go: the next leader learns that
    it leads from the answer. And while this one leads and the controllers have not answered for two of `beat_ms`."""
    hurry_ms: int = 10
    """Hints of news are followed no more often than this."""
    lag_ms: int = 1_500
    """A member that has not been in step for so long leaves the in-sync set (H6)."""
    retry_ms: int = 300
    """How soon a question to the controllers is asked again, and a greeting to the leader."""
    stall_ms: int = 3_000
    """A flush that takes so long means that the store is broken (R21)."""
    alone_ms: int = 6_000
    """A leader that hears too few of its set for so long lets somebody else try who may hear more; twice as long when
    that was in vain, up to `alone_ms_max`."""
    alone_ms_max: int = 120_000
    bound_ms: int = 3_000
    """`static` mode: so long after it has answered a leader a replica follows no other, and leads not itself."""
    ship: ShipOptions = field(default_factory=ShipOptions)

    def __post_init__(self) -> None:
        ensure(
            0 < self.urgent_ms <= self.beat_ms and self.retry_ms > 0 and self.stall_ms > 0, "times are positive", self
        )
        ensure(self.lag_ms < self.alone_ms <= self.alone_ms_max, "the set is made smaller before its leader goes", self)
        ensure(self.ship.heartbeat_ms * 6 <= self.bound_ms, "a leader that is heard is not at its lease's end", self)
        ensure(self.ship.heartbeat_ms * 4 <= self.lag_ms, "a lagging member has missed several heartbeats", self)
