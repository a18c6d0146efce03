"""Damage that a start meets is told with file, offset and the command to run; nothing is cut or served."""

from pathlib import Path

import pytest

from system.blocking import BlockingClient
from system.processes import BrokerProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(60)]

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
