"""A real Apache RocketMQ 5.3.3: one name server and one broker, small, on loopback, in a directory of its own."""

from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from compat.processes import Process, accepts, free_port
from compat.remoting import ask
from compat.server import BROKER, CLUSTER, Server
from compat.toolchain import find_tool

__all__ = ["RocketMQ", "RocketMQOptions", "start_rocketmq"]

# Small files, so that a store of a few thousand messages costs megabytes and starts at once. The rest is as shipped.
SMALL = {
    "mappedFileSizeCommitLog": str(64 << 20),
    "maxHashSlotNum": "100000",
    "maxIndexNum": "400000",
    "deleteWhen": "04",
    "fileReservedTime": "72",
    # The development machine's disk is nobody's business: without these a disk 85 % full refuses writes.
    "diskMaxUsedSpaceRatio": "95",
}


@dataclass(frozen=True, slots=True)
class RocketMQOptions:
    """What differs between the brokers that tests start."""

    flush: str = "SYNC_FLUSH"
    heap: str = "256m"
    direct: str = "128m"
    jvm: tuple[str, ...] = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    extra: dict[str, str] = field(default_factory=dict)
    small: bool = True


@dataclass(frozen=True, slots=True)
class RocketMQ(Server):
    """A running pair of processes."""

    directory: Path
    name_server_process: Process
    broker_process: Process

    @property
    def store(self) -> Path:
        return self.directory / "store"

    def stop(self) -> None:
        """End both in order; the store is left as a clean stop leaves it. Takes ten seconds, most of it waiting."""
        self.broker_process.stop(seconds=40)
        self.name_server_process.kill()

    def kill(self) -> None:
        """End both at once, when nobody will open the store again."""
        self.broker_process.kill()
        self.name_server_process.kill()

    def __enter__(self) -> "RocketMQ":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def java_command(class_path: str, directory: Path, main: str, config: Path, options: RocketMQOptions) -> list[str]:
    heap = [f"-Xms{options.heap}", f"-Xmx{options.heap}", f"-XX:MaxDirectMemorySize={options.direct}"]
    properties = [
        f"-Duser.home={directory}", f"-Drocketmq.home.dir={directory}", f"-Djava.io.tmpdir={directory}",
        "-Duser.timezone=UTC", "-Djava.net.preferIPv4Stack=true", "-Drocketmq.client.logUseSlf4j=false",
        "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED",
        "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    ]  # fmt: skip
    return [find_tool("java"), *heap, *options.jvm, *properties, "-cp", class_path, main, "-c", str(config)]


def write_properties(path: Path, values: dict[str, str]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return path


def registers(server: Server) -> bool:
    """Whether clients can find the broker; if not, tell it to register now.

    A broker registers at its start only if it has already noticed that the name server is there, which it often has
    not; its next try is ten seconds later. Setting its permission (to what it is) makes it register at once.
    """
    if server.is_registered():
        return True
    try:
        ask(server.broker_port, 25, {}, b"brokerPermission=6\n")
    except OSError:
        return False
    return server.is_registered()


def start_rocketmq(
    class_path: str, directory: Path, options: RocketMQOptions | None = None, *, name_port: int = 0,
    broker_port: int = 0,
) -> RocketMQ:  # fmt: skip
    """Start both and wait until the broker has registered.

    The store is `directory`/store: one that is there already is opened. Port 0 draws a free one.
    Raises RuntimeError with the output of what did not start.
    """
    options = options or RocketMQOptions()
    directory.mkdir(parents=True, exist_ok=True)
    name_port, broker_port = name_port or free_port(), broker_port or free_port((-2, 1))
    small = RocketMQOptions(heap="64m", direct="64m", jvm=options.jvm)
    config = write_properties(directory / "namesrv.properties", {"listenPort": str(name_port)})
    main = "org.apache.rocketmq.namesrv.NamesrvStartup"
    name_server = Process(java_command(class_path, directory, main, config, small), log=directory / "namesrv.out")
    broker = None
    try:
        settings = {
            "brokerClusterName": CLUSTER,
            "brokerName": BROKER,
            "brokerId": "0",
            "brokerIP1": "127.0.0.1",
            "listenPort": str(broker_port),
            "namesrvAddr": f"127.0.0.1:{name_port}",
            "storePathRootDir": str(directory / "store"),
            "storePathCommitLog": str(directory / "store" / "commitlog"),
            "flushDiskType": options.flush,
            **(SMALL if options.small else {}),
            **options.extra,
        }
        config = write_properties(directory / "broker.properties", settings)
        main = "org.apache.rocketmq.broker.BrokerStartup"
        name_server.wait_ready(lambda: accepts(name_port), seconds=60, what="the name server listens")
        broker = Process(java_command(class_path, directory, main, config, options), log=directory / "broker.out")
        broker.wait_ready(lambda: registers(Server(name_port, broker_port)), seconds=60, what="the broker registers")
    except BaseException:
        if broker is not None:
            broker.kill()
        name_server.kill()
        raise
    return RocketMQ(name_port, broker_port, directory, name_server, broker)
