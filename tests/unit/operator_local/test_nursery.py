"""The nursery forks what it is told to: children of ours once it is closed, with an exit code like any other's."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from logherd_operator.local.checking import Checking
from logherd_operator.local.nursery import Adopted, Nursery

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    with Nursery() as made:
        yield made


def order(folder: Path, *, output: str = "a.log") -> dict[str, str]:
    return {
        "kind": "broker", "config": str(folder / "a.json"), "ready_file": str(folder / "a.ready"),
        "output": str(folder / output),
    }  # fmt: skip


def exit_code(child: Adopted) -> int:
    """Waits for the end of a child that is ours."""
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    code = child.poll()
    assert code is not None
    return code


def test_what_is_wrong_with_the_settings_is_said_and_the_exit_code_is_ours_to_read(
    nursery: Nursery, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text("{}")
    forked = nursery.fork(order(tmp_path))
    assert forked is not None
    nursery.close()
    assert exit_code(forked) == 2
    assert "the configuration is wrong" in (tmp_path / "a.log").read_text()
    assert forked.poll() == 2, "also when it is asked again"


def test_an_output_that_cannot_be_written_is_left_to_another_way(nursery: Nursery, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    assert nursery.fork(order(tmp_path, output="nowhere/a.log")) is None
    forked = nursery.fork(order(tmp_path))
    assert forked is not None, "and the next one is served all the same"
    nursery.close()
    assert exit_code(forked) == 2


def test_a_nursery_that_is_no_more_forks_nothing(nursery: Nursery, tmp_path: Path) -> None:
    nursery.close()
    assert nursery.fork(order(tmp_path)) is None


def test_a_nursery_that_has_died_leaves_all_to_another_way(nursery: Nursery, tmp_path: Path) -> None:
    process = nursery._process
    assert process is not None
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert nursery.fork(order(tmp_path)) is None
    assert nursery.fork(order(tmp_path)) is None


def test_what_lies_in_the_folder_of_the_moment_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody's own `random.py` beside the group's file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "random.py").write_text("raise SystemExit('somebody else')\n")
    (tmp_path / "a.json").write_text("{}")
    with Nursery() as made, Checking() as checking:
        assert checking.check([("broker", tmp_path / "a.json")]) != ""
        assert made.await_ready()
