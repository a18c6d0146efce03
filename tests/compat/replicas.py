"""A RocketMQ slave of a LogHerd broker, and what the tests of both HA directions ask of a log, whoever keeps it."""

import json
import re
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from compat.driver import Driver, message
from compat.payloads import every_kind
from compat.processes import Process, accepts, free_port
from compat.remoting import ask
from compat.rocketmq import SMALL, RocketMQOptions, java_command, write_properties
from compat.server import BROKER, CLUSTER, Server

__all__ = [
    "GROUP", "SEGMENT", "TOPIC", "Follower", "JavaSlave", "log_bytes", "log_end", "read", "send_all", "start_follower",
    "start_slave",
]  # fmt: skip

TOPIC, GROUP = "Exchange", "exchange-group"
SEGMENT = 16 << 20
# What a message must keep; sizes and positions too, since the log itself is what is shipped.
KEPT = ("queueId", "offset", "position", "msgId", "storeSize", "sha256", "tags", "keys", "flag", "sysFlag",
        "bornTimestamp", "storeTimestamp", "bornHost", "storeHost", "reconsumeTimes")  # fmt: skip


@dataclass(frozen=True, slots=True)
class JavaSlave:
    """A running broker with brokerRole SLAVE."""

    port: int
    store: Path
    process: Process

    @property
    def topics(self) -> set[str]:
        _, body = ask(self.port, 21, {})
        return set(json.loads(body)["topicConfigTable"])

    @property
    def offsets(self) -> list[int]:
        """What the group has read of each queue. Java writes numbers as bare keys, which is no JSON."""
        _, body = ask(self.port, 43, {})
        found = re.search(rf'"{TOPIC}@{GROUP}":{{([^}}]*)}}', body.decode())
        return [] if found is None else [int(each.partition(":")[2]) for each in sorted(found[1].split(","))]

    def __enter__(self) -> "JavaSlave":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()


def start_slave(
    class_path: str, directory: Path, master: Server, *, extra: dict[str, str] | None = None, segment: int = SEGMENT
) -> JavaSlave:
    """Start a RocketMQ slave of the broker that is registered at `master`'s name service."""
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port((-2, 1))
    values = {
        **SMALL,
        "brokerClusterName": CLUSTER,
        "brokerName": BROKER,
        "brokerId": "1",
        "brokerRole": "SLAVE",
        "brokerIP1": "127.0.0.1",
        "listenPort": str(port),
        "haListenPort": str(port + 1),
        "namesrvAddr": master.name_server,
        "storePathRootDir": str(directory / "store"),
        "storePathCommitLog": str(directory / "store" / "commitlog"),
        "flushDiskType": "ASYNC_FLUSH",
        "mappedFileSizeCommitLog": str(segment),
        **(extra or {}),
    }
    config = write_properties(directory / "slave.properties", values)
    command = java_command(class_path, directory, "org.apache.rocketmq.broker.BrokerStartup", config, RocketMQOptions())
    process = Process(["nice", "-n", "5", *command], log=directory / "slave.out")
    try:
        process.wait_ready(lambda: accepts(port), seconds=120, what="the slave listens")
    except BaseException:
        process.kill()
        raise
    return JavaSlave(port, directory / "store", process)


@dataclass(frozen=True, slots=True)
class Follower:
    """A LogHerd process that follows a RocketMQ master."""

    admin_port: int
    directory: Path
    process: Process

    @property
    def store(self) -> Path:
        return self.directory / "store"

    def status(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}/status", timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def __enter__(self) -> "Follower":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.stop()


def start_follower(directory: Path, master: Server, *, segment: int = SEGMENT) -> Follower:
    """Start a LogHerd broker that follows `master`, on `directory`/store, and wait until it tells its state."""
    directory.mkdir(parents=True, exist_ok=True)
    admin_port = free_port()
    values = {
        "brokerGroup": BROKER,
        "clusterName": CLUSTER,
        "listen": f"127.0.0.1:{free_port()}",
        "adminListen": f"127.0.0.1:{admin_port}",
        "dataDir": str(directory / "store"),
        "store": {"reservedPercent": 0, "segmentSize": segment},
        "replication": {"classicHa": {"master": master.broker, "metadataInterval": "500ms"}},
    }
    (directory / "follower.json").write_text(json.dumps(values))
    command = [sys.executable, "-m", "logherd", "broker", "--config", str(directory / "follower.json")]
    process = Process(command, log=directory / "follower.out")
    try:
        process.wait_ready(lambda: accepts(admin_port), seconds=60, what="the follower's admin port answers")
    except BaseException:
        process.kill()
        raise
    return Follower(admin_port, directory, process)


def log_end(port: int) -> int:
    """Where the log of the broker at this port ends, by its own account; -1 if it does not answer."""
    try:
        header, body = ask(port, 28, {})
    except OSError:
        return -1
    return -1 if header["code"] else int(json.loads(body)["table"]["commitLogMaxOffset"])


def log_bytes(store: Path, end: int) -> bytes:
    """The log's files one after the other, up to a position. The log begins at 0."""
    names = sorted(path for path in (store / "commitlog").iterdir() if path.name.isdigit())
    return b"".join(path.read_bytes() for path in names)[:end]


def send_all(driver: Driver, server: Server, *, large: int = 8) -> None:
    """Messages of every kind to each queue, and so many of 3 MB that the log needs several files."""
    sending = {"topic": TOPIC, "mode": "sync"}
    driver.call("producer.start", name="p", group="exchange", nameServer=server.name_server)
    driver.call("producer.start", name="raw", group="raw", nameServer=server.name_server, compressOver=1 << 23)
    kinds = [message(body, **fields) for body, fields in every_kind().values()]
    for queue_id in range(4):
        driver.call("producer.send", name="p", messages=kinds, queueId=queue_id, **sending)
    for i in range(large):
        driver.call("producer.send", name="raw", messages=[message(b"%d" % i + b"r" * 3_000_000)], **sending)
    for name in ("p", "raw"):
        driver.call("producer.stop", name=name)


def read(driver: Driver, server: Server) -> dict[str, list[dict[str, object]]]:
    """Queue -> messages, each reduced to what must survive."""
    queues = driver.call("query.readAll", nameServer=server.name_server, topic=TOPIC)
    driver.call("query.stop")
    return {queue: [{name: seen[name] for name in KEPT} for seen in messages] for queue, messages in queues.items()}
