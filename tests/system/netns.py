"""Networks of one machine: a namespace for each node, joined by a bridge that has a namespace of its own.

Nothing is made in the machine's own network: the bridge, its cables and all addresses live in named namespaces, so that
deleting those deletes everything. Their names carry the test's process id; what a killed run left behind is removed by
the next. Needs root, `ip` and `nft`.
"""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from types import TracebackType

__all__ = ["Doorway", "Network", "Unavailable", "leftovers", "run", "why_unavailable"]

_PREFIX = "logherd"
_FOLDER = Path("/run/netns")
_CLONE_NEWNET = 0x40000000
_STRAGGLER_SECONDS = 3.0
_numbers = count(1)


class Unavailable(Exception):
    """This machine cannot make networks; the text says what is missing."""


def why_unavailable() -> str:
    """What is missing to make networks here; empty if nothing is."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [tool for tool in ("ip", "nft", "tc", "nsenter") if shutil.which(tool) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


def run(*command: str, text: str | None = None) -> str:
    """What a command prints. Raises RuntimeError with its words if it fails."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def leftovers(owner: int | None = None) -> list[str]:
    """Namespaces of this process (or of `owner`) that still have a name."""
    start = f"{_PREFIX}-{owner or os.getpid()}-"
    return sorted(path.name for path in _FOLDER.glob(f"{start}*")) if _FOLDER.is_dir() else []


def _remove_dead_runs() -> None:
    """What a run left behind that was killed: its processes end with it, its namespaces do not."""
    for path in _FOLDER.glob(f"{_PREFIX}-*-*"):
        owner = path.name.split("-")[1]
        if not Path("/proc", owner).exists():
            subprocess.run(["ip", "netns", "delete", path.name], capture_output=True, check=False)


class Doorway:
    """Sockets of one namespace for this process: made by a thread that has gone inside, used by anybody."""

    def __init__(self, namespace: str) -> None:
        self._path = _FOLDER / namespace
        self._inside = ThreadPoolExecutor(1, thread_name_prefix=namespace, initializer=self._enter)

    def _enter(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            if libc.setns(descriptor, _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"cannot enter {self._path}")
        finally:
            os.close(descriptor)

    def connect(self, address: str, port: int, *, seconds: float = 5.0) -> socket.socket:
        """A TCP connection from inside. Raises OSError."""
        made = self._inside.submit(socket.socket, socket.AF_INET, socket.SOCK_STREAM).result()
        made.settimeout(seconds)
        try:
            made.connect((address, port))
        except BaseException:
            made.close()
            raise
        return made

    def knock(self, address: str, port: int) -> socket.socket:
        """A connection that was begun, not waited for: its first packet has left."""
        made = self._inside.submit(socket.socket, socket.AF_INET, socket.SOCK_STREAM).result()
        made.settimeout(0)
        made.connect_ex((address, port))
        return made

    def close(self) -> None:
        self._inside.shutdown()


class Network:
    """Nodes with one address each on one bridge. Use as a context manager: leaving removes everything.

    `enter(node)` is what a command starts with to run inside a node; `doorway(node)` makes sockets there.
    """

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = tuple(nodes)
        self._stem = f"{_PREFIX}-{os.getpid()}-{next(_numbers)}"
        self._doorways: dict[str, Doorway] = {}

    def namespace(self, node: str) -> str:
        return f"{self._stem}-{node}"

    def port(self, node: str) -> str:
        """The device in the hub's namespace that its cable ends in."""
        return f"port{self.nodes.index(node)}"

    def address(self, node: str) -> str:
        return f"10.99.0.{self.nodes.index(node) + 1}"

    def enter(self, node: str) -> tuple[str, ...]:
        """The mounts stay the machine's: `ip netns exec` would keep a copy of them, and unmounted disks alive."""
        return ("nsenter", f"--net={_FOLDER / self.namespace(node)}", "--")

    def doorway(self, node: str) -> Doorway:
        if node not in self._doorways:
            self._doorways[node] = Doorway(self.namespace(node))
        return self._doorways[node]

    def __enter__(self) -> "Network":
        missing = why_unavailable()
        if missing:
            raise Unavailable(missing)
        _FOLDER.mkdir(exist_ok=True)
        _remove_dead_runs()
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _make(self) -> None:
        hub = self.namespace("hub")
        for name in (hub, *map(self.namespace, self.nodes)):
            run("ip", "netns", "add", name)
        run("ip", "-n", hub, "link", "add", "bridge0", "type", "bridge")
        run("ip", "-n", hub, "link", "set", "bridge0", "up")
        for node in self.nodes:
            inside, port = self.namespace(node), self.port(node)
            run("ip", "link", "add", port, "netns", hub, "type", "veth", "peer", "name", "eth0", "netns", inside)
            run("ip", "-n", hub, "link", "set", port, "master", "bridge0", "up")
            run("ip", "-n", inside, "address", "add", f"{self.address(node)}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                run("ip", "-n", inside, "link", "set", device, "up")
            # One chain for faults, before everything else.
            rules = "add table inet faults; add chain inet faults arriving { type filter hook input priority -10; }"
            run(*self.enter(node), "nft", rules)

    @staticmethod
    def _stragglers(name: str) -> list[str]:
        """Processes that are still inside; children of a killed process get a moment to notice."""
        deadline = time.monotonic() + _STRAGGLER_SECONDS
        while (inside := run("ip", "netns", "pids", name).split()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return inside

    def _remove(self) -> None:
        for doorway in self._doorways.values():
            doorway.close()
        self._doorways.clear()
        faults = []
        for name in (*map(self.namespace, self.nodes), self.namespace("hub")):
            if not (_FOLDER / name).exists():
                continue
            inside = self._stragglers(name)
            if inside:
                faults.append(f"processes {', '.join(inside)} were still in {name}")
                for pid in inside:
                    # Named by the namespace that this test made: nobody else can be in it.
                    os.kill(int(pid), signal.SIGKILL)
            run("ip", "netns", "delete", name)
        if faults:
            raise RuntimeError("; ".join(faults))
