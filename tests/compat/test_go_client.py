"""The unmodified Go client sends and receives."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from compat.driver import Driver
from compat.payloads import sha256
from compat.server import Server

pytestmark = [pytest.mark.compat, pytest.mark.timeout(120)]


class GoClient:
    """Runs the Go program, one process for each verb."""

    def __init__(self, program: Path, name_server: str) -> None:
        self.program = program
        self.name_server = name_server

    def run(self, verb: str, topic: str, **flags: Any) -> list[dict[str, Any]]:
        """What it printed, line by line."""
        options = {"nameserver": self.name_server, "topic": topic, **flags}
        command = [str(self.program), *(f"-{name}={value}" for name, value in options.items()), verb]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.fixture
def go(go_program: Path, server: Server) -> GoClient:
    return GoClient(go_program, server.name_server)


def body(i: int, size: int) -> bytes:
    return f"go-{i}-".encode().ljust(size, b"x")


@pytest.mark.parametrize("verb", ["sync", "async"])
def test_go_sends_are_where_the_answers_said(
    go: GoClient, driver: Driver, server: Server, topic: str, verb: str
) -> None:
    answers = go.run(verb, topic, count=30, size=200)
    assert [answer["status"] for answer in answers] == [0] * 30
    queues = driver.call("query.readAll", nameServer=server.name_server, topic=topic)
    found = {(seen["queueId"], seen["offset"]): seen for messages in queues.values() for seen in messages}
    assert sorted(seen["sha256"] for seen in found.values()) == sorted(sha256(body(i, 200)) for i in range(30))
    for answer in answers:
        assert found[answer["queueId"], answer["offset"]]["msgId"] == answer["msgId"]


@pytest.mark.parametrize("verb", ["oneway", "batch"])
@pytest.mark.parametrize("receive", ["push", "poll"])
def test_go_receives_what_go_sent(go: GoClient, topic: str, verb: str, receive: str) -> None:
    go.run(verb, topic, count=20, size=5000)
    seen = go.run(receive, topic, count=20, group=f"go-{topic}", seconds=40)
    assert {each["sha256"] for each in seen} == {sha256(body(i, 5000)) for i in range(20)}
    assert {each["keys"].strip() for each in seen} == {f"go-key-{i}" for i in range(20)}


def test_go_consumer_receives_only_its_tag(go: GoClient, topic: str) -> None:
    go.run("sync", topic, count=5, tag="wanted")
    go.run("sync", topic, count=5, tag="other")
    seen = go.run("push", topic, count=5, tag="wanted", group=f"go-{topic}", seconds=40)
    assert [each["tags"] for each in seen] == ["wanted"] * 5


def test_java_receives_what_go_sent_and_go_what_java_sent(
    go: GoClient, driver: Driver, server: Server, topic: str
) -> None:
    go.run("sync", topic, count=3, size=10_000)
    options = {"topic": topic, "group": "mixed", "nameServer": server.name_server}
    driver.call("consumer.assign", name="mixed", **options)
    seen = driver.call("consumer.poll", name="mixed", count=3, timeoutMs=30_000)
    driver.call("consumer.stop", name="mixed")
    assert {each["sha256"] for each in seen} == {sha256(body(i, 10_000)) for i in range(3)}
