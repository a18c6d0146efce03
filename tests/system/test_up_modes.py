"""`logherd up` with a group that no controllers lead: mode Raft, where its brokers vote, and mode Static, where a table
of roles says who leads until somebody gives another one. Real processes, and a stock producer."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from compat.driver import Driver
from system.local_group import LocalGroup, await_true, left_over
from system.steady import SteadyProducer

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(1200)]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def received(group: LocalGroup, count: int, reader: str) -> list[str]:
    """The bodies of the first messages of topic t, as a group of consumers that has read nothing yet."""
    told = group.client("receive", "t", "--from", "first", "--count", str(count), "--group", reader)
    return [line.split()[-1] for line in told.stdout.splitlines()]


def send(group: LocalGroup, body: str) -> None:
    done = group.client("send", "t", body, "--queue-key", "same")
    assert done.returncode == 0, done.stderr


def replica(group: LocalGroup, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """`logherd replica`, with the group's secret where it is needed."""
    return subprocess.run(
        [sys.executable, "-m", "logherd", "replica", *arguments, "-o", "json"], capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


def admin(group: LocalGroup, number: int) -> str:
    """Where a broker takes orders."""
    config = json.loads((group.data / f"broker-{number}.json").read_text())
    return str(config["adminListen"])


def leads(group: LocalGroup) -> tuple[int, int]:
    """Who leads, and in which epoch; zeros if nobody does."""
    leader = group.status()["leader"]
    return (0, 0) if leader is None else (leader["brokerId"], leader["epoch"])


def led_after(group: LocalGroup, epoch: int) -> tuple[int, int]:
    """Wait for a leader of a later epoch."""
    await_true(lambda: leads(group)[1] > epoch, lambda: (group.status(), group.said()[-2000:]))
    return leads(group)


def make_lead(group: LocalGroup, target: int) -> None:
    """Order it until it is so: on a busy machine another election may be faster, and end what was ordered."""
    while (now := led_after(group, 0))[0] != target:
        order_switch(group, target, now[1])
        await_true(lambda now=now: leads(group)[1] > now[1], lambda: (group.status(), group.said()[-2000:]))  # type: ignore[misc]


def order_switch(group: LocalGroup, target: int, epoch: int) -> None:
    """As a person does it in the file: the broker that is to lead, in place of that epoch's leader."""
    head = group.file.read_text().splitlines()[2]
    group.change(head, f'metadata: {{name: herd, annotations: {{logherd.dev/switchover: "{target}@{epoch}"}}}}')


def switchover(group: LocalGroup, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """`logherd switchover`, asked of the group's brokers."""
    admins = [part for number in (1, 2, 3) for part in ("--admin", admin(group, number))]
    return subprocess.run(
        [sys.executable, "-m", "logherd", "switchover", "herd", *arguments, *admins, *token(group), "-o", "json"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def switched(group: LocalGroup, *arguments: str) -> int:
    """Who leads after a switch that was ordered until it was done: a moment later more may be in sync."""
    done = [switchover(group, *arguments)]

    def succeeded() -> bool:
        if done[0].returncode:
            done[0] = switchover(group, *arguments)
        return done[0].returncode == 0

    await_true(succeeded, lambda: done[0].stderr)
    return int(json.loads(done[0].stdout)["leader"])


def pids(status: dict[str, Any]) -> set[int]:
    return {each["pid"] for each in status["brokers"]}


def test_brokers_that_vote_come_up_outlive_their_leader_and_come_up_again(tmp_path: Path) -> None:
    with LocalGroup(tmp_path, replication="{mode: Raft}") as group:
        started = group.up()
        assert started.returncode == 0, started.stderr
        assert "herd is ready: 3 brokers, 3 controllers, name server at " in started.stdout
        send(group, "one")
        status = group.settle(1, 3)
        assert status["held"] == []
        leader = status["leader"]

        kill(leader["pid"])
        led_after(group, leader["epoch"])
        send(group, "two")
        status = group.settle(1, 3)

        target = next(each for each in status["inSync"] if each != status["leader"]["brokerId"])
        make_lead(group, target)
        assert f"broker {target} is to lead: broker {target} was ordered to lead" in group.said()
        before = group.settle(2, 3)
        switched(group)
        assert leads(group)[1] > before["leader"]["epoch"]

        group.change("config: {", 'config: {fileReservedTime: "24", ')
        await_true(
            lambda: [(each["hot"] or {}).get("fileReservedTime") for each in group.status()["brokers"]] == ["24"] * 3,
            group.said,
        )
        assert pids(group.settle(2, 3)) == pids(before)
        send(group, "three")

        stopped = group.logherd("down")
        assert [line.rpartition(" ")[2] for line in stopped.stdout.splitlines()] == ["stopped"] * 6
        await_true(lambda: not left_over(tmp_path), lambda: left_over(tmp_path))
        again = group.up()
        assert again.returncode == 0, again.stderr
        assert received(group, 3, "again") == ["one", "two", "three"]


def test_a_voting_group_changes_its_size_and_settings_under_a_stock_producer_that_finds_it_all_the_time(
    tmp_path: Path, java_classes: str
) -> None:
    """3 to 5 to 3, without a restart; then a setting that takes one, the leader last and after another one leads."""
    with LocalGroup(tmp_path / "group", replication="{mode: Raft}") as group:
        started = group.up()
        assert started.returncode == 0, started.stderr
        assert group.client("topic", "create", "Orders", "--queues", "4").returncode == 0
        first = group.settle(1, 3)
        with Driver(java_classes, tmp_path / "client") as driver:
            with SteadyProducer(driver, group.name_servers, "Orders", name="vote", per_second=100) as producer:
                producer.wait_for(50, since=time.time())
                begun = time.time()
                grown = group.settle(group.change("replicas: 3", "replicas: 5"), 5)
                producer.wait_for(50, since=time.time())
                assert pids(first) <= pids(grown)
                # Who goes is 5, then 4: let 5 lead, so that it has to hand over first.
                make_lead(group, 5)
                shrunk = group.settle(group.change("replicas: 5", "replicas: 3"), 3)
                producer.wait_for(50, since=time.time())
                assert pids(shrunk) == pids(first)
                after = group.settle(group.change('"65536"', '"131072"'), 3)
                producer.wait_for(50, since=time.time())
            failed = [each.fault for each in producer.sends if not each.ok and each.invoked > begun]
        assert not pids(after) & pids(shrunk)
        assert after["leader"]["epoch"] > shrunk["leader"]["epoch"]
        said = group.said().rpartition("has changed: ")[2]
        restarts = [line for line in said.splitlines() if "is restarted" in line]
        assert len(restarts) == 3
        handed_over = re.findall(r"broker (\d+) leads and goes last", said)
        assert not handed_over or f" broker {handed_over[-1]} is restarted: " in restarts[-1]
        # A disk that stalls for longer than a client waits costs sends, whatever is done meanwhile.
        assert [each for each in failed if "call timeout" not in each] == []
        assert len(producer.sends) > 200


def test_a_table_of_roles_says_who_leads_until_somebody_gives_another_one(tmp_path: Path) -> None:
    replication = "{mode: Static, static: {leader: 1, synchronous: [2]}}"
    with LocalGroup(tmp_path, replication=replication) as group:
        started = group.up()
        assert started.returncode == 0, started.stderr
        send(group, "one")
        await_true(lambda: group.status()["inSync"] == [1, 2], group.status)
        status = group.status()
        assert status["leader"]["brokerId"] == 1

        kill(status["leader"]["pid"])
        assert led_after(group, status["leader"]["epoch"])[0] == 1, "nobody else takes over"
        send(group, "two")

        await_true(lambda: loses_nothing(group, 2), lambda: roles(group, 2))
        refused = replica(group, "promote", "--admin", admin(group, 3), "--after", "1", *token(group))
        assert "what was acknowledged is with broker 1, broker 2" in refused.stderr
        make_lead(group, 2)
        assert roles(group, 2)["synchronous"] == [1]
        send(group, "three")
        await_true(lambda: group.status()["inSync"] == [1, 2], group.status)

        await_true(lambda: loses_nothing(group, 1), lambda: roles(group, 1))
        refused = switchover(group, "--to", "3")
        assert "promotable without loss: broker 1; broker 3: what was acknowledged is with" in refused.stderr
        assert switched(group, "--to", "1") == 1
        assert switched(group, "--to", "2") == 2
        assert roles(group, 2)["table"] >= 4
        assert group.logherd("down").returncode == 0
        again = group.up()
        assert again.returncode == 0, again.stderr
        assert leads(group)[0] == 2
        assert received(group, 3, "again") == ["one", "two", "three"]


def token(group: LocalGroup) -> tuple[str, str]:
    return "--token-file", str(group.data / "admin-token")


def roles(group: LocalGroup, number: int) -> dict[str, Any]:
    """The table of roles that a broker knows."""
    page = json.loads(replica(group, "roles", "--admin", admin(group, number)).stdout)[0]
    assert isinstance(page, dict)
    return page


def loses_nothing(group: LocalGroup, number: int) -> bool:
    return bool(roles(group, number)["eligible"])


def test_in_mode_static_only_who_is_not_awaited_comes_and_goes_and_the_leader_is_restarted_in_place(
    tmp_path: Path,
) -> None:
    replication = "{mode: Static, static: {leader: 1, synchronous: [2]}}"
    with LocalGroup(tmp_path, replicas=2, replication=replication) as group:
        started = group.up()
        assert started.returncode == 0, started.stderr
        before = group.settle(1, 2)

        group.change("replicas: 2", "replicas: 3")
        await_true(lambda: settled(group, 2, brokers=3), lambda: (group.status(), group.said()[-2000:]))
        assert pids(before) <= pids(group.status())
        group.change("replicas: 3", "replicas: 2")
        await_true(lambda: settled(group, 3, brokers=2), lambda: (group.status(), group.said()[-2000:]))

        group.change('"65536"', '"131072"')
        await_true(lambda: [each["code"] for each in group.status()["held"]] == ["WouldStopWrites"], group.said)
        assert "logherd replica promote, or update.allowWritePause: true" in group.said()
        group.change("spec:", "spec:\n  update: {allowWritePause: true}")
        await_true(lambda: not pids(before) & pids(group.status()), group.said)
        await_true(lambda: settled(group, 5, brokers=2), lambda: (group.status(), group.said()[-2000:]))
        assert leads(group)[0] == 1
        assert "it leads, and nothing is acknowledged until it is back" in group.said()
        send(group, "one")


def settled(group: LocalGroup, generation: int, *, brokers: int) -> bool:
    """Is everything done that the file says?"""
    status = group.status()
    done = status["generation"] >= generation and status["doing"] is None and not status["held"]
    ready = [each["brokerId"] for each in status["brokers"] if each["ready"]]
    return bool(done and len(ready) == len(status["brokers"]) == brokers and status["inSync"] == [1, 2])
