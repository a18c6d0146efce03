"""Changes of the file of a running group: sizes, settings, leaders, under a stock producer that loses no send."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.driver import Driver
from system.local_group import LOGHERD, LocalGroup, await_true
from system.steady import SteadyProducer, stranded, unexcused

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def group(tmp_path: Path) -> Iterator[LocalGroup]:
    with LocalGroup(tmp_path, replicas=1) as made:
        started = made.up()
        assert started.returncode == 0, started.stderr
        yield made


def begin(producer: SteadyProducer) -> float:
    """When it sends evenly. A Java process that starts on a busy machine may be too late for its own first requests."""
    producer.wait_for(50, since=time.time())
    return time.time()


def move_leader(group: LocalGroup, to: int | None = None) -> int:
    """By hand, as a person does; who leads now."""
    before = group.status()
    admin = before["controllers"][0]["address"].rpartition(":")
    wanted = to or next(each for each in before["inSync"] if each != before["leader"]["brokerId"])
    done = subprocess.run(
        [LOGHERD, "switchover", "herd", "--to", str(wanted), "--admin", f"{admin[0]}:{int(admin[2]) - 1}",
         "--token-file", str(group.data / "admin-token")],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # Whoever has just been told to lead may not have been heard of yet by whom the status asks.
    await_true(lambda: (group.status()["leader"] or {}).get("brokerId") == wanted, group.status)
    return wanted


def test_sizes_settings_and_leaders_change_under_a_stock_producer_without_a_failed_send(
    group: LocalGroup, tmp_path: Path, java_classes: str
) -> None:
    """1 to 3 to 5 to 3; a setting; the leader moved, and restarted last."""
    assert group.client("topic", "create", "Orders", "--queues", "4").returncode == 0
    with Driver(java_classes, tmp_path / "client") as driver:
        with SteadyProducer(driver, group.name_servers, "Orders", name="up", per_second=100) as producer:
            begun = begin(producer)
            for before, after, brokers in (("1", "3", 3), ("3", "5", 5), ("5", "3", 3)):
                generation = group.change(f"replicas: {before}", f"replicas: {after}")
                group.settle(generation, brokers)
                producer.wait_for(50, since=time.time())
                if brokers == 5:  # the one that goes first leads: its clients must know another before it goes
                    move_leader(group, to=5)
            leader = move_leader(group)
            pids = {each["pid"] for each in group.settle(generation, 3)["brokers"]}
            generation = group.change('"65536"', '"131072"')
            after_restart = group.settle(generation, 3)
            producer.wait_for(50, since=time.time())
        failed = [each for each in producer.sends if not each.ok and each.invoked > begun]
    assert not pids & {each["pid"] for each in after_restart["brokers"]}
    assert after_restart["leader"]["brokerId"] != leader
    said = [line.partition(" ")[2].partition(" ")[2] for line in group.said().splitlines()]
    restarts = [line for line in said if "is restarted" in line]
    assert restarts[-1] == f"broker {leader} is restarted: what it is started from has changed"
    assert len(restarts) == 3
    assert unexcused(failed, stranded(driver)) == []
    assert len(producer.sends) > 200
    told = (tmp_path / "client/logs/rocketmqlogs/remoting.log").read_text()
    assert "Receive go away from channelId" in told  # who stops in order tells its clients to leave


def hot(group: LocalGroup) -> list[tuple[object, ...]]:
    """What the brokers say is in force."""
    names = ("fileReservedTime", "replication.lagTimeout")
    return [tuple((each["hot"] or {}).get(name) for name in names) for each in group.status()["brokers"]]


def test_each_kind_of_setting_changes_under_a_stock_producer_and_only_what_needs_it_is_restarted(
    tmp_path: Path, java_classes: str
) -> None:
    """Hot settings of brokers; the rules of the controllers; what controllers are started from."""
    with LocalGroup(tmp_path / "group") as group, Driver(java_classes, tmp_path / "client") as driver:
        started = group.up()
        assert started.returncode == 0, started.stderr
        assert group.client("topic", "create", "Orders", "--queues", "4").returncode == 0
        before = group.settle(1, 3)
        with SteadyProducer(driver, group.name_servers, "Orders", name="set", per_second=100) as producer:
            begun = begin(producer)
            generation = group.change(
                "  config: {", '  replication: {lagTimeoutMs: 2000}\n  config: {fileReservedTime: "24", '
            )  # fmt: skip
            await_true(lambda: hot(group) == [("24", "2000ms")] * 3, group.said)
            live = group.settle(generation, 3)
            producer.wait_for(50, since=time.time())
            group.change("lagTimeoutMs: 2000", "lagTimeoutMs: 2000, minInSyncReplicas: 1")
            await_true(lambda: "the controllers are told: 3 replicas, of which 1" in group.said(), group.said)
            generation = group.change("  config:", "  failover: {leaseMs: 3300}\n  config:")
            former = {each["pid"] for each in live["controllers"]}
            await_true(lambda: not former & {each["pid"] for each in group.status()["controllers"]}, group.said)
            after = group.settle(generation, 3)
            producer.wait_for(50, since=time.time())
        failed = [each for each in producer.sends if not each.ok and each.invoked > begun]
    pids = [[each["pid"] for each in status["brokers"]] for status in (before, live, after)]
    assert pids[0] == pids[1] == pids[2]
    controllers = [{each["pid"] for each in status["controllers"]} for status in (before, live, after)]
    assert controllers[0] == controllers[1]
    assert not controllers[1] & controllers[2]
    said = group.said()
    assert "broker 1 takes fileReservedTime=24, replication.lagTimeout=2000ms without a restart" in said
    assert unexcused(failed, stranded(driver)) == []


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
