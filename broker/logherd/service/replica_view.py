"""How a replica sees its group: what GET /status says under `replication`, and what metrics are read from.

Positions are bytes of the log, times milliseconds. Whatever leads the group (controllers, votes, a configuration) fits
`ReplicationSource` by shape.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

__all__ = [
    "FollowerView", "InSyncView", "LeaderView", "PendingView", "PositionsView", "ReplicationSource", "ReplicationView",
    "RequestsView",
]  # fmt: skip

RoleName = Literal["leader", "follower", "none"]


class _View(Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class LeaderView(_View, frozen=True, kw_only=True):
    """Who leads. The address may be empty while only the id is known."""

    broker_id: int
    address: str


class InSyncView(_View, frozen=True, kw_only=True):
    """The set in force, its version, and with how many members something is committed."""

    members: Sequence[int]
    version: int
    min_in_sync: int


class PositionsView(_View, frozen=True, kw_only=True):
    """Of this replica's log; `committed` as far as it knows."""

    end: int
    flushed: int
    committed: int


class FollowerView(_View, frozen=True, kw_only=True):
    """A follower as the leader sees it.

    `flushed` and `lag_bytes` are None until it has answered in this epoch; `lag_ms`: since when it has not had
    everything, 0 while it is in step. `copying`: of a full copy the share that is done, 0 to 1; None if there is none.
    `awaited`: it is to be in sync; False without a vote, and in mode static for whom the table does not name.
    """

    broker_id: int
    connected: bool
    in_sync: bool
    flushed: int | None
    lag_bytes: int | None
    lag_ms: int | None
    copying: float | None = None
    awaited: bool = True


class PendingView(_View, frozen=True, kw_only=True):
    """A change of the in-sync set that was proposed `age_ms` ago and is not answered; until then both sets count."""

    members: Sequence[int]
    why: str
    age_ms: int


class RequestsView(_View, frozen=True, kw_only=True):
    """Clients' requests that came here while another led: taken since the start, and waiting for a leader now. `read`:
    pulls that were answered here instead."""

    forwarded: int
    held: int
    read: int = 0


class ReplicationView(_View, frozen=True, kw_only=True):
    """One replica at one moment.

    `serving`: it leads and may answer. `lease_ms`: how long it still may; None where there are no leases or it does
    not lead. `followers`: at the leader. `closed`: why no writes are taken; None if they are, or if it
    neither leads nor is to.
    """

    mode: Literal["controller", "raft", "static"]
    role: RoleName
    serving: bool
    epoch: int
    leader: LeaderView | None
    lease_ms: int | None
    in_sync: InSyncView
    positions: PositionsView
    followers: Sequence[FollowerView]
    pending: PendingView | None
    closed: str | None
    requests: RequestsView


class ReplicationSource(Protocol):
    """What leads or follows for this broker. It is asked for each scrape and each GET /status."""

    def view(self) -> ReplicationView: ...
