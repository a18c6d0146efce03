"""Three Kafka processes on loopback, each broker and controller (KRaft), as shipped: answered once all in-sync replicas
have a record in memory, flushed when the kernel likes.
"""
# ruff: noqa: E402 - the processes are started by the code of tests/compat, which is not installed anywhere

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from compat.processes import Process, accepts, free_port, until
from compat.toolchain import class_path, find_tool

__all__ = ["connector_jars", "running_kafka"]

_NODES = (1, 2, 3)
_CLUSTER_ID = "bG9naGVyZC1iZW5jaC0wMQ"


def connector_jars() -> str:
    """Class path of Spark's Kafka connector."""
    return class_path(ROOT / "bench" / "kafka" / "connector" / "pom.xml")


@contextmanager
def running_kafka(directory: Path, *, heap: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Three nodes on empty stores, ended behind the block; their addresses and pids.

    Raises: TimeoutError, RuntimeError.
    """
    jars = class_path(ROOT / "bench" / "kafka" / "broker" / "pom.xml")
    ports, voters = ({node: free_port() for node in _NODES} for _ in range(2))
    pids = []
    with ExitStack() as ends:
        for node in _NODES:
            home = directory / f"kafka-{node}"
            home.mkdir(parents=True)
            config = home / "server.properties"
            config.write_text(_settings(node, ports, voters, home))
            # Collector and flags as Kafka's own start script sets them, the heap apart.
            java = [find_tool("java"), f"-Xms{heap}", f"-Xmx{heap}", "-server", "-XX:+UseG1GC",
                    "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35", "-cp", jars]  # fmt: skip
            made = subprocess.run(
                [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(config)],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if made.returncode:
                raise RuntimeError(f"Kafka's store cannot be made: {made.stdout}{made.stderr}")
            # A session of its own, as LogHerd's brokers have: Linux shares processors among sessions.
            process = Process(["setsid", *java, "kafka.Kafka", str(config)], log=home / "kafka.out")
            ends.callback(process.kill)
            pids.append(process.pid)
        for port in ports.values():
            until(lambda port=port: accepts(port), seconds=180, what="a Kafka broker listens")  # type: ignore[misc]
        yield ",".join(f"127.0.0.1:{port}" for port in ports.values()), tuple(pids)


def _settings(node: int, ports: dict[int, int], voters: dict[int, int], home: Path) -> str:
    quorum = ",".join(f"{each}@127.0.0.1:{port}" for each, port in voters.items())
    settings = {
        "process.roles": "broker,controller", "node.id": node, "controller.quorum.voters": quorum,
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[node]},CONTROLLER://127.0.0.1:{voters[node]}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{ports[node]}", "controller.listener.names": "CONTROLLER",
        "log.dirs": home / "data", "default.replication.factor": 3, "min.insync.replicas": 2,
        "offsets.topic.replication.factor": 3, "transaction.state.log.replication.factor": 3,
        "transaction.state.log.min.isr": 2, "group.initial.rebalance.delay.ms": 0,
    }  # fmt: skip
    return "".join(f"{name}={value}\n" for name, value in settings.items())
