"""Processes that a test starts: their output in a file, a readiness check, an end by their own id."""

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

__all__ = ["Process", "accepts", "ends_with_parent", "free_port", "until"]


def ends_with_parent(command: list[str]) -> list[str]:
    """The command so that the kernel kills it when the test process dies, also if that is killed itself."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", *command] if setpriv else command


def until(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Wait for a condition of another process. Raises TimeoutError naming what did not happen."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {seconds:g} s")
        time.sleep(0.02)


def accepts(port: int) -> bool:
    """Whether a listener on loopback takes connections."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def can_listen(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def free_port(neighbours: tuple[int, ...] = ()) -> int:
    """A port that nobody listens on, nor on its neighbours at these distances.

    Below the range from which the kernel draws ports for connections, so that no client takes it in between. Two test
    processes of one run, gw0 and gw1, look in different halves of what is below.
    """
    half = os.environ.get("PYTEST_XDIST_WORKER", "gw0").endswith(("1", "3", "5", "7", "9"))
    first = (22_000 if half else 12_000) + (os.getpid() * 97) % 5_500
    for port in range(first, first + 4_000, 7):
        with _giving:
            if port not in _given and all(can_listen(port + distance) for distance in (0, *neighbours)):
                _given.add(port)
                return port
    raise RuntimeError("no free port found")


_given: set[int] = set()
_giving = threading.Lock()


class Process:
    """One child process. It ends with the test process, whatever happens to that."""

    def __init__(self, command: list[str], *, log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = log
        with log.open("ab") as out:
            self._child = subprocess.Popen(
                ends_with_parent(command), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                cwd=log.parent, env={**os.environ, **(environment or {})},
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    def wait_ready(self, condition: Callable[[], bool], *, seconds: float, what: str) -> None:
        """Wait until the process says it is ready. Raises RuntimeError with its output if it ends or takes too long."""

        def ready_or_gone() -> bool:
            return not self.running or condition()

        try:
            until(ready_or_gone, seconds=seconds, what=what)
        except TimeoutError as late:
            raise RuntimeError(f"{late}\n{self.tail()}") from None
        if not self.running:
            raise RuntimeError(f"ended with {self._child.returncode} before {what}\n{self.tail()}")

    def tail(self) -> str:
        """The end of what it printed."""
        return self.log.read_text(errors="replace")[-4000:]

    def stop(self, *, seconds: float = 20) -> int:
        """Ask it to end, insist after `seconds`; the exit code."""
        if self.running:
            self._child.send_signal(signal.SIGTERM)
            try:
                self._child.wait(seconds)
            except subprocess.TimeoutExpired:
                return self.kill()
        return self._child.wait()

    def kill(self) -> int:
        """End it as a crash would."""
        self._child.kill()
        return self._child.wait()

    def __enter__(self) -> "Process":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
