"""A broker group as real processes: three controllers and three replicas, each in a namespace and on a disk of its own.

Who leads and who is in sync is asked of the processes themselves, from inside their namespaces, so that no partition
hides it from the test.
"""

import http.client
import json
import os
import random
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkers.leadership import Sighting
from system.controllers import CLIENT_PORT, CLIENTS, NAMES_PORT, NODES, admin_page, controller, status_of
from system.disks import LoopDisk
from system.fake_brokers import CLUSTER
from system.group_modes import CONTROLLER, GroupMode
from system.guardians import is_alive
from system.netns import Network
from system.nodes import SAYS_NOTHING, NodeProcess, NotSettled, Quorum, python_command
from system.replica_orders import token_file
from system.wall_clocks import WallClock

__all__ = [
    "ADMIN_PORT", "BROKERS", "BROKER_PORT", "GROUP", "PEER_PORT", "BrokerGroup", "BrokerNode", "GroupBench",
    "group_bench", "in_step",
]  # fmt: skip

GROUP = "orders"
BROKERS = ("b1", "b2", "b3")
BROKER_PORT, PEER_PORT, ADMIN_PORT, RELAY_PORT = 10911, 10912, 10913, 10914
SEGMENT_MIB = 4
DISK_MIB = 512
STORE: Mapping[str, object] = {
    "segmentSize": f"{SEGMENT_MIB}MiB", "messageSizeMax": "1MiB", "indexSlots": 10_000, "indexEntries": 100_000,
    "queueFileEntries": 10_000,
}  # fmt: skip
"""Small files, so that edges are met often."""
LIMITS: Mapping[str, object] = {"bufferedSize": "64MiB"}
"""The default of a process that can have 256 MiB of memory."""
_ANY_SECONDS = 180.0
IN_STEP_MS = 1500
"""Whoever had everything not longer ago than this keeps up."""
_MARKS = ("leads", "leads no more", "sends whose outcome is unknown", "in-sync set changed", "log cut",
          "segments deleted", "this replica begins anew")  # fmt: skip


def broker_config(
    network: Network, node: str, data: Path, *, mode: GroupMode, guarded: bool,
    replication: Mapping[str, object] = SAYS_NOTHING, **settings: object,
) -> dict[str, object]:  # fmt: skip
    """What `logherd broker --config` reads, with the defaults for everything that decides how it behaves."""
    own = network.address(node)
    document: dict[str, object] = {
        "brokerGroup": GROUP,
        "clusterName": CLUSTER,
        "brokerId": BROKERS.index(node) + 1,
        "listen": f"{own}:{BROKER_PORT}",
        "adminListen": f"{own}:{ADMIN_PORT}",
        "dataDir": str(data),
        "nameService": {"mode": "external", "addresses": [f"{network.address(each)}:{NAMES_PORT}" for each in NODES]},
        "replication": {
            "controllers": [f"{network.address(each)}:{CLIENT_PORT}" for each in NODES],
            "peerListen": f"{own}:{PEER_PORT}",
            "peers": {number: f"{network.address(each)}:{PEER_PORT}" for number, each in enumerate(BROKERS, 1)},
            **mode.replication,
            **replication,
        },
        "store": STORE,
        "log": {"format": "json"},
        "limits": LIMITS,
        **settings,
    }  # fmt: skip
    if guarded:
        relays = [f"{network.address(each)}:{RELAY_PORT}" for each in BROKERS]
        document["guardian"] = {"relayListen": f"{own}:{RELAY_PORT}", "peers": relays}
    return document


class BrokerNode(NodeProcess):
    """One replica. With a guardian `process` is that, and `broker_pid` the broker that lives now."""

    def __init__(
        self, network: Network, name: str, directory: Path, data: Path, *, mode: GroupMode, guarded: bool,
        **settings: object,
    ) -> None:  # fmt: skip
        self.data = data
        self.guarded = guarded
        self._dead = 0
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "broker.json"
        path.write_text(json.dumps(broker_config(network, name, data, mode=mode, guarded=guarded, **settings)))
        flags = ("--guarded",) if guarded else ()
        command = python_command("-m", "logherd", "broker", *flags, "--config", str(path))
        super().__init__(network, name, directory, command)

    @property
    def broker_pid(self) -> int:
        if not self.guarded:
            return self.pid
        return int(json.loads((self.directory / f"{self.name}.ready").read_text())["pid"])

    def kill(self) -> None:
        """SIGKILL to everything, the guardian first."""
        broker = self.broker_pid if self.running else 0
        super().kill()
        deadline = time.monotonic() + _ANY_SECONDS
        while broker and is_alive(broker):
            assert time.monotonic() < deadline, f"the broker {broker} of {self.name} outlives its guardian"
            time.sleep(0.01)

    def die(self) -> None:
        """SIGKILL to the broker alone."""
        if not self.guarded:
            self.kill()
            return
        self._dead = self.broker_pid
        os.kill(self._dead, signal.SIGKILL)

    def revive(self) -> None:
        """After `die`: have it serve again. A guardian does that by itself."""
        if not self.guarded:
            self.start()
            return
        deadline = time.monotonic() + _ANY_SECONDS
        while self.broker_pid == self._dead:
            if not self.running or time.monotonic() > deadline:
                raise NotSettled(f"the guardian of {self.name} has started no other broker: {self.log_text()[-4000:]}")
            time.sleep(0.02)


class BrokerGroup(Quorum):
    """The replicas, watched like a quorum: `term` is the epoch, `applied` is (end, committed). A context manager."""

    def __init__(self, network: Network, nodes: Sequence[BrokerNode], mode: GroupMode = CONTROLLER) -> None:
        self._network = network
        self._mode = mode
        self.brokers = {node.name: node for node in nodes}
        super().__init__(nodes, self._status, every_seconds=0.25)

    def _status(self, node: str, seconds: float) -> Mapping[str, Any]:
        document = self.page(node, "/status", seconds=seconds)
        ends = document["endPosition"], document["committedPosition"]
        leads = document["role"] == "leader"
        return document | {"term": document["epoch"], "leader": None, "leads": leads, "applied": ends}

    def page(self, node: str, path: str, *, seconds: float = 1.0) -> dict[str, Any]:
        """What a replica's admin port shows, asked from inside its namespace. Raises OSError."""
        address = self._network.address(node)
        asked = http.client.HTTPConnection(address, ADMIN_PORT, timeout=seconds)
        asked.sock = self._network.doorway(node).connect(address, ADMIN_PORT, seconds=seconds)
        try:
            asked.request("GET", path)
            document = json.loads(asked.getresponse().read())
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            asked.close()
        if not isinstance(document, dict):
            raise TypeError(f"{path} is {document!r}")
        return document

    def group_page(self) -> Mapping[str, Any]:
        """The group as the leading controller has decided it; nothing while none answers."""
        for node in NODES:
            try:
                page = admin_page(self._network, node, f"/groups/{CLUSTER}/{GROUP}", seconds=0.5)
            except (OSError, ValueError):
                continue
            if page.get("live"):
                return page
        return SAYS_NOTHING

    def in_sync(self) -> list[str]:
        """Who is in sync, as whoever decides it says: the controllers, or the leader; empty while nobody does."""
        if self._mode.led_by_controllers:
            numbers = self.group_page().get("inSync") or ()
        else:
            said = next((each for name in self.nodes if (each := self.ask(name, seconds=0.5)).get("leads")), {})
            numbers = in_step(said) if said else ()
        return [BROKERS[number - 1] for number in sorted(numbers)]

    def agree(self, *, seconds: float = _ANY_SECONDS) -> str:
        """Wait until one broker leads, all others follow in its epoch, and all are in sync; its name."""
        deadline = time.monotonic() + seconds
        said: dict[str, Mapping[str, Any]] = {}
        while True:
            said = {name: self.ask(name, seconds=0.5) for name in self.nodes}
            roles = sorted(str(each.get("role")) for each in said.values())
            together = len({each.get("term") for each in said.values()}) == 1
            if together and roles == ["follower"] * (len(roles) - 1) + ["leader"]:
                synced = self.in_sync()
                if len(synced) == len(roles):
                    return next(name for name, each in said.items() if each["leads"])
            else:
                synced = []
            if time.monotonic() > deadline:
                logs = {name: node.condition() for name, node in self.nodes.items()}
                raise NotSettled(f"not whole after {seconds:g} s: in sync {synced}, {said}, {logs}")
            time.sleep(0.05)

    def wait_in_sync(self, *, without: str, seconds: float = _ANY_SECONDS) -> None:
        """Wait until one replica is in sync no more."""
        deadline = time.monotonic() + seconds
        while (synced := self.in_sync()) in ([], sorted(self.nodes)) or without in synced:
            if time.monotonic() > deadline:
                raise NotSettled(f"in sync after {seconds:g} s: {synced}, with {without}")
            time.sleep(0.05)

    def logged_sightings(self) -> set[Sighting]:
        """Leaders by what they wrote into their logs when they began to serve."""
        return {
            Sighting(int(event["epoch"]), name, f"log of {name}")
            for name, node in self.nodes.items()
            for event in node.log_events("leads")
        }

    def marks(self) -> dict[str, int]:
        """How often rare things have happened, by the replicas' logs."""
        logs = [node.log_text() for node in self.nodes.values()]
        return {mark: sum(log.count(f'"{mark}"') for log in logs) for mark in _MARKS}

    def complaints(self) -> list[str]:
        """Lines that no fault excuses: defects, and anything that is no log line."""
        return [
            f"{name}: {line[:1500]}"
            for name, node in self.nodes.items()
            for line in node.log_text().splitlines()
            if "Traceback" in line or "InvariantError" in line or not line.startswith(("{", "logherd-guardian"))
        ]


def in_step(leader: Mapping[str, Any]) -> Sequence[int]:
    """Who keeps up with a leader that no controllers watch: in raft mode the voters that do; in static mode nobody
    leaves the roles, so whoever had everything a moment ago."""
    view = leader["replication"]
    if view["mode"] == "raft":
        numbers: Sequence[int] = view["inSync"]["members"]
        return numbers
    lags = {each["brokerId"]: each["lagMs"] for each in view["followers"] if each["connected"]}
    return [leader["brokerId"], *(number for number, lag in lags.items() if lag is not None and lag < IN_STEP_MS)]


@dataclass(frozen=True, slots=True)
class GroupBench:
    """What the rounds act on."""

    network: Network
    controllers: Quorum
    group: BrokerGroup
    disks: Mapping[str, LoopDisk]
    mode: GroupMode
    token: Path
    """The secret that orders to brokers bring."""
    clocks: Mapping[str, WallClock]
    """Of brokers and controllers."""
    draw: random.Random = field(default_factory=lambda: random.Random(5))

    def others(self, name: str) -> list[str]:
        return [other for other in BROKERS if other != name]

    def follower(self, leader: str) -> str:
        return self.draw.choice(self.others(leader))


@contextmanager
def group_bench(
    directory: Path, *, seed: int, guarded: bool = False, settings: Mapping[str, object] | None = None,
    mode: GroupMode = CONTROLLER,
) -> Iterator[GroupBench]:  # fmt: skip
    """A whole group that serves; on leaving everything is ended, whatever happened."""
    token = token_file(directory)
    more = {"adminTokenFile": str(token), **(settings or {})}
    with ExitStack() as stack:
        network = stack.enter_context(Network((*NODES, *BROKERS, CLIENTS)))
        disks: dict[str, LoopDisk] = {}
        for node in BROKERS:
            (directory / node).mkdir(parents=True)
            disks[node] = stack.enter_context(LoopDisk(directory / node, size_mib=DISK_MIB))
        members = [controller(network, node, directory / node) for node in NODES]
        clocks = {node: WallClock(directory / f"{node}.clock") for node in (*NODES, *BROKERS)}
        for member in members:
            member.under = clocks[member.name].under
        controllers = stack.enter_context(Quorum(members, status_of(network), every_seconds=0.25))
        nodes = [
            BrokerNode(
                network, node, directory / node, disks[node].mount_point / "data", mode=mode, guarded=guarded, **more
            )
            for node in BROKERS
        ]
        for each in nodes:
            each.under = clocks[each.name].under
        group = stack.enter_context(BrokerGroup(network, nodes, mode))
        group.agree()
        yield GroupBench(network, controllers, group, disks, mode, token, clocks, random.Random(seed))
