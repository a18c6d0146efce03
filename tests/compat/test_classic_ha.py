"""The classic HA protocol between LogHerd and RocketMQ 5.3.3: the way in, and the way out (rule H8)."""

import shutil
from pathlib import Path

import pytest

from compat.driver import Driver, message
from compat.logherd_server import LogHerd, start_logherd
from compat.processes import free_port, until
from compat.replicas import GROUP, SEGMENT, TOPIC, log_bytes, log_end, read, send_all, start_slave
from compat.rocketmq import RocketMQOptions, start_rocketmq
from compat.server import Server

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]
COMMITTED = [1, 2, 3, 4]
SIZES = {"mappedFileSizeCommitLog": str(SEGMENT)}


def commit(driver: Driver, server: Server) -> None:
    """Let the group have read a part."""
    for queue_id, offset in enumerate(COMMITTED):
        driver.call("offset.commit", queueId=queue_id, offset=offset, topic=TOPIC, group=GROUP,
                    nameServer=server.name_server)  # fmt: skip


def committed(server: Server) -> list[int | None]:
    return [server.committed(GROUP, TOPIC, queue_id) for queue_id in range(4)]


def start_leader(directory: Path, port: int) -> LogHerd:
    return start_logherd(
        directory, broker_port=port, store={"segmentSize": SEGMENT},
        replication={"classicHa": {"listen": f"127.0.0.1:{port + 1}"}},
    )  # fmt: skip


def test_rocketmq_slave_follows_logherd_and_takes_over_from_it(
    java_classes: str, driver: Driver, tmp_path: Path
) -> None:
    port = free_port((-2, 1))
    with start_leader(tmp_path / "ours", port) as ours:
        ours.create_topic(TOPIC)
        ours.create_group(GROUP)
        send_all(driver, ours)
        commit(driver, ours)
        with start_slave(java_classes, tmp_path / "theirs", ours) as slave:
            until(lambda: log_end(slave.port) == log_end(port), seconds=60, what="the slave has what was sent before")
            send_all(driver, ours, large=3)
            until(lambda: log_end(slave.port) == log_end(port), seconds=60, what="the slave has what was sent since")
            end = log_end(port)
            assert end > 2 * SEGMENT
            assert log_bytes(slave.store, end) == log_bytes(ours.store, end)
            # RocketMQ asks for topics, groups and offsets ten seconds after its start, then once a minute.
            until(lambda: slave.offsets == COMMITTED, seconds=100, what="the slave has the offsets")
            until(lambda: TOPIC in slave.topics, seconds=10, what="the slave has the topics")
            written = read(driver, ours)
            assert ours.stop() == 0
            slave.process.stop(seconds=60)
    shutil.rmtree(tmp_path / "ours")
    options = RocketMQOptions(extra=SIZES)
    with start_rocketmq(java_classes, tmp_path / "theirs", options, broker_port=port) as theirs:
        assert read(driver, theirs) == written
        assert committed(theirs) == COMMITTED
        driver.call("producer.start", name="p", group="exchange", nameServer=theirs.name_server)
        (answer,) = driver.call("producer.send", name="p", topic=TOPIC, mode="sync", queueId=0,
                                messages=[message("goes on")])  # fmt: skip
        driver.call("producer.stop", name="p")
        assert answer["offset"] == len(written["0"])
