"""Whom the guardian kills. No process is real here: who lives, and in which session, is what a test says."""

import os
import signal
from collections.abc import Callable

import pytest

from logherd_guardian import brood
from logherd_guardian.brood import Brood


class Processes:
    """Children of the guardian, each with its session, and who was killed."""

    def __init__(self) -> None:
        self.sessions: dict[int, int] = {}
        self.not_ours: set[int] = set()
        self.killed: list[int] = []

    def kill(self, pid: int, number: int) -> None:
        if pid not in self.sessions:
            raise ProcessLookupError
        if pid in self.not_ours:
            raise PermissionError
        assert number == signal.SIGKILL
        self.killed.append(pid)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    made = Processes()
    monkeypatch.setattr(brood, "_prctl", lambda *_: None)
    monkeypatch.setattr(brood, "_children", lambda: set(made.sessions))
    monkeypatch.setattr(os, "kill", made.kill)
    monkeypatch.setattr(os, "getsid", made.sessions.__getitem__)
    return made


@pytest.fixture
def as_pid(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Brood]:
    """A brood of a guardian with this pid, whose last child was 7."""

    def make(pid: int) -> Brood:
        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: pid)
            found = Brood()
        found._last_child = 7
        return found

    return make


def test_who_was_there_before_the_guardian_is_spared(processes: Processes, as_pid: Callable[[int], Brood]) -> None:
    """A script may have started something and then become the guardian by `exec`."""
    processes.sessions = {3: 3}
    made = as_pid(2)
    processes.sessions |= {4: 4, 5: 7, 7: 7}
    made._sweep(dying=7)
    assert processes.killed == [4, 5]


def test_as_init_it_kills_only_the_session_of_its_child(processes: Processes, as_pid: Callable[[int], Brood]) -> None:
    made = as_pid(1)
    processes.sessions.update({4: 4, 5: 7})
    made._sweep()
    assert processes.killed == [5]


def test_one_that_cannot_be_killed_saves_no_other(processes: Processes, as_pid: Callable[[int], Brood]) -> None:
    """It may have become another user's."""
    made = as_pid(2)
    processes.sessions.update({4: 4, 5: 5, 6: 6})
    processes.not_ours = {4, 5}
    made._sweep()
    assert processes.killed == [6]
