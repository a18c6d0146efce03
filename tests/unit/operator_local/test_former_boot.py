"""What was written down before the machine was started anew names nobody who runs now."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from logherd_operator.local import folder as folders
from logherd_operator.local.addresses import Ports
from logherd_operator.local.down import bring_down
from logherd_operator.local.folder import Folder
from logherd_operator.local.processes import boot_id, is_alive, started_ticks
from logherd_operator.local.state import GroupState, PlaceState, Process

BOOT = "first"


@pytest.fixture
def stranger() -> Iterator[Process]:
    """Somebody else's process; by chance it has the pid and the start time of one that we had in a former boot."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield Process(process.pid, started_ticks(process.pid) or 0)
        process.kill()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    boots(monkeypatch, BOOT)
    return Folder(tmp_path)


def boots(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(folders, "boot_id", lambda: name)


def state(process: Process) -> GroupState:
    places = (
        PlaceState(component="controller", ordinal=0, revision="r", guardian=process, starts=3),
        PlaceState(component="broker", ordinal=0, revision="r", guardian=process, told=process),
    )
    return GroupState(
        group="g", host="127.0.0.1", ports=Ports(), file="g.yaml", brokers=1, controllers=1, keeper=process,
        places=places,
    )  # fmt: skip


def processes(seen: GroupState | None) -> list[Process | None]:
    assert seen is not None
    return [seen.keeper, *(each for place in seen.places for each in (place.guardian, place.told))]


def test_in_the_same_boot_everything_is_as_it_was_written(folder: Folder, stranger: Process) -> None:
    folder.write(state(stranger))
    assert folder.read() == state(stranger)


def test_after_another_boot_nobody_is_taken_for_ours_and_nobody_is_killed(
    folder: Folder, stranger: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write(state(stranger))
    boots(monkeypatch, "second")
    later = Folder(folder.path)
    seen = later.read()
    assert set(processes(seen)) == {None}
    assert seen is not None
    assert [(each.component, each.ordinal, each.revision) for each in seen.places] == [
        ("controller", 0, "r"), ("broker", 0, "r"),
    ]  # fmt: skip
    assert list(bring_down(later, seen, seconds=0)) == []
    assert is_alive(stranger.pid, stranger.ticks)


def test_whoever_loses_power_while_it_writes_for_the_first_time_believes_nothing_old(
    folder: Folder, stranger: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever file was the last to be replaced."""
    folder.write(state(stranger))
    boots(monkeypatch, "second")
    own = Process(os.getpid(), started_ticks(os.getpid()) or 0)
    for cut in range(1, 5):
        later, before = Folder(folder.path), {each: each.read_bytes() for each in folder.path.iterdir()}
        written, real = 0, Folder.write_text

        def write_text(self: Folder, path: Path, text: str, *, flush: bool = False, cut: int = cut) -> None:
            nonlocal written
            written += 1
            if written == cut:
                raise KeyboardInterrupt
            real(self, path, text, flush=flush)  # noqa: B023 -- called in this turn

        fresh = replace(later.read() or state(stranger), keeper=own)
        monkeypatch.setattr(Folder, "write_text", write_text)
        try:
            later.write(fresh)
        except KeyboardInterrupt:
            assert set(processes(Folder(folder.path).read())) == {None}
        else:
            assert Folder(folder.path).read() == fresh
            assert cut > 1
        monkeypatch.setattr(Folder, "write_text", real)
        for path, content in before.items():
            path.write_bytes(content)


def test_in_the_same_boot_whoever_runs_is_never_left_out(
    folder: Folder, stranger: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write(state(stranger))
    written: list[Path] = []
    monkeypatch.setattr(Folder, "write_text", lambda _self, path, _text, **_: written.append(path))
    later = Folder(folder.path)
    for _ in range(2):
        later.write(state(stranger))
    assert [each.name for each in written] == ["group.json"] * 2


def test_a_folder_of_a_former_release_or_where_boots_have_no_names_is_believed(
    folder: Folder, stranger: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write(state(stranger))
    document = json.loads((folder.path / "group.json").read_text())
    assert document["format"] == 2
    assert document["keeper"] == {"pid": stranger.pid, "ticks": stranger.ticks}, "a former release reads it, too"
    boots(monkeypatch, "")
    assert Folder(folder.path).read() == state(stranger)
    (folder.path / "group.boot").unlink()
    boots(monkeypatch, "second")
    assert Folder(folder.path).read() == state(stranger)


def test_this_boot_has_a_name_that_stays() -> None:
    assert boot_id() == boot_id() != ""
