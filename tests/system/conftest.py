"""For all system tests: a run that leaves a process or a network behind has failed, whatever its tests said."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.toolchain import JAVA_DIRECTORY, MissingTool, compile_java
from system.netns import leftovers


def living_children() -> list[str]:
    """Processes that this one has started and that still run, with their commands."""
    found = []
    for listed in Path("/proc/self/task").glob("*/children"):
        for pid in listed.read_text().split():
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if command:  # an ended one that nobody has waited for has no command any more
                found.append(f"{pid}: {command}")
    return found


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind() -> Iterator[None]:
    yield
    assert leftovers() == [], f"networks of process {os.getpid()} are left"
    assert living_children() == [], "processes are left"


@pytest.fixture(scope="session")
def java_classes() -> str:
    """Class path of the stock Java client and what drives it."""
    try:
        return compile_java(JAVA_DIRECTORY / "src" / "main" / "java")
    except MissingTool as missing:
        pytest.skip(str(missing))
