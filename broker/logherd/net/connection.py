"""An outgoing connection: requests matched to answers by opaque, deadlines in one sweep, the peer's own requests.

Reconnecting is the caller's job: a connection that was lost stays lost.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import cast

from logherd.aiokit.dialing import dial
from logherd.net.errors import ConnectFailed, ConnectionLost, NetError, RequestTimeout
from logherd.net.outbox import Outbox
from logherd.net.pending import Pending
from logherd.telemetry.log import Log
from logherd.wire.codec import FrameReader, encode_frame
from logherd.wire.errors import FrameError, LimitError
from logherd.wire.frame import Flag, Frame
from logherd.wire.limits import ANSWER_LIMITS, DEFAULT_LIMITS, WireLimits

__all__ = ["Connection", "connect"]

_log = Log("logherd.net.connection")
SWEEP_SECONDS = 0.05
CONNECT_SECONDS = 3.0
UNSENT_BYTES_SOFT = 4 * 1024 * 1024
GONE_SECONDS = 30.0
"""How long the peer's host may acknowledge nothing before the connection counts as lost, as in the guardian."""
_KEEPALIVE_SECONDS = (10, 5)
"""After how much silence that host is asked whether it is there, and how often then."""

Outcome = Frame | NetError
OnRequest = Callable[["Connection", Frame], None]
OnLost = Callable[["Connection"], None]


async def connect(
    host: str, port: int, *, seconds: float = CONNECT_SECONDS, on_request: OnRequest | None = None,
    on_lost: OnLost | None = None, limits: WireLimits = ANSWER_LIMITS,
) -> "Connection":  # fmt: skip
    """Open a connection to host:port within `seconds`.

    `on_request` gets each request of the peer (without it they are ignored); `on_lost` is called once, when the
    connection has ended for whatever reason. Raises: ConnectFailed.
    """
    loop = asyncio.get_running_loop()
    peer = f"{host}:{port}"
    try:
        async with asyncio.timeout(seconds):
            return await dial(lambda: Connection(peer, loop, on_request, on_lost=on_lost, limits=limits), host, port)
    except TimeoutError as error:
        raise ConnectFailed(f"{peer} did not accept a connection within {seconds:g} s", peer) from error
    except (OSError, UnicodeError) as error:  # the latter for what can be no name, as with an empty label
        raise ConnectFailed(f"{peer} cannot be reached: {error}", peer) from error


class Connection(asyncio.Protocol):
    """Made by `connect`. Every callback runs on the loop thread and must not raise.

    It is lost, too, when the peer's host has acknowledged nothing for half a minute, or taken nothing that was sent.

    Invariant: each request ends in exactly one outcome: its answer, RequestTimeout, or ConnectionLost.
    """

    def __init__(
        self, peer: str, loop: asyncio.AbstractEventLoop, on_request: OnRequest | None, *,
        on_lost: OnLost | None, limits: WireLimits,
    ) -> None:  # fmt: skip
        self.peer = peer
        self._loop = loop
        self._on_request = on_request
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader(limits)
        self._outbox = Outbox()
        self._pending: Pending[Outcome] = Pending()
        self._unwritten: list[int] = []
        self._timeouts: dict[int, float] = {}
        self._sweeping = False
        self._reason = "closed by us"
        self._writable = asyncio.Event()
        self._closed: asyncio.Future[None] = loop.create_future()

    @property
    def closed(self) -> bool:
        """Whether no request can be sent any more."""
        return self._transport is None or self._transport.is_closing()

    @property
    def open_requests(self) -> int:
        """Number of requests without an outcome."""
        return len(self._pending)

    @property
    def unsent(self) -> int:
        """Bytes of what was sent that the system has not taken yet."""
        written = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return self._outbox.size + written

    def start(self, frame: Frame, on_outcome: Callable[[Outcome], None], *, seconds: float) -> None:
        """Send a request; `frame.opaque` is set here. `on_outcome` runs once, later, with the answer or the error.

        The deadline is looked at every 50 ms. A request on a closed connection ends in ConnectionLost, not written.
        """
        if self.closed:
            lost = ConnectionLost(self.peer, written=False, reason=self._reason)
            self._loop.call_soon(on_outcome, lost)
            return
        frame.opaque = self._pending.add(self._loop.time() + seconds, on_outcome)
        try:
            data = _encode(frame)
        except FrameError:
            self._pending.take(frame.opaque)
            raise
        self._timeouts[frame.opaque] = seconds
        self._unwritten.append(frame.opaque)
        self._send(data)
        if not self._sweeping:
            self._sweeping = True
            self._loop.call_later(SWEEP_SECONDS, self._sweep)

    async def call(self, frame: Frame, *, seconds: float) -> Frame:
        """Send a request and wait for its answer, whatever its code.

        Raises: RequestTimeout, ConnectionLost (see `written`), FrameError for a frame that cannot be sent. A cancelled
        caller leaves the request open; its answer is dropped.
        """
        waiter: asyncio.Future[Frame] = self._loop.create_future()

        def settle(outcome: Outcome) -> None:
            if waiter.done():
                return
            if isinstance(outcome, Frame):
                waiter.set_result(outcome)
            else:
                waiter.set_exception(outcome)

        self.start(frame, settle, seconds=seconds)
        return await waiter

    def oneway(self, frame: Frame) -> None:
        """Send a request that gets no answer. Raises: ConnectionLost if the connection is closed; FrameError."""
        if self.closed:
            raise ConnectionLost(self.peer, written=False, reason=self._reason)
        frame.opaque = self._pending.reserve()
        frame.flag |= Flag.ONEWAY
        self._send(_encode(frame))

    def answer(self, frame: Frame) -> None:
        """Send the answer to a request of the peer; does nothing when the connection is closed. Raises: FrameError."""
        if not self.closed:
            self._send(_encode(frame))

    def hold_reading(self, *, held: bool) -> None:
        """Read nothing from the peer while `held`: what it says cannot be taken on."""
        if self._transport is not None and self._transport.is_reading() is held:
            if held:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    async def writable(self) -> None:
        """Wait until less than 4 MiB are unsent. Raises: ConnectionLost."""
        await self._writable.wait()
        if self.closed:
            raise ConnectionLost(self.peer, written=False, reason=self._reason)

    async def close(self) -> None:
        """Send what is queued, close, and wait for it; open requests end in ConnectionLost. Idempotent."""
        if self._transport is not None:
            self._flush()
            self._transport.close()
        await asyncio.shield(self._closed)

    def abort(self) -> None:
        """Close now; what is queued is lost and open requests end in ConnectionLost. Idempotent."""
        if self._transport is not None:
            self._transport.abort()

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES_SOFT)
        wire = transport.get_extra_info("socket")
        if wire is not None:
            _notice_the_end(wire)
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        try:
            frames = self._reader.feed(data)
        except FrameError as error:
            self._dispatch(list(error.frames))
            self._reason = f"it sent no frame: {error}"
            _log.warning("connection closed by us", remote=self.peer, reason="bytes that are no frame", detail=error)
            if self._transport is not None:
                self._transport.abort()
            return
        self._dispatch(frames)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def eof_received(self) -> bool:
        self._reason = "closed by the peer"
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if exc is not None:
            self._reason = str(exc)
        unwritten = set(self._unwritten)
        self._unwritten.clear()
        self._outbox.take()
        self._timeouts.clear()
        for opaque, on_outcome in self._pending.drain():
            on_outcome(ConnectionLost(self.peer, written=opaque not in unwritten, reason=self._reason))
        self._writable.set()
        self._closed.set_result(None)
        if self._on_lost is not None:
            self._on_lost(self)

    # ---- inside

    def _dispatch(self, frames: list[Frame]) -> None:
        for frame in frames:
            if not frame.flag & Flag.RESPONSE:
                if self._on_request is not None:
                    self._on_request(self, frame)
            elif (on_outcome := self._pending.take(frame.opaque)) is not None:
                self._timeouts.pop(frame.opaque, None)
                on_outcome(frame)
            else:
                _log.debug("answer without a request", remote=self.peer, opaque=frame.opaque)

    def _send(self, data: bytes) -> None:
        if not self._outbox.size:
            self._loop.call_soon(self._flush)
        self._outbox.add(data)

    def _flush(self) -> None:
        # What is given to a transport that ends would be dropped; so it is known that the peer got nothing of it.
        if self._outbox.size and self._transport is not None and not self._transport.is_closing():
            buffers = self._outbox.take()
            self._unwritten.clear()
            self._transport.write(buffers[0])

    def _sweep(self) -> None:
        for opaque, on_outcome in self._pending.expire(self._loop.time()):
            on_outcome(RequestTimeout(self.peer, self._timeouts.pop(opaque, 0.0)))
        self._sweeping = bool(self._pending)
        if self._sweeping:
            self._loop.call_later(SWEEP_SECONDS, self._sweep)


def _notice_the_end(wire: socket.socket) -> None:
    """Without it a host that was cut off or lost its power would be waited for a quarter of an hour."""
    idle, interval = _KEEPALIVE_SECONDS
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(GONE_SECONDS * 1000))
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval)


def _encode(frame: Frame) -> bytes:
    """For a peer that would end the whole connection over a header beyond its limits. Raises: FrameError."""
    data = encode_frame(frame)
    header_bytes = int.from_bytes(data[5:8])
    if header_bytes > DEFAULT_LIMITS.header_bytes_max:
        raise LimitError("the header to send in bytes", header_bytes, DEFAULT_LIMITS.header_bytes_max)
    if len(frame.ext) > DEFAULT_LIMITS.fields_max:
        raise LimitError("the number of header fields to send", len(frame.ext), DEFAULT_LIMITS.fields_max)
    return data
