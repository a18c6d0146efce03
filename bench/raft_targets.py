"""Three-node groups to measure: etcd 3.6.5, SOFAJRaft 1.3.14, and the Raft log of LogHerd under a small node. Loopback,
one disk."""
# ruff: noqa: E402 - the processes are started by the code of tests/compat, which is not installed anywhere

import json
import socket
import struct
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from bench.node_protocol import RUN, STATUS, read_answer, write_request
from bench.targets import bench_classes

from compat.processes import Process, free_port, until
from compat.toolchain import build_go, find_tool

__all__ = ["INSIDE_KINDS", "KINDS", "Group", "load_program", "run_inside", "running_group"]

KINDS = ("etcd", "node")
INSIDE_KINDS = ("sofajraft", "node")
"""Those that take proposals from inside their leader."""
GO = Path(__file__).parent / "go"
NAMES = ("a", "b", "c")
SECONDS_TO_LEAD = 90
"""Three Java machines that start on two busy cores take half a minute."""
_JRAFT_HEAP = "1g"
_RUN_SECONDS_MAX = 120.0


@dataclass(frozen=True, slots=True)
class Group:
    """A started group: what the load program calls it, where its leader answers, and its processes."""

    kind: str
    leader: str
    pids: tuple[int, ...]


def load_program() -> Path:
    """The load generator, compiled."""
    return build_go(GO / "raftload")


@contextmanager
def running_group(kind: str, directory: Path, *, profile: Path | None = None) -> Iterator[Group]:
    """Three members on empty directories, with a leader; ended behind the block. `profile` concerns LogHerd only."""
    directory.mkdir(parents=True)
    with ExitStack() as stack:
        if kind == "node":
            starts = _node_commands(directory, profile)
        else:
            starts = _etcd_commands(directory) if kind == "etcd" else _jraft_commands(directory)
        processes = [
            stack.enter_context(Process(command, log=directory / f"{name}.out", environment={"PYTHONPATH": str(ROOT)}))
            for name, (command, _) in zip(NAMES, starts, strict=True)
        ]
        ports = [port for _, port in starts]
        leader = _leader_of(kind, ports, processes)
        yield Group(kind, f"127.0.0.1:{leader}", tuple(process.pid for process in processes))


def _leader_of(kind: str, ports: Sequence[int], processes: Sequence[Process]) -> int:
    """The client port of the member that leads and serves."""
    leads = {"etcd": _etcd_leads, "sofajraft": _jraft_leads, "node": _node_leads}[kind]
    found: list[int] = []

    def seen() -> bool:
        found.extend(port for port in ports if leads(port))
        return bool(found)

    try:
        until(seen, seconds=SECONDS_TO_LEAD, what=f"the {kind} group has a leader")
    except TimeoutError as late:
        raise RuntimeError("\n".join([str(late), *(process.tail() for process in processes)])) from None
    return found[0]


def run_inside(group: Group, wanted: dict[str, int]) -> dict[str, Any]:
    """Have the leader propose to itself: `window` proposals of `size` bytes at a time, for `warmupMs` and `measureMs`.
    Blocks until that is done. Raises: OSError, struct.error or ValueError if the leader ends meanwhile."""
    port = int(group.leader.rpartition(":")[2])
    if group.kind == "sofajraft":
        return _ask_jraft(port, {"what": "run", **wanted}, timeout=_RUN_SECONDS_MAX)
    with socket.create_connection(("127.0.0.1", port), timeout=_RUN_SECONDS_MAX) as link:
        link.sendall(write_request(1, RUN, b"", json.dumps(wanted).encode()))
        figures: dict[str, Any] = json.loads(read_answer(link.recv)[2])
    return figures


def _ask_jraft(port: int, question: dict[str, object], *, timeout: float) -> dict[str, Any]:
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as link:
        link.sendall(json.dumps(question).encode() + b"\n")
        with link.makefile() as lines:
            answer: dict[str, Any] = json.loads(lines.readline())
    return answer


def _jraft_commands(directory: Path) -> list[tuple[list[str], int]]:
    """The library's own settings, but for the heap: it flushes each run of entries, as it comes."""
    places = [(free_port(), free_port()) for _ in NAMES]
    peers = ",".join(f"127.0.0.1:{peer}" for _, peer in places)
    java = [
        find_tool("java"), f"-Xms{_JRAFT_HEAP}", f"-Xmx{_JRAFT_HEAP}", f"-Duser.home={directory}",
        f"-Djava.io.tmpdir={directory}", "-cp", bench_classes(), "dev.logherd.bench.RaftPeer",
    ]  # fmt: skip
    return [
        ([*java, f"127.0.0.1:{peer}", peers, str(directory / name), str(port)], port)
        for name, (port, peer) in zip(NAMES, places, strict=True)
    ]


def _jraft_leads(port: int) -> bool:
    try:
        return bool(_ask_jraft(port, {"what": "leads"}, timeout=1)["leads"])
    except (OSError, ValueError):
        return False


def _etcd_commands(directory: Path) -> list[tuple[list[str], int]]:
    """etcd as it comes, apart from addresses and the log's level."""
    program = str(build_go(GO / "etcd"))
    places = [(free_port(), free_port()) for _ in NAMES]
    cluster = ",".join(f"{name}=http://127.0.0.1:{peer}" for name, (_, peer) in zip(NAMES, places, strict=True))
    commands = []
    for name, (port, peer) in zip(NAMES, places, strict=True):
        client_url, peer_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer}"
        options = {
            "name": name, "data-dir": str(directory / name), "listen-client-urls": client_url,
            "advertise-client-urls": client_url, "listen-peer-urls": peer_url,
            "initial-advertise-peer-urls": peer_url, "initial-cluster": cluster, "initial-cluster-state": "new",
            "log-level": "error",
        }  # fmt: skip
        commands.append(([program, *(f"--{key}={value}" for key, value in options.items())], port))
    return commands


def _etcd_leads(port: int) -> bool:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v3/maintenance/status", data=b"{}")
    try:
        with urllib.request.urlopen(request, timeout=1) as answer:
            status = json.load(answer)
    except (urllib.error.URLError, OSError):
        return False
    return status.get("leader", "0") == status["header"]["member_id"]


def _node_commands(directory: Path, profile: Path | None) -> list[tuple[list[str], int]]:
    places = [(free_port(), free_port()) for _ in NAMES]
    peers = ",".join(f"{name}=127.0.0.1:{peer}" for name, (_, peer) in zip(NAMES, places, strict=True))
    commands = []
    for name, (port, _) in zip(NAMES, places, strict=True):
        command = [
            sys.executable, "-m", "bench.log_node", "--name", name, "--listen", f"127.0.0.1:{port}", "--peers", peers,
            "--directory", str(directory / name),
        ]  # fmt: skip
        if profile is not None:
            command += ["--profile", str(profile / f"{name}.prof")]
        commands.append((command, port))
    return commands


def _node_leads(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as link:
            link.sendall(write_request(1, STATUS, b"", b""))
            _, _, text = read_answer(link.recv)
    except (OSError, struct.error):
        return False
    return bool(json.loads(text)["serves"])
