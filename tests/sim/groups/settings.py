"""The settings of one process: brokers are configured and upgraded one after the other, so they differ between them.

Only what is legal: the heartbeats and the lag that an operator may change while a process runs, what else a process of
another version may do otherwise, and raft mode's election time-outs. `bound_ms` is the same everywhere.
"""

from dataclasses import dataclass, replace
from random import Random

from logherd.group.options import GroupOptions
from logherd.raft.options import RaftOptions
from logherd.replication.sender import ShipOptions

__all__ = ["Settings"]

_SHIP = ShipOptions(
    heartbeat_ms=80, answer_ms=150, backoff_ms_max=600, message_bytes_max=300, window_messages=4, window_bytes=900,
    small_bytes=0,
)  # fmt: skip
_CONTROLLED = GroupOptions(beat_ms=200, urgent_ms=60, lag_ms=500, retry_ms=100, stall_ms=900, ship=_SHIP)
_STATIC = GroupOptions(lag_ms=500, retry_ms=100, stall_ms=900, bound_ms=1_000, ship=_SHIP)
_VOTING = RaftOptions(election_ms=500, election_spread_ms=500, restate_ms=1_500, change_ms_max=3_000, ship=_SHIP)
_BEATS_IN_LAG = 5
_BEATS_IN_ELECTION = 4


@dataclass(frozen=True, slots=True)
class Settings:
    """`controlled`: with controllers; `static` and `voting`: the modes without."""

    controlled: GroupOptions = _CONTROLLED
    static: GroupOptions = _STATIC
    voting: RaftOptions = _VOTING

    def retimed(self, draw: Random) -> "Settings":
        """Other values of what may change while the process runs."""
        beat_ms, lag_ms = draw.choice((100, 200, 350)), draw.choice((170, 350, 500, 2_500))

        def timed(options: GroupOptions) -> GroupOptions:
            ship = replace(options.ship, heartbeat_ms=min(80, lag_ms // _BEATS_IN_LAG))
            alone_ms = max(GroupOptions().alone_ms, 4 * lag_ms)
            return replace(
                options, beat_ms=beat_ms, urgent_ms=min(60, beat_ms), lag_ms=lag_ms, alone_ms=alone_ms, ship=ship
            )  # fmt: skip

        return replace(self, controlled=timed(self.controlled), static=timed(self.static))

    def upgraded(self, draw: Random) -> "Settings":
        """Other values of what a process goes by from its start on."""
        retry_ms, stall_ms = draw.choice((60, 100, 250)), draw.choice((600, 900, 1_500))
        bytes_max, messages = draw.choice((120, 300, 900)), draw.choice((1, 4, 16))
        small_bytes, answer_ms = draw.choice((0, 0, 300)), draw.choice((100, 150, 300))
        longer, spread_ms = draw.random() < 0.5, draw.choice((100, 100, 500))
        election_ms = 2_000 if longer and self.voting.election_ms < 2_000 else 350

        def shipping(ship: ShipOptions) -> ShipOptions:
            return replace(
                ship, answer_ms=answer_ms, message_bytes_max=bytes_max, window_messages=messages,
                small_bytes=small_bytes,
            )  # fmt: skip

        def started(options: GroupOptions) -> GroupOptions:
            return replace(options, retry_ms=retry_ms, stall_ms=stall_ms, ship=shipping(options.ship))

        beat_ms = min(80, election_ms // _BEATS_IN_ELECTION)
        voting = replace(
            self.voting, election_ms=election_ms, election_spread_ms=spread_ms,
            ship=replace(shipping(self.voting.ship), heartbeat_ms=beat_ms),
        )  # fmt: skip
        return replace(self, controlled=started(self.controlled), static=started(self.static), voting=voting)

    def slowed(self, bytes_per_second: int) -> "Settings":
        """Who is behind gets so much and no more, all of a group together."""

        def slow(ship: ShipOptions) -> ShipOptions:
            return replace(ship, catch_up_bytes_per_second=bytes_per_second)

        return Settings(
            controlled=replace(self.controlled, ship=slow(self.controlled.ship)),
            static=replace(self.static, ship=slow(self.static.ship)),
            voting=replace(self.voting, ship=slow(self.voting.ship)),
        )
