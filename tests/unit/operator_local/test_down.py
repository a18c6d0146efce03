"""`logherd down` and the keeper: it is asked, then killed, and not waited for without end."""

import errno
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logherd_operator.local import down
from logherd_operator.local.addresses import Ports
from logherd_operator.local.errors import LocalError
from logherd_operator.local.folder import Folder
from logherd_operator.local.places import Ended
from logherd_operator.local.processes import started_ticks
from logherd_operator.local.state import GroupState, PlaceState, Process

PORTS = Ports(name_service=20_000, broker=21_000, admin=21_002)
STATE = GroupState(group="orders", host="127.0.0.1", ports=PORTS, file="f", keeper=Process(77, 5))


class Keeper:
    """A process that ends so many seconds after it was killed, and a clock that only waiting moves."""

    def __init__(self, outlives: float) -> None:
        self.now, self.heard, self._outlives = 0.0, list[int](), outlives
        self._ends_at = float("inf")

    def signal(self, pid: int, ticks: int, number: int) -> bool:
        assert (pid, ticks) == (77, 5)
        self.heard.append(number)
        if number == signal.SIGKILL:
            self._ends_at = self.now + self._outlives
        return True

    def is_alive(self, *_: int) -> bool:
        assert self.now < 60, "it is waited for without end"
        return self.now < self._ends_at

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def unwritten(_: Folder, path: Path, text: str, **_more: bool) -> None:
    raise LocalError(f"{path}: cannot be written: {len(text)} bytes")


def meet(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(down, "signal_process", keeper.signal)
    monkeypatch.setattr(down, "is_alive", keeper.is_alive)
    monkeypatch.setattr(down, "time", keeper)


def test_a_keeper_that_does_not_listen_is_killed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = Keeper(outlives=0.5)
    meet(keeper, monkeypatch)
    assert list(down.bring_down(Folder(tmp_path), STATE, seconds=0)) == []
    assert keeper.heard == [signal.SIGUSR1, signal.SIGKILL]


def test_a_keeper_that_the_kernel_does_not_let_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = Keeper(outlives=3600)
    meet(keeper, monkeypatch)
    with pytest.raises(LocalError, match=r"pid 77.*does not end.*nothing was stopped"):
        list(down.bring_down(Folder(tmp_path), STATE, seconds=0))
    assert keeper.now < 11


def test_a_keeper_that_the_asked_one_has_left_is_parted_from_the_group_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where `logherd up --detach` is just done."""
    folder, asked = Folder(tmp_path), list[Process]()
    lock = folder.lock()
    assert lock is not None
    folder.write(replace(STATE, keeper=Process(88, 6)))

    def part(pid: int, ticks: int, number: int) -> bool:
        asked.append(Process(pid, ticks))
        assert number == signal.SIGUSR1
        if pid == 88:
            lock.close()
        return True

    monkeypatch.setattr(down, "signal_process", part)
    monkeypatch.setattr(down, "is_alive", lambda *_: False)
    assert list(down.bring_down(folder, STATE, seconds=0)) == []
    assert asked == [Process(77, 5), Process(88, 6)]


def test_what_runs_on_a_disk_that_became_read_only_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel makes it after an error of the disk."""
    folder, opened = Folder(tmp_path), Path.open
    with subprocess.Popen(["sleep", "600"]) as sleeper:
        guardian = Process(sleeper.pid, started_ticks(sleeper.pid) or 0)
        place = PlaceState(component="controller", ordinal=0, revision="r", guardian=guardian)
        folder.write(replace(STATE, keeper=None, places=(place,)))
        (tmp_path / "group.lock").touch()

        def refuse(path: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
            if mode != "r" and mode != "rb":
                raise OSError(errno.EROFS, "Read-only file system", str(path))
            return opened(path, mode, *rest, **more)

        monkeypatch.setattr(Path, "open", refuse)
        monkeypatch.setattr(Folder, "write_text", unwritten)
        ended = list[Ended]()
        try:
            ended.extend(down.bring_down(folder, replace(STATE, keeper=None), seconds=30))
        finally:
            sleeper.kill()
    assert sleeper.returncode == -signal.SIGTERM
    assert [each.outcome for each in ended] == ["stopped"]


@pytest.mark.parametrize(("heeds", "outcome"), [("DFL", "stopped"), ("IGN", "killed")])
def test_a_process_that_its_guardian_had_to_kill_was_killed(tmp_path: Path, heeds: str, outcome: str) -> None:
    """It waits less long than `logherd down` does."""
    log = tmp_path / "broker-1.log"
    log.write_text("logherd-guardian: killed: lease over and not released, epoch=1\n")  # long ago
    child = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_{heeds}); print(1, flush=True); signal.pause()"
    patience = "0" if heeds == "IGN" else "30"
    command = [sys.executable, "-m", "logherd_guardian", "--stop-seconds", patience, "--listen", "127.0.0.1:0", "--"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with (
        log.open("ab") as output,
        subprocess.Popen(
            [*command, sys.executable, "-c", child], stdout=subprocess.PIPE, stderr=output, env=env
        ) as process,
    ):
        assert process.stdout is not None
        process.stdout.readline()
        guardian = Process(process.pid, started_ticks(process.pid) or 0)
        place = PlaceState(component="broker", ordinal=0, revision="r", guardian=guardian)
        state = replace(STATE, keeper=None, brokers=1, places=(place,))
        folder = Folder(tmp_path)
        folder.write(state)
        assert [each.outcome for each in down.bring_down(folder, state, seconds=30)] == [outcome]
