"""Frames on the stream between replicas:

    length u32 | crc32 u32 | payload            big-endian; `length` counts the payload and is at least 1

The checksum covers the payload. TCP's own misses about one damaged packet in 65,000, and a record that fails its
checksum in the log stops the process: here it only costs the connection. The payload's first byte says what it is.
"""

from enum import IntEnum
from struct import Struct

from logherd.kit.checksum import crc32
from logherd.peers.errors import FrameError

__all__ = ["FRAME_HEAD_SIZE", "FrameReader", "Kind", "make_frame"]

_HEAD = Struct(">II")
FRAME_HEAD_SIZE = _HEAD.size


class Kind(IntEnum):
    """The first byte of a payload. Those of hello and refusal stay the same in all versions."""

    HELLO = 1
    REFUSAL = 2
    PING = 3
    PONG = 4
    ENVELOPE = 5
    PIECE_ASK = 6
    PIECE = 7


def make_frame(head: bytes, data: bytes | memoryview = b"") -> bytes:
    """A frame whose payload is head + data, in one piece and with one copy of the data."""
    if len(data) == 0:
        return _HEAD.pack(len(head), crc32(head)) + head
    return b"".join((_HEAD.pack(len(head) + len(data), crc32(data, crc32(head))), head, data))


class FrameReader:
    """Cuts a stream into payloads, at any cut of the input.

    Invariant: at most one frame of `payload_bytes_max` and one read are kept, and nothing is allocated on the word of a
    length. After a FrameError the stream is lost.
    """

    __slots__ = ("_needed", "_partial", "payload_bytes_max")

    def __init__(self, payload_bytes_max: int) -> None:
        self.payload_bytes_max = payload_bytes_max
        self._partial = bytearray()
        self._needed = FRAME_HEAD_SIZE

    @property
    def buffered(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return len(self._partial)

    def feed(self, data: bytes) -> list[memoryview]:
        """The payloads that are whole now; views of `data` where they lie within it. Raises: FrameError."""
        source: bytes | bytearray = data
        if self._partial:
            self._partial += data
            if len(self._partial) < self._needed:
                return []
            source, self._partial = self._partial, bytearray()
        view, size, at = memoryview(source), len(source), 0
        frames: list[memoryview] = []
        self._needed = FRAME_HEAD_SIZE
        while size - at >= FRAME_HEAD_SIZE:
            length, checksum = _HEAD.unpack_from(view, at)
            if not 0 < length <= self.payload_bytes_max:
                raise FrameError(f"a frame of {length} bytes, 1 to {self.payload_bytes_max} are taken", frames)
            end = at + FRAME_HEAD_SIZE + length
            if end > size:
                self._needed = end - at
                break
            payload = view[at + FRAME_HEAD_SIZE : end]
            if crc32(payload) != checksum:
                raise FrameError(f"a frame of {length} bytes fails its checksum", frames)
            frames.append(payload)
            at = end
        if at < size:
            self._partial = bytearray(view[at:])
        return frames
