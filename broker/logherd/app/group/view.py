"""How this replica sees its group, for GET /status and metrics (service/replica_view.py)."""

from collections.abc import Callable

from logherd.app.clock import boot_ms
from logherd.app.group.engine import GroupEngine
from logherd.app.group.mode import FollowerState
from logherd.group.output import Closed
from logherd.model.names import Position
from logherd.service.forwarding.roles import Following, Leading
from logherd.service.replica_view import (
    FollowerView,
    LeaderView,
    PositionsView,
    ReplicationView,
    RequestsView,
    RoleName,
)

__all__ = ["GroupView"]


_COPY_BYTES_MIN = 16 << 20
"""A follower outside the in-sync set that lacks more than this is being copied to; one that lacks less catches up. Who
is not linked is not copied to, whatever it lacks."""


class GroupView:
    """Reads; changes nothing."""

    def __init__(self, engine: GroupEngine, requests: Callable[[], RequestsView]) -> None:
        """`requests` counts those that came here while another led."""
        self._engine = engine
        self._requests = requests

    def view(self) -> ReplicationView:
        """This moment."""
        engine, now = self._engine, boot_ms()
        mode, store, role = engine.mode, engine.store, engine.leadership.current
        machine, lease = mode.machine, engine.mode.lease
        leads = machine.leads is not None
        closed = machine.closed(now)
        if not leads and closed is not Closed.LACKING:
            closed = None
        waits = "" if leads else mode.obstacle
        return ReplicationView(
            mode=mode.name,
            role=_role_name(role),
            serving=machine.serving(now) is not None,
            epoch=machine.epoch,
            leader=self._leader(),
            lease_ms=None if lease is None else max(0, lease.until - now),
            in_sync=mode.members(),
            positions=PositionsView(
                end=store.end_position, flushed=store.flushed_position, committed=store.committed_position
            ),
            followers=[self._follower(each, now) for each in mode.followers()] if leads else (),
            pending=mode.pending(now) if leads else None,
            closed=engine.standing.shut or waits or (str(closed.value) if closed is not None else None),
            requests=self._requests(),
        )

    def _leader(self) -> LeaderView | None:
        engine = self._engine
        role, seat = engine.leadership.current, engine.mode.seat
        if isinstance(role, Leading):
            return LeaderView(broker_id=seat.broker_id, address=seat.address)
        known = engine.mode.leader
        if isinstance(role, Following) and known is not None:
            return LeaderView(broker_id=known, address=role.address)
        return None

    def _follower(self, each: FollowerState, now: int) -> FollowerView:
        end, flushed = Position(self._engine.store.end_position), each.flushed
        lag_bytes = None if flushed is None else max(0, end - flushed)
        lag_ms = None if each.in_step_at is None else 0 if lag_bytes == 0 else max(0, now - each.in_step_at)
        connected = any(peer.connected for peer in self._engine.peers() if peer.name == str(each.broker_id))
        return FollowerView(
            broker_id=each.broker_id,
            connected=connected,
            in_sync=each.in_sync,
            awaited=each.awaited,
            flushed=flushed,
            lag_bytes=lag_bytes,
            lag_ms=lag_ms,
            copying=self._copied(flushed) if connected and not each.in_sync else None,
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
