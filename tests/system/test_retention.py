"""A log with a size limit stays below it while messages, topics and offsets keep coming, and starts again complete."""

import json
import time
from contextlib import suppress
from pathlib import Path

import pytest

from system.blocking import BlockingClient
from system.processes import BrokerProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

MIB = 1 << 20
LIMIT = 32 * MIB
SEGMENT = 4 * MIB
STORE = {"segmentSize": "4MiB", "messageSizeMax": "1MiB", "reservedPercent": 0, "retention": {"size": "32MiB"}}


def log_bytes(directory: Path) -> int:
    total = 0
    for path in (directory / "data" / "commitlog").iterdir():
        with suppress(FileNotFoundError):  # deleted since it was listed, which is what is looked at
            total += path.stat().st_size
    return total


def test_a_size_limit_holds_and_metadata_outlives_the_segments_that_held_it(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, store=STORE)
    broker.start()
    try:
        client = BlockingClient(broker.port)
        first = client.send("Old", 0, "first")
        assert first.offset == 0
        offset = {"consumerGroup": "TOOLS_CONSUMER", "topic": "Old", "queueId": "0", "commitOffset": "1"}
        assert client.ask(15, offset).code == 0
        sent = 0
        deadline = time.monotonic() + 180
        while client.offset(31, "Fill", 0) == 0 if sent else True:
            assert time.monotonic() < deadline, f"{sent} messages sent, nothing was deleted: {log_bytes(tmp_path)}"
            for _ in range(20):
                assert client.send("Fill", 0, f"fill-{sent}", padding=500_000).offset == sent
                sent += 1
            if log_bytes(tmp_path) > LIMIT + 3 * SEGMENT:
                time.sleep(0.2)  # the load's pace: deletion runs every two seconds
        assert sent * 500_000 > LIMIT
        while log_bytes(tmp_path) > LIMIT + SEGMENT:
            assert time.monotonic() < deadline, log_bytes(tmp_path)
            time.sleep(0.1)
        kept = client.offset(31, "Fill", 0)
        client.close()
        broker.kill()
        broker.start()
        client = BlockingClient(broker.port)
        assert client.offset(31, "Fill", 0) == kept
        assert client.offset(30, "Fill", 0) == sent
        assert client.pull("Fill", 0, kept)[0] == (kept, f"fill-{kept}")
        told = client.ask(14, {key: value for key, value in offset.items() if key != "commitOffset"})
        assert told.ext["offset"] == "1", "the offset's record was in a deleted segment"
        topic = client.ask(351, {"topic": "Old"})
        assert json.loads(topic.body)["topicName"] == "Old"
        # A queue whose messages are all gone goes on where it was.
        assert client.offset(31, "Old", 0) == client.offset(30, "Old", 0) == 1
        assert client.send("Old", 0, "second").offset == 1
        client.close()
    finally:
        broker.kill()
