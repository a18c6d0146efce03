"""A broker process, topics on it, and one Spark for all tests of a run.

Needs the packages of requirements-spark.lock and Java 17 or newer: `make spark`.
"""

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from logherd.wire.codes import RequestCode
from logherd.wire.frame import Frame
from logherd.wire.headers import encode_header
from logherd.wire.headers.topics import CreateTopicHeader
from logherd_spark.cluster import Cluster
from logherd_spark.connection import Connection
from logherd_spark.errors import TopicMissing
from logherd_spark.patience import Patience
from system.processes import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = Patience(request_seconds=10, total_seconds=60)
_numbers = count()


def make_topic(broker: str, names: str, queues: int) -> str:
    """Create a topic and wait for its route; its name."""
    name = f"events-{next(_numbers)}"
    header = CreateTopicHeader(
        topic=name, default_topic="TBW102", read_queues=queues, write_queues=queues, permission=6,
        filter_type="SINGLE_TAG",
    )  # fmt: skip
    connection = Connection(broker, seconds=10)
    answer = connection.ask(Frame(RequestCode.UPDATE_AND_CREATE_TOPIC, 0, ext=encode_header(header)), seconds=10)
    connection.close()
    assert answer.code == 0, answer.remark
    deadline = time.monotonic() + 60
    while True:
        try:
            with closing(Cluster((names,), PATIENCE)) as cluster:
                assert len(cluster.route(name).writable) == queues
                return name
        except TopicMissing:
            assert time.monotonic() < deadline, f"{name} has no route"
            time.sleep(0.05)


class Site:
    """One broker whose ports stay the same over restarts, and what tests ask of it."""

    def __init__(self, directory: Path) -> None:
        with ExitStack() as held:
            taken = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
            names, port = (each.getsockname()[1] for each in taken)
        self.names = f"127.0.0.1:{names}"
        self.broker = BrokerProcess(
            directory, store={"segmentSize": "16MiB", "reservedPercent": 0},
            nameService={"mode": "embedded", "listen": self.names},
        )  # fmt: skip
        self.broker.port = port
        self.broker.start()

    def topic(self, queues: int = 4) -> str:
        """A new topic."""
        return make_topic(f"127.0.0.1:{self.broker.port}", self.names, queues)

    def cluster(self) -> Cluster:
        return Cluster((self.names,), PATIENCE)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("broker"))
    yield made
    made.broker.stop()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    roots = [str(Path(__file__).parents[2] / each) for each in ("broker", "spark", "tests")]
    os.environ["PYTHONPATH"] = os.pathsep.join([*roots, os.environ.get("PYTHONPATH", "")])
    session = (
        # Two cores; a task may fail three times.
        SparkSession.builder.master("local[2,4]")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.local.dir", str(tmp_path_factory.mktemp("spark")))
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def topic(site: Site) -> Callable[..., str]:
    return site.topic
