"""What is measured: RocketMQ 5.3.3, LogHerd, a stub that answers at once. One broker each, on loopback; and the floor,
which writes and flushes in three processes and does nothing else."""
# ruff: noqa: E402 - the processes are started by the code of tests/compat, which is not installed anywhere

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from bench.sampling import family

from compat.logherd_server import start_logherd
from compat.processes import Process, accepts, free_port
from compat.remoting import ask
from compat.rocketmq import RocketMQOptions, start_rocketmq
from compat.server import Server
from compat.toolchain import JAVA_DIRECTORY, compile_java

__all__ = ["PLAIN", "Running", "Target", "bench_classes", "cold_start", "running"]

PLAIN = ("stub", "floor")
"""What is measured and is no broker."""
BENCH_JAVA = Path(__file__).parent / "java" / "src" / "main" / "java"
# As shipped, apart from the share of the disk that may be used, which is the machine's affair.
_AS_SHIPPED = {"diskMaxUsedSpaceRatio": "95"}
_SEND = {
    "producerGroup": "cold", "topic": "Cold", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0",
    "sysFlag": "0", "bornTimestamp": "0", "flag": "0", "properties": "", "reconsumeTimes": "0", "unitMode": "false",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Target:
    """One thing to measure. `heap` concerns RocketMQ only."""

    kind: str
    flush: str = "sync"
    heap: str = "1g"

    @property
    def name(self) -> str:
        return self.kind if self.plain else f"{self.kind} {self.flush}"

    @property
    def plain(self) -> bool:
        """Whether it is no broker: it has no settings, and every topic."""
        return self.kind in PLAIN


@dataclass(slots=True)
class Running:
    """A started target and the processes that make it up."""

    server: Server
    pids: list[int] = field(default_factory=list)


def bench_classes() -> str:
    """Class path of the bench drivers."""
    return compile_java(JAVA_DIRECTORY / "src" / "main" / "java", BENCH_JAVA)


@contextmanager
def running(target: Target, directory: Path) -> Iterator[Running]:
    """The target, started on an empty directory and ended behind the block."""
    directory.mkdir(parents=True)
    if target.plain:
        port = free_port()
        command = [sys.executable, "-m", f"bench.{target.kind}_server", "--port", str(port)]
        command += ["--directory", str(directory)] if target.kind == "floor" else []
        with Process(command, log=directory / "server.out", environment={"PYTHONPATH": str(ROOT)}) as process:
            process.wait_ready(lambda: accepts(port), seconds=30, what=f"the {target.kind} listens")
            yield Running(Server(port, port), family(process.pid))
    elif target.kind == "logherd":
        with start_logherd(directory, flush=target.flush) as logherd:
            yield Running(logherd, [logherd.process.pid])
    else:
        flush = {"sync": "SYNC_FLUSH", "async": "ASYNC_FLUSH"}[target.flush]
        # No compiler or collector is forced: what the JVM chooses for a server on this machine is what is measured.
        options = RocketMQOptions(
            flush=flush, heap=target.heap, direct="256m", jvm=("-XX:+UseG1GC",), extra=_AS_SHIPPED, small=False
        )
        with start_rocketmq(bench_classes(), directory, options) as rocketmq:
            yield Running(rocketmq, [rocketmq.broker_process.pid, rocketmq.name_server_process.pid])


def cold_start(target: Target, directory: Path) -> float:
    """Seconds from starting the processes to the first answered send, on an empty store."""
    begun = time.monotonic()
    with running(target, directory) as started:
        while True:
            try:
                header, _ = ask(started.server.broker_port, 10, _SEND, b"first")
            except OSError:
                continue
            if header["code"] == 0:
                return time.monotonic() - begun
