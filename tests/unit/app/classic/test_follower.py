"""The process that follows a RocketMQ master, by its admin port."""

from pathlib import Path

from logherd.app.classic.follower import ClassicFollower
from logherd.app.guarded.lent import Lent
from logherd.settings.load import load_broker_options
from unit.app.classic.test_following import FakeMaster, running_master, until
from unit.app.metrics.test_broker_pages import get


async def test_its_log_and_whether_it_follows_can_be_watched_as_of_any_broker(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    async with running_master(FakeMaster()) as master:
        master.grow(30)
        path.write_text(
            f"brokerGroup: g\ndataDir: {tmp_path / 'store'}\nadminListen: '127.0.0.1:0'\n"
            f"store: {{segmentSize: 8MiB, reservedPercent: 0}}\n"
            f"replication: {{classicHa: {{master: '{master.address}'}}}}\n"
        )
        follower = await ClassicFollower.start(load_broker_options(path), on_failure=lambda: None, lent=Lent())
        admin, following = follower.addresses()["admin"], follower._following
        try:
            assert b"logherd_ready 0.0" in await get(admin, "/metrics"), "nothing is there yet"
            await until(lambda: following.log is not None and following.log.store.committed_position == len(master.log))
            await until(lambda: following.follows)
            told = (await get(admin, "/metrics")).decode()
        finally:
            await follower.stop()
    assert "logherd_ready 1.0" in told
    assert f'logherd_store_position_bytes{{position="committed"}} {float(len(master.log))}' in told
    assert "logherd_disk_free_bytes" in told
    assert "logherd_flush_seconds_count" in told
