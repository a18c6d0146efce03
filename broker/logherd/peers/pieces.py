"""How a replica with damage asks another one for what belongs there, before it has a name that anybody could link to.

    asker:   connects to the peer port, says no hello
             piece ask   kind u8 = 6 | JSON     -->
             <--   piece   kind u8 = 7 | length of JSON u16 | JSON | bytes of the log
             asks again

A release without this ends the connection at the first ask: it cannot help.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from struct import Struct
from typing import TypeVar

import msgspec

from logherd.aiokit.listening import begin_to_listen
from logherd.aiokit.streams import served
from logherd.peers.errors import CodecError, FrameError, PeerError
from logherd.peers.frames import FrameReader, Kind, make_frame
from logherd.peers.hello import HELLO_BYTES_MAX
from logherd.store.files import Buffer
from logherd.store.pieces import PieceAsk, PieceState

__all__ = [
    "Asked", "Give", "Given", "PieceServer", "PieceSource", "decode_ask", "decode_piece", "encode_ask", "encode_piece",
]  # fmt: skip

_HEAD = Struct(">BH")
_READ_BYTES = 1 << 18
_BACKLOG = 100
_Struct = TypeVar("_Struct", bound=msgspec.Struct)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks for what. `cluster` names the group, `broker` the asker's id in it; `epoch`: no record of a later one is
    in the asker's log, in which what it asks for is committed. None: it does not say."""

    cluster: str
    broker: str
    ask: PieceAsk
    epoch: int | None = None


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it; the bytes travel behind it. `end`: where they end. `leads`: who answers leads the group.

    If it is gone there: the log begins at `start` there, and the record before was written in epoch `epoch`. If it is
    not known to be committed there, or nothing shows that the log is the asker's: it ends at `log_end`. `knows`: the
    brokers of the group that who answers knows of, itself among them. None: it does not say.
    """

    state: PieceState
    end: int = 0
    leads: bool = False
    start: int = 0
    epoch: int = 0
    log_end: int | None = None
    knows: tuple[int, ...] | None = None


Give = Callable[[Asked], Awaitable[tuple[bytes, bytes] | None]]
"""Head and data of the answer; None: not here. It takes the time that a disk takes."""


def encode_ask(asked: Asked) -> bytes:
    """The payload of a frame."""
    return bytes((Kind.PIECE_ASK,)) + msgspec.json.encode(asked)


def decode_ask(payload: Buffer) -> Asked:
    """The inverse. Raises: CodecError."""
    return _decode(payload[1:], Asked)


def encode_piece(given: Given) -> bytes:
    """The front of a frame's payload; the bytes of the log follow it."""
    text = msgspec.json.encode(given)
    return _HEAD.pack(Kind.PIECE, len(text)) + text


def decode_piece(payload: Buffer) -> tuple[Given, bytes]:
    """What was given, and the bytes of the log. Raises: CodecError."""
    if len(payload) < _HEAD.size:
        raise CodecError("piece", f"{len(payload)} bytes, the head takes {_HEAD.size}")
    kind, size = _HEAD.unpack_from(payload)
    if kind != Kind.PIECE or _HEAD.size + size > len(payload):
        raise CodecError("piece", f"kind {kind}, {size} bytes are told and {len(payload) - _HEAD.size} are left")
    return _decode(payload[_HEAD.size : _HEAD.size + size], Given), bytes(payload[_HEAD.size + size :])


def _decode(data: Buffer, kind: type[_Struct]) -> _Struct:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CodecError(kind.__name__.lower(), str(error)) from error


class PieceServer:
    """Answers processes that have no links, each until it ends, says something else, or is silent. Loop thread only.

    It holds at most `connections_max` connections. For one more that one goes which has been there for longest without
    a question, or else whose latest one is the oldest, so that a burst of silent ones keeps no peer out; whoever waits
    for an answer stays.
    """

    def __init__(self, give: Give, *, seconds: float, connections_max: int) -> None:
        """`seconds`: what the next question, and taking an answer, may take."""
        self._give = give
        self._seconds = seconds
        self._connections_max = connections_max
        self._open: dict[asyncio.StreamWriter, bool | None] = {}
        """Whether each waits for an answer, None if it has never asked; in the order of their latest questions."""
        self._listener: asyncio.Server | None = None

    async def listen_on(self, listening: socket.socket) -> tuple[str, int]:
        """Accept connections on a socket that someone else bound, and take it over; gives its address.

        Raises: OSError if somebody has begun to listen on its port since it was bound; it is closed then.
        """
        try:
            begin_to_listen(listening, _BACKLOG)
        except OSError:
            listening.close()
            raise
        self._listener = await asyncio.start_server(served(self.serve), sock=listening)
        address = self._listener.sockets[0].getsockname()
        return address[0], address[1]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end."""
        try:
            if self._has_room():
                self._open[writer] = None
                await self._converse(reader, writer)
        except (TimeoutError, OSError, FrameError, CodecError):
            return
        finally:
            self._open.pop(writer, None)
            writer.transport.abort()  # closing waits for who does not read, for ever

    def close(self) -> None:
        """Accept no more, and let go of all. Idempotent."""
        if self._listener is not None:
            self._listener.close()
        for writer in self._open:
            writer.transport.abort()

    def _has_room(self) -> bool:
        """Whether there is, or somebody goes."""
        if len(self._open) < self._connections_max:
            return True
        for kind in (None, False):
            for writer, waits in self._open.items():
                if waits is kind:
                    del self._open[writer]
                    writer.transport.abort()
                    return True
        return False

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameReader(HELLO_BYTES_MAX)
        while True:
            async with asyncio.timeout(self._seconds):
                found = await _next_frames(reader, frames)
            if not found:
                return
            for frame in found:
                if frame[0] != Kind.PIECE_ASK:
                    return
                self._note(writer, waits=True)
                answer = await self._give(decode_ask(frame))
                if answer is None or writer.transport.is_closing():  # to write then is an error of uvloop's
                    return
                writer.write(make_frame(*answer))
                async with asyncio.timeout(self._seconds):
                    await writer.drain()
            self._note(writer, waits=False)

    def _note(self, writer: asyncio.StreamWriter, *, waits: bool) -> None:
        """Raises: ConnectionAbortedError if this one had to go."""
        if writer not in self._open:
            raise ConnectionAbortedError
        del self._open[writer]  # the newest stands last
        self._open[writer] = waits


async def _next_frames(reader: asyncio.StreamReader, frames: FrameReader) -> list[memoryview]:
    """At least one; none at the end. Raises: FrameError, OSError."""
    while data := await reader.read(_READ_BYTES):
        if found := frames.feed(data):
            return found
    return []


class PieceSource:
    """A connection to one peer, made when it is needed and there is none. One question at a time."""

    def __init__(self, name: str, address: tuple[str, int], *, frame_bytes_max: int, seconds: float) -> None:
        """`seconds`: what connecting, and each answer, may take."""
        self.name = name
        self._address = address
        self._frame_bytes_max = frame_bytes_max
        self._seconds = seconds
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter, FrameReader] | None = None

    async def ask(self, asked: Asked) -> tuple[Given, bytes]:
        """Raises: PeerError if the peer is not there, says something else, or not in time; the connection is gone."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._ask(asked)
        except TimeoutError as error:
            self.close()
            raise PeerError(f"no answer within {self._seconds:g} s") from error
        except (OSError, UnicodeError) as error:
            self.close()
            raise PeerError(str(error) or type(error).__name__) from error
        except BaseException:
            self.close()
            raise

    async def _ask(self, asked: Asked) -> tuple[Given, bytes]:
        if self._open is not None and (self._open[0].at_eof() or self._open[1].transport.is_closing()):
            self.close()  # a peer waits for the next question for a few seconds; to write then is an error of uvloop's
        if self._open is None:
            reader, writer = await asyncio.open_connection(*self._address)
            self._open = reader, writer, FrameReader(self._frame_bytes_max)
        reader, writer, frames = self._open
        writer.write(make_frame(encode_ask(asked)))
        while True:
            data = await reader.read(_READ_BYTES)
            if not data:
                raise PeerError("the peer has closed the connection: it does not run, or is of a release that cannot")
            try:
                found = frames.feed(data)
            except FrameError as error:
                raise PeerError(f"bytes that are no frame: {error}") from error
            if found:
                return decode_piece(found[0])

    def close(self) -> None:
        """Let go of the connection. Idempotent."""
        if self._open is not None:
            self._open[1].close()
            self._open = None
