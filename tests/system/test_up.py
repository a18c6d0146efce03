"""`logherd up` with real processes: a group comes up, outlives each of its parts, and goes without a trace."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from system.disks import MIB, LoopDisk
from system.local_group import FREE, LOGHERD, LocalGroup, await_true, left_over

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(900)]

KEYS = [
    "group", "nameServer", "leader", "inSync", "brokers", "controllers", "generation", "keeper", "doing", "held",
    "fault", "pending", "why",
]  # fmt: skip
BROKER_KEYS = [
    "brokerId", "role", "address", "pid", "guardian", "ready", "endPosition", "committedPosition", "hot", "why",
    "lagBytes", "lagMs", "copying",
]  # fmt: skip
CONTROLLER_KEYS = ["id", "role", "address", "pid", "guardian", "term", "why"]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def broker(status: dict[str, Any], number: int) -> dict[str, Any]:
    found = next(each for each in status["brokers"] if each["brokerId"] == number)
    assert isinstance(found, dict)
    return found


def test_a_group_comes_up_outlives_its_parts_and_goes_without_a_trace(tmp_path: Path) -> None:
    with LocalGroup(tmp_path) as group:
        started = group.up()
        assert started.returncode == 0, started.stderr
        ready = next(line for line in started.stdout.splitlines() if "is ready" in line)
        assert ready.startswith("herd is ready: 3 brokers, 3 controllers, name server at ")
        sent = group.client("send", "t", "one", "--queue-key", "same")
        assert sent.returncode == 0, sent.stderr

        status = group.settle(1, 3)
        assert list(status) == KEYS
        assert [list(each) for each in status["brokers"]] == [BROKER_KEYS] * 3
        assert [list(each) for each in status["controllers"]] == [CONTROLLER_KEYS] * 3
        assert sorted(each["role"] for each in status["controllers"]) == ["follower", "follower", "leader"]
        leader = status["leader"]
        assert leader["pid"] == broker(status, leader["brokerId"])["pid"]
        assert group.status()["keeper"] == status["keeper"]

        kill(leader["pid"])
        await_true(lambda: (group.status()["leader"] or leader)["epoch"] > leader["epoch"], group.status)
        assert group.client("send", "t", "two", "--queue-key", "same").returncode == 0
        status = group.settle(1, 3)

        other = next(each for each in status["brokers"] if each["brokerId"] != status["leader"]["brokerId"])
        kill(other["guardian"])
        await_true(
            lambda: broker(group.status(), other["brokerId"])["guardian"] not in (None, other["guardian"]), group.said
        )
        assert f"broker {other['brokerId']}: its guardian (pid {other['guardian']}) has ended and is started again" in (
            group.said()
        )
        kill(next(each for each in status["controllers"] if each["role"] == "leader")["pid"])
        status = group.settle(1, 3)
        received = group.client("receive", "t", "--from", "first", "--count", "2")
        assert [line.split()[-1] for line in received.stdout.splitlines()] == ["one", "two"]

        stopped = group.logherd("down")
        assert stopped.returncode == 0
        assert [line.rpartition(" ")[2] for line in stopped.stdout.splitlines()] == ["stopped"] * 6
        await_true(lambda: not left_over(tmp_path), lambda: left_over(tmp_path))
        assert group.logherd("down").stdout == "herd: nothing is running\n"
        assert group.logherd("status").returncode == 1

        again = group.up()
        assert again.returncode == 0, again.stderr
        received = group.client("receive", "t", "--from", "first", "--count", "2", "--group", "again")
        assert [line.split()[-1] for line in received.stdout.splitlines()] == ["one", "two"]


def test_what_runs_goes_on_without_a_keeper_and_the_next_one_takes_it_over(tmp_path: Path) -> None:
    with LocalGroup(tmp_path, replicas=1) as group:
        assert group.up().returncode == 0
        before = group.settle(1, 1)
        refused = group.up()
        assert refused.returncode == 1
        assert f"herd is already running, kept by pid {before['keeper']}: what is saved in" in refused.stderr
        kill(before["keeper"])
        await_true(lambda: group.status()["keeper"] is None, group.status)
        assert group.client("send", "t", "one").returncode == 0
        again = group.up()
        assert again.returncode == 0, again.stderr
        after = group.settle(1, 1)
        assert after["keeper"] not in (None, before["keeper"])
        assert [each["pid"] for each in after["brokers"]] == [each["pid"] for each in before["brokers"]]
        assert after["leader"] == before["leader"]


@pytest.fixture
def hangups() -> Iterator[None]:
    """Signal 1 ends what is started here, also where it was to be ignored by all, as under nohup."""
    former = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, former)


@pytest.mark.usefixtures("hangups")
def test_a_foreground_group_tells_what_happens_and_stops_in_order_on_a_signal(tmp_path: Path) -> None:
    with LocalGroup(tmp_path, replicas=1) as group:
        command = [LOGHERD, "up", "-f", str(group.file), "--data", str(group.data), *FREE, "--wait", "200"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                lines = []
                for line in process.stdout:
                    lines.append(line)
                    if line == "Ctrl-C stops it.\n":
                        break
                assert lines[:2] == ["3 controllers are started\n", "1 broker is started\n"]
                assert group.logherd("status").returncode == 0
                process.send_signal(signal.SIGHUP)
                assert process.stdout.readline().endswith("stopped\n")
                process.send_signal(signal.SIGINT)  # a second one changes nothing
                said = process.stdout.read().splitlines()
                assert [line.rpartition(" ")[2] for line in said[:-1]] == ["stopped"] * 3
                assert said[-1] == f"herd: data stays in {group.data}"
                assert process.wait(60) == 0
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
        assert left_over(tmp_path / "data") == {}


def test_a_disk_that_gets_full_is_named_while_messages_are_refused_by_the_next_leader_too(tmp_path: Path) -> None:
    with LoopDisk(tmp_path, size_mib=512) as disk, LocalGroup(disk.mount_point / "herd", replicas=1) as group:
        group.file.write_text(group.file.read_text().replace("reservedPercent: 2", "reservedPercent: 50"))
        started = group.up()
        assert started.returncode == 0, started.stderr
        status = group.settle(1, 1)
        assert status["why"] is None

        filler = disk.fill(leave_bytes=160 * MIB)
        refusal = f"the disk of {group.data / 'broker-1'}"

        def said() -> str:
            return str(group.status()["why"])

        await_true(lambda: said().startswith(f"Broker 1 takes no messages: {refusal} has "), group.status)
        assert re.search(r" has 1[0-9]{2}\.[0-9] MiB free, and messages need 2[0-9]{2}\.[0-9] MiB\.$", said()), said()
        assert broker(group.status(), 1)["why"].startswith(f"it takes no messages: {refusal}")
        assert f"\nwhy          Broker 1 takes no messages: {refusal}" in group.logherd("status").stdout
        await_true(lambda: refusal in group.said(), group.said)

        kill(status["leader"]["pid"])
        await_true(lambda: _leads_anew(group.status(), status["leader"]["pid"]), group.status)
        await_true(lambda: said().startswith(f"Broker 1 takes no messages: {refusal} has "), group.status)
        filler.unlink()
        await_true(lambda: group.status()["why"] is None, group.status)
        assert group.client("send", "t", "one").returncode == 0
        await_true(lambda: "messages are taken now" in group.said(), group.said)


def _leads_anew(status: Any, pid: int) -> bool:
    """Whether another process than this one leads."""
    return status["leader"] is not None and status["leader"]["pid"] != pid


def test_what_is_in_the_way_is_said_in_one_sentence_and_nothing_is_left(tmp_path: Path) -> None:
    with LocalGroup(tmp_path, replicas=1) as group:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            refused = group.up("--broker-port", str(port))
        assert (refused.returncode, refused.stderr) == (
            1, f"logherd up: port {port} of 127.0.0.1 is in use by another program; change it: --broker-port\n",
        )  # fmt: skip
        store = group.data / "broker-1"
        store.mkdir(parents=True)
        (store / "replica.json").write_text("no replica's")
        refused = group.up()
        assert refused.returncode == 1
        assert refused.stderr.startswith("logherd up: broker 1 cannot start: ")
        assert "replica.json" in refused.stderr
        assert refused.stderr.count("\n") == 1
        assert left_over(tmp_path / "data") == {}
        assert json.loads(group.logherd("status", "-o", "json").stdout)["keeper"] is None
        group.file.write_text(group.file.read_text().replace("name: herd", "name: flock"))
        refused = group.up()
        assert "belongs to the group herd; choose another folder for flock: --data" in refused.stderr
