"""Followers that answer pulls, as real processes, read by a stock Java client that knows nothing of it."""

import re
from pathlib import Path
from typing import Any

import pytest

from compat.driver import Driver, message
from system.guarded_group import GuardedGroup, GuardedReplica
from system.guardians import eventually

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(240)]

TOPIC, COUNT = "Followed", 300
STORE = {"segmentSize": "4MiB", "messageSizeMax": "64KiB", "reservedPercent": 0}
READS = {"followerReads": True, "followerReadsBehind": 0}
SECONDS = 60.0


def read_here(broker: GuardedReplica) -> int:
    """How many pulls it answered while another led."""
    return int(broker.replication().get("requests", {}).get("read", 0))


def send(driver: Driver, prefix: str) -> list[str]:
    """COUNT messages; their keys."""
    messages = [message(f"{prefix}-{i}", keys=f"{prefix}-{i}") for i in range(COUNT)]
    sent = driver.call("producer.send", name="p", topic=TOPIC, mode="sync", messages=messages, seconds=120)
    assert len(sent) == COUNT
    return [f"{prefix}-{i}" for i in range(COUNT)]


def consumed(driver: Driver, group: GuardedGroup, name: str) -> list[str]:
    """The keys of COUNT messages that a push consumer with default settings gets."""
    driver.call("consumer.push", name=name, topic=TOPIC, nameServer=group.name_server, group="readers")
    seen: list[dict[str, Any]] = driver.call("consumer.received", name=name, count=COUNT, timeoutMs=90_000, seconds=100)
    driver.call("consumer.stop", name=name)
    return sorted(each["keys"] for each in seen)


def ha_status(driver: Driver, broker: GuardedReplica) -> str:
    """What `mqadmin haStatus` prints of one broker."""
    return str(driver.call("mqadmin", command=["haStatus", "-b", f"{broker.host}:{broker.port}"])["out"])


def test_a_stock_consumer_is_served_by_followers_and_goes_on_where_it_committed(
    tmp_path: Path, java_classes: str
) -> None:
    with (
        GuardedGroup(tmp_path, replication=READS, guarded=False, store=STORE) as group,
        Driver(java_classes, tmp_path / "client") as driver,
    ):
        group.agree()
        driver.call("producer.start", name="p", group="writers", nameServer=group.name_server)
        first = send(driver, "first")
        leader, _ = group.leader()
        followers = [broker for broker in group.brokers if broker is not leader]
        assert consumed(driver, group, "c1") == sorted(first)
        eventually(lambda: sum(map(read_here, followers)) > 0, "no follower answered a pull", SECONDS)
        assert read_here(leader) == 0
        second = send(driver, "second")
        assert consumed(driver, group, "c2") == sorted(second), "offsets were not committed at the leader"
        driver.call("producer.stop", name="p")
        # What the same client's tools print of the group.
        said = ha_status(driver, leader)
        assert re.search(r"(?s)#SlaveNum\s+2.*#InSyncSlaveNum\s+2.*broker [123].*broker [123]", said), said
        said = ha_status(driver, followers[0])
        assert f"{leader.host}:{leader.port}" in said, said
