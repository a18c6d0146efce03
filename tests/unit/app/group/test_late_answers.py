"""A leader that slept for longer than its lease, just before it answers: nobody hears that anything was stored."""

import json
from pathlib import Path

import pytest

from logherd.app.broker import Broker
from logherd.app.clock import boot_ms
from logherd.app.group import replica as replica_module
from logherd.app.group import standing as standing_module
from logherd.app.group.engine import GroupEngine
from logherd.controller.values import Registration
from logherd.group.inputs import Registered
from logherd.model.names import Position
from logherd.net.connection import Connection, connect
from logherd.replica import ReplicaStore
from logherd.service.forwarding.roles import Leading
from logherd.settings.load import load_broker_options
from unit.app.forwarding.rig import eventually, send_frame
from unit.app.group.test_engine import LEASE_MS, granted


async def started(root: Path) -> Broker:
    """A replica whose controllers do not answer."""
    path = root / "broker.json"
    path.write_text(json.dumps({
        "clusterName": "c", "brokerGroup": "g", "brokerId": 2, "dataDir": str(root / "data"), "listen": "127.0.0.1:0",
        "adminListen": "127.0.0.1:0", "store": {"segmentSize": "1MiB", "messageSizeMax": "64KiB"},
        "nameService": {"mode": "external", "addresses": ["127.0.0.1:2"]},
        "replication": {
            "mode": "controller", "controllers": ["127.0.0.1:1"], "peerListen": "127.0.0.1:0", "minInSync": 1,
            "peers": {"1": "127.0.0.1:1", "2": "127.0.0.1:2", "3": "127.0.0.1:3"},
        },
    }))  # fmt: skip
    return await Broker.start(load_broker_options(path), on_failure=lambda: None)


async def client_of(broker: Broker) -> Connection:
    host, _, port = broker.addresses()["address"].rpartition(":")
    return await connect(host, int(port))


async def test_r1_what_is_committed_just_before_the_lease_is_over_is_not_answered_as_stored_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another may lead by now: what it does with the message this process does not know."""
    broker = await started(tmp_path)
    try:
        engine = broker._engine
        assert isinstance(engine, GroupEngine)
        replica = engine.replica
        replica.step(Registered(Registration(1)))
        replica.step(granted(1))
        await eventually(lambda: engine.leadership.current == Leading(1))
        client = await client_of(broker)
        assert (await client.call(send_frame(b"before"), seconds=10)).code == 0
        asleep_ms, readable_to = 0, ReplicaStore.readable_to

        def sleeps(log: ReplicaStore, position: Position) -> int:
            """The machine has committed; the process goes on after its lease."""
            nonlocal asleep_ms
            asleep_ms = 2 * LEASE_MS
            return readable_to(log, position)

        monkeypatch.setattr(ReplicaStore, "readable_to", sleeps)
        for module in (replica_module, standing_module):
            monkeypatch.setattr(module, "boot_ms", lambda: boot_ms() + asleep_ms)
        answer = await client.call(send_frame(b"after"), seconds=10)
        assert (answer.code, (answer.remark or "").partition(":")[0]) == (1, "unknown")
        await client.close()
    finally:
        await broker.abandon()
