"""Topics that a send makes, where that was not so when the group began: clients ask for their template first."""

import json
from pathlib import Path

import pytest

from logherd.app.broker import Broker
from logherd.app.group.engine import GroupEngine
from logherd.app.names import EmbeddedNames
from logherd.controller.values import Registration
from logherd.group.inputs import Registered
from logherd.service.forwarding.roles import Leading
from logherd.settings.load import load_broker_options
from logherd.settings.options import BrokerOptions
from unit.app.forwarding.rig import eventually
from unit.app.group.test_engine import granted

ANYWHERE = "127.0.0.1:0"
ALONE = {"nameService": {"listen": ANYWHERE}}
REPLICA = {
    "brokerId": 2, "nameService": {"mode": "external", "addresses": ["127.0.0.1:2"]},
    "replication": {
        "mode": "controller", "controllers": ["127.0.0.1:1"], "peerListen": ANYWHERE, "minInSync": 1,
        "peers": {"1": "127.0.0.1:1", "2": "127.0.0.1:2", "3": "127.0.0.1:3"},
    },
}  # fmt: skip


def options(root: Path, role: dict[str, object], *, auto_create: bool) -> BrokerOptions:
    path = root / "broker.json"
    path.write_text(json.dumps({
        "clusterName": "c", "brokerGroup": "g", "dataDir": str(root / "data"), "listen": ANYWHERE,
        "adminListen": ANYWHERE, "store": {"segmentSize": "1MiB", "messageSizeMax": "64KiB"},
        "topics": {"autoCreate": auto_create}, **role,
    }))  # fmt: skip
    return load_broker_options(path)


async def test_the_template_is_there_and_in_routes_once_sends_may_make_topics(tmp_path: Path) -> None:
    broker = await Broker.start(options(tmp_path, ALONE, auto_create=False), on_failure=lambda: None)
    try:
        names = broker._names
        assert isinstance(names, EmbeddedNames)
        assert names.routes.route("TBW102") is None
        broker._services.follow_settings(options(tmp_path, ALONE, auto_create=True))
        route = names.routes.route("TBW102")
        assert route is not None
        assert route.queues["g"].permission == 7
    finally:
        await broker.stop()


@pytest.mark.parametrize("auto_create", [True, False])
async def test_whoever_leads_next_goes_by_what_was_changed_before(tmp_path: Path, *, auto_create: bool) -> None:
    broker = await Broker.start(options(tmp_path, REPLICA, auto_create=not auto_create), on_failure=lambda: None)
    try:
        changed = options(tmp_path, REPLICA, auto_create=auto_create)
        for follow in broker._live.applied_by:
            follow(changed)
        engine = broker._engine
        assert isinstance(engine, GroupEngine)
        assert "TBW102" not in engine.metadata.topics
        engine.replica.step(Registered(Registration(1)))
        engine.replica.step(granted(1))
        await eventually(lambda: engine.leadership.current == Leading(1))
        assert ("TBW102" in engine.metadata.topics) is auto_create
    finally:
        await broker.abandon()
