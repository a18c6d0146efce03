"""Ctrl-C at any moment: no process is left that nobody knows of."""

import errno
import os
import select
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from logherd_operator.local import up
from logherd_operator.local.addresses import Addresses, Ports
from logherd_operator.local.changes import GroupFile
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
from logherd_operator.spec.errors import SpecError

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


class Hindered:
    """A keeping in whose way this machine is for a while, and that then hears of Ctrl-C."""

    def __init__(self, error: Exception) -> None:
        self.turns = 0
        self._error = error

    def turn(self) -> Turn:
        self.turns += 1
        if self.turns > 3:
            raise KeyboardInterrupt
        raise self._error


class Talker:
    """A keeping that says something, and then hears of Ctrl-C."""

    turns = 0

    def __init__(self, *given: object) -> None:
        self._say = cast("Callable[[str], None]", given[-1])

    def turn(self) -> Turn:
        Talker.turns += 1
        if Talker.turns == 1:
            self._say("Broker 1 takes no messages: the disk is full.")
        raise KeyboardInterrupt


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


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (LocalError("group.json: cannot be written: No space left on device"),
         "group.json: cannot be written: No space left on device"),
        (OSError(errno.EMFILE, "Too many open files", "/proc/7/stat"),
         "[Errno 24] Too many open files: '/proc/7/stat'"),
        (SpecError("group.yaml: a broker would not start with this"), "group.yaml: a broker would not start with this"),
    ],
    ids=["full", "descriptors", "settings"],
)  # fmt: skip
def test_what_is_in_the_way_is_told_once_and_the_group_kept(
    tmp_path: Path, guardian: Process, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    """Whoever ended here would leave processes that nobody keeps."""
    monkeypatch.setattr(up.time, "sleep", lambda seconds: None)
    said = list[str]()
    state = GroupState(group="orders", host="127.0.0.1", ports=PORTS, file="group.yaml", controllers=1)
    folder = Folder(tmp_path)
    places = Places(folder, replace(state, places=(standing(guardian),)))
    with stopping_signals():
        assert up._stay(cast("Keeping", Hindered(error)), places, folder, Watching(said.append), []) == 0
    assert not is_alive(guardian.pid, guardian.ticks)
    assert [each for each in said if "tried again" in each] == [f"{told}; this is tried again"]


def test_a_keeper_whose_log_cannot_be_written_keeps_the_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has to say of a full disk goes to a file of that disk."""
    monkeypatch.setattr(up, "Keeping", Talker)
    monkeypatch.setattr(Talker, "turns", 0)
    monkeypatch.setattr(up.time, "sleep", lambda seconds: None)
    folder = Folder(tmp_path)
    folder.write(GroupState(group="orders", host="127.0.0.1", ports=PORTS, file="group.yaml"))
    folder.write_document("spec.json", parse_group(TEXT, source="test").model_dump(mode="json", by_alias=True))
    lock = folder.lock()
    assert lock is not None

    def full(line: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", line)

    with stopping_signals():
        assert up.keep_on(folder, lock, full) == 0
    assert Talker.turns == 1


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


@pytest.mark.parametrize("moment", ["Keeping", "_until_it_serves", "start_process"])
def test_down_may_take_over_at_any_moment_of_up(
    tmp_path: Path, guardian: Process, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Before the first turn, while it starts, or when it has just left a keeper."""

    def asked(*_: object, **__: object) -> Adopted:
        signal.raise_signal(signal.SIGUSR1)
        return Adopted(guardian.pid)

    monkeypatch.setattr(up, "_until_it_serves", lambda *_: None)
    monkeypatch.setattr(up, "_notes", lambda *_: [])
    monkeypatch.setattr(up, moment, asked)
    (tmp_path / "group.yaml").write_text(TEXT)
    options = up.UpOptions(host="127.0.0.1", ports=ANY, detach=True, wait_seconds=1)
    said = list[str]()
    with stopping_signals(), Checking() as checking, Nursery() as nursery:
        ahead = up.Ahead(checking, nursery)
        assert up.bring_up(tmp_path / "group.yaml", tmp_path / "data", options, Watching(said.append), ahead) == 0
    assert said == ["orders: logherd down stops it"]
    assert is_alive(guardian.pid, guardian.ticks), "it is nobody's to stop but down's"


def test_what_is_said_to_be_typed_can_be_typed(tmp_path: Path) -> None:
    state = GroupState(group="orders", host="127.0.0.1", ports=PORTS, file="group.yaml", name_servers=("a:1",))
    lines = up._greeting(state, Folder(tmp_path / "my data"), [], named=True)
    typed = [line for line in lines if "--data" in line]
    assert [shlex.split(line)[-1] for line in typed] == [str(tmp_path / "my data")] * 2


@pytest.mark.parametrize("full", [True, False])
def test_a_keeper_is_known_though_who_left_it_could_not_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    """`logherd down` could not part it from the group, whose lock it has."""
    folder, written, seen = Folder(tmp_path), Folder.write, list[Process | None]()

    class Looking(Talker):
        def __init__(self, group: object, file: object, places: Places, *rest: object) -> None:
            super().__init__(group, file, places, *rest)
            self._places = places

        def turn(self) -> Turn:
            monkeypatch.setattr(Folder, "write", written)
            self._places.remember(self._places.state)  # as a turn begins
            remembered = folder.read()
            seen.append(remembered.keeper if remembered is not None else None)
            raise KeyboardInterrupt

    def refuse(_: Folder, state: GroupState) -> None:
        raise LocalError(f"{state.group}: no space")

    folder.write(GroupState(group="orders", host="127.0.0.1", ports=PORTS, file="f", keeper=Process(1 << 22, 7)))
    folder.write_document("spec.json", parse_group(TEXT, source="test").model_dump(mode="json", by_alias=True))
    lock = folder.lock()
    assert lock is not None
    monkeypatch.setattr(up, "Keeping", Looking)
    if full:
        monkeypatch.setattr(Folder, "write", refuse)
    with stopping_signals():
        assert up.keep_on(folder, lock, lambda line: None) == 0
    assert seen == [Process(os.getpid(), started_ticks(os.getpid()) or 0)]


def test_a_keeper_that_is_left_keeps_whom_it_has_found_again(
    tmp_path: Path, guardian: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who was not written down holds the ports of its place."""
    folder = Folder(tmp_path)
    gone = standing(Process(1 << 22, 7))
    folder.write(GroupState(group="orders", host="127.0.0.1", ports=PORTS, file="f", controllers=1, places=(gone,)))
    folder.write_document("spec.json", parse_group(TEXT, source="test").model_dump(mode="json", by_alias=True))
    lock = folder.lock()
    assert lock is not None
    monkeypatch.setattr(up, "with_strays", lambda state, _: state.having(standing(guardian)))
    monkeypatch.setattr(up, "Keeping", lambda *_: Interrupted())
    with stopping_signals():
        assert up.keep_on(folder, lock, lambda line: None) == 0
    assert not is_alive(guardian.pid, guardian.ticks), "stopped with the others"


def test_a_keeper_that_is_left_watches_the_link_that_was_named(tmp_path: Path) -> None:
    """Not what it leads to now: `ln -sf` is a change, as it is in the foreground."""
    (tmp_path / "first.yaml").write_text(TEXT)
    link, folder = tmp_path / "group.yaml", Folder(tmp_path / "data")
    link.symlink_to("first.yaml")
    folder.prepare()
    options = up.UpOptions(host="127.0.0.1", ports=ANY, detach=True, wait_seconds=1)
    state = up._begin(parse_group(TEXT, source="test"), link, folder, options)
    file = GroupFile(Path(state.file))
    assert not file.saved()
    (tmp_path / "second.yaml").write_text(TEXT + "# again\n")
    link.unlink()
    link.symlink_to("second.yaml")
    assert file.saved()


def test_what_ran_before_goes_on_where_up_fails(
    tmp_path: Path, guardian: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a keeper was killed, and the next one is not given the time that the group takes now."""

    def fail(*_: object) -> Turn:
        raise LocalError("no client is answered after 1 s")

    monkeypatch.setattr(up, "_until_it_serves", fail)
    (tmp_path / "group.yaml").write_text(TEXT)
    folder = Folder(tmp_path / "data")
    folder.prepare()
    known = GroupState(group="orders", host="127.0.0.1", ports=PORTS, file="f", brokers=1, controllers=1)
    folder.write(replace(known, places=(standing(guardian),)))
    options = up.UpOptions(host="127.0.0.1", ports=ANY, detach=False, wait_seconds=1)
    with Checking() as checking, Nursery() as nursery, pytest.raises(LocalError, match="no client"):
        up.bring_up(
            tmp_path / "group.yaml", folder.path, options, Watching(lambda line: None), up.Ahead(checking, nursery)
        )
    assert is_alive(guardian.pid, guardian.ticks)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ('mappedFileSizeCommitLog: "-1"', 'mappedFileSizeCommitLog: "1048576"'),
        ('mappedFileSizeCommitLog: "65536", maxMessageSize: "x"', 'mappedFileSizeCommitLog: "131072"'),
    ],
)
def test_a_first_start_that_was_refused_binds_nobody_to_what_stood_in_the_file(
    tmp_path: Path, wrong: str, right: str
) -> None:
    file, folder = tmp_path / "group.yaml", Folder(tmp_path / "data")
    options = up.UpOptions(host="127.0.0.1", ports=ANY, detach=False, wait_seconds=1)
    file.write_text(TEXT.replace("replicas: 1", f"replicas: 3, config: {{{wrong}}}"))
    said: list[str] = []
    words = rf"would not start with this(?s:.*)\nspec\.config(\.|: ){wrong.rpartition(': ')[0].rpartition(' ')[2]}"
    with Checking() as checking, Nursery() as nursery, pytest.raises(SpecError, match=words):
        up.bring_up(file, folder.path, options, Watching(said.append), up.Ahead(checking, nursery))
    assert [line for line in said if "started" in line] == []
    group = parse_group(TEXT.replace("replicas: 1", f"replicas: 1, config: {{{right}}}"), source="test")
    state = up._begin(group, file, folder, options)
    assert (state.brokers, state.controllers, state.places) == (None, None, ())


def test_a_signal_that_is_ignored_as_by_nohup_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopping_signals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_keeper_begins_when_who_started_it_has_written_down_who_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both write the same file."""
    begins: list[int] = []

    def start(command: list[str], *, output: Path, inherited: tuple[int, ...]) -> SimpleNamespace:
        del output
        assert str(inherited[1]) == command[-1]
        begins.append(os.dup(inherited[1]))
        return SimpleNamespace(pid=os.getpid())

    def may_begin() -> bool:
        return bool(select.select(begins, [], [], 0)[0])

    written: list[bool] = []
    places = SimpleNamespace(
        state=GroupState(group="g", host="127.0.0.1", ports=ANY, file="f"),
        remember=lambda _: written.append(may_begin()),
    )
    monkeypatch.setattr(up, "start_process", start)
    with (tmp_path / "lock").open("w") as lock:
        up._leave_keeper(Folder(tmp_path), cast("Places", places), lock)
    assert (written, may_begin()) == ([False], True)
    os.close(begins[0])
