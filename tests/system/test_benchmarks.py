"""The benchmarks' processes, a few hundred operations each: that they still run and count right, not how fast."""

import socket
from pathlib import Path

import pytest
import uvloop
from bench.broker_fleet import FleetSize
from bench.heartbeats import measure, running_controllers
from bench.node_protocol import CAS, FAILED, GET, MISSING, OK, PUT, read_answer, write_request
from bench.raft_targets import running_group

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


def test_measured_brokers_hold_leases_and_others_follow_when_they_fall_silent(tmp_path: Path) -> None:
    size = FleetSize(groups=8, brokers=3, connections=6, interval_ms=500)
    with running_controllers(tmp_path / "controllers") as controllers:
        figures = uvloop.run(measure(controllers, size, seconds=1.5))
    assert figures["refused"] == 0
    assert figures["heartbeatsPerSecond"] > 0
    assert figures["leasesPerSecond"] > 0
    assert (figures["mastersLost"], figures["mastersFollowed"]) == (8, 8)
