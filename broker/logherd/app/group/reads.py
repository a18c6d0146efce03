"""Follower reads of one broker: what it answers itself while it follows, and whom it sends elsewhere while it leads."""

from logherd.app.group.engine import GroupEngine
from logherd.app.services import Services
from logherd.kit.clock import Clock
from logherd.service.pull.following import FollowerPulls
from logherd.settings.options import BrokerOptions
from logherd.store import QueueLog

__all__ = ["follower_pulls"]


def follower_pulls(
    options: BrokerOptions, engine: GroupEngine, services: Services, clock: Clock
) -> FollowerPulls | None:  # fmt: skip
    """None unless the settings want it; otherwise the leader's pulls name a follower to whoever is far behind."""
    replication, store = options.replication, engine.store
    if not replication.follower_reads:
        return None

    def elsewhere(queue: QueueLog, offset: int) -> int:
        unit = store.unit(queue, offset)
        if unit is None or store.committed_position - unit[0] < replication.follower_reads_behind:
            return 0
        heard = (each for each in engine.mode.followers() if each.in_sync and each.flushed is not None)
        able = sorted(each.broker_id for each in heard)
        return able[queue.queue_id % len(able)] if able else 0

    services.pull.elsewhere = elsewhere
    pulls = FollowerPulls(
        store, engine.metadata, services.pull, readable=engine.readable, clock=clock,
        broker_id=options.broker_id, behind=replication.follower_reads_behind,
    )  # fmt: skip
    pulls.on_damage = engine.damages.found
    return pulls
