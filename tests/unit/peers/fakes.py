"""Nodes with links on the loopback, and what they have been told."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from logherd.aiokit.tasks import TaskGuard
from logherd.model.names import Epoch, Position
from logherd.peers.frames import FrameReader, make_frame
from logherd.peers.hello import Hello, encode_hello
from logherd.peers.links import PeerLinks
from logherd.peers.options import LinkOptions, PeerView
from logherd.peers.pieces import Give
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
        self.unlinked: list[ReplicaId] = []
        self.changed = asyncio.Event()
        self.links: PeerLinks

    async def start(
        self, peers: Mapping[str, tuple[str, int]], *,
        on_asked: Give | None = None,
    ) -> None:  # fmt: skip
        self.links = PeerLinks(
            lambda: self.hello, peers, on_envelopes=self._on_envelopes, on_linked=self._on_linked,
            on_hello=self._on_hello, on_unlinked=self._on_unlinked, options=self.options, log=self.log,
            **({} if on_asked is None else {"on_asked": on_asked}),
        )  # fmt: skip
        await self.links.listen_on(self.listening)
        self.links.start(self.guard)

    async def stop(self) -> None:
        await self.links.stop()
        await self.guard.stop(1)

    def view(self, name: str) -> PeerView:
        return next(view for view in self.links.views() if view.name == name)

    async def until(self, reached: Callable[[], bool], seconds: float = 60) -> None:
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

    def _on_unlinked(self, peer: ReplicaId) -> None:
        self.unlinked.append(peer)
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


class Wire:
    """The other end of a connection, byte by byte, for peers that do not behave."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader(64 << 20)
        self._payloads: list[bytes] = []

    @staticmethod
    async def dial(address: tuple[str, int]) -> "Wire":
        return Wire(*await asyncio.open_connection(*address))

    @staticmethod
    async def accept(listening: socket.socket) -> "Wire":
        listening.settimeout(0)
        async with asyncio.timeout(10):
            accepted, _ = await asyncio.get_running_loop().sock_accept(listening)
        return Wire(*await asyncio.open_connection(sock=accepted))

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def say(self, hello: Hello) -> None:
        self.send(make_frame(encode_hello(hello)))
        await self._writer.drain()

    async def payload(self) -> bytes:
        """The next payload. Raises: ConnectionError at the end of the stream."""
        async with asyncio.timeout(10):
            while not self._payloads:
                data = await self._reader.read(65536)
                if not data:
                    raise ConnectionResetError
                self._payloads += [bytes(payload) for payload in self._frames.feed(data)]
        return self._payloads.pop(0)

    async def ended(self) -> bool:
        """Wait for the end of the stream."""
        try:
            while True:
                await self.payload()
        except ConnectionError:
            self.close()
            return True

    def close(self) -> None:
        self._writer.transport.abort()
