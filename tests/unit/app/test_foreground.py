"""How a process ends: by a signal, by a failure, and by a failure that another process deals with."""

import asyncio
import errno
import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from logherd.app.foreground import EXIT_STARTS_AGAIN, ServerFailed, _main, _tell
from logherd.app.guarded.lent import Lent

EXEC = -1


class Again(ServerFailed):
    starts_again = True


@dataclass
class Failing:
    """A server that has to be started again, as is found when it is asked, or when it stops."""

    at_once: bool
    happened: list[str] = field(default_factory=list)

    def addresses(self) -> dict[str, str]:
        return {"address": "a:1"}

    def check(self) -> None:
        if self.at_once:
            raise Again("its log is damaged")

    def fail(self, error: BaseException) -> None:
        raise error

    async def stop(self) -> None:
        raise Again("its log is damaged")

    async def abandon(self) -> None:
        self.happened.append("abandoned")


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def code_of(server: Failing, *, signalled: bool) -> int:
    """What the process does: its exit code, or EXEC."""

    async def start(_lent: Lent, on_failure: Callable[[], None]) -> Failing:
        if signalled:
            signal.raise_signal(signal.SIGTERM)
        else:
            on_failure()
        return server

    code = asyncio.run(_main("broker", start, None))
    assert server.happened == ["abandoned"]
    return code


@pytest.mark.parametrize("at_once", [True, False])
def test_who_was_told_to_stop_does_not_become_the_next_process(at_once: bool) -> None:
    assert code_of(Failing(at_once), signalled=True) == EXIT_STARTS_AGAIN


def test_who_fails_by_itself_becomes_the_process_that_deals_with_it() -> None:
    assert code_of(Failing(at_once=True), signalled=False) == EXEC


@pytest.fixture
def lent() -> Lent:
    return Lent()


def without_space(path: Path, text: str) -> int:
    """As of a full disk: the file is made, and nothing comes into it."""
    path.touch()
    raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} for {len(text)}")


def test_a_process_that_serves_again_on_a_full_disk_says_so_where_its_life_before_did(
    tmp_path: Path, lent: Lent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that is there has its block; it may be longer."""
    ready = tmp_path / "ready"
    assert _tell("broker", {"address": "a:1", "admin": "a:12345"}, lent, ready)
    monkeypatch.setattr(Path, "write_text", without_space)
    for address in ("a:2", "a:23456"):
        assert _tell("broker", {"address": address}, lent, ready)
        assert json.loads(ready.read_bytes()) == {"address": address, "pid": os.getpid()}
    assert [path.name for path in tmp_path.iterdir()] == ["ready"]


def test_a_process_that_serves_on_a_full_disk_for_the_first_time_cannot_say_so(
    tmp_path: Path, lent: Lent, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Path, "write_text", without_space)
    assert not _tell("broker", {"address": "a:1"}, lent, tmp_path / "ready")
    assert "cannot be written: No space left on device" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


_TOUCHES_WHAT_IS_GONE = """
import mmap, sys
from logherd.app.foreground import run_server
from logherd.settings.options import LogOptions

async def start(lent, failed):
    with open(sys.argv[1], "r+b") as file:
        file.truncate(4096)
        mapping = mmap.mmap(file.fileno(), 4096)
        file.truncate(0)
        return mapping[0]

run_server("broker", start, LogOptions(level="info", format="text"), ready_file=None)
"""


def test_a_process_that_a_signal_ends_says_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    command = [sys.executable, "-c", _TOUCHES_WHAT_IS_GONE, str(tmp_path / "f")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(command, env=env, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGBUS
    assert "Bus error" in ended.stderr
    assert "in start" in ended.stderr


_HEARS_SIGNALS = """
import signal, sys
from logherd.app import foreground
from logherd.app.guarded.keeper import Unguarded
from logherd.app.guarded.lent import Lent
from logherd.settings.options import LogOptions

class Guarded(Unguarded):
    def __init__(self):
        super().__init__()
        self.guardian = 1

class Server:
    def addresses(self):
        return {"address": "a:1"}
    def check(self):
        pass
    async def stop(self):
        pass

async def start(lent, failed):
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
        signal.raise_signal(number)
    return Server()

if sys.argv[1] == "guarded":
    foreground.inherit = lambda: Lent(keeper=Guarded())
sys.exit(foreground.run_server("broker", start, LogOptions(level="info", format="text"), ready_file=None))
"""


@pytest.mark.parametrize(("whose", "code"), [("guarded", 0), ("alone", -signal.SIGHUP)])
def test_what_a_guardian_forwards_beside_a_stop_ends_nobody(whose: str, code: int) -> None:
    """Alone it does what it does to every process: a terminal that is closed takes along what runs in it."""
    command = [sys.executable, "-c", _HEARS_SIGNALS, whose]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(command, env=env, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert ended.returncode == code
    told = [name for name in ("SIGHUP", "SIGUSR1", "SIGUSR2") if f"signal={name}" in ended.stderr]
    assert told == (["SIGHUP", "SIGUSR1", "SIGUSR2"] if whose == "guarded" else [])
