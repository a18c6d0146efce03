"""From settings to the limits of a server."""

import json
from pathlib import Path

import pytest

from logherd.app import option_values
from logherd.app.broker import Broker
from logherd.app.option_values import net_limits, pull_options
from logherd.net.connection import connect
from logherd.settings.load import load_broker_options
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame

MIB = 1 << 20


@pytest.mark.parametrize(("said", "granted", "total", "unread", "pulls"), [
    ({}, 256 * MIB, 64 * MIB, MIB, 49_152), ({}, 64_000 * MIB, 256 * MIB, 4 * MIB, 196_608),
    ({"bufferedSize": "512MiB"}, 256 * MIB, 512 * MIB, 4 * MIB, 200_000),
    ({"bufferedSize": "16MiB"}, 64_000 * MIB, 16 * MIB, MIB // 4, 12_288),
])  # fmt: skip
def test_what_is_kept_for_clients_goes_by_the_memory_unless_the_settings_say_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: dict[str, str], granted: int, total: int, unread: int,
    pulls: int,
) -> None:  # fmt: skip
    path = tmp_path / "broker.json"
    path.write_text(json.dumps({"brokerGroup": "g", "dataDir": str(tmp_path), "limits": said}))
    monkeypatch.setattr(option_values, "granted_memory", lambda: granted)
    options = load_broker_options(path)
    flow = net_limits(options.limits, connections=10).flow
    assert (flow.total_bytes_max, flow.unsent_bytes_soft) == (total, unread)
    assert pull_options(options).parked_max == pulls


def settings(directory: Path, **said: object) -> Path:
    """Those of a small broker on free ports."""
    path, anywhere = directory / "broker.json", "127.0.0.1:0"
    path.write_text(json.dumps({
        "brokerGroup": "g", "dataDir": str(directory / "data"), "listen": anywhere, "adminListen": anywhere,
        "nameService": {"listen": anywhere},
        "store": {"segmentSize": "8MiB", "indexSlots": 16, "indexEntries": 64, "messageSizeMax": "512KiB"}, **said,
    }))  # fmt: skip
    return path


def pull(queue: int) -> Frame:
    """One that waits for a message."""
    fields = {
        "consumerGroup": "g", "topic": "BenchmarkTest", "queueId": queue, "queueOffset": 0, "maxMsgNums": 32,
        "sysFlag": 6, "commitOffset": 0, "suspendTimeoutMillis": 15_000, "subVersion": 0, "subscription": "*",
    }  # fmt: skip
    return Frame(RequestCode.PULL_MESSAGE, 0, ext={key: str(value) for key, value in fields.items()})


async def test_a_client_that_waits_for_more_queues_than_it_may_is_answered_whatever_it_asks(tmp_path: Path) -> None:
    """Else its sends, heartbeats and offsets waited, too, until a message came or its pulls had waited long enough."""
    path = settings(tmp_path, limits={"parkedPullsPerConnection": 2})
    broker = await Broker.start(load_broker_options(path), on_failure=lambda: None)
    outcomes: list[object] = []
    try:
        host, _, port = broker.addresses()["address"].rpartition(":")
        connection = await connect(host, int(port))
        for queue in range(5):
            connection.start(pull(queue), outcomes.append, seconds=20)
        for _ in range(2):  # the first may come together with the pulls
            answer = await connection.call(Frame(RequestCode.GET_BROKER_RUNTIME_INFO, 0), seconds=5)
            assert answer.code == ResponseCode.SUCCESS
        assert [each.code for each in outcomes if isinstance(each, Frame)] == [ResponseCode.SYSTEM_BUSY] * 3
        await connection.close()
    finally:
        await broker.stop()


async def test_who_is_connected_to_a_name_service_need_not_ask_it_anything_soon(tmp_path: Path) -> None:
    """A Java client connects to all of them when it starts and asks one. It would come back each few seconds."""
    broker = await Broker.start(load_broker_options(settings(tmp_path)), on_failure=lambda: None)
    try:
        clients, [names] = broker._server, broker._names.servers.values()
        assert clients is not None
        for _ in range(2):
            assert clients._hub.limits.patience.first_frame_seconds == 5
            assert names._hub.limits.patience.first_frame_seconds == 120
            broker._relimit(broker._options)
    finally:
        await broker.stop()


async def test_how_many_pulls_may_wait_changes_while_a_broker_runs(tmp_path: Path) -> None:
    broker = await Broker.start(load_broker_options(settings(tmp_path)), on_failure=lambda: None)
    try:
        hold = broker._services.pull.hold
        assert hold.refusal(1) is None
        changed = settings(tmp_path, limits={"parkedPullsPerConnection": 1, "bufferedSize": "16MiB"})
        broker._services.follow_settings(load_broker_options(changed))
        assert (hold._session_max, hold._parked_max) == (1, 12_288)
    finally:
        await broker.stop()


@pytest.mark.parametrize(("said", "unsent", "largest"), [
    ("1MiB", 4 * MIB + 131_072, "4MiB"), ("1MiB", MIB, "512KiB"), ("32MiB", 32 * MIB, "4MiB"),
])  # fmt: skip
async def test_a_client_may_always_leave_one_answer_with_the_largest_message_unread(
    tmp_path: Path, said: str, unsent: int, largest: str
) -> None:
    """Sent at once it fills what the system takes, and the rest lies here: nobody who reads slowly could get it."""
    path, anywhere = tmp_path / "broker.json", "127.0.0.1:0"
    path.write_text(json.dumps({
        "brokerGroup": "g", "dataDir": str(tmp_path / "data"), "listen": anywhere, "adminListen": anywhere,
        "limits": {"unsentSizePerConnection": said}, "nameService": {"listen": anywhere},
        "store": {"segmentSize": "8MiB", "messageSizeMax": largest, "indexSlots": 16, "indexEntries": 64},
    }))  # fmt: skip
    broker = await Broker.start(load_broker_options(path), on_failure=lambda: None)
    try:
        assert broker._server is not None
        assert broker._server._hub.limits.flow.unsent_bytes_max == unsent
        broker._relimit(broker._options)
        assert broker._server._hub.limits.flow.unsent_bytes_max == unsent
    finally:
        await broker.stop()
