"""What a scrape reads of a broker."""

from typing import get_args

from logherd.app.engine import Engine
from logherd.app.group.engine import GroupEngine
from logherd.app.services import Services
from logherd.service.replica_view import ReplicationView, RoleName
from logherd.store import MessageStore
from logherd.telemetry import metrics
from logherd.telemetry.metrics import Readings
from logherd.telemetry.spread import Spread

__all__ = ["read_log", "read_replication", "read_services", "read_store"]


def read_services(readings: Readings, services: Services) -> None:
    """Messages, pulls and what the broker knows."""
    stats = services.stats
    readings.tell(metrics.MESSAGES_IN, stats.put_totals().now)
    readings.tell(metrics.BYTES_IN, stats.put_bytes)
    readings.tell(metrics.MESSAGES_OUT, stats.get_totals().now)
    readings.tell(metrics.BYTES_OUT, stats.get_bytes)
    readings.tell(metrics.SENDS, stats.put_calls)
    readings.tell(metrics.PULLS, stats.pulls.found, "found")
    readings.tell(metrics.PULLS, stats.pulls.missed, "missed")
    readings.tell(metrics.LONG_POLLS, len(services.pull.hold))


def read_store(readings: Readings, engine: Engine | GroupEngine, *, disk_total: int) -> None:
    """The log, the size of its batches, what retention has done, and the metadata in the log."""
    read_log(readings, engine.store, engine.flushes.seconds, disk_total=disk_total)
    readings.tell(metrics.TOPICS, len(engine.metadata.topics))
    readings.tell(metrics.SUBSCRIPTION_GROUPS, len(engine.metadata.groups))
    readings.tell(metrics.BATCH_BYTES, engine.flushes.bytes)
    readings.tell(metrics.SEGMENTS_DELETED, engine.segments_deleted)
    if isinstance(engine, GroupEngine):
        readings.tell(metrics.DAMAGE_MET, engine.damages.count)


def read_log(readings: Readings, store: MessageStore, flush_seconds: Spread, *, disk_total: int) -> None:
    """Positions, flushes, disk and retention: of whoever has a log, also if another broker writes it."""
    disk = store.disk
    readings.tell(metrics.POSITION, store.min_position, "start")
    readings.tell(metrics.POSITION, store.committed_position, "committed")
    readings.tell(metrics.POSITION, store.flushed_position, "flushed")
    readings.tell(metrics.POSITION, store.end_position, "end")
    readings.tell(metrics.UNWRITTEN, store.unwritten_bytes)
    readings.tell(metrics.FLUSH_SECONDS, flush_seconds)
    readings.tell(metrics.LOG_BYTES, disk.log_bytes)
    readings.tell(metrics.RETENTION, (store.retention.age_ms or 0) / 1000)
    readings.tell(metrics.ACCEPTS, disk.accepts_messages)
    readings.tell(metrics.DISK_TOTAL, disk_total)
    readings.tell(metrics.DISK_FREE, disk.free_bytes)
    readings.tell(metrics.DISK_RESERVE, disk.reserve_bytes)


def read_replication(readings: Readings, view: ReplicationView | None) -> None:
    """One replica of a group; nothing for a broker that is alone."""
    if view is None:
        return
    readings.one_of(metrics.ROLE, get_args(RoleName), view.role)
    readings.tell(metrics.SERVING, view.serving)
    readings.tell(metrics.EPOCH, view.epoch)
    readings.tell(metrics.IN_SYNC, len(view.in_sync.members))
    readings.tell(metrics.MIN_IN_SYNC, view.in_sync.min_in_sync)
    if view.lease_ms is not None:
        readings.tell(metrics.LEASE, view.lease_ms / 1000)
    if view.role == "leader":
        readings.tell(metrics.PENDING, view.pending is not None)
        readings.tell(metrics.CLOSED, view.closed is not None)
    for each in view.followers:
        broker = str(each.broker_id)
        readings.tell(metrics.FOLLOWER_IN_SYNC, each.in_sync, broker)
        readings.tell(metrics.FOLLOWER_AWAITED, each.awaited, broker)
        readings.tell(metrics.FOLLOWER_CONNECTED, each.connected, broker)
        if each.lag_bytes is not None:
            readings.tell(metrics.FOLLOWER_LAG_BYTES, each.lag_bytes, broker)
        if each.lag_ms is not None:
            readings.tell(metrics.FOLLOWER_LAG_SECONDS, each.lag_ms / 1000, broker)
    readings.tell(metrics.FORWARDED, view.requests.forwarded)
    readings.tell(metrics.HELD, view.requests.held)
