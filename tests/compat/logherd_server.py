"""LogHerd as a process, configured like the real broker beside it."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from compat.processes import Process, free_port
from compat.server import BROKER, CLUSTER, Server

__all__ = ["LogHerd", "start_logherd"]


@dataclass(frozen=True, slots=True)
class LogHerd(Server):
    """A running `logherd broker` with the name service in it."""

    directory: Path
    process: Process

    @property
    def store(self) -> Path:
        return self.directory / "store"

    def stop(self) -> int:
        return self.process.stop()

    def __enter__(self) -> "LogHerd":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start_logherd(directory: Path, *, flush: str = "sync", broker_port: int = 0, **settings: Any) -> LogHerd:
    """Start a broker on `directory`/store and wait until it is registered.

    `broker_port` 0 draws a free one. Raises RuntimeError with its output if it ends or does not get ready.
    """
    directory.mkdir(parents=True, exist_ok=True)
    broker_port = broker_port or free_port()
    name_port, admin_port = free_port(), free_port()
    config = directory / "broker.json"
    values = {
        "brokerGroup": BROKER,
        "clusterName": CLUSTER,
        "brokerId": 0,
        "listen": f"127.0.0.1:{broker_port}",
        "adminListen": f"127.0.0.1:{admin_port}",
        "dataDir": str(directory / "store"),
        # A test's messages are small: how full the machine's disk is must not decide.
        "store": {"reservedPercent": 0, **settings.pop("store", {})},
        "nameService": {"mode": "embedded", "listen": f"127.0.0.1:{name_port}"},
        "flush": flush,
        **settings,
    }
    config.write_text(json.dumps(values, indent=2))
    command = [sys.executable, "-m", "logherd", "broker", "--config", str(config)]
    process = Process(command, log=directory / "broker.out")
    server = LogHerd(name_port, broker_port, directory, process)
    try:
        process.wait_ready(server.is_registered, seconds=60, what="the broker registers")
    except BaseException:
        process.kill()
        raise
    return server
