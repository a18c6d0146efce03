"""A mode of a group over a store on a simulated disk, without a loop, links or other processes."""

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml

from logherd.app.group.about import About, encode_about
from logherd.app.group.mode import Host
from logherd.app.group.replica_file import ReplicaFile
from logherd.controller.values import BrokerId, GroupKey
from logherd.group.inputs import Input
from logherd.group.seat import Seat, cluster_of
from logherd.peers.hello import Hello
from logherd.replica import NotedStore
from logherd.replication.messages import ReplicaId
from logherd.settings.load import load_broker_options
from logherd.settings.options import ReplicationOptions
from logherd.store import MessageStore
from sim.disk import SimDisk
from unit.store.helpers import HOST, ROOT, SimClock, small_options

__all__ = ["GROUP", "Stand", "options_of", "seat_of"]

GROUP = GroupKey("c", "g")
OPTIONS = replace(small_options(derived={"interval_ms": 0}), replicated=True)


class Clock:
    """In place of the machine's `boot_ms`; a test moves it."""

    def __init__(self) -> None:
        self.now = 5_000

    def __call__(self) -> int:
        return self.now


def options_of(mode: str, **more: object) -> ReplicationOptions:
    """Of three brokers."""
    replication = {"mode": mode, "peers": {number: f"b{number}:1" for number in (1, 2, 3)}, **more}
    document = {
        "brokerGroup": "g", "brokerId": 2, "dataDir": "d", "replication": replication,
        "nameService": {"mode": "external", "addresses": ["c:9876"]},
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "broker.yaml"
        path.write_text(yaml.safe_dump(document))
        return load_broker_options(path).replication


def seat_of(file: ReplicaFile, *, learner: bool = False) -> Seat:
    """What the broker knows of itself."""
    return Seat(
        group=GROUP, broker_id=BrokerId(file.broker_id), store_id=file.store_id, incarnation="i",
        address=f"b{file.broker_id}:10911", learner=learner,
    )  # fmt: skip


@dataclass
class Stand:
    """The disk, the log and the file of one broker, and what a mode does with its host."""

    mode: str
    broker_id: int = 2
    disk: SimDisk = field(default_factory=SimDisk)
    steps: list[Input] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    announced: int = 0

    def __post_init__(self) -> None:
        self.store = MessageStore.open(ROOT, OPTIONS, self.disk, clock=SimClock())
        self.log = NotedStore(self.store, [], clock=SimClock(), host=HOST)
        self.file = self.opened(log_empty=True)

    def opened(self, *, log_empty: bool) -> ReplicaFile:
        """The replica's file as another process finds it."""
        return ReplicaFile.open(
            self.disk, str(ROOT), GROUP, self.broker_id, log_empty=log_empty, mode=self.mode
        )  # fmt: skip

    @property
    def host(self) -> Host:
        """Notes everything."""
        return Host(self.steps.append, self.failures.append, lambda _: None, self._announce, lambda: ())

    def _announce(self) -> None:
        self.announced += 1

    def hello(self, sender: str, about: About, founded: tuple[ReplicaId, ...] | None = None) -> Hello:
        """Another broker's."""
        return Hello(
            cluster=cluster_of(GROUP), sender=ReplicaId(sender), instance=1, segment_bytes=1, founded=founded,
            about=encode_about(about),
        )  # fmt: skip
