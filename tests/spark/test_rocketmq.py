"""A real RocketMQ: it is read, and written at least once; exactly once it refuses, which is said with what helps."""

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from compat.rocketmq import RocketMQ, start_rocketmq
from compat.toolchain import JAVA_DIRECTORY, MissingTool, compile_java
from logherd_spark.bounds import latest, queues_of
from logherd_spark.cluster import Cluster
from logherd_spark.errors import SourceError
from logherd_spark.options import write_options
from logherd_spark.writers import Identity, Place, Sent, write_rows
from spark.conftest import PATIENCE, make_topic
from spark.rows import batch, by_value, stored

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]


@pytest.fixture(scope="module")
def rocketmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RocketMQ]:
    try:
        classes = compile_java(JAVA_DIRECTORY / "src" / "main" / "java")
    except MissingTool as missing:
        pytest.skip(str(missing))
    started = start_rocketmq(classes, tmp_path_factory.mktemp("rocketmq") / "one")
    yield started
    started.kill()


def cluster_of(server: RocketMQ) -> Cluster:
    return Cluster((server.name_server,), PATIENCE)


def write(server: RocketMQ, topic: str, **options: str) -> Sent:
    settings = {"bootstrap": server.name_server, "topic": topic, **options}
    with closing(cluster_of(server)) as cluster:
        return write_rows(
            [batch(range(400)), batch(range(400, 700))], cluster, write_options(settings, streaming=False),
            Identity("w", "run", lasting=False), Place(0, 0),
        )  # fmt: skip


def wait_for(server: RocketMQ, topic: str, count: int) -> None:
    """RocketMQ answers a send before readers can see the message."""
    deadline = time.monotonic() + 60
    with closing(cluster_of(server)) as cluster:
        while sum(latest(cluster, queues_of(cluster, [topic])).values()) < count:
            assert time.monotonic() < deadline, f"{topic} never shows {count} messages"
            time.sleep(0.05)


def test_what_is_written_at_least_once_is_read(rocketmq: RocketMQ) -> None:
    topic = make_topic(rocketmq.broker, rocketmq.name_server, 4)
    write(rocketmq, topic, guarantee="at-least-once")
    wait_for(rocketmq, topic, 700)
    rows = stored(cluster_of(rocketmq), topic)
    assert by_value(rows) == {f"value-{number}": 1 for number in range(700)}
    assert {(row["key"], row["tags"]) for row in rows} == {(f"key-{n % 17}", f"tag-{n % 2}") for n in range(700)}
    assert len({dict(row["properties"])["LH_UID"] for row in rows}) == 700  # type: ignore[call-overload]


def test_exactly_once_is_refused_with_what_helps(rocketmq: RocketMQ) -> None:
    topic = make_topic(rocketmq.broker, rocketmq.name_server, 4)
    with pytest.raises(SourceError, match=r"cannot store rows exactly once; .* option guarantee=at-least-once"):
        write(rocketmq, topic)
    assert stored(cluster_of(rocketmq), topic) == []
