"""From the settings to the options of the machines."""

from logherd.group.options import GroupOptions
from logherd.raft.options import RaftOptions
from logherd.replication.sender import ShipOptions
from logherd.settings.options import ElectionOptions, ReplicationOptions

__all__ = ["group_options", "voting_options"]

_RESTATE_MS = 60_000
"""Retention lags behind by up to so much, for the newest record of who belongs to the group is kept; it is small."""


def group_options(replication: ReplicationOptions) -> GroupOptions:
    """Controller and static mode."""
    beat_ms = replication.heartbeat_ms
    return GroupOptions(beat_ms=beat_ms, urgent_ms=min(100, beat_ms), lag_ms=replication.lag_timeout_ms)


def voting_options(election: ElectionOptions) -> RaftOptions:
    """Raft mode."""
    return RaftOptions(
        election_ms=election.timeout_ms, election_spread_ms=election.spread_ms, restate_ms=_RESTATE_MS,
        ship=ShipOptions(heartbeat_ms=election.heartbeat_ms),
    )  # fmt: skip
