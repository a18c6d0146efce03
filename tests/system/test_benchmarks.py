"""The benchmarks' processes, a few hundred operations each: that they still run and count right, not how fast."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop
from bench.broker_fleet import FleetSize
from bench.heartbeats import measure, running_controllers
from bench.node_protocol import CAS, FAILED, GET, MISSING, OK, PUT, read_answer, write_request
from bench.raft_targets import running_group
from bench.sampling import family
from bench.targets import Target, running

from compat.remoting import ask as ask_broker
from system.guardians import eventually, is_alive

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]


def ask(link: socket.socket, requests: list[bytes]) -> dict[int, tuple[int, bytes]]:
    """All requests in one write; the answers by number."""
    link.sendall(b"".join(requests))
    answers = (read_answer(link.recv) for _ in requests)
    return {number: (status, text) for number, status, text in answers}


def test_the_measured_group_decides_every_put(tmp_path: Path) -> None:
    with running_group("node", tmp_path / "group") as group:
        host, _, port = group.leader.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=30) as link:
            puts = [write_request(number, PUT, b"key %d" % number, b"x" * number) for number in range(300)]
            assert ask(link, puts) == dict.fromkeys(range(300), (OK, b""))
            gets = [write_request(number, GET, b"key %d" % number, b"") for number in (0, 7, 299, 300)]
            assert ask(link, gets) == {0: (OK, b""), 7: (OK, b"x" * 7), 299: (OK, b"x" * 299), 300: (MISSING, b"")}
            wrong = write_request(1, CAS, b"key 7", b"\0\0\0\1?new")
            assert ask(link, [wrong]) == {1: (FAILED, b"x" * 7)}
    assert len(group.pids) == 3


def test_the_floor_answers_what_three_files_hold(tmp_path: Path) -> None:
    place = tmp_path / "floor"
    with running(Target("floor"), place) as started:
        assert len(started.pids) == 3
        sent = {"producerGroup": "p", "topic": "t", "queueId": "0", "sysFlag": "0", "bornTimestamp": "0", "flag": "0"}
        for number in range(20):
            body = b"message %d of the floor" % number
            assert ask_broker(started.server.broker_port, 10, sent, body)[0]["code"] == 0
            assert all(body in (place / name).read_bytes() for name in ("leader", "f1", "f2"))
    assert not any(is_alive(pid) for pid in started.pids)


def test_measured_brokers_hold_leases_and_others_follow_when_they_fall_silent(tmp_path: Path) -> None:
    size = FleetSize(groups=8, brokers=3, connections=6, interval_ms=500)
    with running_controllers(tmp_path / "controllers") as controllers:
        figures = uvloop.run(measure(controllers, size, seconds=1.5))
    assert figures["refused"] == 0
    assert figures["heartbeatsPerSecond"] > 0
    assert figures["leasesPerSecond"] > 0
    assert (figures["mastersLost"], figures["mastersFollowed"]) == (8, 8)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_bench_that_is_ended_takes_its_processes_and_its_files_along(tmp_path: Path, number: signal.Signals) -> None:
    root = Path(__file__).parents[2]
    sources = os.pathsep.join(str(root / each) for each in (".", "broker", "tests"))
    command = [sys.executable, "-m", "bench.heartbeats", "--groups", "4", "--connections", "6", "--seconds", "900"]
    environment = {**os.environ, "PYTHONPATH": sources, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(["env", "--default-signal", *command], cwd=root, env=environment) as bench:

        def begun() -> bool:
            return len(family(bench.pid)) > 3 and len(list(tmp_path.glob("*/controllers/*/raft"))) == 3

        try:
            eventually(lambda: bench.poll() is not None or begun(), "it starts no controllers", 180)
            processes = family(bench.pid)[1:]
            bench.send_signal(number)
            assert bench.wait(120) == 128 + number
        finally:
            bench.kill()
    assert len(processes) == 3
    assert [pid for pid in processes if is_alive(pid)] == []
    assert list(tmp_path.iterdir()) == []
