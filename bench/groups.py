"""Replicated groups to measure, three replicas each on loopback and one disk: LogHerd's and RocketMQ 5.3.3's two kinds.

Each is set up so that an answered message is on disk as far as that system can promise it, and survives the loss of one
replica. RocketMQ's followers acknowledge before they flush, in both modes; nothing can be set against that.
"""
# ruff: noqa: E402 - the processes are started by the code of tests/compat, which is not installed anywhere

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from bench.sampling import family

from compat.controllers import start_logherd_controllers
from compat.processes import Process, accepts, free_port, until
from compat.remoting import ask
from compat.rocketmq import RocketMQOptions, java_command, write_properties
from compat.server import BROKER, CLUSTER, Server

__all__ = ["KINDS", "OURS", "PEERS", "RunningGroup", "native_send", "running_group"]

IDS = (1, 2, 3)


class Way(NamedTuple):
    """How a LogHerd group is led, and when its replicas flush what they acknowledge."""

    mode: str
    flush: str


OURS = {"logherd": Way("controller", "sync"), "logherd raft": Way("raft", "sync"),
        "logherd async": Way("controller", "async")}  # fmt: skip
_SETTLE_SECONDS = 120.0
_MASTER = "0"
_NAMES_MAIN = "org.apache.rocketmq.namesrv.NamesrvStartup"
_BROKER_MAIN = "org.apache.rocketmq.broker.BrokerStartup"
_CONTROLLER_MAIN = "org.apache.rocketmq.controller.ControllerStartup"


def native_send(name_server: str, *, size: int, seconds: float, options: Sequence[str] = ()) -> dict[str, Any]:
    """What `logherd bench send` reports, with its defaults but for these options; it warms up for a second first."""
    command = [
        sys.executable, "-m", "logherd", "bench", "send", "--name-server", name_server, "--size", str(size),
        "--seconds", str(seconds), "--output", "json", *options,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:  # else it reports also what was refused and lost, and ends with 1
        done.check_returncode()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@dataclass(slots=True)
class RunningGroup:
    """A started group. `brokers`: broker port -> the process that was started for it, a guardian for LogHerd."""

    name_server: str
    name_port: int
    brokers: dict[int, Process]
    others: list[Process] = field(default_factory=list)
    ready: dict[int, Path] = field(default_factory=dict)
    """Broker port -> the file in which LogHerd's broker says its pid."""
    restart: Callable[[int], None] | None = None
    """Start the broker of this port again; None: its guardian does."""

    @property
    def pids(self) -> list[int]:
        """All processes of the group: brokers, controllers, name servers, guardians."""
        processes = [*self.brokers.values(), *self.others]
        return [pid for process in processes if process.running for pid in family(process.pid)]

    def leader(self) -> int:
        """The port of the broker that routes name as the master; 0 if there is none."""
        try:
            header, body = ask(self.name_port, 106, {})
        except OSError:
            return 0
        if header["code"]:
            return 0
        # RocketMQ's JSON has numbers as keys.
        text = re.sub(r"([{,])(\d+):", r'\1"\2":', body.decode())
        table: dict[str, Any] = json.loads(text)["brokerAddrTable"]
        address = table.get(BROKER, {}).get("brokerAddrs", {}).get(_MASTER, "")
        return int(address.rpartition(":")[2] or 0)

    def server(self) -> Server:
        """The name server, and the leader as it is now."""
        return Server(self.name_port, self.leader())

    def kill_leader(self) -> int:
        """SIGKILL to the broker that leads, not to its guardian; its port."""
        port = self.leader()
        pid = json.loads(self.ready[port].read_text())["pid"] if port in self.ready else self.brokers[port].pid
        os.kill(pid, signal.SIGKILL)
        return port


def _accepts_a_topic(group: RunningGroup) -> bool:
    """Whether the leader takes an order. A first one may come before it can carry anything out."""
    try:
        group.server().create_topic("Ready", queues=1)
    except (OSError, RuntimeError, TimeoutError):
        return False
    return True


@contextmanager
def running_group(kind: str, class_path: str, directory: Path, *, heap: str = "1g") -> Iterator[RunningGroup]:
    """The group, started on empty stores, led and taking orders; ended behind the block. `heap` is of each broker."""
    directory.mkdir(parents=True)
    with ExitStack() as ends:
        if kind in OURS:
            group = _logherd(directory, ends, OURS[kind])
        else:
            group = _rocketmq(kind, class_path, directory, heap, ends)
        until(lambda: group.leader() in group.brokers, seconds=_SETTLE_SECONDS, what=f"a leader of {kind}")
        until(lambda: _accepts_a_topic(group), seconds=_SETTLE_SECONDS, what=f"an order taken by {kind}")
        yield group


def _logherd(directory: Path, ends: ExitStack, way: Way) -> RunningGroup:
    controllers = ends.enter_context(start_logherd_controllers(directory / "controllers", guarded=True))
    names = {node: f"127.0.0.1:{port}" for node, port in controllers.name_ports.items()}
    peers = {number: f"127.0.0.1:{free_port()}" for number in IDS}
    relays = [f"127.0.0.1:{free_port()}" for _ in IDS]
    # In mode raft the brokers vote; the controllers, which are the name servers in any case, have no say.
    electing = [f"127.0.0.1:{each}" for each in controllers.ports.values()] if way.mode == "controller" else []
    brokers, ready = {}, {}
    for number in IDS:
        port, home = free_port(), directory / f"b{number}"
        home.mkdir()
        settings = {
            "clusterName": CLUSTER, "brokerGroup": BROKER, "brokerId": number, "dataDir": str(home / "store"),
            "listen": f"127.0.0.1:{port}", "adminListen": f"127.0.0.1:{free_port()}",
            "nameService": {"mode": "external", "addresses": list(names.values())},
            "replication": {"mode": way.mode, "peerListen": peers[number], "peers": peers, "controllers": electing},
            "guardian": {"relayListen": relays[number - 1], "peers": relays}, "store": {"reservedPercent": 0},
            "flush": way.flush,
        }  # fmt: skip
        config = home / "broker.json"
        config.write_text(json.dumps(settings))
        command = ["env", "--default-signal", sys.executable, "-m", "logherd", "broker", "--guarded"]
        ready[port] = home / "ready.json"
        command += ["--config", str(config), "--ready-file", str(ready[port])]
        brokers[port] = Process(command, log=home / "broker.out")
        ends.callback(brokers[port].kill)  # in order, each would wait for a set that it may leave
    others = list(controllers.processes.values())
    return RunningGroup(";".join(names.values()), controllers.name_port, brokers, others, ready)


def _rocketmq(kind: str, class_path: str, directory: Path, heap: str, ends: ExitStack) -> RunningGroup:
    # As for a single broker: no compiler or collector is forced.
    small = RocketMQOptions(heap="96m", direct="64m")
    options = RocketMQOptions(heap=heap, direct="256m", jvm=("-XX:+UseG1GC",))
    name_port = free_port()

    def start(name: str, main: str, settings: dict[str, str], chosen: RocketMQOptions) -> Process:
        home = directory / name
        home.mkdir(exist_ok=True)
        config = write_properties(home / "settings.properties", settings)
        process = Process(java_command(class_path, home, main, config, chosen), log=home / "process.out")
        ends.callback(process.kill)
        return process

    others = [start("names", _NAMES_MAIN, {"listenPort": str(name_port)}, small)]
    others[0].wait_ready(lambda: accepts(name_port), seconds=30, what="the name server listens")
    ports = {number: free_port((-2, 1)) for number in IDS}
    if kind == "rocketmq controller":
        controllers, mode = _rocketmq_controllers(directory, start, small)
        others += controllers
    else:
        peers = ";".join(f"n{number}-127.0.0.1:{free_port()}" for number in IDS)
        mode = {"enableDLegerCommitLog": "true", "dLegerGroup": BROKER, "dLegerPeers": peers}

    def settings(number: int) -> dict[str, str]:
        store = directory / f"b{number}" / "store"
        own = {"dLegerSelfId": f"n{number}"} if kind == "rocketmq dledger" else {"brokerId": "-1"}
        return {
            "brokerClusterName": CLUSTER, "brokerName": BROKER, "brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1",
            "listenPort": str(ports[number]), "namesrvAddr": f"127.0.0.1:{name_port}",
            "storePathRootDir": str(store), "storePathCommitLog": str(store / "commitlog"),
            "flushDiskType": "SYNC_FLUSH", "diskMaxUsedSpaceRatio": "95", **mode, **own,
        }  # fmt: skip

    def started(number: int) -> Process:
        return start(f"b{number}", _BROKER_MAIN, settings(number), options)

    brokers = {port: started(number) for number, port in ports.items()}
    group = RunningGroup(f"127.0.0.1:{name_port}", name_port, brokers, others)

    def again(port: int) -> None:
        brokers[port].kill()
        brokers[port] = started(next(number for number, each in ports.items() if each == port))

    group.restart = again
    return group


def _rocketmq_controllers(
    directory: Path, start: Callable[[str, str, dict[str, str], RocketMQOptions], Process], options: RocketMQOptions
) -> tuple[list[Process], dict[str, str]]:
    ports = {f"n{number}": free_port() for number in IDS}
    peers = ";".join(f"{node}-127.0.0.1:{port}" for node, port in ports.items())
    processes = [
        start(node, _CONTROLLER_MAIN, {
            "controllerDLegerGroup": CLUSTER, "controllerDLegerPeers": peers, "controllerDLegerSelfId": node,
            "controllerStorePath": str(directory / node / "store"), "mappedFileSize": str(4 << 20),
            "listenPort": str(free_port()),
        }, options)
        for node in ports
    ]  # fmt: skip
    addresses = ";".join(f"127.0.0.1:{port}" for port in ports.values())
    return processes, {
        "enableControllerMode": "true", "controllerAddr": addresses, "totalReplicas": "3", "inSyncReplicas": "2",
        "minInSyncReplicas": "2", "allAckInSyncStateSet": "true",
    }  # fmt: skip


PEERS = {"logherd": "rocketmq controller", "logherd raft": "rocketmq dledger"}
"""Which of RocketMQ's modes makes leaders, and counts a message as safe, in the same way."""
KINDS = (*PEERS.values(), *PEERS)
