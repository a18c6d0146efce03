"""One cluster for all tests here. What it leaves behind is a failure, too."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.toolchain import BUILT, JAVA_DIRECTORY, compile_java
from e2e.cluster.traces import traces
from e2e.scene import Scene, set_up, write_table


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Scene]:
    before = traces()
    home = Path(tmp_path_factory.mktemp("cluster"))
    classes = compile_java(JAVA_DIRECTORY / "src" / "main" / "java")
    with set_up(home, classes) as made:
        yield made
        request.config.stash[_TABLE] = write_table(made.rows)
    left = {kind: sorted(found - before[kind]) for kind, found in traces().items() if found - before[kind]}
    assert left == {}, "left behind"


_TABLE = pytest.StashKey[str]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if BUILT:
        terminalreporter.section("what was built, some of it at the same time")
        for name, seconds in BUILT:
            terminalreporter.write_line(f"{name.rpartition('-')[0]:<44}{seconds:7.1f} s")
    if _TABLE in config.stash:
        terminalreporter.section("what the client saw")
        terminalreporter.write_line(config.stash[_TABLE])
