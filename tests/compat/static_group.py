"""A LogHerd group in static mode that takes RocketMQ slaves: two brokers, and a controller for its name service."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from compat.controllers import Controllers, start_logherd_controllers
from compat.processes import Process, free_port
from compat.replicas import SEGMENT
from compat.server import BROKER, CLUSTER, Server

__all__ = ["StaticGroup"]


class StaticGroup:
    """Broker 1 leads at first and waits for broker 2. On leaving, nothing is left."""

    members: tuple[int, ...] = (1, 2)
    segment = SEGMENT

    def __init__(self, directory: Path, *, first_port: int = 0) -> None:
        """`first_port`: where broker 1 listens; 0: anywhere."""
        self._directory = directory
        self._names: Controllers = start_logherd_controllers(directory / "names", nodes=("n0",))
        self.ports = {number: free_port((-2, 1)) for number in self.members} | ({1: first_port} if first_port else {})
        self._admin = {number: free_port() for number in self.members}
        self._peers = {number: f"127.0.0.1:{free_port()}" for number in self.members}
        self._processes: dict[int, Process] = {}
        self._token = directory / "token"
        self._token.write_text("secret\n")
        self._token.chmod(0o600)

    def __enter__(self) -> Self:
        try:
            for number in self.ports:
                self.start(number)
            self._processes[1].wait_ready(self.server(1).is_registered, seconds=60, what="broker 1 leads")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            process.kill()
        self._names.__exit__(None, None, None)

    def server(self, number: int) -> Server:
        """A broker, and the name service."""
        return Server(self._names.name_port, self.ports[number])

    def store(self, number: int) -> Path:
        return self._directory / f"b{number}" / "store"

    def log(self, number: int) -> str:
        return (self._directory / f"b{number}" / "broker.out").read_text(errors="replace")

    def start(self, number: int) -> None:
        command = [sys.executable, "-m", "logherd", "broker", "--config", str(self.config(number))]
        self._processes[number] = Process(command, log=self._directory / f"b{number}" / "broker.out")

    def config(self, number: int) -> Path:
        """Where the settings of a broker are."""
        home = self._directory / f"b{number}"
        home.mkdir(exist_ok=True)
        port = self.ports[number]
        values = {
            "brokerGroup": BROKER, "clusterName": CLUSTER, "brokerId": number, "listen": f"127.0.0.1:{port}",
            "adminListen": f"127.0.0.1:{self._admin[number]}", "adminTokenFile": str(self._token),
            "dataDir": str(self.store(number)), "store": {"reservedPercent": 0, "segmentSize": self.segment},
            "nameService": {"mode": "external", "addresses": [self._names.name_server]},
            "replication": {
                "peerListen": self._peers[number], "peers": {str(each): at for each, at in self._peers.items()},
                **self.replication(number),
            },
        }  # fmt: skip
        path = home / "broker.json"
        path.write_text(json.dumps(values))
        return path

    def replication(self, number: int) -> dict[str, object]:
        """What makes this mode."""
        return {
            "mode": "static", "static": {"leader": 1, "synchronous": [2]},
            "classicHa": {"listen": f"127.0.0.1:{self.ports[number] + 1}"},
        }  # fmt: skip

    def status(self, number: int) -> dict[str, Any]:
        """What a broker says of itself; empty if it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._admin[number]}/status", timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)
        except OSError:
            return {}
        return found

    def kill(self, number: int) -> None:
        self._processes.pop(number).kill()

    def promote(self, number: int, *, after: int) -> None:
        """Have this broker lead alone, in place of the table of that number."""
        command = [
            sys.executable, "-m", "logherd", "replica", "promote", "--admin", f"127.0.0.1:{self._admin[number]}",
            "--after", str(after), "--token-file", str(self._token),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
