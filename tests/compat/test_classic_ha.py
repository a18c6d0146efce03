"""The classic HA protocol between LogHerd and RocketMQ 5.3.3: the way in, and the way out (rule H8)."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from compat.driver import Driver, message
from compat.logherd_server import LogHerd, start_logherd
from compat.processes import free_port, until
from compat.replicas import (
    GROUP,
    SEGMENT,
    TOPIC,
    Follower,
    log_bytes,
    log_end,
    read,
    send_all,
    start_follower,
    start_slave,
)  # fmt: skip
from compat.rocketmq import RocketMQOptions, start_rocketmq
from compat.server import Server
from compat.static_group import StaticGroup

pytestmark = [pytest.mark.compat, pytest.mark.timeout(500)]
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
            until(lambda: TOPIC in slave.topics, seconds=60, what="the slave has the topics")
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


def test_a_slave_with_files_of_another_length_is_given_nothing(java_classes: str, tmp_path: Path) -> None:
    port = free_port((-2, 1))
    with start_leader(tmp_path / "ours", port) as ours:
        assert log_end(port) > 0
        with start_slave(java_classes, tmp_path / "theirs", ours, segment=2 * SEGMENT) as slave:
            log = tmp_path / "ours" / "broker.out"
            until(lambda: f"mappedFileSizeCommitLog={2 * SEGMENT}" in log.read_text(), seconds=60, what="the refusal")
            assert log_end(slave.port) == 0


def store_command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "logherd", "store", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def wait_for(follower: Follower, port: int) -> None:
    def has_all() -> bool:
        found: int = follower.status()["committedPosition"]
        return found == log_end(port)

    until(has_all, seconds=60, what="the follower has the master's log")


def test_logherd_follows_rocketmq_master_and_takes_over_from_it(
    java_classes: str, driver: Driver, tmp_path: Path
) -> None:
    port = free_port((-2, 1))
    options = RocketMQOptions(extra={**SIZES, "haListenPort": str(port + 1)})
    ours = tmp_path / "ours"
    with start_rocketmq(java_classes, tmp_path / "theirs", options, broker_port=port) as theirs:
        theirs.create_topic(TOPIC)
        theirs.create_group(GROUP)
        with start_follower(tmp_path / "wrong", theirs, segment=2 * SEGMENT) as follower:
            until(lambda: f"mappedFileSizeCommitLog={SEGMENT}" in follower.status()["following"]["reason"], seconds=30,
                  what="the refusal")  # fmt: skip
            assert follower.status()["endPosition"] == 0
        send_all(driver, theirs)
        with start_follower(ours, theirs) as follower:
            wait_for(follower, port)
            assert follower.process.kill() != 0
        with start_follower(ours, theirs) as follower:
            send_all(driver, theirs, large=3)
            commit(driver, theirs)
            wait_for(follower, port)
            at = time.time() * 1000
            until(lambda: follower.status()["following"]["metadataMs"] > at, seconds=30, what="the metadata is pulled")
            end = log_end(port)
            assert end > 2 * SEGMENT
            assert log_bytes(follower.store, end) == log_bytes(theirs.store, end)
            written = read(driver, theirs)
            assert follower.process.stop() == 0
    shutil.rmtree(tmp_path / "theirs")
    with pytest.raises(RuntimeError, match="logherd store promote"):
        start_logherd(ours, broker_port=port, store={"segmentSize": SEGMENT})
    done = store_command("promote", ours / "store")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lost" not in done.stdout
    with start_logherd(ours, broker_port=port, store={"segmentSize": SEGMENT}) as server:
        assert read(driver, server) == written
        assert committed(server) == COMMITTED
        driver.call("producer.start", name="p", group="exchange", nameServer=server.name_server)
        (answer,) = driver.call("producer.send", name="p", topic=TOPIC, mode="sync", queueId=0,
                                messages=[message("goes on")])  # fmt: skip
        driver.call("producer.stop", name="p")
        assert answer["offset"] == len(written["0"])
    assert store_command("verify", ours / "store").returncode == 0


def test_rocketmq_slave_follows_a_static_group_through_a_promotion(
    java_classes: str, driver: Driver, tmp_path: Path
) -> None:
    with StaticGroup(tmp_path) as group:
        first, second = (group.server(number) for number in (1, 2))
        first.create_topic(TOPIC)
        first.create_group(GROUP)
        send_all(driver, first, large=3)
        with start_slave(java_classes, tmp_path / "theirs", first) as slave:
            until(lambda: log_end(slave.port) == log_end(first.broker_port), seconds=100, what="the slave has the log")
            assert "slave connected" in group.log(1)
            assert "slave connected" not in group.log(2)
            group.kill(1)
            group.promote(2, after=1)
            until(lambda: first.queues_of(TOPIC) == 4 and group.log(2).count("logherd.group: leads") > 0, seconds=60,
                  what="broker 2 leads")  # fmt: skip
            send_all(driver, second, large=3)
            commit(driver, second)
            # RocketMQ hears of another master when it registers, every 30 s.
            until(lambda: log_end(slave.port) == log_end(second.broker_port), seconds=150, what="the slave follows")
            end = log_end(second.broker_port)
            assert end > SEGMENT
            assert log_bytes(slave.store, end) == log_bytes(group.store(2), end)
            # Topics, groups and offsets come once a minute.
            until(lambda: slave.offsets == COMMITTED, seconds=150, what="the slave has the offsets")
            assert TOPIC in slave.topics
