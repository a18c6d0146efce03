"""Names as weapons: whatever a client calls topics and groups, no file appears outside the store, and no log line."""

import json
from pathlib import Path

import pytest

from compat.processes import until
from system.blocking import BlockingClient
from system.processes import BrokerProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

WRONG = [
    "../evil", "..", ".", "/tmp/evil", "a/../../b", "a\0b", "%RETRY%../../x", "%RETRY%..", "%DLQ%a/b", "x" * 128,
    "é" * 60, "a b", "a\nINFO forged", "%RETRY%a\nb", "%RETRY%" + "g" * 256, "",
]  # fmt: skip
RESERVED = ["rmq_sys_evil", "rmq_sys_LOGHERD_METADATA", "RMQ_SYS_TRANS_HALF_TOPIC", "OFFSET_MOVED_EVENT"]


def put_header(name: str) -> dict[str, str]:
    queues = {"readQueueNums": "1", "writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG"}
    return {"topic": name, "defaultTopic": "TBW102", **queues, "topicSysFlag": "0", "order": "false"}


def test_hostile_names_are_refused_and_leave_no_trace(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker", store={"segmentSize": "16MiB", "reservedPercent": 0})
    broker.start()
    try:
        client = BlockingClient(broker.port)
        assert client.send("harmless", 0, "value").offset == 0
        outside = {path for path in tmp_path.rglob("*") if "data" not in path.parts}
        for name in WRONG:
            assert client.send(name, 0, "value").offset is None, name
            assert client.ask(17, put_header(name)).code == 29, name
            assert client.ask(215, {"topic": name}).code == 29, name
            if len(name) != 128:  # a group's name may be longer than a topic's
                assert client.ask(200, {}, json.dumps({"groupName": name}).encode()).code == 29, name
        for name in RESERVED:
            assert client.ask(17, put_header(name)).code == 29, name
            assert client.ask(215, {"topic": name}).code == 29, name
            assert client.send(name, 0, "value").offset is None, name
        # What came last is derived from the log last, so by then there would be a file of whatever came before.
        assert client.send("last", 0, "value").offset == 0
        queues = tmp_path / "broker" / "data" / "consumequeue"
        until((queues / "last").exists, seconds=30, what="the last topic has a consume queue")
        assert {path for path in tmp_path.rglob("*") if "data" not in path.parts} == outside
        assert {path.name for path in queues.iterdir()} == {"harmless", "last", "rmq_sys_LOGHERD_METADATA"}
        assert not [line for line in broker.log_path.read_text().splitlines() if line.startswith("INFO forged")]
        assert client.send("harmless", 0, "another").offset == 1
        client.close()
        assert broker.stop() == 0
    finally:
        broker.kill()
