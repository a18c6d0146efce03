"""Real guardians for tests, the peers that stand in for their children, the controllers that hear of their deaths."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from logherd.wire.codec import FrameReader, encode_frame
from logherd.wire.frame import Flag, Frame
from logherd_guardian.proxy import GREETING

__all__ = ["Controller", "Guardian", "Peer", "eventually", "flood", "is_alive", "nobody_at"]

CHILD = Path(__file__).with_name("guarded_child.py")
_SIGNATURE = bytes.fromhex("0d0a0d0a000d0a515549540a")


def eventually(holds: Callable[[], object], what: str, seconds: float = 40.0) -> None:
    """Wait until it holds. Raises: AssertionError that says what did not."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def nobody_at() -> Iterator[str]:
    """An address that refuses every connection: it is held, so that nobody else gets it, and nobody listens there."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


class Guardian:
    """One `logherd-guardian` over a child of `guarded_child.py`, or over a command."""

    def __init__(
        self, directory: Path, *options: str, child: tuple[str, ...] = (), command: tuple[str, ...] = (),
        inherited: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        self.notes_path = directory / "notes"
        self.notes_path.touch()
        self.log_path = directory / "guardian.log"
        run = command or (sys.executable, str(CHILD), str(self.notes_path), *child)
        # What a shell or nohup has told us to ignore would be ignored by a guardian and its child, too.
        clean = ["env", "--default-signal"]
        arguments = [*clean, sys.executable, "-m", "logherd_guardian", "--listen", "127.0.0.1:0", *options, "--", *run]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(arguments, stdout=log, stderr=log, pass_fds=inherited)
        eventually(lambda: "listening: " in self.log, "no listener")
        self.port = int(self.log.partition("remoting=")[2].split()[0].rpartition(":")[2])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(10)

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    @property
    def notes(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.notes_path.read_text().splitlines()]

    @property
    def child(self) -> int:
        return int(self.log.rpartition("child started: pid=")[2].split()[0])

    def wait_for(self, text: str, times: int = 1, seconds: float = 40.0) -> None:
        eventually(lambda: self.log.count(text) >= times, f"{text!r} not said {times} times:\n{self.log}", seconds)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def connect(self, seconds: float = 30.0) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=seconds)

    def ask(self, line: bytes = b"hello", seconds: float = 30.0) -> bytes:
        """One connection, one line, one answer."""
        with self.connect(seconds) as connection:
            connection.sendall(line)
            return connection.recv(4096)

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def processor_seconds(self) -> float:
        """Processor time used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, field: str) -> int:
        """Kilobytes: a field of smaps_rollup. Only Pss depends on who else has the pages, as a fork for a moment."""
        lines = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


class _Server:
    """Accepts in a thread of its own and handles each connection in another."""

    def __init__(self, port: int = 0) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = int(self._listener.getsockname()[1])
        self.address = f"127.0.0.1:{self.port}"
        self.open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lose everything at once; a thread that reads would else keep its connection open."""
        for each in (self._listener, *self.open):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.open.append(connection)
            threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection: socket.socket) -> None:
        try:
            with connection:
                self.handle(connection)
        except OSError:
            return

    def handle(self, connection: socket.socket) -> None:
        raise NotImplementedError


class Peer(_Server):
    """The peer port of another child: greets, reads the PROXY header, then answers lines with "peer "."""

    def __init__(self, *, greeting: bytes = GREETING, serve: Callable[[socket.socket], None] | None = None) -> None:
        self.headers: list[bytes] = []
        self._greeting = greeting
        self._serve = serve
        super().__init__()

    def handle(self, connection: socket.socket) -> None:
        connection.sendall(self._greeting)
        start = _exactly(connection, 16)
        if start is None:
            return
        assert start.startswith(_SIGNATURE)
        rest = _exactly(connection, int.from_bytes(start[14:16], "big"))
        assert rest is not None
        self.headers.append(start + rest)
        if self._serve is not None:
            self._serve(connection)
            return
        while data := connection.recv(65536):
            connection.sendall(b"peer " + data)


def _exactly(connection: socket.socket, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            return None
        data += piece
    return data


class Controller(_Server):
    """Hears reports, read by the broker's codec, and answers with `code`."""

    def __init__(self, code: int = 0, leader: str | None = None, *, silent: bool = False) -> None:
        self.heard: list[Frame] = []
        self.code = code
        self.leader = leader
        self.silent = silent
        super().__init__()

    def handle(self, connection: socket.socket) -> None:
        reader = FrameReader()
        while data := connection.recv(65536):
            for frame in reader.feed(data):
                self.heard.append(frame)
                if self.silent:
                    continue
                ext = {} if self.leader is None else {"controllerLeaderAddress": self.leader}
                connection.sendall(encode_frame(Frame(self.code, frame.opaque, flag=Flag.RESPONSE, ext=ext)))

    def wait_for_reports(self, count: int, seconds: float = 40.0) -> None:
        eventually(lambda: len(self.heard) >= count, f"{len(self.heard)} reports, not {count}", seconds)


@contextmanager
def flood(guardian: Guardian) -> Iterator[list[str]]:
    """A client that keeps connecting: one connection, one line, one answer after the other; who answered, in order."""
    answers: list[str] = []
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            try:
                answer = guardian.ask()
                answers.append(answer.decode().rpartition(" ")[0] or "cut")
            except ConnectionRefusedError:
                answers.append("refused")
            except OSError as error:
                answers.append(f"cut: {error}")

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield answers
    finally:
        stop.set()
        thread.join()
