"""All connections of one replica to the others of its group.

Each node dials every other one and sends only on the connection that it dialled; what comes in comes on the accepted
ones. So a connection has one writer of messages, and a peer that cannot dial us is seen to be deaf, not half well.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from logherd.aiokit.listening import begin_to_listen
from logherd.aiokit.tasks import TaskGuard, cancel_and_wait
from logherd.peers.codec import envelope_parts
from logherd.peers.dialer import keep_dialled
from logherd.peers.errors import CodecError
from logherd.peers.frames import make_frame
from logherd.peers.hello import REVISION, Hello, Refusal, judge_hello
from logherd.peers.identity import name_of
from logherd.peers.link import Link, Stage
from logherd.peers.options import LinkOptions, PeerView
from logherd.peers.outgoing import Traffic
from logherd.peers.pieces import Asked, Give
from logherd.raft.messages import Doubtful
from logherd.replication.messages import Append, CopyChunk, Envelope, HeartbeatAck, ReplicaId
from logherd.telemetry.log import Log
from logherd.telemetry.sparing import SparingLog

__all__ = ["PeerLinks"]

_BULK = (Append, CopyChunk)
_BACKLOG = 100
_SWEEPS = 8
_STOP_SECONDS = 1.0
_STRANGERS_MAX = 64


@dataclass(slots=True)
class _Peer:
    """A configured node, and the linked connection of each direction."""

    name: str
    address: tuple[str, int]
    dialled: Link | None = None
    accepted: Link | None = None
    identity: ReplicaId | None = None
    refused: dict[str, str] = field(default_factory=dict)
    """By direction."""
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def revision(self) -> int:
        """See Hello."""
        link = self.dialled
        return link.hello.revision if link is not None and link.hello is not None else 0

    def living(self, besides: Link) -> set[int]:
        """The processes that this name is connected as."""
        links = (link for link in (self.dialled, self.accepted) if link is not None and link is not besides)
        return {link.hello.instance for link in links if link.hello is not None}


@dataclass(slots=True)
class _Work:
    """What runs until `stop`. `sweep` comes with the time for which it was set."""

    listeners: list[asyncio.Server] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    sweep: tuple[asyncio.TimerHandle, float] | None = None
    asks: dict[Link, Asked] = field(default_factory=dict)
    """Whoever waits for a piece of the log, in order."""
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: bool = False


@dataclass(frozen=True, slots=True)
class _Told:
    """Who is told."""

    envelopes: Callable[[list[Envelope]], None]
    linked: Callable[[ReplicaId], None]
    hello: Callable[[Hello], None]
    unlinked: Callable[[ReplicaId], None]
    asked: Give


async def _nothing(_asked: Asked) -> None:
    """Who has no log gives no pieces."""


class PeerLinks:
    """Belongs to the loop on which it is made; every method but `listen_on` and `stop` returns at once.

    Invariants: 1. a peer has at most one linked connection of each direction, and those of both are of one process;
    2. memory is bounded by the options, whatever peers do; 3. after `stop` began nothing is handed on.

    Callbacks run on the loop and must not raise. `hello` says who we are whenever somebody asks.
    """

    def __init__(
        self, hello: Callable[[], Hello], peers: Mapping[str, tuple[str, int]], *,
        on_envelopes: Callable[[list[Envelope]], None], on_linked: Callable[[ReplicaId], None],
        on_hello: Callable[[Hello], None], on_unlinked: Callable[[ReplicaId], None] = lambda _: None,
        on_asked: Give = _nothing,
        options: LinkOptions | None = None, log: Log | None = None,
    ) -> None:  # fmt: skip
        """`peers`: the other nodes' names and addresses (the own name is left out).

        `on_envelopes` gets what came in one read, in order; `on_hello` each accepted hello, of either direction;
        `on_linked` follows when messages can be sent to that replica over a new connection; `on_unlinked` when either
        direction to it broke. `on_asked` gives a replica with damage what it asks for; it is asked once at a time.
        """
        self._loop = asyncio.get_running_loop()
        self._hello = hello
        own = name_of(hello().sender)
        self._peers = {name: _Peer(name, address) for name, address in peers.items() if name != own}
        self._told = _Told(on_envelopes, on_linked, on_hello, on_unlinked, on_asked)
        self._options = options or LinkOptions()
        self._log = log or Log("logherd.peers")
        self._complaints = SparingLog(self._log, self._loop.time)
        self._linked: dict[ReplicaId, _Peer] = {}
        self._links: set[Link] = set()
        self._strangers: dict[str, str] = {}
        self._work = _Work()

    async def listen_on(self, listening: socket.socket) -> tuple[str, int]:
        """Accept connections on a socket that someone else bound, and take it over; gives its address.

        Raises: OSError if somebody has begun to listen on its port since it was bound.
        """
        begin_to_listen(listening, _BACKLOG)
        listener = await self._loop.create_server(self._make_accepted, sock=listening)
        self._work.listeners.append(listener)
        self._sweep_later()
        address = listener.sockets[0].getsockname()
        return address[0], address[1]

    def start(self, guard: TaskGuard) -> None:
        """Begin to dial every peer, and to answer who asks for pieces of the log."""
        self._sweep_later()
        self._work.tasks.append(guard.start("give pieces", self._give(), eternal=False))
        for peer in self._peers.values():
            work = keep_dialled(peer.name, peer.address, self, self._log)
            self._work.tasks.append(guard.start(f"dial {peer.name}", work, eternal=False))

    def send(self, envelope: Envelope) -> bool:
        """Put a message on its way at the end of this pass. Never blocks or raises.

        False: it was dropped, because there is no connection to exactly this replica, or too much waits for it. True
        promises nothing.
        """
        peer = self._linked.get(envelope.to)
        if peer is None or peer.dialled is None:
            self._count_dropped(envelope)
            return False
        outgoing, bulk = peer.dialled.outgoing, isinstance(envelope.body, _BULK)
        if bulk and not outgoing.has_bulk_room(1):  # before the work of encoding what will be dropped
            peer.traffic.dropped += 1
            return False
        try:
            head, data = envelope_parts(envelope if peer.revision >= REVISION else _of_first_release(envelope))
        except CodecError as error:
            self._log.error("message cannot be sent", peer=peer.name, error=error)
            peer.traffic.dropped += 1
            return False
        if not outgoing.send(make_frame(head, data), bulk=bulk):
            peer.traffic.dropped += 1
            return False
        peer.traffic.messages_out += 1
        return True

    def flush(self) -> None:
        """Write now what waits for the end of this pass, for who knows that nothing more will come in it."""
        for peer in self._linked.values():
            if peer.dialled is not None and peer.dialled.outgoing.due is not None:
                peer.dialled.outgoing.flush()

    def announce(self) -> None:
        """What `hello` says has changed (founded, or a rebuilt quorum): tell everybody who was told otherwise.

        Those too whose answer is still on its way: they have heard the old hello.
        """
        for link in self._links:
            if link.dialled is not None:
                link.say_hello()

    def renew(self, reason: str) -> None:
        """This process goes by another identity from now on: no connection of the former one may go on."""
        for link in tuple(self._links):
            link.end(reason)

    def views(self) -> tuple[PeerView, ...]:
        """All configured peers, in their order."""
        return tuple(self._view(peer) for peer in self._peers.values())

    async def stop(self) -> None:
        """Dial and accept no more, close every connection. Idempotent; takes a second at most."""
        self._work.stopping = True
        if self._work.sweep is not None:
            self._work.sweep[0].cancel()
        tasks, self._work.tasks = tuple(self._work.tasks), []
        await cancel_and_wait(tasks, _STOP_SECONDS)
        for listener in self._work.listeners:
            listener.close()
        for link in tuple(self._links):
            link.close("stopped")
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                for link in tuple(self._links):
                    await link.gone.wait()
        except TimeoutError:
            for link in tuple(self._links):
                link.end("stopped")
                await link.gone.wait()
        self._complaints.tell(ending=True)

    # ---- LinkOwner

    @property
    def options(self) -> LinkOptions:
        """The limits."""
        return self._options

    def now(self) -> float:
        """The loop's clock."""
        return self._loop.time()

    def made(self, link: Link) -> bool:
        """Keep count of the connections. When there are too many from others, the oldest one that has not said hello
        must go: hellos take milliseconds, so that a flood of silent connections does not keep a peer out for long.
        """
        if self._work.stopping:
            return False
        # Who was let go in this very pass of the loop is told so after it, and is none that could go once more.
        accepted = [each for each in self._links if each.dialled is None and each.stage is not Stage.ENDED]
        if link.dialled is None and len(accepted) >= self._options.accepted_max:
            silent = [each for each in accepted if each.stage is not Stage.LINKED]
            if not silent:
                self._complaints.warning("connection refused", remote=link.remote, reason="too many connections")
                return False
            min(silent, key=lambda each: each.clocks.opened).end("too many connections without a hello")
        self._links.add(link)
        return True

    def greeting(self) -> Hello:
        """What we say."""
        return self._hello()

    def judge(self, link: Link, theirs: Hello | int) -> Refusal | None:
        """Whether to talk to them."""
        peer = None if isinstance(theirs, int) else self._peers.get(name_of(theirs.sender))
        living = peer.living(besides=link) if peer is not None else ()
        return judge_hello(theirs, self._hello(), dialled=link.dialled, known=self._peers, living=living)

    def greeted(self, link: Link, *, first: bool) -> None:
        """A hello was accepted; the first one of a connection makes it the peer's connection of that direction."""
        hello = link.hello
        if hello is None or self._work.stopping:
            return
        peer = self._peers[name_of(hello.sender)]
        if first:
            self._adopt(peer, link, hello)
        self._told.hello(hello)
        if first and link.dialled is not None and peer.dialled is link:
            self._told.linked(hello.sender)

    def received(self, envelopes: list[Envelope]) -> None:
        """Messages have arrived."""
        if not self._work.stopping:
            self._told.envelopes(envelopes)

    def asked(self, link: Link, asked: Asked) -> None:
        """Somebody mends damage. It waits for its turn: however many ask, one piece is read at a time."""
        self._work.asks[link] = asked
        self._work.asked.set()

    def ended(self, link: Link) -> None:
        """A connection is gone."""
        self._links.discard(link)
        self._work.asks.pop(link, None)
        peer = self._peers.get(link.name or "")
        if peer is not None and link.hello is not None:
            self._release(peer, link)
        elif not self._work.stopping and not link.clocks.asked:
            self._tell_failed(link)

    # ---- inside

    def _adopt(self, peer: _Peer, link: Link, hello: Hello) -> None:
        peer.traffic.add(link.outgoing.traffic)
        link.outgoing.traffic = peer.traffic
        peer.identity = hello.sender
        peer.refused.pop(_direction(link), None)
        older = peer.accepted if link.dialled is None else peer.dialled
        if link.dialled is None:
            peer.accepted = link
        else:
            peer.dialled = link
            self._linked[hello.sender] = peer
        if older is not None:
            older.end("a newer connection of the same process has come")
        self._log.info(
            "peer linked", peer=peer.name, identity=hello.sender, remote=link.remote,
            direction=_direction(link), software=hello.software,
        )  # fmt: skip

    def _release(self, peer: _Peer, link: Link) -> None:
        if peer.dialled is link:
            peer.dialled = None
            self._linked = {known: each for known, each in self._linked.items() if each is not peer}
        elif peer.accepted is link:
            peer.accepted = None
        if link.refusal is not None:
            peer.refused[_direction(link)] = link.reason
        if not self._work.stopping:
            if link.hello is not None:
                self._told.unlinked(link.hello.sender)
            self._log.info("peer link lost", peer=peer.name, direction=_direction(link), reason=link.reason)

    def _tell_failed(self, link: Link) -> None:
        """A connection without hellos: told once for each reason, however often the same node tries."""
        direction, name = _direction(link), link.dialled or link.claimed.rpartition(".")[0]
        peer = self._peers.get(name)
        known, key = (peer.refused, direction) if peer is not None else (self._strangers, name)
        if name and known.get(key) == link.reason:
            return
        if len(known) < _STRANGERS_MAX:
            known[key] = link.reason
        self._complaints.warning(  # a stranger chooses its name, and what the reason quotes
            "peer does not link", "direction" if peer is None else "peer", peer=name or None, remote=link.remote,
            direction=direction, reason=link.reason,
        )  # fmt: skip

    async def _give(self) -> None:
        work = self._work
        while True:
            await work.asked.wait()
            while work.asks:
                link = next(iter(work.asks))
                link.answer(await self._told.asked(work.asks.pop(link)))
            work.asked.clear()

    def _make_accepted(self) -> Link:
        return Link(self, dialled=None)

    def _count_dropped(self, envelope: Envelope) -> None:
        peer = self._peers.get(envelope.to.rpartition(".")[0])
        if peer is not None:
            peer.traffic.dropped += 1

    def _sweep_later(self) -> None:
        seconds = self._options.idle_ms / 1000 / _SWEEPS
        if not self._work.stopping and self._work.sweep is None:
            self._work.sweep = self._loop.call_later(seconds, self._sweep), self._loop.time() + seconds

    def _sweep(self) -> None:
        now = self._loop.time()
        late = now - self._work.sweep[1] if self._work.sweep is not None else 0.0
        self._work.sweep = None
        self._sweep_later()
        for link in tuple(self._links):
            if late * 1000 * _SWEEPS >= self._options.idle_ms:
                link.forgive(late)
            link.sweep(now)
        self._complaints.tell()

    def _view(self, peer: _Peer) -> PeerView:
        now, link, traffic = self._loop.time(), peer.dialled, peer.traffic
        heard = [each.clocks.heard for each in (link, peer.accepted) if each is not None]
        return PeerView(
            name=peer.name,
            address=f"{peer.address[0]}:{peer.address[1]}",
            identity=peer.identity,
            connected=link is not None,
            since_ms=None if link is None else int((now - link.clocks.linked) * 1000),
            heard_ms=int((now - max(heard)) * 1000) if heard else None,
            refused=peer.refused.get("out") or peer.refused.get("in"),
            bytes_in=traffic.bytes_in,
            bytes_out=traffic.bytes_out,
            messages_in=traffic.messages_in,
            messages_out=traffic.messages_out,
            dropped=traffic.dropped,
        )


def _direction(link: Link) -> str:
    return "out" if link.dialled is not None else "in"


def _of_first_release(envelope: Envelope) -> Envelope:
    body = envelope.body
    if isinstance(body, Append) and len(body.span.outline):
        return replace(envelope, body=replace(body, span=replace(body.span, outline=b"")))
    if isinstance(body, HeartbeatAck) and body.short:
        return replace(envelope, body=replace(body, short=False))
    if isinstance(body, Doubtful) and isinstance(body.answer, HeartbeatAck) and body.answer.short:
        return replace(envelope, body=Doubtful(body.number, replace(body.answer, short=False)))
    return envelope
