"""Settings of a real broker, changed while it runs: over HTTP and by mqadmin's request, until the next start."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat.remoting import ask
from system.processes import BrokerProcess
from system.replica_orders import token_file

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

UPDATE, READ, BUSY = 25, 26, 2
SECONDS = 60.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    store = {"segmentSize": "4MiB", "messageSizeMax": "64KiB", "reservedPercent": 0}
    process = BrokerProcess(tmp_path / "b", store=store, adminTokenFile=str(token_file(tmp_path)))
    process.start()
    yield process
    process.stop()


def hot(broker: BrokerProcess) -> dict[str, str]:
    told = broker.status()["hot"]
    assert isinstance(told, dict)
    return told


def update(broker: BrokerProcess, text: str) -> dict[str, Any]:
    for _ in range(20):
        header, _ = ask(broker.port, UPDATE, {}, text.encode(), seconds=SECONDS)
        if header["code"] != BUSY:
            break
    return header


def test_settings_change_over_http_and_by_mqadmins_request_until_the_next_start(broker: BrokerProcess) -> None:
    assert broker.configure(**{"topics.autoCreate": False, "store.retention.age": "24h"})[0] == 200
    header, _ = ask(broker.port, 10, {
        "producerGroup": "p", "topic": "Nobody", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
        "queueId": "0", "sysFlag": "0", "bornTimestamp": "0", "flag": "0",
    }, b"x")  # fmt: skip
    assert header["code"] == 17  # no such topic: it is not made any more
    assert update(broker, "fileReservedTime=48\nbrokerPermission=4\n")["code"] == 0
    _, body = ask(broker.port, READ, {})
    lines = body.decode().splitlines()
    assert {"fileReservedTime=48", "autoCreateTopicEnable=false", "brokerPermission=4"} <= set(lines)
    assert hot(broker)["store.retention.age"] == "172800000ms"
    broker.stop()
    broker.start()
    assert (hot(broker)["topics.autoCreate"], hot(broker)["fileReservedTime"]) == ("true", "72")


def test_a_wrong_change_is_refused_whole_on_both_ways(broker: BrokerProcess) -> None:
    before = hot(broker)
    status, said = broker.configure(**{"log.level": "debug", "store.retention.age": "soon"})
    assert (status, said["field"], said["value"]) == (400, "store.retention.age", "soon")
    assert said["error"].startswith("store.retention.age: 'soon' is not right: write a whole number and one of ms, s")
    refused = update(broker, "fileReservedTime=soon\nbrokerPermission=4\n")
    assert refused["code"] == 29
    assert refused["remark"].startswith("fileReservedTime: 'soon' is not right")
    assert broker.configure(token="another", **{"log.level": "debug"})[0] == 403
    assert hot(broker) == before
    _, body = ask(broker.port, READ, {})
    assert b"brokerPermission=6" in body
