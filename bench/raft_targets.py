"""Three-node groups to measure: etcd 3.6.5, and the Raft log of LogHerd under a small node. Loopback, one disk."""
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

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from bench.node_protocol import STATUS, read_answer, write_request

from compat.processes import Process, free_port, until
from compat.toolchain import build_go

__all__ = ["KINDS", "Group", "load_program", "running_group"]

KINDS = ("etcd", "node")
GO = Path(__file__).parent / "go"
NAMES = ("a", "b", "c")
SECONDS_TO_LEAD = 30


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
        starts = _etcd_commands(directory) if kind == "etcd" else _node_commands(directory, profile)
        processes = [
            stack.enter_context(Process(command, log=directory / f"{name}.out", environment={"PYTHONPATH": str(ROOT)}))
            for name, (command, _) in zip(NAMES, starts, strict=True)
        ]
        ports = [port for _, port in starts]
        leader = _leader_of(kind, ports, processes)
        yield Group(kind, f"127.0.0.1:{leader}", tuple(process.pid for process in processes))


def _leader_of(kind: str, ports: Sequence[int], processes: Sequence[Process]) -> int:
    """The client port of the member that leads and serves."""
    leads = _etcd_leads if kind == "etcd" else _node_leads
    found: list[int] = []

    def seen() -> bool:
        found.extend(port for port in ports if leads(port))
        return bool(found)

    try:
        until(seen, seconds=SECONDS_TO_LEAD, what=f"the {kind} group has a leader")
    except TimeoutError as late:
        raise RuntimeError("\n".join([str(late), *(process.tail() for process in processes)])) from None
    return found[0]


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
