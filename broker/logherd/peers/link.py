"""One connection between two replicas: hellos first, then envelopes from the dialler, pings and pongs.

    dialler:   hello  ------------------>  judges, remembers the connection under the dialler's name
               judges  <-----------------  hello
               envelopes, pings, hello again if it has changed  ->
               <- pongs
    Either side answers with a refusal instead, and ends.

What the peer sends can end the connection, with a reason, and nothing else.
"""

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol, cast

from logherd.kit.errors import ensure
from logherd.peers.codec import decode_envelope
from logherd.peers.errors import CodecError, FrameError
from logherd.peers.frames import FrameReader, Kind, make_frame
from logherd.peers.hello import (
    HELLO_BYTES_MAX,
    Hello,
    Refusal,
    RefusalCode,
    decode_hello,
    decode_refusal,
    encode_hello,
    encode_refusal,
)
from logherd.peers.identity import name_of
from logherd.peers.options import LinkOptions
from logherd.peers.outbox import Outbox
from logherd.replication.messages import Envelope

__all__ = ["Link", "LinkOwner", "Stage", "Traffic"]

_PING = make_frame(bytes((Kind.PING,)))
_PONG = make_frame(bytes((Kind.PONG,)))
_JOINED_BYTES_MAX = 64 * 1024
"""Up to here one buffer costs less than several."""

_PINGS = 4
_PARTING_SECONDS = 1.0
"""How long a peer may take to read why it was refused."""


class Stage(Enum):
    """How far a connection is."""

    GREETING = "hellos are exchanged"
    LINKED = "messages flow"
    PARTING = "we have refused the peer; what it sends is thrown away"
    ENDED = "gone"


@dataclass(slots=True)
class Traffic:
    """Counters; of one peer once it is known who it is."""

    bytes_in: int = 0
    bytes_out: int = 0
    messages_in: int = 0
    messages_out: int = 0
    dropped: int = 0

    def add(self, other: "Traffic") -> None:
        """Take over what was counted before."""
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out


@dataclass(slots=True)
class _Clocks:
    """Seconds of the loop's clock: when the connection was made, linked, last heard of, moved data, pinged, refused."""

    opened: float
    heard: float
    moved: float
    linked: float = 0.0
    pinged: float = 0.0
    parted: float = 0.0


class LinkOwner(Protocol):
    """Who makes connections and decides what they mean. Every method is called on the loop and does not raise."""

    def made(self, link: "Link") -> bool:
        """There is a connection; whether to go on with it. If so, `ended` will come once."""

    def greeting(self) -> Hello:
        """What we say; the addressee is filled in here."""

    def judge(self, link: "Link", theirs: Hello | int) -> Refusal | None:
        """Whether to talk to them."""

    def greeted(self, link: "Link", *, first: bool) -> None:
        """Their hello was accepted, and the first time the connection is linked by it."""

    def received(self, envelopes: list[Envelope]) -> None:
        """Messages of the peer that this connection was accepted from."""

    def ended(self, link: "Link") -> None:
        """The connection is gone; `link.reason` says why."""


class Link(asyncio.Protocol):
    """Invariants: 1. envelopes are taken only on an accepted connection, after the hello, and only from its sender;
    2. nothing is handed on once the connection has ended; 3. `reason` names the first cause of the end.
    """

    def __init__(self, owner: LinkOwner, options: LinkOptions, *, dialled: str | None) -> None:
        """`dialled` is the name of the node that we dialled, None for an accepted connection."""
        self._loop = asyncio.get_running_loop()
        self._owner = owner
        self._options = options
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader(HELLO_BYTES_MAX)
        self._outbox = Outbox(bulk_bytes_max=options.unsent_bytes_max, urgent_bytes_max=options.unsent_urgent_bytes_max)
        self._flush_due = False
        self._congested = False
        self._admitted = False
        self.dialled = dialled
        self.remote = ""
        self.stage = Stage.GREETING
        self.claimed = ""
        self.hello: Hello | None = None
        self.refusal: Refusal | None = None
        self.reason = ""
        self.traffic = Traffic()
        now = self._loop.time()
        self.clocks = _Clocks(now, now, now)
        self.gone = asyncio.Event()

    @property
    def name(self) -> str | None:
        """Whose connection it is; None until an accepted one has said so."""
        return self.dialled if self.hello is None else name_of(self.hello.sender)

    @property
    def unsent(self) -> int:
        """Bytes that have not reached the system."""
        buffered = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return self._outbox.size + buffered

    def has_bulk_room(self, size: int) -> bool:
        """Whether records of that size would be taken now."""
        return self._outbox.has_bulk_room(size)

    def send(self, frame: bytes, *, bulk: bool) -> bool:
        """Queue a frame for the end of this pass; False if too much waits, or the connection has ended."""
        if self.stage in (Stage.PARTING, Stage.ENDED):
            return False
        taken = self._outbox.add_bulk(frame) if bulk else self._outbox.add_urgent(frame)
        if taken and not self._flush_due and not self._congested:
            self._flush_due = True
            self._loop.call_soon(self._flush)
        return taken

    def say_hello(self) -> None:
        """Tell the peer who we are, or that it has changed."""
        self.send(make_frame(encode_hello(replace(self._owner.greeting(), to=self.name or ""))), bulk=False)

    def end(self, reason: str) -> None:
        """Close now; what waits is lost. Idempotent."""
        self._stop(reason)
        if self._transport is not None:
            self._transport.abort()

    def close(self, reason: str) -> None:
        """Close after what is already with the transport. Idempotent."""
        self._flush()
        self._stop(reason)
        if self._transport is not None:
            self._transport.close()

    def sweep(self, now: float) -> None:
        """Look at the clocks."""
        clocks, options = self.clocks, self._options
        if self.stage is Stage.PARTING:
            if now - clocks.parted >= _PARTING_SECONDS:
                self.end(self.reason)
        elif self.stage is Stage.GREETING:
            if (now - clocks.opened) * 1000 >= options.hello_ms:
                self.end(f"no hello within {options.hello_ms} ms")
        elif self.stage is Stage.LINKED:
            if (now - max(clocks.heard, clocks.moved)) * 1000 >= options.idle_ms:
                self.end(f"silent for {options.idle_ms} ms")
            elif self.dialled is not None and (now - clocks.pinged) * 1000 * _PINGS >= options.idle_ms:
                clocks.pinged = now
                self.send(_PING, bulk=False)

    def forgive(self, seconds: float) -> None:
        """We have not looked for so long ourselves: nobody is to blame for that time."""
        clocks = self.clocks
        clocks.opened += seconds
        clocks.heard += seconds
        clocks.parted += seconds

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._options.buffer_bytes)
        peer = transport.get_extra_info("peername") or ("unknown", 0)
        self.remote = f"{peer[0]}:{peer[1]}"
        if not self._owner.made(self):
            self._transport.abort()
            return
        self._admitted = True
        with suppress(OSError):  # a peer that left before we looked: the transport will say so
            self._tune(transport.get_extra_info("socket"))
        if self.dialled is not None:
            self.say_hello()

    def data_received(self, data: bytes) -> None:
        if self.stage in (Stage.PARTING, Stage.ENDED):
            return
        self.traffic.bytes_in += len(data)
        self.clocks.heard = self._loop.time()
        try:
            frames = self._reader.feed(data)
        except FrameError as error:
            self._take(error.frames)
            self.end(f"bytes that are no frame: {error}")
            return
        self._take(frames)

    def pause_writing(self) -> None:
        self._congested = True

    def resume_writing(self) -> None:
        self._congested = False
        self.clocks.moved = self._loop.time()
        self._flush()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._stop("closed by the peer" if exc is None else str(exc) or type(exc).__name__)
        self.stage = Stage.ENDED
        self.gone.set()
        if self._admitted:
            self._owner.ended(self)

    # ---- inside

    def _tune(self, wire: socket.socket) -> None:
        idle_seconds = max(1, self._options.idle_ms // 1000)
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, self._options.idle_ms)
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, self._options.buffer_bytes)
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle_seconds)
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)

    def _stop(self, reason: str) -> None:
        self._outbox.clear()
        self.reason = self.reason or reason
        self.stage = Stage.ENDED

    def _flush(self) -> None:
        self._flush_due = False
        transport, outbox = self._transport, self._outbox
        while outbox.size and transport is not None and not self._congested and self.stage is not Stage.ENDED:
            size = outbox.size
            frames = outbox.take(self._options.buffer_bytes)
            size -= outbox.size
            self.traffic.bytes_out += size
            if len(frames) == 1:
                transport.write(frames[0])
            elif size <= _JOINED_BYTES_MAX:
                transport.write(b"".join(frames))
            else:
                transport.writelines(frames)

    def _take(self, frames: list[memoryview]) -> None:
        envelopes: list[Envelope] = []
        try:
            for frame in frames:
                if frame[0] == Kind.ENVELOPE:
                    envelopes.append(self._envelope(frame))
                    continue
                self._control(frame)
                if self.stage in (Stage.PARTING, Stage.ENDED):
                    break
        except CodecError as error:
            self._deliver(envelopes)
            self.end(f"bytes that are no message: {error}")
            return
        self._deliver(envelopes)

    def _envelope(self, frame: memoryview) -> Envelope:
        hello = self.hello
        if self.dialled is not None or hello is None or self.stage is not Stage.LINKED:
            raise CodecError("envelope", "not at this point")
        envelope = decode_envelope(frame)
        if envelope.sender != hello.sender:
            raise CodecError("sender", f"{envelope.sender} on a connection of {hello.sender}")
        return envelope

    def _deliver(self, envelopes: list[Envelope]) -> None:
        if envelopes:
            self.traffic.messages_in += len(envelopes)
            self._owner.received(envelopes)

    def _control(self, frame: memoryview) -> None:
        kind, linked = frame[0], self.stage is Stage.LINKED
        if kind == Kind.PING and linked and self.dialled is None and len(frame) == 1:
            self.send(_PONG, bulk=False)
        elif kind == Kind.PONG and linked and self.dialled is not None and len(frame) == 1:
            pass  # that it came is all it says
        elif kind == Kind.REFUSAL:
            self.refusal = decode_refusal(frame)
            self.end(f"refused by the peer: {self.refusal.sentence}")
        elif kind == Kind.HELLO and not (linked and self.dialled is not None):
            self._on_hello(frame)
        else:
            raise CodecError("frame", f"of kind {kind} and {len(frame)} bytes, not at this point")

    def _on_hello(self, frame: memoryview) -> None:
        try:
            theirs = decode_hello(frame)
        except CodecError as error:
            self._refuse(Refusal(RefusalCode.MALFORMED, str(error)))
            return
        before = self.hello
        self.claimed = "" if isinstance(theirs, int) else theirs.sender
        refusal = self._owner.judge(self, theirs)
        if refusal is not None or isinstance(theirs, int):
            ensure(refusal is not None, "another version is refused", theirs)
            self._refuse(cast("Refusal", refusal))
            return
        if before is not None and (before.sender, before.instance) != (theirs.sender, theirs.instance):
            raise CodecError("hello.sender", f"{theirs.sender} on a connection of {before.sender}")
        self.hello = theirs
        if before is None:
            self.stage = Stage.LINKED
            self.clocks.linked = self._loop.time()
            self._reader.payload_bytes_max = self._options.frame_bytes_max
            if self.dialled is None:
                self.say_hello()
        self._owner.greeted(self, first=before is None)

    def _refuse(self, refusal: Refusal) -> None:
        """Say why, end our direction, and read on until the peer has closed: an early close could lose the reason."""
        self.refusal = refusal
        self.reason = self.reason or f"refused by us: {refusal.sentence}"
        self.send(make_frame(encode_refusal(refusal)), bulk=False)
        self._congested = False
        self._flush()
        self.stage = Stage.PARTING
        self.clocks.parted = self._loop.time()
        if self._transport is not None:
            self._transport.write_eof()
