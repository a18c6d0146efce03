"""Frames from bytes at any cut of the input, and bytes from frames.

    0 length u32: bytes after this field | 4 type u8 | 5 header length u24 | 8 header | body

A `FrameReader` never allocates for what a peer only announces: it keeps the bytes that really arrived, and every length
is compared with its limit as soon as its own bytes are there.

Source: apache/rocketmq: remoting/src/main/java/org/apache/rocketmq/remoting/netty/NettyDecoder.java
"""

from struct import Struct
from typing import NoReturn

from logherd.wire.binary_header import decode_binary_header, encode_binary_header
from logherd.wire.errors import FrameError, LimitError, shorten
from logherd.wire.frame import Frame, Serialize
from logherd.wire.json_header import decode_json_header, encode_json_header
from logherd.wire.limits import DEFAULT_LIMITS, FRAME_OVERHEAD, WireLimits
from logherd.wire.send_frame import decode_typed_send, typed_header_max

__all__ = ["FrameReader", "encode_frame", "encode_head"]

_U32X2 = Struct(">II")
_unpack_start = _U32X2.unpack_from
_U32 = Struct(">I")
_HEADER_LENGTH_MASK = 0xFFFFFF
_TYPE_SHIFT = 24
_JSON = int(Serialize.JSON)
_BINARY = int(Serialize.BINARY)
_TYPES_END = (_BINARY + 1) << _TYPE_SHIFT


def encode_head(frame: Frame, body_length: int) -> bytes:
    """Everything of a frame that comes before its body, for a body of `body_length` bytes that is sent separately.

    `frame.body` is not looked at. Raises: FrameError for a frame that no peer would accept.
    """
    header = encode_json_header(frame) if frame.serialize == _JSON else encode_binary_header(frame)
    header_length = len(header)
    length = 4 + header_length + body_length
    if header_length > _HEADER_LENGTH_MASK or length + 4 > DEFAULT_LIMITS.frame_bytes_max:
        raise LimitError("the frame to send in bytes", length + 4, DEFAULT_LIMITS.frame_bytes_max)
    return _U32X2.pack(length, frame.serialize << _TYPE_SHIFT | header_length) + header


def encode_frame(frame: Frame) -> bytes:
    """A whole frame in one piece. Raises: FrameError for a frame that no peer would accept."""
    body = frame.body
    head = encode_head(frame, len(body))
    return head + body if body else head


class FrameReader:
    """The input side of one connection: feed bytes, take frames.

    1. Frames come out in the order of the bytes, each exactly once, however the bytes are cut.
    2. Never more than one frame's bytes are kept, and only bytes that arrived.
    3. After an error nothing is read any more: each later call raises the same error, without frames.

    With `typed_sends` ordinary sends come out as SendFrame, which has their fields decoded.
    """

    __slots__ = ("_buffer", "_error", "_limits", "_needed", "_typed_max")

    def __init__(self, limits: WireLimits = DEFAULT_LIMITS, *, typed_sends: bool = False) -> None:
        self._limits = limits
        self._buffer = bytearray()
        self._needed = FRAME_OVERHEAD
        self._error: str | None = None
        self._typed_max = typed_header_max(limits) if typed_sends else 0

    @property
    def mid_frame(self) -> bool:
        """Whether a frame has begun and is not complete: the time in which the rest must come is running."""
        return bool(self._buffer)

    @property
    def buffered(self) -> int:
        """Bytes kept of a frame that is not complete."""
        return len(self._buffer)

    @property
    def needed(self) -> int:
        """Bytes that must at least arrive before the next call can return a frame or learn a frame's length."""
        return self._needed - len(self._buffer)

    def read_plainly(self, limits: WireLimits | None = None) -> None:
        """From now on sends come out as any other frame: for a peer whose sends carry more than the ordinary fields.
        With `limits` these hold from the next frame on."""
        self._typed_max = 0
        self._limits = limits or self._limits

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """All frames that these bytes complete. `data` is not kept; bodies are copies.

        Raises: FrameError (or LimitError) when the bytes are no frame; its `frames` were whole and came before.
        """
        if self._error is not None:
            raise FrameError(self._error)
        source = data if type(data) is bytes else bytes(data)
        frames: list[Frame] = []
        try:
            at = self._complete(source, frames) if self._buffer else 0
            if at < len(source):
                at = self._take(source, at, frames)
                if at < len(source):
                    self._buffer += source[at:]
        except FrameError as error:
            self._error = str(error)
            self._buffer = bytearray()
            error.frames = tuple(frames)
            raise
        return frames

    def _complete(self, data: bytes, frames: list[Frame]) -> int:
        """Finish the frame that has begun, which may take all of `data`; the number of bytes used for it.

        Only this frame passes through the buffer: what follows it is taken from `data` without being copied first.
        """
        buffer, at = self._buffer, 0
        while buffer and at < len(data):
            piece = data[at : at + self._needed - len(buffer)]
            buffer += piece
            at += len(piece)
            # The first length is checked with four bytes, because fewer than eight may be all that ever comes.
            if len(buffer) >= self._needed or self._needed == FRAME_OVERHEAD:
                used = self._take(bytes(buffer), 0, frames)
                del buffer[:used]
        return at

    def _take(self, data: bytes, at: int, frames: list[Frame]) -> int:
        """Append the whole frames from `at` on, set `_needed` for the rest, return where that begins."""
        limits, typed_max = self._limits, self._typed_max
        # The limit counts the length field, the length does not.
        frame_max, header_max = limits.frame_bytes_max - 3, limits.header_bytes_max
        end = len(data)
        while end - at >= FRAME_OVERHEAD:
            length, marker = _unpack_start(data, at)
            header_length = marker & _HEADER_LENGTH_MASK
            if length >= frame_max or header_length > header_max or header_length + 4 > length or marker >= _TYPES_END:
                self._refuse(length, marker, data[at : at + FRAME_OVERHEAD])
            stop = at + 4 + length
            if stop > end:
                self._needed = 4 + length
                return at
            body_start = at + FRAME_OVERHEAD + header_length
            body = data[body_start:stop]
            header = data[at + FRAME_OVERHEAD : body_start]
            if marker == header_length:
                frame = decode_typed_send(header, body) if header_length <= typed_max else None
                frames.append(decode_json_header(header, body, limits) if frame is None else frame)
            else:
                frames.append(decode_binary_header(header, body, limits))
            at = stop
        if end - at >= 4 and _U32.unpack_from(data, at)[0] >= frame_max:
            self._refuse(_U32.unpack_from(data, at)[0], 0, data[at : at + 4])
        self._needed = FRAME_OVERHEAD
        return at

    def _refuse(self, length: int, marker: int, start: bytes) -> NoReturn:
        limits = self._limits
        header_length, header_type = marker & _HEADER_LENGTH_MASK, marker >> _TYPE_SHIFT
        if length + 4 > limits.frame_bytes_max:
            raise LimitError(f"the size of a frame that starts {shorten(start)}", length + 4, limits.frame_bytes_max)
        if header_type > _BINARY:
            raise FrameError(f"header type is {header_type}, known are 0 (JSON) and 1 (binary)")
        if header_length > limits.header_bytes_max:
            raise LimitError("the header in bytes", header_length, limits.header_bytes_max)
        raise FrameError(f"header length is {header_length}, frame length {length}: the header ends after the frame")
