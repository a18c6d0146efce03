"""A hub, a transport and a handler without sockets or clocks."""

import asyncio
import socket
from collections import defaultdict
from collections.abc import Callable

from logherd.net.hub import Hub
from logherd.net.limits import NetLimits
from logherd.net.session import NetSession
from logherd.telemetry.log import FieldValue, Log
from logherd.wire.codec import FrameReader, encode_frame
from logherd.wire.frame import Flag, Frame


class Lines(Log):
    """Keeps the lines instead of writing them."""

    def __init__(self) -> None:
        super().__init__("test")
        self.warnings: list[tuple[str, dict[str, FieldValue]]] = []
        self.told: list[tuple[str, dict[str, FieldValue]]] = []

    def warning(self, message: str, **fields: FieldValue) -> None:
        self.warnings.append((message, fields))

    def info(self, message: str, **fields: FieldValue) -> None:
        self.told.append((message, fields))


class FakeTransport(asyncio.Transport):
    """Takes writes; `unsent` says how much of them the peer has not taken."""

    def __init__(self, peer: tuple[str, int] = ("10.0.0.1", 4000)) -> None:
        super().__init__()
        self.peer = peer
        self.session: NetSession | None = None
        self.writes: list[bytes] = []
        self.buffers = 0
        self.unsent = 0
        self.stuck = False
        self.reading = True
        self.closing = False
        self.aborted = False
        self.wire: socket.socket | None = None

    def get_extra_info(self, name: str, default: object = None) -> object:
        return {"peername": self.peer, "socket": self.wire}.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high, self.low = high, low

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._take([data])

    def writelines(self, list_of_data: object) -> None:
        self._take(list(list_of_data))  # type: ignore[call-overload]

    def _take(self, parts: list[bytes | bytearray | memoryview]) -> None:
        self.writes.append(b"".join(parts))
        self.buffers += len(parts)
        self.unsent += sum(map(len, parts)) if self.stuck else 0
        if self.unsent > self.high and self.session is not None:
            self.session.pause_writing()

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = True
        self.aborted = True

    def frames(self) -> list[Frame]:
        """Everything written, decoded."""
        return FrameReader().feed(b"".join(self.writes))


class Recorder:
    """A handler that keeps what it got; `answer_at_once` makes it an echo."""

    def __init__(self, *, answer_at_once: bool = False) -> None:
        self.opened: list[NetSession] = []
        self.closed: list[NetSession] = []
        self.frames: list[Frame] = []
        self.given: defaultdict[int, list[Frame]] = defaultdict(list)
        self.batches: list[int] = []
        self.answer_at_once = answer_at_once

    def on_open(self, session: NetSession) -> None:
        self.opened.append(session)

    def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
        self.frames.extend(frames)
        self.given[session.id].extend(frames)
        self.batches.append(len(frames))
        if self.answer_at_once:
            for frame in frames:
                if not frame.is_oneway:
                    session.send_answer(frame, answer_to(frame))

    def on_close(self, session: NetSession) -> None:
        self.closed.append(session)


class Bench:
    """A hub whose clock and end of pass the test turns by hand."""

    def __init__(self, limits: NetLimits | None = None, *, answer_at_once: bool = False, peers: int = 0) -> None:
        self.now = 1000.0
        self.deferred: list[Callable[[], None]] = []
        self.lines = Lines()
        self.handler = Recorder(answer_at_once=answer_at_once)
        self.hub = Hub(
            self.handler, limits or NetLimits(), now=lambda: self.now, defer=self.deferred.append, log=self.lines,
            peers=peers,
        )  # fmt: skip

    def connect(self, ip: str = "10.0.0.1", port: int = 4000) -> tuple[NetSession, FakeTransport]:
        session, transport = NetSession(self.hub), FakeTransport((ip, port))
        transport.session = session
        session.connection_made(transport)
        return session, transport

    def end_pass(self) -> None:
        """Run what was left for the end of the loop pass, and what that leaves again."""
        while self.deferred:
            callbacks = self.deferred[:]
            self.deferred.clear()
            for callback in callbacks:
                callback()

    def sweep_after(self, seconds: float) -> None:
        self.now += seconds
        self.hub.sweep(self.now)


def request(opaque: int, *, code: int = 310, body: bytes = b"body", flag: int = 0) -> bytes:
    return encode_frame(Frame(code, opaque, flag=flag, ext={"b": "T"}, body=body))


def answer_to(frame: Frame, body: bytes = b"") -> Frame:
    return Frame(0, frame.opaque, flag=Flag.RESPONSE, body=body)
