"""How this replica sees its group, for GET /status and metrics (service/replica_view.py)."""

from collections.abc import Callable

from logherd.app.group.engine import GroupEngine
from logherd.app.quorum.node import boot_ms
from logherd.group.attendance import Follower
from logherd.group.leader import Leader
from logherd.model.names import Position
from logherd.replication.epochs import NOWHERE
from logherd.service.forwarding.roles import Following, Leading
from logherd.service.replica_view import (
    FollowerView,
    InSyncView,
    LeaderView,
    PendingView,
    PositionsView,
    ReplicationView,
    RequestsView,
    RoleName,
)

__all__ = ["GroupView"]


_COPY_BYTES_MIN = 16 << 20
"""A follower outside the in-sync set that lacks more than this is being copied to; one that lacks less catches up."""


class GroupView:
    """Reads; changes nothing."""

    def __init__(self, engine: GroupEngine, requests: Callable[[], RequestsView]) -> None:
        """`requests` counts those that came here while another led."""
        self._engine = engine
        self._requests = requests

    def view(self) -> ReplicationView:
        """This moment."""
        engine, now = self._engine, boot_ms()
        core, store = engine.replica.core, engine.store
        leader, ground, known = core.leading, core.ground, core.ground.standing.view
        role = engine.leadership.current
        until = ground.holder.until if leader is not None else None
        members = leader.insync.members if leader is not None else known.members if known is not None else ()
        closed = core.closed(now) if leader is not None else None
        return ReplicationView(
            mode="controller",
            role=_role_name(role),
            serving=core.serving(now) is not None,
            epoch=ground.epoch,
            leader=self._leader(),
            lease_ms=None if until is None else max(0, until - now),
            in_sync=InSyncView(
                members=members,
                version=known.version if known is not None else 0,
                min_in_sync=known.min_in_sync if known is not None else 0,
            ),
            positions=PositionsView(
                end=store.end_position, flushed=store.flushed_position, committed=store.committed_position
            ),
            followers=() if leader is None else [self._follower(leader, each, now) for each in leader.attendance],
            pending=None if leader is None else _pending(leader, now),
            closed=engine.standing.shut or (str(closed.value) if closed is not None else None),
            requests=self._requests(),
        )

    def _leader(self) -> LeaderView | None:
        engine = self._engine
        role, seat = engine.leadership.current, engine.replica.core.ground.seat
        if isinstance(role, Leading):
            return LeaderView(broker_id=seat.broker_id, address=seat.address)
        known = engine.replica.core.ground.standing.view
        if isinstance(role, Following) and known is not None and known.master is not None:
            return LeaderView(broker_id=known.master, address=role.address)
        return None

    def _follower(self, leader: Leader, each: Follower, now: int) -> FollowerView:
        broker_id, end = each.process.broker_id, Position(self._engine.store.end_position)
        state = leader.follower_state(broker_id)
        flushed = state[1] if state is not None and state[1] != NOWHERE else None
        lag_bytes = None if flushed is None else max(0, end - flushed)
        lag_ms = None if each.in_step_at is None else 0 if not lag_bytes else max(0, now - each.in_step_at)
        return FollowerView(
            broker_id=broker_id,
            connected=any(peer.connected for peer in self._engine.peers() if peer.name == str(broker_id)),
            in_sync=broker_id in leader.insync.members,
            flushed=flushed,
            lag_bytes=lag_bytes,
            lag_ms=lag_ms,
            copying=self._copied(flushed) if broker_id not in leader.insync.members else None,
        )

    def _copied(self, flushed: Position | None) -> float | None:
        """Of what is kept here, the share that a follower has; None if it is nearly all."""
        store = self._engine.store
        kept, has = store.end_position - store.min_position, (flushed or 0) - store.min_position
        if kept - has < _COPY_BYTES_MIN:
            return None
        return max(0, has) / kept


def _role_name(role: object) -> RoleName:
    return "leader" if isinstance(role, Leading) else "follower" if isinstance(role, Following) else "none"


def _pending(leader: Leader, now: int) -> PendingView | None:
    sets = leader.insync.pending
    if not sets:
        return None
    wanted, present = sets[-1], leader.insync.members
    left, joined = sorted(set(present) - set(wanted)), sorted(set(wanted) - set(present))
    why = [f"{broker_id} does not keep up or asks to leave" for broker_id in left]
    why += [f"{broker_id} has caught up" for broker_id in joined]
    asked_at = leader.insync.asked_at
    return PendingView(members=wanted, why="; ".join(why), age_ms=0 if asked_at is None else max(0, now - asked_at))
