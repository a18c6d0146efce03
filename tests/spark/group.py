"""A replicated group on this machine's loopback: one controller with the name service in it, three brokers."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["LoopbackGroup"]

_SECONDS = 60.0


def _ports(count: int) -> list[int]:
    with ExitStack() as held:
        taken = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in taken]


class LoopbackGroup:
    """A context manager; every process is ended by its pid. `replicas` are by broker id, 1 to 3."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        client, peer, names, admin, *ports = _ports(13)
        self.names = f"127.0.0.1:{names}"
        self._admin = {number: ports[3 * number - 1] for number in (1, 2, 3)}
        self.address = {number: f"127.0.0.1:{ports[3 * number - 3]}" for number in (1, 2, 3)}
        peers = {number: f"127.0.0.1:{ports[3 * number - 2]}" for number in (1, 2, 3)}
        self._config: dict[str, dict[str, Any]] = {
            "controller": {
                "clusterName": "DefaultCluster", "nodeName": "c1", "dataDir": str(directory / "c1"),
                "peerListen": f"127.0.0.1:{peer}", "listen": f"127.0.0.1:{client}",
                "controllers": [{"name": "c1", "peer": f"127.0.0.1:{peer}", "address": f"127.0.0.1:{client}"}],
                "adminListen": f"127.0.0.1:{admin}", "nameService": {"listen": self.names},
            }
        }  # fmt: skip
        for number in (1, 2, 3):
            self._config[str(number)] = {
                "brokerGroup": "bg", "clusterName": "DefaultCluster", "brokerId": number,
                "listen": self.address[number], "adminListen": f"127.0.0.1:{self._admin[number]}",
                "dataDir": str(directory / f"b{number}"),
                "nameService": {"mode": "external", "addresses": [self.names]},
                "replication": {
                    "mode": "controller", "controllers": [f"127.0.0.1:{client}"], "peerListen": peers[number],
                    "peers": peers,
                },
                "store": {"segmentSize": "16MiB", "reservedPercent": 0},
            }  # fmt: skip
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "LoopbackGroup":
        try:
            for name in self._config:
                self.start(name)
            self.leader()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def start(self, name: str) -> None:
        path = self._directory / f"{name}.json"
        path.write_text(json.dumps(self._config[name]))
        command = [sys.executable, "-m", "logherd", "controller" if name == "controller" else "broker"]
        with self._log(name).open("ab") as log:
            self._processes[name] = subprocess.Popen([*command, "--config", str(path)], stdout=log, stderr=log)

    def leader(self, *, but: int = 0) -> int:
        """Wait until a broker other than `but` leads; its id."""
        deadline = time.monotonic() + _SECONDS
        while True:
            for number, port in self._admin.items():
                if number != but and self._role(port) == "leader":
                    return number
            if time.monotonic() > deadline:
                logs = "\n".join(self._log(name).read_text()[-1500:] for name in self._config)
                raise RuntimeError(f"no broker leads: {logs}")
            time.sleep(0.05)

    def kill(self, number: int) -> None:
        """SIGKILL, and proof that it is gone."""
        process = self._processes[str(number)]
        os.kill(process.pid, signal.SIGKILL)
        process.wait(60)

    def _role(self, port: int) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=2) as answer:
                return str(json.load(answer)["role"])
        except OSError:
            return ""

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def _end(self) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.wait(60)
