"""The settings of one core, and its source of jitter."""

from dataclasses import dataclass, field

from logherd.kit.errors import ensure
from logherd.replication.messages import ReplicaId
from logherd.replication.sender import ShipOptions

__all__ = ["Jitter", "RaftOptions", "lease_of"]

_LEASE_PERCENT = 75
"""A lease is this part of the shortest election time-out: two clocks may differ in rate by a quarter."""

_MASK = (1 << 64) - 1


def lease_of(election_ms: int) -> int:
    """How long whoever waits that long for a leader is sure to elect no other one; milliseconds."""
    return election_ms * _LEASE_PERCENT // 100


@dataclass(frozen=True, slots=True)
class RaftOptions:
    """Times in milliseconds, sizes in bytes.

    Invariants: (1) four heartbeats fit into the shortest election time-out, so that losing a few elects nobody;
    (2) the lease is shorter than that time-out on any clock within the named bound.
    """

    election_ms: int = 1_000
    election_spread_ms: int = 1_000
    """A time-out is drawn from election_ms up to the sum of both."""
    first_election_ms: int | None = None
    """Where there is no leader to wait for (in term 0, and after all have been silent for an election time-out), a
    time-out is drawn from 0 up to this. None: it is as any other."""
    preferred: tuple[ReplicaId, ...] = ()
    """Who should lead, best first. The others wait longer before they stand, and hand over when a better one is up."""
    rank_delay_ms: int = 300
    uncommitted_bytes_max: int = 64 << 20
    uncommitted_records_max: int = 10_000
    lease_reads: bool = False
    """Whether Read(lease=True) is honoured; it trusts the rate of clocks."""
    owner_appends: bool = False
    """Whether whoever owns the log writes to it, the first record of each term included, instead of proposing."""
    restate_ms: int = 600_000
    """The owner drops records by itself: after so long its leader names the members again, above what may go."""
    change_ms_max: int = 60_000
    """How long new voters may take to catch up before a change is given up."""
    ship: ShipOptions = field(default_factory=ShipOptions)

    def __post_init__(self) -> None:
        ensure(self.ship.heartbeat_ms * 4 <= self.election_ms, "options 1: heartbeats fit the election", self)
        ensure(self.election_spread_ms > 0 and self.rank_delay_ms >= 0, "time-outs are spread", self)
        ensure(0 < self.lease_ms < self.election_ms, "options 2: a lease ends before an election can begin", self)
        ensure(self.first_election_ms is None or self.first_election_ms > 0, "time-outs are spread", self)
        ensure(self.uncommitted_bytes_max > 0 and self.uncommitted_records_max > 0, "something may be pending", self)

    @property
    def lease_ms(self) -> int:
        """How long an answered heartbeat round keeps others from leading, counted from when it was sent."""
        return lease_of(self.election_ms)

    def rank(self, member: ReplicaId) -> int:
        """0 for the most preferred; whoever is not named comes after all that are."""
        preferred = self.preferred
        return preferred.index(member) if member in preferred else len(preferred)


class Jitter:
    """Numbers that differ between replicas and runs, all from one seed that the shell draws (splitmix64)."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def next(self) -> int:
        """64 bits."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def below(self, limit: int) -> int:
        """A number in [0, limit)."""
        return self.next() % limit
