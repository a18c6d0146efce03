"""Fixtures: a stock client in a JVM, a real RocketMQ, a LogHerd.

`LOGHERD_COMPAT_AGAINST=rocketmq` runs the client tests against the real broker: that is how the tests themselves are
tested. A missing tool skips with its name and purpose; with `CI=true` it fails.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from compat.driver import Driver
from compat.logherd_server import LogHerd, start_logherd
from compat.rocketmq import RocketMQ, start_rocketmq
from compat.server import Server
from compat.toolchain import HERE, JAVA_DIRECTORY, MissingTool, build_go, build_helm, compile_java
from e2e.cluster.programs import build_kubectl
from k8s.conftest import pytest_pyfunc_call

__all__ = ["pytest_pyfunc_call"]

T = TypeVar("T")


def needs(build: Callable[[], T]) -> T:
    """What `build` makes, or a skip that says what is missing; in CI a missing tool is a failure."""
    try:
        return build()
    except MissingTool as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def java_classes() -> str:
    """Class path of the Java driver with the 5.3.3 client, tools, broker and name server."""
    return needs(lambda: compile_java(JAVA_DIRECTORY / "src" / "main" / "java"))


@pytest.fixture(scope="session")
def go_program() -> Path:
    return needs(lambda: build_go(HERE / "go"))


@pytest.fixture(scope="session")
def crd_judge() -> Path:
    return needs(lambda: build_go(HERE / "crdcheck"))


@pytest.fixture(scope="session")
def helm_program() -> Path:
    return needs(build_helm)


@pytest.fixture(scope="session")
def kubectl_program() -> Path:
    found = shutil.which("kubectl")
    return Path(found) if found is not None else needs(build_kubectl)


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compat")


@pytest.fixture(scope="session")
def rocketmq(java_classes: str, workspace: Path) -> Iterator[RocketMQ]:
    with start_rocketmq(java_classes, workspace / "rocketmq") as server:
        yield server


@pytest.fixture(scope="session")
def logherd(workspace: Path) -> Iterator[LogHerd]:
    with start_logherd(workspace / "logherd") as server:
        yield server


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Server:
    """The server under test."""
    chosen: Server = request.getfixturevalue(os.environ.get("LOGHERD_COMPAT_AGAINST", "logherd"))
    return chosen


@pytest.fixture(scope="session")
def driver(java_classes: str, workspace: Path) -> Iterator[Driver]:
    """A stock 5.3.3 client that speaks JSON headers, which is its default."""
    with Driver(java_classes, workspace / "driver") as started:
        yield started


@pytest.fixture(scope="session")
def binary_driver(java_classes: str, workspace: Path) -> Iterator[Driver]:
    """A stock 5.3.3 client that speaks binary headers."""
    options = ["-Drocketmq.serialize.type=ROCKETMQ"]
    with Driver(java_classes, workspace / "binary-driver", options=options) as started:
        yield started


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A name of its own for each test."""
    return request.node.name.removeprefix("test_").replace("[", "-").replace("]", "")[:100]


@pytest.fixture
def topic(server: Server, topic_name: str) -> str:
    """A topic of its own for each test, with four queues."""
    return server.create_topic(topic_name)
