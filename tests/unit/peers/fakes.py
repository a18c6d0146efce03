"""Nodes with links on the loopback, and what they have been told."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from logherd.aiokit.tasks import TaskGuard
from logherd.model.names import Epoch, Position
from logherd.peers.hello import Hello
from logherd.peers.links import PeerLinks
from logherd.peers.options import LinkOptions, PeerView
from logherd.replication.messages import ClusterId, Envelope, Heartbeat, ReplicaId
from logherd.telemetry.log import FieldValue, Log

CLUSTER = ClusterId("c1")
QUICK = LinkOptions(
    connect_ms=1_000, hello_ms=500, idle_ms=400, backoff_ms_min=5, backoff_ms_max=20,
    unsent_bytes_max=4 << 20, frame_bytes_max=2 << 20,
)  # fmt: skip


def replica(name: str, incarnation: int = 1) -> ReplicaId:
    return ReplicaId(f"{name}.{incarnation:016x}")


def hello_of(name: str, *, incarnation: int = 1, **changes: object) -> Hello:
    made = Hello(
        cluster=CLUSTER, sender=replica(name, incarnation), instance=hash(name) & 0xFFFF, segment_bytes=1 << 20,
        software="test",
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def beat(source: str, target: str, number: int = 1) -> Envelope:
    return Envelope(CLUSTER, replica(source), replica(target), Epoch(1), Heartbeat(number, Position(0)))


class Lines(Log):
    """Keeps the lines instead of writing them."""

    def __init__(self) -> None:
        super().__init__("test")
        self.lines: list[tuple[str, str, dict[str, FieldValue]]] = []

    def info(self, message: str, **fields: FieldValue) -> None:
        self.lines.append(("info", message, fields))

    def warning(self, message: str, **fields: FieldValue) -> None:
        self.lines.append(("warning", message, fields))

    def reasons(self, message: str) -> list[str]:
        return [str(fields.get("reason")) for _, each, fields in self.lines if each == message]


class Node:
    """Links of one process. Make it on a running loop."""

    def __init__(self, hello: Hello, *, options: LinkOptions = QUICK) -> None:
        self.hello = hello
        self.options = options
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self.listening.getsockname()[:2]
        self.guard = TaskGuard()
        self.log = Lines()
        self.heard: list[Envelope] = []
        self.batches: list[int] = []
        self.hellos: list[Hello] = []
        self.linked: list[ReplicaId] = []
        self.changed = asyncio.Event()
        self.links: PeerLinks

    async def start(self, peers: Mapping[str, tuple[str, int]]) -> None:
        self.links = PeerLinks(
            lambda: self.hello, peers, on_envelopes=self._on_envelopes, on_linked=self._on_linked,
            on_hello=self._on_hello, options=self.options, log=self.log,
        )  # fmt: skip
        await self.links.listen_on(self.listening)
        self.links.start(self.guard)

    async def stop(self) -> None:
        await self.links.stop()
        await self.guard.stop(1)

    def view(self, name: str) -> PeerView:
        return next(view for view in self.links.views() if view.name == name)

    async def until(self, reached: Callable[[], bool], seconds: float = 10) -> None:
        """Look again whenever something was told here, and now and then for what nobody tells."""
        async with asyncio.timeout(seconds):
            while not reached():
                self.changed.clear()
                try:
                    async with asyncio.timeout(0.02):
                        await self.changed.wait()
                except TimeoutError:
                    pass

    def _on_envelopes(self, envelopes: list[Envelope]) -> None:
        self.heard += envelopes
        self.batches.append(len(envelopes))
        self.changed.set()

    def _on_linked(self, peer: ReplicaId) -> None:
        self.linked.append(peer)
        self.changed.set()

    def _on_hello(self, hello: Hello) -> None:
        self.hellos.append(hello)
        self.changed.set()


@asynccontextmanager
async def nodes(*hellos: Hello, options: LinkOptions = QUICK) -> AsyncIterator[list[Node]]:
    """Started nodes that know each other by the names of their hellos."""
    made = [Node(hello, options=options) for hello in hellos]
    known = {node.hello.sender.rpartition(".")[0]: node.address for node in made}
    try:
        for node in made:
            await node.start({name: at for name, at in known.items() if at != node.address})
        yield made
    finally:
        for node in made:
            await node.stop()
