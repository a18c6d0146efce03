"""What RocketMQ wrote becomes the log of a replicated group: each replica has it, and a stock client reads it there."""

import subprocess
import sys
from pathlib import Path

import pytest

from compat.driver import Driver
from compat.processes import free_port, until
from compat.replicas import log_bytes, log_end
from compat.rocketmq import RocketMQOptions, start_rocketmq
from compat.static_group import StaticGroup
from compat.test_store_exchange import GROUP, SEGMENT, SIZES, TOPIC, check, read, write

pytestmark = [pytest.mark.compat, pytest.mark.timeout(400)]


class ControllerGroup(StaticGroup):
    """Three brokers; whoever the controller chooses leads."""

    members = (1, 2, 3)
    segment = SEGMENT

    def replication(self, number: int) -> dict[str, object]:
        """All in sync acknowledge."""
        del number
        return {"mode": "controller", "controllers": [f"127.0.0.1:{each}" for each in self._names.ports.values()]}

    def leader(self, *others: int) -> int:
        """Who of these leads, once somebody does."""
        found: list[int] = []

        def led() -> bool:
            found[:] = [each for each in others if self.status(each).get("role") == "leader"]
            return bool(found)

        until(led, seconds=120, what="a leader")
        return found[0]

    def all_in_sync(self) -> bool:
        """Whether the first one has all others with it."""
        replication = self.status(1).get("replication") or {}
        return len((replication.get("inSync") or {"members": ()})["members"]) == len(self.members)


def test_every_replica_has_what_rocketmq_wrote_and_serves_it(java_classes: str, driver: Driver, tmp_path: Path) -> None:
    port = free_port((-2, 1))
    with start_rocketmq(java_classes, tmp_path / "theirs", RocketMQOptions(extra=SIZES), broker_port=port) as theirs:
        write(driver, theirs)
        written = read(driver, theirs)
        end = log_end(port)
        driver.call("query.stop")
        theirs.stop()
    group = ControllerGroup(tmp_path, first_port=port)
    config = group.config(1)
    theirs.store.rename(group.store(1))
    command = [sys.executable, "-m", "logherd", "store", "found", "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"up to position {end} RocketMQ wrote it" in done.stdout
    with group:
        until(group.all_in_sync, seconds=120, what="all have the log")
        assert group.leader(1) == 1
        check(driver, group.server(1), written)
        for number in (2, 3):
            assert log_bytes(group.store(number), end) == log_bytes(group.store(1), end)
            assert "RocketMQ wrote them" in group.log(number)
        group.kill(1)
        second = group.leader(2, 3)
        driver.call("query.stop")
        found = read(driver, group.server(second))
        assert found[TOPIC]["0"][:-1] == written[TOPIC]["0"]
        assert [group.server(second).committed(GROUP, TOPIC, each) for each in range(4)] == [1, 2, 3, 4]
        driver.call("query.stop")
