"""The guardian's loop tells the machine what came of its orders. Its processes are not real here."""

import errno
import json
import os
import selectors
import signal
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from struct import Struct
from typing import ClassVar, NoReturn, cast

import pytest

from logherd_guardian.brood import Brood
from logherd_guardian.child import LeasePage
from logherd_guardian.clock import clock_ms
from logherd_guardian.door import Door
from logherd_guardian.events import Asked
from logherd_guardian.machine import PARTING_MS
from logherd_guardian.options import Lent, Options
from logherd_guardian.page import Identity
from logherd_guardian.reports import Reports
from logherd_guardian.resolver import Resolver
from logherd_guardian.shell import Shell, dispatch

_START = Struct(">II")


class Child:
    """A brood whose child ends when a test says so."""

    def __init__(self) -> None:
        self.child: int | None = None
        self.spared: set[int] = set()
        self.status: int | None = None
        self.signals: list[int] = []
        self.is_ours = True

    def wake(self, incarnation: str, lent: Mapping[str, int], page: int) -> bool:
        return False

    def spawn(self, command: Sequence[str], environment: Mapping[str, str], lent: Iterable[int]) -> None:
        self.child = 7

    def kill(self, number: int) -> None:
        if not self.is_ours:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        self.signals.append(number)

    def reap(self) -> int | None:
        status, self.status = self.status, None
        return status


def refuse(*_: object) -> NoReturn:
    raise OSError(errno.EIO, "Input/output error")


def _answer(asked: socket.socket, code: int = 0) -> None:
    """Be the controller that takes the report."""
    asked.recv(65536)
    header = json.dumps({"code": code, "opaque": 1, "flag": 1}).encode()
    asked.sendall(_START.pack(4 + len(header), len(header)) + header)


@pytest.mark.parametrize("is_another", [False, True])
def test_whom_a_call_before_has_unregistered_is_not_called(*, is_another: bool) -> None:
    """Its number may be another's by then."""
    called: list[int] = []
    ends = [os.pipe() for _ in range(2)]
    with selectors.DefaultSelector() as selector:

        def ready(number: int) -> None:
            called.append(number)
            other = ends[1 - number][0]
            selector.unregister(other)
            if is_another:
                selector.register(other, selectors.EVENT_READ, lambda _: called.append(2))

        for number, (reader, writer) in enumerate(ends):
            os.write(writer, b"x")
            selector.register(reader, selectors.EVENT_READ, lambda _, number=number: ready(number))
        dispatch(selector, 5_000)
    assert called in ([0], [1])
    for end in ends:
        for each in end:
            os.close(each)


@pytest.mark.parametrize("peers", [(), ("peer:9",)], ids=["alone", "with a peer"])
def test_a_guardian_that_was_told_to_end_leaves_once_its_report_is_acknowledged_if_it_has_no_peers(
    peers: tuple[str, ...],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as controller, selectors.DefaultSelector() as selector:
        address = f"127.0.0.1:{controller.getsockname()[1]}"
        brood = Child()
        lent = (Lent("remoting", "127.0.0.1", 0, peers),)
        options = Options(lent=lent, command=("broker",), controllers=(address,))
        reports = Reports(options.controllers, selector, Resolver(selector, cast("Brood", brood)))
        shell = Shell(options, {}, reports, selector=selector, brood=cast("Brood", brood), environment={})
        shell._tick(clock_ms())
        page = shell._page.descriptor
        assert page is not None
        assert os.fstat(page).st_blocks > 0, "memory that may be wanting when the child writes"
        LeasePage(page).identify(Identity(cluster="c", group="g", broker_id=1, store_id="s"))
        shell._step(Asked(signal.SIGTERM, stop=True))
        assert brood.signals == [signal.SIGTERM]
        brood.status = 0
        ended = clock_ms()
        shell._tick(ended)
        assert shell._left is None
        dispatch(selector, 5_000)  # connected: the report leaves
        with controller.accept()[0] as asked:
            _answer(asked)
            dispatch(selector, 5_000)
        shell._tick(clock_ms())
        assert clock_ms() < ended + PARTING_MS, "too slow to tell anything"
        assert shell._left == (None if peers else 0)


def test_a_guardian_that_parts_leaves_when_nobody_is_passed_on_any_more() -> None:
    class Parting:
        """A door with somebody who is passed on."""

        is_busy = True
        done: ClassVar[list[str]] = []

        def part(self) -> None:
            self.done.append("part")

        def take(self, now: int, *, on: bool) -> None:
            self.done.append(f"take {on}")

        def tick(self, now: int) -> None:
            """Nothing takes long here."""

    door, brood = Parting(), Child()
    with selectors.DefaultSelector() as selector:
        options = Options(lent=(Lent("remoting", "127.0.0.1", 0, ("peer:9",)),), command=("broker",))
        reports = Reports((), selector, Resolver(selector, cast("Brood", brood)))
        doors = {"remoting": cast("Door", door)}
        shell = Shell(options, doors, reports, selector=selector, brood=cast("Brood", brood), environment={})
        shell._machine.step(Asked(signal.SIGTERM, stop=True), clock_ms() - PARTING_MS)
        shell._tick(clock_ms())
        assert (door.done, shell._left) == (["take False", "part"], None)
        door.is_busy = False
        shell._tick(clock_ms())
        assert shell._left == 0


def test_an_exit_that_no_controller_could_take_is_told_when_the_next_child_is_registered() -> None:
    """The controllers, of which one leads by then, still wait for the lease of the process before."""
    with socket.create_server(("127.0.0.1", 0)) as controller, selectors.DefaultSelector() as selector:
        controller.settimeout(5)
        address = f"127.0.0.1:{controller.getsockname()[1]}"
        brood = Child()
        options = Options(lent=(Lent("remoting", "127.0.0.1", 0),), command=("broker",), controllers=(address,))
        reports = Reports(options.controllers, selector, Resolver(selector, cast("Brood", brood)))
        shell = Shell(options, {}, reports, selector=selector, brood=cast("Brood", brood), environment={})
        shell._tick(clock_ms())
        _register(shell).lease(1, clock_ms() + 3_000)
        shell._tick(clock_ms())
        brood.child, brood.status = None, -9
        shell._tick(clock_ms())
        dispatch(selector, 5_000)  # connected: the report leaves
        with controller.accept()[0] as asked:
            _answer(asked, code=2007)
            dispatch(selector, 5_000)
        while brood.child is None:
            dispatch(selector, 10)
            shell._tick(clock_ms())
        _register(shell)
        shell._tick(clock_ms())
        assert not reports.is_done
        dispatch(selector, 5_000)
        with controller.accept()[0] as asked:
            _answer(asked)
            while not reports.is_done:
                dispatch(selector, 5_000)


def _register(shell: Shell) -> LeasePage:
    assert shell._page.descriptor is not None
    page = LeasePage(shell._page.descriptor)
    page.identify(Identity(cluster="c", group="g", broker_id=1, store_id="s"))
    page.registered()
    return page


def test_a_child_that_has_become_another_users_ends_no_guardian(capfd: pytest.CaptureFixture[str]) -> None:
    """As root without the right to kill: whoever drops its rights is out of its reach."""
    brood = Child()
    with selectors.DefaultSelector() as selector:
        options = Options(lent=(Lent("remoting", "127.0.0.1", 0),), command=("broker",))
        reports = Reports((), selector, Resolver(selector, cast("Brood", brood)))
        shell = Shell(options, {}, reports, selector=selector, brood=cast("Brood", brood), environment={})
        shell._tick(clock_ms())
        brood.is_ours = False
        shell._step(Asked(signal.SIGHUP, stop=False))
        assert "cannot send the child signal 1: Operation not permitted" in capfd.readouterr().err
        shell._step(Asked(signal.SIGTERM, stop=True))
        brood.status = 5
        shell._tick(clock_ms())
        assert shell._left == 5


def test_an_exit_is_told_by_what_the_child_said_before_its_page_could_not_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brood, told = Child(), []
    with selectors.DefaultSelector() as selector:
        options = Options(lent=(Lent("remoting", "127.0.0.1", 0),), command=("broker",), controllers=("127.0.0.1:9",))
        reports = Reports((), selector, Resolver(selector, cast("Brood", brood)))
        shell = Shell(options, {}, reports, selector=selector, brood=cast("Brood", brood), environment={})
        monkeypatch.setattr(reports, "add", lambda exited, _: told.append(exited.identity))
        shell._tick(clock_ms())
        _register(shell)
        shell._tick(clock_ms())
        monkeypatch.setattr(os, "pread", refuse)
        shell._tick(clock_ms())
        assert brood.signals == []
        brood.child, brood.status = None, -9
        shell._tick(clock_ms())
        assert told == [Identity(cluster="c", group="g", broker_id=1, store_id="s")]


def test_a_page_that_cannot_be_made_ends_no_guardian_and_starts_no_child(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The child could not say who it is, nor that it serves."""
    brood, path = Child(), tmp_path / "page"
    path.mkdir()
    with selectors.DefaultSelector() as selector:
        options = Options(lent=(Lent("remoting", "127.0.0.1", 0),), command=("broker",), state_file=str(path))
        reports = Reports((), selector, Resolver(selector, cast("Brood", brood)))
        shell = Shell(options, {}, reports, selector=selector, brood=cast("Brood", brood), environment={})
        shell._tick(clock_ms())
        assert brood.child is None
        assert "no child: Is a directory" in capfd.readouterr().err
        path.rmdir()
        while brood.child is None:
            dispatch(selector, 10)
            shell._tick(clock_ms())


def test_what_was_ignored_from_outside_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by nohup. But no one may ignore the deaths of children."""
    ignored = {signal.SIGHUP, signal.SIGCHLD}
    handled: list[int] = []
    wakes: list[int] = []
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.SIG_IGN if number in ignored else signal.SIG_DFL)
    monkeypatch.setattr(signal, "signal", lambda number, _: handled.append(number))
    monkeypatch.setattr(signal, "set_wakeup_fd", lambda descriptor, **_: wakes.append(descriptor))
    brood = Child()
    with selectors.DefaultSelector() as selector:
        options = Options(lent=(Lent("remoting", "127.0.0.1", 0),), command=("broker",))
        reports = Reports((), selector, Resolver(selector, cast("Brood", brood)))
        shell = Shell(options, {}, reports, selector=selector, brood=cast("Brood", brood), environment={})
        shell._listen_to_signals()
        assert set(handled) == {
            signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD,
        }  # fmt: skip
        shell._tick(clock_ms())
        os.write(wakes[0], bytes([signal.SIGUSR1, signal.SIGCHLD, signal.SIGTERM]))
        dispatch(selector, 5_000)
        assert brood.signals == [signal.SIGUSR1, signal.SIGTERM]
        brood.status = 6
        os.write(wakes[0], bytes([signal.SIGCHLD]))
        dispatch(selector, 5_000)
        assert shell._left == 6, "without a tick"
