"""Damage that a start meets is told with file, offset and the command to run; nothing is cut or served."""

from pathlib import Path

import pytest

from system.blocking import BlockingClient
from system.processes import BrokerProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

METADATA_TOPIC = b"rmq_sys_LOGHERD_METADATA"


def test_a_damaged_metadata_record_of_a_closed_store_is_named(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, store={"segmentSize": "16MiB", "reservedPercent": 0})
    broker.start()
    try:
        client = BlockingClient(broker.port)
        client.send("T", 0, "v")
        client.close()
        assert broker.stop() == 0
        segment = tmp_path / "data" / "commitlog" / ("0" * 20)
        data = bytearray(segment.read_bytes())
        at = data.index(METADATA_TOPIC)
        data[at - 5] ^= 1  # inside the first record's body
        segment.write_bytes(data)
        with pytest.raises(RuntimeError) as refused:
            broker.start()
    finally:
        broker.kill()
    said = str(refused.value)
    assert f"commitlog/{'0' * 20} at byte 0" in said
    assert "logherd store" in said
    assert segment.read_bytes() == bytes(data), "the store was changed"


def test_a_damaged_message_is_told_and_never_served(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, store={"segmentSize": "16MiB", "reservedPercent": 0})
    broker.start()
    try:
        client = BlockingClient(broker.port)
        for number in range(3):
            client.send("T", 0, f"message-{number}", padding=100)
        client.close()
        assert broker.stop() == 0
        segment = tmp_path / "data" / "commitlog" / ("0" * 20)
        data = bytearray(segment.read_bytes())
        at = data.index(b"message-1....")
        data[at + 20] ^= 1
        segment.write_bytes(data)
        broker.start()
        client = BlockingClient(broker.port)
        assert client.pull("T", 0, 0) == [(0, "message-0")], "what is whole is served up to the damage"
        answer = client.ask(11, pull_header(1))
        assert answer.code == 1
        assert "commitlog" in (answer.remark or "")
        assert "logherd store" in (answer.remark or "")
        assert answer.body == b""
        assert client.pull("T", 0, 2) == [(2, "message-2")]
        assert client.send("T", 0, "message-3").offset == 3
        assert client.pull("T", 0, 2) == [(2, "message-2"), (3, "message-3")]
        client.close()
        broker.wait_for_line("damaged record met")
    finally:
        broker.kill()


@pytest.mark.parametrize("at", [6, 10, 14 + 20])
def test_damage_of_a_consume_queue_is_told_and_passes_over_no_message(tmp_path: Path, at: int) -> None:
    """Its units are not read at a start. Each kind of wrong unit: no record there, a wrong length, nothing at all."""
    broker = BrokerProcess(tmp_path, store={"segmentSize": "16MiB", "reservedPercent": 0})
    broker.start()
    try:
        client = BlockingClient(broker.port)
        for number in range(4):
            client.send("T", 0, f"message-{number}", padding=100)
        client.close()
        assert broker.stop() == 0
        units = tmp_path / "data" / "consumequeue" / "T" / "0" / ("0" * 20)
        data = bytearray(units.read_bytes())
        if at < 20:
            data[at] ^= 0x55
        else:
            data[0:20] = bytes(20)
        units.write_bytes(data)
        broker.start()
        client = BlockingClient(broker.port)
        assert client.offset(31, "T", 0) == 0
        answer = client.ask(11, pull_header(0))
        assert (answer.code, answer.body) == (1, b"")
        assert "message 0 " in (answer.remark or "")
        assert client.pull("T", 0, 1) == [(number, f"message-{number}") for number in (1, 2, 3)]
        client.close()
        assert broker.stop() == 0
        units.unlink()
        broker.start()
        client = BlockingClient(broker.port)
        assert [value for _, value in client.pull("T", 0, 0)] == [f"message-{number}" for number in range(4)]
        client.close()
    finally:
        broker.kill()


def test_foreign_files_in_every_folder_are_left_alone(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, store={"segmentSize": "16MiB", "reservedPercent": 0})
    broker.start()
    try:
        client = BlockingClient(broker.port)
        client.send("T", 0, "message-0")
        client.close()
        assert broker.stop() == 0
        data = tmp_path / "data"
        folders = (data, data / "commitlog", data / "index", data / "consumequeue", data / "consumequeue" / "T")
        for folder in folders:
            (folder / "notes.txt").write_text("mine")
        for lost in (False, True):
            if lost:
                (data / "checkpoint").unlink()
            broker.start()
            client = BlockingClient(broker.port)
            assert client.pull("T", 0, 0) == [(0, "message-0")]
            client.close()
            assert broker.stop() == 0
        assert (data / "notes.txt").exists()
        assert (data / "commitlog" / "notes.txt").exists()
    finally:
        broker.kill()


def test_values_of_the_name_service_that_cannot_be_read_are_refused_by_name(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "names.json").write_bytes(b"")
    with pytest.raises(RuntimeError, match=r"names\.json: .*move it away"):
        broker.start()
    assert broker.process is not None
    assert broker.process.poll() == 3
    assert "Traceback" not in broker.log_path.read_text()


def test_a_disk_that_fails_at_the_stop_is_told_by_the_exit_code(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, store={"segmentSize": "16MiB", "reservedPercent": 0})
    (tmp_path / "data" / "abort").mkdir(parents=True)  # cannot be deleted as a file is
    broker.start()
    try:
        client = BlockingClient(broker.port)
        assert client.send("T", 0, "message-0").offset == 0
        client.close()
        assert broker.stop() == 4
        assert "Traceback" not in broker.log_path.read_text()
        broker.start()
        client = BlockingClient(broker.port)
        assert client.pull("T", 0, 0) == [(0, "message-0")]
        client.close()
    finally:
        broker.kill()


def pull_header(offset: int) -> dict[str, str]:
    return {
        "consumerGroup": "TOOLS_CONSUMER",
        "topic": "T",
        "queueId": "0",
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }
