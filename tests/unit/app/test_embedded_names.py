"""The name service in a broker's own process, which anybody can reach who reaches the broker."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from logherd.aiokit.tasks import TaskEnded, TaskGuard
from logherd.app import names as room
from logherd.app.clock import SystemClock
from logherd.app.names import EmbeddedNames
from logherd.model.topic import Permission
from logherd.net.limits import NetLimits
from logherd.service.identity import BrokerIdentity
from logherd.service.metadata import Metadata
from logherd.service.names.epochs import Expected
from logherd.service.names.routes import Registration, TableVersion
from unit.service.memory_log import MemoryLog

CLOCK = SystemClock()
ME = BrokerIdentity("C", "g", 0, "10.0.0.1:10911")


def another_of_my_id(names: EmbeddedNames) -> None:
    newer = TableVersion(state_version=1 << 40)
    names.routes.register(
        Registration(ME._replace(address="10.6.6.6:1"), {}, newer, session_id=1), CLOCK.monotonic_ms()
    )


def my_name_in_another_cluster(names: EmbeddedNames) -> None:
    names.routes.unregister(ME)
    names.routes.register(
        Registration(ME._replace(cluster="D"), {}, TableVersion(), session_id=1), CLOCK.monotonic_ms()
    )


@pytest.mark.parametrize("taken", [another_of_my_id, my_name_in_another_cluster])
async def test_whoever_takes_the_brokers_name_does_not_end_it(
    taken: Callable[[EmbeddedNames], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is believed, as by RocketMQ's name service; the broker may have it back when the other one is gone."""
    monkeypatch.setattr(room, "_TICK_SECONDS", 0)
    ended: list[TaskEnded] = []
    guard, listening = TaskGuard(on_end=ended.append), socket.create_server(("127.0.0.1", 0))
    names = EmbeddedNames.prepare(
        listening, CLOCK, key_values_path=tmp_path / "names.json", groups=Expected(("g",)), limits=NetLimits()
    )
    names.attach(ME, Metadata.open(MemoryLog(), CLOCK), CLOCK)
    await names.join(guard)
    try:
        taken(names)
        for _ in range(20):
            await asyncio.sleep(0)
        names.set_permission(Permission.READ)
        names.lead(1)
        assert ended == []
        names.routes.session_closed(1, CLOCK.monotonic_ms())
        async with asyncio.timeout(20):
            while "g" not in names.routes.brokers():
                await asyncio.sleep(0)
        assert names.routes.brokers()["g"].addresses == {0: ME.address}
    finally:
        await guard.stop(5)
        await names.stop()
