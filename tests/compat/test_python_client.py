"""The unmodified client for Python, which is the C++ client beneath, sends and receives."""

from pathlib import Path

import pytest

from compat.conftest import needs
from compat.driver import Driver
from compat.payloads import sha256
from compat.python_client import PythonClient
from compat.rocketmq import RocketMQ
from compat.server import Server
from compat.toolchain import install_python_client

pytestmark = [pytest.mark.compat, pytest.mark.timeout(240)]


@pytest.fixture
def python(server: Server, workspace: Path) -> PythonClient:
    return PythonClient(needs(install_python_client), server.name_server, workspace)


def body(i: int, size: int) -> bytes:
    return f"python-{i}-".encode().ljust(size, b"x")


@pytest.mark.parametrize("verb", ["sync", "async", "orderly"])
def test_python_sends_are_where_the_answers_said(
    python: PythonClient, driver: Driver, server: Server, topic: str, verb: str
) -> None:
    answers = python.run(verb, topic, count=30, size=200)
    assert [answer.get("status") for answer in answers] == [0] * 30, answers
    queues = driver.call("query.readAll", nameServer=server.name_server, topic=topic)
    found = {seen["msgId"]: seen for messages in queues.values() for seen in messages}
    assert sorted(seen["sha256"] for seen in found.values()) == sorted(sha256(body(i, 200)) for i in range(30))
    assert [found[answer["msgId"]]["offset"] for answer in answers] == [answer["offset"] for answer in answers]


@pytest.mark.parametrize("verb", ["oneway", "batch"])
@pytest.mark.parametrize("receive", ["push", "orderly-push", "poll"])
def test_python_receives_what_python_sent(
    python: PythonClient, server: Server, topic: str, verb: str, receive: str
) -> None:
    if verb == "batch" and isinstance(server, RocketMQ):
        pytest.skip("RocketMQ stores an empty message in place of a batch that is compressed as a whole")
    python.run(verb, topic, count=20, size=5000)
    seen = python.run(receive, topic, count=20, group=f"python-{topic}")
    assert {each["sha256"] for each in seen} == {sha256(body(i, 5000)) for i in range(20)}
    assert {each["keys"].strip() for each in seen} == {f"key-python-{i}-" for i in range(20)}
    assert {each["said"] for each in seen} == {"Python"}


def test_python_consumer_receives_only_its_tag(python: PythonClient, topic: str) -> None:
    python.run("sync", topic, count=5, tag="other")
    python.run("sync", topic, count=5, tag="wanted")
    seen = python.run("push", topic, count=5, tag="wanted", group=f"python-{topic}")
    assert [each["tags"] for each in seen] == ["wanted"] * 5


def test_java_receives_what_python_sent(python: PythonClient, driver: Driver, server: Server, topic: str) -> None:
    python.run("sync", topic, count=3, size=10_000)
    options = {"topic": topic, "group": "mixed-python", "nameServer": server.name_server}
    driver.call("consumer.assign", name="mixed-python", **options)
    seen = driver.call("consumer.poll", name="mixed-python", count=3, timeoutMs=30_000)
    driver.call("consumer.stop", name="mixed-python")
    assert {each["sha256"] for each in seen} == {sha256(body(i, 10_000)) for i in range(3)}
