"""One connection between two replicas: hellos first, then envelopes from the dialler, pings and pongs.

    dialler:   hello  ------------------>  judges, remembers the connection under the dialler's name
               judges  <-----------------  hello
               envelopes, pings, hello again if it has changed  ->
               <- pongs
    Either side answers with a refusal instead, and ends.

A dialler that says no hello may ask for pieces of the log instead (pieces.py), and for nothing else.

What the peer sends can end the connection, with a reason, and nothing else.
"""

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol, cast

from logherd.kit.errors import InvariantError
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
from logherd.peers.outgoing import Outgoing
from logherd.peers.pieces import Asked, decode_ask
from logherd.replication.messages import Envelope

__all__ = ["Link", "LinkOwner", "Stage"]

_PING = bytes((Kind.PING,))
_PONG = bytes((Kind.PONG,))
_PINGS = 4
_PARTING_SECONDS = 1.0
"""How long a peer may take to read why it was refused."""


class Stage(Enum):
    """How far a connection is."""

    NEW = "not admitted yet"
    GREETING = "hellos are exchanged"
    ASKING = "the peer waits for a piece of the log"
    LINKED = "messages flow"
    PARTING = "we have refused the peer; what it sends is thrown away"
    ENDED = "gone"


_READING = (Stage.GREETING, Stage.ASKING, Stage.LINKED)


@dataclass(slots=True)
class _Clocks:
    """Seconds of the owner's clock: when the connection was made, linked, last heard of, pinged, refused, and asked for
    a piece of the log."""

    opened: float
    heard: float
    linked: float = 0.0
    pinged: float = 0.0
    parted: float = 0.0
    asked: float = 0.0


class LinkOwner(Protocol):
    """Who makes connections and decides what they mean. Every method is called on the loop and does not raise."""

    @property
    def options(self) -> LinkOptions:
        """The limits."""

    def now(self) -> float:
        """Seconds of a clock that never goes back."""

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

    def asked(self, link: "Link", asked: Asked) -> None:
        """A replica that mends damage asks for a piece of the log, and waits until `link.answer` is called."""

    def ended(self, link: "Link") -> None:
        """The connection is gone; `link.reason` says why."""


class Link(asyncio.Protocol):
    """`dialled`: the name of the node that we dialled, None for an accepted connection. `claimed`: who an accepted one
    says it is. `hello` is theirs, once it was accepted; `refusal` is either side's.

    Invariants: 1. envelopes are taken only on an accepted connection, after the hello, and only from its sender;
    2. nothing is handed on once the connection has ended; 3. `reason` names the first cause of the end.
    """

    outgoing: Outgoing

    def __init__(self, owner: LinkOwner, *, dialled: str | None) -> None:
        self._owner = owner
        self._reader = FrameReader(HELLO_BYTES_MAX)
        self.dialled = dialled
        self.remote = ""
        self.stage = Stage.NEW
        self.claimed = ""
        self.hello: Hello | None = None
        self.refusal: Refusal | None = None
        self.reason = ""
        self.clocks = _Clocks(owner.now(), owner.now())
        self.gone = asyncio.Event()

    @property
    def name(self) -> str | None:
        """Whose connection it is; None until an accepted one has said so."""
        return self.dialled if self.hello is None else name_of(self.hello.sender)

    def say_hello(self) -> None:
        """Tell the peer who we are, or that it has changed."""
        self._send(encode_hello(replace(self._owner.greeting(), to=self.name or "")))

    def end(self, reason: str) -> None:
        """Close now; what waits is lost. Idempotent."""
        self._stop(reason)
        self.outgoing.abort()

    def close(self, reason: str) -> None:
        """Close after what is already with the transport. Idempotent."""
        self._stop(reason)
        self.outgoing.close()

    def answer(self, given: tuple[bytes, bytes] | None) -> None:
        """What was asked for: head and data of a piece; None: not here. Nothing if nobody waits for it any more."""
        if self.stage is not Stage.ASKING:
            return
        self.stage = Stage.GREETING
        self.clocks.opened = self._owner.now()  # the next one may take as long as a hello
        if given is None:
            self.end("nobody here gives pieces of the log")
        elif not self.outgoing.send(make_frame(*given), bulk=True):
            self.end("it does not read what it has asked for")

    def give_up(self) -> None:
        """The making of this connection was interrupted: the loop then closes it without another word to us."""
        if self.stage is not Stage.NEW:
            self.end("not made in time")
            self.connection_lost(None)

    def sweep(self, now: float) -> None:
        """Look at the clocks."""
        clocks, options = self.clocks, self._owner.options
        if self.stage is Stage.PARTING:
            if now - clocks.parted >= _PARTING_SECONDS:
                self.end(self.reason)
        elif self.stage is Stage.GREETING:
            if (now - clocks.opened) * 1000 >= options.hello_ms:
                self.end(f"no hello within {options.hello_ms} ms")
        elif self.stage is Stage.LINKED:
            if (now - max(clocks.heard, self.outgoing.moved)) * 1000 >= options.idle_ms:
                self.end(f"silent for {options.idle_ms} ms")
            elif self.dialled is not None and (now - clocks.pinged) * 1000 * _PINGS >= options.idle_ms:
                clocks.pinged = now
                self._send(_PING)

    def forgive(self, seconds: float) -> None:
        """We have not looked for so long ourselves: nobody is to blame for that time.

        What was noted since we look again may be as new as now, and nothing is later: a moment yet to come would keep a
        peer that falls silent now for as much longer.
        """
        clocks, now = self.clocks, self._owner.now()
        clocks.opened = min(clocks.opened + seconds, now)
        clocks.heard = min(clocks.heard + seconds, now)
        clocks.parted = min(clocks.parted + seconds, now)

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        wire = cast("asyncio.Transport", transport)
        self.outgoing = Outgoing(wire, self._owner.options, now=self._owner.now)
        peer = wire.get_extra_info("peername") or ("unknown", 0)
        self.remote = f"{peer[0]}:{peer[1]}"
        if not self._owner.made(self):
            wire.abort()
            return
        self.stage = Stage.GREETING
        self.clocks.opened = self.clocks.heard = self._owner.now()
        with suppress(OSError):  # a peer that left before we looked: the transport will say so
            _tune(wire.get_extra_info("socket"), self._owner.options)
        if self.dialled is not None:
            self.say_hello()

    def data_received(self, data: bytes) -> None:
        if self.stage not in _READING:
            return
        self.outgoing.traffic.bytes_in += len(data)
        self.clocks.heard = self._owner.now()
        try:
            frames = self._reader.feed(data)
        except FrameError as error:
            self._take(error.frames)
            self.end(f"bytes that are no frame: {error}")
            return
        self._take(frames)

    def pause_writing(self) -> None:
        self.outgoing.pause()

    def resume_writing(self) -> None:
        self.outgoing.resume()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self.gone.is_set():
            return
        admitted = self.stage is not Stage.NEW
        self._stop("closed by the peer" if exc is None else str(exc) or type(exc).__name__)
        self.outgoing.forget()
        self.gone.set()
        if admitted:
            self._owner.ended(self)

    # ---- inside

    def _stop(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.stage = Stage.ENDED

    def _send(self, payload: bytes) -> None:
        self.outgoing.send(make_frame(payload), bulk=False)

    def _take(self, frames: list[memoryview]) -> None:
        envelopes: list[Envelope] = []
        try:
            for frame in frames:
                if self.stage not in _READING:
                    break
                if frame[0] == Kind.ENVELOPE:
                    envelopes.append(self._envelope(frame))
                    continue
                self._deliver(envelopes)
                envelopes = []
                self._control(frame)
        except CodecError as error:
            self._deliver(envelopes)
            self.end(f"bytes that are no message: {error}")
            return
        self._deliver(envelopes)

    def _envelope(self, frame: memoryview) -> Envelope:
        hello = self.hello
        if self.dialled is not None or hello is None:
            raise CodecError("envelope", "not at this point")
        envelope = decode_envelope(frame)
        if envelope.sender != hello.sender:
            raise CodecError("sender", f"{envelope.sender} on a connection of {hello.sender}")
        return envelope

    def _deliver(self, envelopes: list[Envelope]) -> None:
        if envelopes:
            self.outgoing.traffic.messages_in += len(envelopes)
            self._owner.received(envelopes)

    def _control(self, frame: memoryview) -> None:
        kind, linked = frame[0], self.stage is Stage.LINKED
        if kind == Kind.PING and linked and self.dialled is None and len(frame) == 1:
            self._send(_PONG)
        elif kind == Kind.PONG and linked and self.dialled is not None and len(frame) == 1:
            pass  # that it came is all it says
        elif kind == Kind.REFUSAL:
            self.refusal = decode_refusal(frame)
            self.end(f"refused by the peer: {self.refusal.sentence}")
        elif self.stage is Stage.ASKING:
            raise CodecError("frame", f"of kind {kind} before a piece of the log was given")
        elif kind == Kind.HELLO and not (linked and self.dialled is not None):
            self._on_hello(frame)
        elif kind == Kind.PIECE_ASK and not linked and self.dialled is None:
            self._on_ask(frame)
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
        if refusal is not None:
            self._refuse(refusal)
            return
        if isinstance(theirs, int):
            raise InvariantError(f"another version is refused: {theirs}")
        if before is not None and (before.sender, before.instance) != (theirs.sender, theirs.instance):
            raise CodecError("hello.sender", f"{theirs.sender} on a connection of {before.sender}")
        self.hello = theirs
        if before is None:
            self.stage = Stage.LINKED
            self.clocks.linked = self._owner.now()
            self._reader.payload_bytes_max = self._owner.options.frame_bytes_max
            if self.dialled is None:
                self.say_hello()
        self._owner.greeted(self, first=before is None)

    def _on_ask(self, frame: memoryview) -> None:
        asked = decode_ask(frame)
        self.clocks.asked = self._owner.now()
        self.stage = Stage.ASKING
        self._owner.asked(self, asked)

    def _refuse(self, refusal: Refusal) -> None:
        """Say why, end our direction, and read on until the peer has closed: an early close could lose the reason."""
        self.refusal = refusal
        self.reason = self.reason or f"refused by us: {refusal.sentence}"
        self.stage = Stage.PARTING
        self.clocks.parted = self._owner.now()
        self._send(encode_refusal(refusal))
        self.outgoing.finish()


def _tune(wire: socket.socket, options: LinkOptions) -> None:
    """Small messages leave at once, little waits in the kernel, and a peer that is gone is noticed there too."""
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, options.idle_ms)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, options.buffer_bytes)
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, options.idle_ms // 1000))
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
