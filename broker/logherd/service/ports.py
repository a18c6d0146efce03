"""What a service needs from outside, as protocols; `net` and `app` fit them by shape."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, Protocol

import msgspec

from logherd.wire.frame import Flag, Frame
from logherd.wire.frame_template import FrameTemplate
from logherd.wire.headers import encode_header

__all__ = [
    "PARKED", "Answer", "Handler", "Reply", "ReplyAfter", "Request", "Run", "RunHandler", "Session", "SharedReply",
]  # fmt: skip


class Session(Protocol):
    """One client connection, as services see it. All calls return at once and never raise for a dead peer."""

    id: int
    remote_ip: str
    remote_port: int
    remote_host: bytes
    """The peer in record form: 8 bytes for IPv4, 20 for IPv6."""

    @property
    def closed(self) -> bool: ...

    def has_room(self, size: int) -> bool:
        """Whether an answer of `size` bytes may be added to what the client has not read yet. Too much of that ends the
        connection."""

    def notify(self, code: int, header: msgspec.Struct | None, body: bytes = b"") -> None:
        """Send a oneway request to the client."""

    def call(
        self, code: int, header: msgspec.Struct | None, body: bytes, *, timeout_ms: int,
        on_answer: Callable[[Frame | None], None],
    ) -> None:  # fmt: skip
        """Send a request to the client; `on_answer` runs once, with None after the timeout or when the client left."""

    def reply(self, request: "Request", reply: "Reply") -> None:
        """Answer a request that its handler parked; does nothing for a oneway request."""


class Reply:
    """One answer. A body may be several buffers (slices of the log), which are sent without being joined."""

    __slots__ = ("body", "code", "header", "remark")

    def __init__(
        self, code: int = 0, header: msgspec.Struct | dict[str, str] | None = None,
        body: bytes | list[memoryview] = b"", remark: str | None = None,
    ) -> None:  # fmt: skip
        self.code = code
        self.header = header
        self.body = body
        self.remark = remark


class SharedReply(Reply):
    """An answer that is given to many requests, so that it is encoded once; its parts must not be changed."""

    __slots__ = ("_template",)

    def __init__(self, code: int, header: msgspec.Struct, body: bytes) -> None:
        super().__init__(code, header, body)
        self._template = FrameTemplate(Frame(code, 0, flag=Flag.RESPONSE, ext=encode_header(header), body=body))

    def encoded(self, opaque: int) -> bytes:
        """The whole response frame, in its JSON form."""
        return self._template.encode(opaque)


class ReplyAfter(msgspec.Struct, gc=False):
    """An answer that may leave only when the log is committed up to `position` (exclusive end, bytes).

    The answer is a Reply, or on the hot path the bytes of a whole response frame.
    """

    position: int
    reply: Reply | bytes


class _Parked(Enum):
    PARKED = 0


PARKED: Final = _Parked.PARKED
"""The handler keeps the request and answers later through `Session.reply`."""

Answer = Reply | ReplyAfter | _Parked


class Request:
    """A decoded request: the frame, its typed header, and when it arrived on the monotonic clock (ms)."""

    __slots__ = ("body", "code", "frame", "header", "received_ms")

    def __init__(self, frame: Frame, header: msgspec.Struct | None, received_ms: int) -> None:
        self.frame = frame
        self.code = frame.code
        self.header = header
        self.body = frame.body
        self.received_ms = received_ms


Handler = Callable[[Request, Session], Answer]


class Run(msgspec.Struct, gc=False):
    """Requests that were carried out together: the encoded answers of all of them, which may leave when the log is
    committed up to `position` (exclusive end, bytes)."""

    position: int
    answers: list[bytes]


RunHandler = Callable[[Sequence[Frame], int, Session], Run | None]
"""Carries out frames from a place in the sequence on, as many as are alike; there is one answer for each of them.

None if already the first is not of the kind, or something stands against it: then it is for the ordinary handler."""
