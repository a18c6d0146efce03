"""Changes of the file of a running group: sizes, settings, leaders, under a stock producer that loses no send."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.driver import Driver
from system.local_group import LOGHERD, LocalGroup, await_true
from system.steady import SteadyProducer

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def group(tmp_path: Path) -> Iterator[LocalGroup]:
    with LocalGroup(tmp_path, replicas=1) as made:
        started = made.up()
        assert started.returncode == 0, started.stderr
        yield made


def move_leader(group: LocalGroup) -> int:
    """By hand, as a person does; who leads now."""
    before = group.status()
    admin = before["controllers"][0]["address"].rpartition(":")
    wanted = next(each for each in before["inSync"] if each != before["leader"]["brokerId"])
    done = subprocess.run(
        [LOGHERD, "switchover", "herd", "--to", str(wanted), "--admin", f"{admin[0]}:{int(admin[2]) - 1}",
         "--token-file", str(group.data / "admin-token")],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert group.status()["leader"]["brokerId"] == wanted
    return wanted


def test_sizes_settings_and_leaders_change_under_a_stock_producer_without_a_failed_send(
    group: LocalGroup, tmp_path: Path, java_classes: str
) -> None:
    """1 to 3 to 5 to 3; a setting; the leader moved, and restarted last."""
    assert group.client("topic", "create", "Orders", "--queues", "4").returncode == 0
    with Driver(java_classes, tmp_path / "client") as driver:
        with SteadyProducer(driver, group.name_servers, "Orders", name="up", per_second=100) as producer:
            producer.wait_for(50, since=time.time())
            for before, after, brokers in (("1", "3", 3), ("3", "5", 5), ("5", "3", 3)):
                generation = group.change(f"replicas: {before}", f"replicas: {after}")
                group.settle(generation, brokers)
                producer.wait_for(50, since=time.time())
            leader = move_leader(group)
            pids = {each["pid"] for each in group.settle(generation, 3)["brokers"]}
            generation = group.change('"65536"', '"131072"')
            after_restart = group.settle(generation, 3)
            producer.wait_for(50, since=time.time())
        failed = [each for each in producer.sends if not each.ok]
    assert not pids & {each["pid"] for each in after_restart["brokers"]}
    assert after_restart["leader"]["brokerId"] != leader
    said = [line.partition(" ")[2].partition(" ")[2] for line in group.said().splitlines()]
    restarts = [line for line in said if "is restarted" in line]
    assert restarts[-1] == f"broker {leader} is restarted: what it is started from has changed"
    assert len(restarts) == 3
    assert failed == []
    assert len(producer.sends) > 200


def test_what_cannot_be_is_refused_and_the_group_goes_on(group: LocalGroup) -> None:
    before = group.settle(1, 1)
    right = group.file.read_text()
    for wrong, words in (
        (right.replace("replicas: 1", "replicas: 0"), "spec.replicas: 0 is not right"),
        (right.replace("spec:", "spec:\n  controllers: {embedded: {replicas: 1}}"), "it was 3, and it stays"),
        (right.replace('"65536"', '"much"'), "a broker would not start with this"),
    ):
        group.file.write_text(wrong)
        await_true(lambda words=words: words in str(group.status()["fault"]), group.said)  # type: ignore[misc]
    group.file.write_text(right)
    await_true(lambda: group.status()["fault"] is None, group.said)
    after = group.status()
    assert (after["generation"], after["leader"], after["brokers"][0]["pid"]) == (
        1, before["leader"], before["brokers"][0]["pid"],
    )  # fmt: skip


def test_a_step_that_would_stop_writes_is_held_back_until_it_would_not(group: LocalGroup) -> None:
    generation = group.change("replicas: 1", "replicas: 2")
    group.settle(generation, 2)
    group.change('"65536"', '"131072"')
    await_true(lambda: bool(group.status()["held"]), group.said)
    (held,) = group.status()["held"]
    assert held["code"] == "WouldStopWrites"
    assert "update.allowWritePause: true" in held["unblocks"]
    assert "1 of at least 2 replicas would be in sync; it takes: more replicas" in group.said()
    generation = group.change("replicas: 2", "replicas: 3")
    group.settle(generation, 3)
    assert group.status()["held"] == []
