"""Three controllers as processes, LogHerd's or RocketMQ 5.3.3's: the harness sees both in the same way."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from compat.processes import Process, accepts, free_port, until
from compat.remoting import ask
from compat.rocketmq import RocketMQOptions, java_command, write_properties
from compat.server import CLUSTER

__all__ = ["Controllers", "logherd_command", "start_logherd_controllers", "start_rocketmq_controllers"]

NODES = ("n0", "n1", "n2")
_METADATA = 1005
_NEXT_ID = 1012


@dataclass(frozen=True, slots=True)
class Controllers:
    """Running controllers: node -> port. `kind` is logherd or rocketmq."""

    kind: str
    ports: dict[str, int]
    processes: dict[str, Process]
    name_ports: dict[str, int]
    """Of the name services, by the node in whose process they are."""

    @property
    def name_port(self) -> int:
        """One of them."""
        return next(iter(self.name_ports.values()))

    @property
    def name_server(self) -> str:
        return f"127.0.0.1:{self.name_port}"

    @property
    def leader(self) -> str:
        """The node that leads. Raises RuntimeError if they do not agree."""
        said = {node: self.metadata(node) for node in self.ports}
        leaders = {each.get("controllerLeaderId") for each in said.values()}
        if len(leaders) != 1 or None in leaders:
            raise RuntimeError(f"the controllers do not agree who leads: {said}")
        return str(leaders.pop())

    def metadata(self, node: str) -> dict[str, Any]:
        """The fields of the answer to 1005."""
        header, _ = ask(self.ports[node], _METADATA, {})
        fields: dict[str, Any] = header["extFields"]
        return fields

    def agree(self) -> bool:
        """Whether all of them name one leader, and that one serves.

        RocketMQ's says that it leads some time before it takes its first request of a broker.
        """
        try:
            leader = self.leader
            leads = self.metadata(leader)["isLeader"]
            header, _ = ask(self.ports[leader], _NEXT_ID, {"clusterName": CLUSTER, "brokerName": "nobody"})
        except (OSError, RuntimeError, KeyError):
            return False
        return leads == "true" and header["code"] == 0 and accepts(self.name_port)

    def __enter__(self) -> "Controllers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes.values():
            process.kill()


def logherd_command(directory: Path, node: str, *, guarded: bool = False) -> list[str]:
    """Runs the controller that was configured under this directory."""
    config = directory / node / "controller.json"
    under = ["env", "--default-signal"] if guarded else []
    flags = ["--guarded"] if guarded else []
    return [*under, sys.executable, "-m", "logherd", "controller", *flags, "--config", str(config)]


def start_logherd_controllers(
    directory: Path, *, nodes: tuple[str, ...] = NODES, guarded: bool = False, **settings: Any
) -> Controllers:
    """Start a `logherd controller` for each node and wait for their leader. Raises RuntimeError with what one printed.

    Name services are under the ports of `name_ports`.
    """
    ports = {node: free_port() for node in nodes}
    members = [
        {
            "name": node, "peer": f"127.0.0.1:{free_port()}", "address": f"127.0.0.1:{ports[node]}",
            "admin": f"127.0.0.1:{free_port()}",
        }
        for node in nodes
    ]  # fmt: skip
    names = {node: free_port() for node in nodes}
    commands = {}
    for member in members:
        node = member["name"]
        home = directory / node
        home.mkdir(parents=True)
        config = {
            "clusterName": CLUSTER, "nodeName": node, "controllers": members, "listen": member["address"],
            "peerListen": member["peer"], "adminListen": member["admin"], "dataDir": str(home / "data"),
            "nameService": {"mode": "embedded", "listen": f"127.0.0.1:{names[node]}"},
            **settings,
        }  # fmt: skip
        (home / "controller.json").write_text(json.dumps(config, indent=2))
        commands[node] = logherd_command(directory, node, guarded=guarded)
    return _started("logherd", ports, commands, directory, names)


def start_rocketmq_controllers(class_path: str, directory: Path) -> Controllers:
    """Start three of RocketMQ's own, with the DLedger engine, which is its default."""
    ports = {node: free_port() for node in NODES}
    peers = ";".join(f"{node}-127.0.0.1:{port}" for node, port in ports.items())
    options = RocketMQOptions(heap="96m", direct="64m")
    commands = {}
    for node in NODES:
        home = directory / node
        home.mkdir(parents=True)
        config = write_properties(home / "controller.properties", {
            "controllerDLegerGroup": CLUSTER, "controllerDLegerPeers": peers, "controllerDLegerSelfId": node,
            "controllerStorePath": str(home / "store"), "mappedFileSize": str(4 << 20),
            # A dead broker is noticed as soon as LogHerd notices it.
            "scanNotActiveBrokerInterval": "500", "listenPort": str(free_port()),
        })  # fmt: skip
        main = "org.apache.rocketmq.controller.ControllerStartup"
        commands[node] = java_command(class_path, home, main, config, options)
    # Its name server is another process, which the harness keeps as a node that is not asked.
    home = directory / "names"
    home.mkdir()
    port = free_port()
    config = write_properties(home / "namesrv.properties", {"listenPort": str(port)})
    commands["names"] = java_command(class_path, home, "org.apache.rocketmq.namesrv.NamesrvStartup", config, options)
    return _started("rocketmq", ports, commands, directory, {"names": port})


def _started(
    kind: str, ports: dict[str, int], commands: dict[str, list[str]], directory: Path, name_ports: dict[str, int]
) -> Controllers:  # fmt: skip
    processes = {node: Process(command, log=directory / node / "controller.out") for node, command in commands.items()}
    controllers = Controllers(kind, ports, processes, name_ports)
    try:
        until(controllers.agree, seconds=60, what=f"a leader of the {kind} controllers")
    except TimeoutError as late:
        said = "\n".join(f"{node}: {process.tail()}" for node, process in processes.items())
        controllers.__exit__(None, None, None)
        raise RuntimeError(f"{late}\n{said}") from None
    return controllers
