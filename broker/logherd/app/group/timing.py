"""From the settings to the options of the machines."""

from dataclasses import replace

from logherd.group.options import GroupOptions
from logherd.raft.options import RaftOptions
from logherd.replication.sender import ShipOptions
from logherd.settings.options import ElectionOptions, ReplicationOptions

__all__ = ["group_options", "voting_options"]

_RESTATE_MS = 60_000
"""Retention lags behind by up to so much, for the newest record of who belongs to the group is kept; it is small."""


def group_options(replication: ReplicationOptions) -> GroupOptions:
    """Whatever the settings allow fits the invariants of GroupOptions."""
    normal, beat_ms, lag_ms = GroupOptions(), replication.heartbeat_ms, replication.lag_timeout_ms
    alone_ms = max(normal.alone_ms, 4 * lag_ms)
    return GroupOptions(
        beat_ms=beat_ms, urgent_ms=min(normal.urgent_ms, beat_ms), lag_ms=lag_ms, alone_ms=alone_ms,
        alone_ms_max=max(normal.alone_ms_max, alone_ms),
        ship=replace(normal.ship, heartbeat_ms=min(normal.ship.heartbeat_ms, lag_ms // 5)),
    )  # fmt: skip


def voting_options(election: ElectionOptions) -> RaftOptions:
    """Raft mode."""
    return RaftOptions(
        election_ms=election.timeout_ms, election_spread_ms=election.spread_ms, restate_ms=_RESTATE_MS,
        ship=ShipOptions(heartbeat_ms=election.heartbeat_ms),
    )  # fmt: skip
