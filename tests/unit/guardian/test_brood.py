"""Whom the guardian kills. No process is real here: who lives, and in which session, is what a test says."""

import errno
import os
import signal
from collections.abc import Callable, Mapping
from typing import NamedTuple, NoReturn, cast

import pytest

from logherd_guardian import brood
from logherd_guardian.brood import Brood
from logherd_guardian.waiting import Waiting

PR_SET_CHILD_SUBREAPER = 36


class Ended(NamedTuple):
    """What `waitid` tells."""

    si_pid: int


class Processes:
    """Children of the guardian, each with its session, who has ended, and what was done to them."""

    def __init__(self) -> None:
        self.sessions: dict[int, int] = {}
        self.not_ours: set[int] = set()
        self.ended: list[int] = []
        self.killed: list[int] = []
        self.done: list[str] = []

    def kill(self, pid: int, number: int) -> None:
        if pid not in self.sessions:
            raise ProcessLookupError
        if pid in self.not_ours:
            raise PermissionError
        if number != signal.SIGKILL:
            self.done.append(f"{signal.Signals(number).name} to {pid}")
            return
        self.killed.append(pid)
        self.done.append(f"kill {pid}")

    def killpg(self, group: int, number: int) -> None:
        assert number == signal.SIGKILL
        self.done.append(f"kill group {group}")

    def waitid(self, kind: int, _: int, options: int) -> Ended | None:
        assert (kind, options) == (os.P_ALL, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if not self.sessions:
            raise ChildProcessError
        return Ended(self.ended[0]) if self.ended else None

    def waitpid(self, pid: int, options: int) -> tuple[int, int]:
        self.ended.remove(pid)
        del self.sessions[pid]
        self.done.append(f"reap {pid}")
        return pid, signal.SIGKILL


class First:
    """Who waits to be the first child, or has died meanwhile."""

    def __init__(self, pid: int, *, is_there: bool) -> None:
        self.pid = pid
        self.is_there = is_there

    def begin(self, incarnation: str, lent: Mapping[str, int], page: int) -> bool:
        assert (incarnation, lent, page) == ("ab", {"remoting": 3}, 4)
        return self.is_there


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    made = Processes()
    monkeypatch.setattr(brood, "_prctl", lambda *asked: made.done.append(f"prctl {asked}"))
    monkeypatch.setattr(brood, "_children", lambda: set(made.sessions))
    for name in ("kill", "killpg", "waitid", "waitpid"):
        monkeypatch.setattr(os, name, getattr(made, name))
    monkeypatch.setattr(os, "getsid", made.sessions.__getitem__)
    return made


@pytest.fixture
def as_pid(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Brood]:
    """A brood of a guardian with this pid, whose last child was 7."""

    def make(pid: int) -> Brood:
        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: pid)
            found = Brood()
        assert processes.done.pop() == f"prctl {(PR_SET_CHILD_SUBREAPER, 1)}"
        found.child = found._last_child = 7
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


def test_what_the_child_leaves_behind_is_killed_while_its_number_is_still_its_own(
    processes: Processes, as_pid: Callable[[int], Brood]
) -> None:
    made = as_pid(2)
    processes.sessions.update({7: 7, 8: 7})
    processes.ended = [7]
    assert made.reap() == -signal.SIGKILL
    assert processes.done == ["kill group 7", "kill 8", "reap 7"]
    assert made.child is None
    processes.ended = [8]
    processes.sessions[9] = 9  # the child of 8 is the guardian's when that has ended
    assert made.reap() is None
    assert processes.done[3:] == ["reap 8", "kill 9"]


def test_while_a_child_lives_its_orphans_do_too(processes: Processes, as_pid: Callable[[int], Brood]) -> None:
    made = as_pid(2)
    processes.sessions.update({7: 7, 8: 7, 9: 7})
    processes.ended = [8]
    assert made.reap() is None
    assert processes.done == ["reap 8"]


def test_a_number_is_spared_no_longer_than_its_process_lives(
    processes: Processes, as_pid: Callable[[int], Brood]
) -> None:
    made = as_pid(2)
    processes.sessions.update({7: 7, 9: 2})
    made.spared.add(9)
    processes.ended = [9]
    made.reap()
    processes.sessions[9] = 7  # the number again, of another
    processes.ended = [7]
    made.reap()
    assert processes.done == ["reap 9", "kill group 7", "kill 9", "reap 7"]


def test_a_start_kills_what_came_since_the_last_end_and_holds_no_signal_back_if_it_fails(
    processes: Processes, as_pid: Callable[[int], Brood], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> NoReturn:
        assert signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        raise BlockingIOError

    made = as_pid(2)
    made.child = None
    processes.sessions[8] = 7
    monkeypatch.setattr(os, "fork", refuse)
    with pytest.raises(BlockingIOError):
        made.spawn(["true"], {}, [])
    assert processes.killed == [8]
    assert made.child is None
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_started_child_is_the_one_that_is_signalled(
    processes: Processes, as_pid: Callable[[int], Brood], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = as_pid(1)
    made.child = None
    made.kill(signal.SIGTERM)
    assert processes.done == []
    monkeypatch.setattr(os, "fork", lambda: 9)
    made.spawn(["true"], {}, [])
    processes.sessions.update({9: 9, 10: 9, 11: 7})
    assert made.child == 9
    made.kill(signal.SIGTERM)
    processes.ended = [9]
    assert made.reap() == -signal.SIGKILL
    assert processes.done == ["SIGTERM to 9", "kill group 9", "kill 10", "reap 9"], "11 is of no child's session"


@pytest.mark.parametrize("is_there", [True, False])
def test_who_waits_is_the_first_child_unless_it_has_died(processes: Processes, *, is_there: bool) -> None:
    processes.sessions = {8: 8}
    made = Brood(cast("Waiting", First(8, is_there=is_there)))
    made._sweep()
    assert processes.killed == [], "it waits still"
    assert made.wake("ab", {"remoting": 3}, 4) is is_there
    assert made.child == (8 if is_there else None)
    assert not made.wake("ab", {"remoting": 3}, 4), "there was one"
    made._sweep()
    assert processes.killed == [8], "whoever has this number from now on is a leftover"


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.ENOMEM, 75), (errno.EAGAIN, 75), (errno.ETXTBSY, 75), (errno.ENOENT, 127), (errno.EACCES, 126)],
)
def test_a_command_that_cannot_be_executed_just_now_ends_like_one_to_be_tried_again_soon(
    number: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Left(Exception):
        """Ends the fork in place of the system."""

    def execute(*_: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    def leave(code: int) -> NoReturn:
        raise Left(code)

    for name in ("setsid", "write"):
        monkeypatch.setattr(os, name, lambda *_: None)
    monkeypatch.setattr(brood, "_prctl", lambda *_: None)
    for name in ("set_wakeup_fd", "signal", "pthread_sigmask"):
        monkeypatch.setattr(signal, name, lambda *_: None)
    monkeypatch.setattr(os, "execvpe", execute)
    monkeypatch.setattr(os, "_exit", leave)
    with pytest.raises(Left) as left:
        brood._become(["broker"], {}, [], os.getppid(), ())
    assert left.value.args == (code,)
