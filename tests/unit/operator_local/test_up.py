"""Ctrl-C at any moment: no process is left that nobody knows of."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from logherd_operator.local import up
from logherd_operator.local.addresses import Addresses, Ports
from logherd_operator.local.checking import Checking
from logherd_operator.local.errors import LocalError
from logherd_operator.local.files import Files
from logherd_operator.local.folder import Folder
from logherd_operator.local.keeping import Keeping, Turn
from logherd_operator.local.nursery import Adopted, Nursery
from logherd_operator.local.places import Places
from logherd_operator.local.processes import is_alive, started_ticks
from logherd_operator.local.signals import LetGo, stopping_signals
from logherd_operator.local.state import GroupState, PlaceState, Process
from logherd_operator.local.watching import Watching
from logherd_operator.spec.document import parse_group

PORTS = Ports(name_service=20_000, broker=21_000, admin=21_002)
TEXT = "apiVersion: logherd.dev/v1alpha1\nkind: BrokerGroup\nmetadata: {name: orders}\nspec: {replicas: 1}\n"
ANY = Ports(name_service=0, broker=0, admin=0)


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Ctrl-C, also where a shell started the tests without waiting for them: then it is ignored, and stays so."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Impatient(Watching):
    """Somebody presses Ctrl-C again when the first one shows."""

    def __init__(self) -> None:
        super().__init__(lambda line: None)

    def close(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)


class Interrupted:
    """A keeping that hears of Ctrl-C."""

    def turn(self) -> Turn:
        raise KeyboardInterrupt


class Full:
    """A keeping that cannot write for a while, and then hears of Ctrl-C."""

    def __init__(self) -> None:
        self.turns = 0

    def turn(self) -> Turn:
        self.turns += 1
        if self.turns > 3:
            raise KeyboardInterrupt
        raise LocalError("group.json: cannot be written: No space left on device")


class Sleepers:
    """A nursery whose guardians sleep, and somebody presses Ctrl-C while it forks the first."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.forked: list[subprocess.Popen[bytes]] = []

    def await_ready(self) -> bool:
        return True

    def fork(self, order: Mapping[str, str]) -> Adopted:
        assert Path(order["config"]).exists()
        self.forked.append(subprocess.Popen(["sleep", "600"]))
        os.kill(os.getpid(), self.number)
        return Adopted(self.forked[-1].pid)

    def close(self) -> None:
        pass


@pytest.fixture
def guardian() -> Iterator[Process]:
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            yield Process(process.pid, started_ticks(process.pid) or 0)
        finally:
            process.kill()


def standing(guardian: Process) -> PlaceState:
    return PlaceState(component="controller", ordinal=0, revision="r", guardian=guardian)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_who_is_started_while_a_signal_comes_is_remembered(tmp_path: Path, number: int) -> None:
    folder, nursery = Folder(tmp_path), Sleepers(number)
    state = GroupState(group="orders", host="127.0.0.1", ports=PORTS, file="group.yaml", cluster="orders")
    places = Places(folder, state, nursery=cast("Nursery", nursery))
    files = Files(parse_group(TEXT, source="test"), Addresses("127.0.0.1", PORTS), tmp_path, controllers=1)
    places.add("controller", 1, files)
    try:
        with pytest.raises((KeyboardInterrupt, LetGo)) as caught, stopping_signals():
            list(places.tend(files))
        assert caught.typename == ("LetGo" if number == signal.SIGUSR1 else "KeyboardInterrupt")
        remembered = folder.read()
        assert remembered is not None
        known = [each.guardian.pid for each in remembered.places if each.guardian is not None]
        assert known == [each.pid for each in nursery.forked]
    finally:
        for each in nursery.forked:
            each.kill()
            with suppress(ChildProcessError):
                each.wait()


def test_a_second_ctrl_c_keeps_no_group_from_being_stopped(tmp_path: Path, guardian: Process) -> None:
    state = GroupState(group="orders", host="127.0.0.1", ports=PORTS, file="group.yaml", controllers=1)
    folder = Folder(tmp_path)
    places = Places(folder, replace(state, places=(standing(guardian),)))
    with stopping_signals():
        assert up._stay(cast("Keeping", Interrupted()), places, folder, Impatient(), []) == 0
    assert not is_alive(guardian.pid, guardian.ticks)


def test_a_full_disk_is_told_once_and_the_group_kept(
    tmp_path: Path, guardian: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever ended here would leave processes that nobody keeps."""
    monkeypatch.setattr(up.time, "sleep", lambda seconds: None)
    said = list[str]()
    state = GroupState(group="orders", host="127.0.0.1", ports=PORTS, file="group.yaml", controllers=1)
    folder = Folder(tmp_path)
    places = Places(folder, replace(state, places=(standing(guardian),)))
    with stopping_signals():
        assert up._stay(cast("Keeping", Full()), places, folder, Watching(said.append), []) == 0
    assert not is_alive(guardian.pid, guardian.ticks)
    assert [each for each in said if "No space left" in each] == [
        "group.json: cannot be written: No space left on device; this is tried again"
    ]


def test_a_second_ctrl_c_keeps_nobody_from_giving_up(
    tmp_path: Path, guardian: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Keeping, places: Places, *__: object) -> Turn:
        places.remember(places.state.having(standing(guardian)))
        raise KeyboardInterrupt

    monkeypatch.setattr(up, "_until_it_serves", interrupted)
    (tmp_path / "group.yaml").write_text(TEXT)
    options = up.UpOptions(host="127.0.0.1", ports=ANY, detach=False, wait_seconds=1)
    with stopping_signals(), Checking() as checking, Nursery() as nursery, pytest.raises(KeyboardInterrupt):
        up.bring_up(tmp_path / "group.yaml", tmp_path / "data", options, Impatient(), up.Ahead(checking, nursery))
    assert not is_alive(guardian.pid, guardian.ticks)


def test_ctrl_c_while_a_keeper_is_left_does_not_hide_who_that_is(
    tmp_path: Path, guardian: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else could part it from the group: it has the lock."""

    def started(*_: object, **__: object) -> Adopted:
        os.kill(os.getpid(), signal.SIGINT)
        return Adopted(guardian.pid)

    monkeypatch.setattr(up, "start_process", started)
    folder = Folder(tmp_path)
    places = Places(folder, GroupState(group="orders", host="127.0.0.1", ports=PORTS, file="group.yaml"))
    lock = folder.lock()
    assert lock is not None
    with lock, pytest.raises(KeyboardInterrupt), stopping_signals():
        up._leave_keeper(folder, places, lock)
    remembered = folder.read()
    assert remembered is not None
    assert remembered.keeper == guardian
