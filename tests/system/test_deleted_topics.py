"""A deleted topic stays deleted: its messages do not come back with a topic of the same name, whatever happens then."""

import shutil
import time
from pathlib import Path

import pytest

from system.blocking import BlockingClient, drain_queue
from system.processes import BrokerProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

TOPIC = "Reborn"
SEND_COUNT = 40


def put_topic(client: BlockingClient) -> None:
    ext = {"topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": "2", "writeQueueNums": "2", "perm": "6"}
    answer = client.ask(17, {**ext, "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"})
    assert answer.code == 0, answer.remark


def fill_delete_and_create(broker: BrokerProcess) -> None:
    client = BlockingClient(broker.port)
    put_topic(client)
    for number in range(SEND_COUNT):
        assert client.send(TOPIC, number % 2, f"old-{number}").offset is not None
    assert client.ask(215, {"topic": TOPIC}).code == 0
    put_topic(client)
    client.close()


def content(broker: BrokerProcess) -> list[tuple[int, list[tuple[int, str]]]]:
    client = BlockingClient(broker.port)
    try:
        return [drain_queue(client, TOPIC, queue_id) for queue_id in (0, 1)]
    finally:
        client.close()


@pytest.mark.parametrize("seconds", [0.0, 0.3, 1.2])
def test_kill_9_after_delete_and_create_brings_no_old_message_back(tmp_path: Path, seconds: float) -> None:
    broker = BrokerProcess(tmp_path, store={"segmentSize": "1MiB", "messageSizeMax": "64KiB", "reservedPercent": 0})
    broker.start()
    try:
        fill_delete_and_create(broker)
        time.sleep(seconds)  # derived files are written about once a second: the kill hits before, amid and after
        broker.kill()
        broker.start()
        assert content(broker) == [(0, []), (0, [])]
        client = BlockingClient(broker.port)
        assert client.send(TOPIC, 1, "new").offset == 0
        client.close()
        broker.kill()
        broker.start()
        assert content(broker) == [(0, []), (0, [(0, "new")])]
    finally:
        broker.kill()


def test_deriving_all_from_the_log_brings_no_deleted_message_back(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, store={"segmentSize": "1MiB", "messageSizeMax": "64KiB", "reservedPercent": 0})
    broker.start()
    try:
        fill_delete_and_create(broker)
        client = BlockingClient(broker.port)
        assert client.send(TOPIC, 0, "new").offset == 0
        client.close()
        for _ in range(2):
            assert broker.stop() == 0
            shutil.rmtree(tmp_path / "data" / "consumequeue")
            (tmp_path / "data" / "checkpoint").unlink()
            broker.start()
            assert content(broker) == [(0, [(0, "new")]), (0, [])]
    finally:
        broker.kill()
