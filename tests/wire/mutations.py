"""Frames that are almost right: one seed, one endless sequence.

Mutations know where lengths stand and what JSON is made of, because random bytes alone never get past the first length.
"""

import random
from collections.abc import Callable
from pathlib import Path
from struct import pack

from logherd.wire.codec import encode_frame
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Flag, Frame, Serialize
from logherd.wire.table import REQUESTS

__all__ = ["FrameMutator", "corpus"]

_GOLDEN = Path(__file__).parent / "golden"
_EDGES = [0, 1, 2, 3, 4, 7, 8, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 2**24 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1]
_TOKENS = [
    b"null", b"[", b"{", b"}", b"]", b'"', b"\\", b"\\ud800", b"\\u0000", b"NaN", b"1e999", b"-0", b"true", b":", b",",
    b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x00", b"\x01", b"\x02", b'"":""', b"[" * 500, b'{"a":' * 300, b"9" * 400,
    b"99999999999999999999", b"-9223372036854775809", b'"extFields":{}', b'"code":1', b'"flag":"1"', b"{0:1}",
    b"{{}:1}", b'"remark":5', b'"language":9',
]  # fmt: skip


def corpus() -> list[bytes]:
    """Every golden frame, and for every request code one plain frame in each encoding."""
    frames = [path.read_bytes() for path in sorted(_GOLDEN.rglob("*.bin"))]
    for code in RequestCode:
        row = REQUESTS[code]
        for cls, flag in ((row.header, 0), (row.response, Flag.RESPONSE)):
            ext = {} if cls is None else dict.fromkeys(cls.__struct_encode_fields__, "1")
            plain = (Frame(code, 1, flag=flag, ext=ext, body=b"{}", serialize=serialize) for serialize in Serialize)
            frames.extend(map(encode_frame, plain))
    return frames


class FrameMutator:
    """An endless, repeatable sequence of damaged frames."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._corpus = corpus()
        self._mutations: list[Callable[[bytearray], None]] = [
            self._change_bytes, self._change_length, self._change_outer_length, self._cut, self._insert_token,
            self._repeat_slice, self._drop_slice, self._glue, self._change_digits, self._swap_type,
        ]  # fmt: skip

    def next_frame(self) -> bytes:
        """One frame with zero to three mutations, its outer lengths sometimes made right again."""
        draw = self._random
        frame = bytearray(draw.choice(self._corpus))
        for _ in range(draw.randrange(4)):
            draw.choice(self._mutations)(frame)
        if draw.random() < 0.6:
            self._mend(frame)
        return bytes(frame)

    def pieces(self, frame: bytes) -> list[bytes]:
        """The frame whole, in two, or byte by byte."""
        chance = self._random.random()
        if chance < 0.9 or len(frame) < 2:
            return [frame]
        if chance < 0.99:
            at = self._random.randrange(1, len(frame))
            return [frame[:at], frame[at:]]
        return [frame[at : at + 1] for at in range(len(frame))]

    def _mend(self, frame: bytearray) -> None:
        """Let the total length agree, so that the parser looks further in."""
        if len(frame) >= 8:
            frame[0:4] = pack(">I", len(frame) - 4)
            header_length = int.from_bytes(frame[5:8], "big")
            if header_length > len(frame) - 8:
                frame[5:8] = (len(frame) - 8).to_bytes(3, "big")

    def _place(self, frame: bytearray) -> int:
        return self._random.randrange(len(frame)) if frame else 0

    def _change_bytes(self, frame: bytearray) -> None:
        for _ in range(self._random.choice((1, 1, 2, 8))):
            if frame:
                frame[self._place(frame)] = self._random.randrange(256)

    def _change_length(self, frame: bytearray) -> None:
        at = self._random.choice((13, 17, 21, self._place(frame)))
        size = self._random.choice((1, 2, 4))
        value = self._random.choice(_EDGES)
        if self._random.random() < 0.5:
            value = int.from_bytes(frame[at : at + size], "big") + self._random.choice((-1, 1))
        frame[at : at + size] = (value % 256**size).to_bytes(size, "big")

    def _change_outer_length(self, frame: bytearray) -> None:
        value = self._random.choice((*_EDGES, len(frame) - 5, len(frame) - 4, len(frame) - 3, 16 * 1024 * 1024 - 4))
        at = self._random.choice((0, 4))
        frame[at : at + 4] = (value % 2**32).to_bytes(4, "big")

    def _cut(self, frame: bytearray) -> None:
        del frame[self._place(frame) :]

    def _insert_token(self, frame: bytearray) -> None:
        at = self._place(frame)
        frame[at : at + self._random.choice((0, 0, 1, 4))] = self._random.choice(_TOKENS)

    def _repeat_slice(self, frame: bytearray) -> None:
        at = self._place(frame)
        frame[at:at] = frame[at : at + self._random.choice((1, 4, 20, 100))] * self._random.choice((1, 2, 10))
        del frame[20_000:]

    def _drop_slice(self, frame: bytearray) -> None:
        at = self._place(frame)
        del frame[at : at + self._random.choice((1, 2, 4, 20))]

    def _glue(self, frame: bytearray) -> None:
        frame += self._random.choice(self._corpus)
        del frame[20_000:]

    def _change_digits(self, frame: bytearray) -> None:
        digits = [at for at in range(len(frame)) if 48 <= frame[at] <= 57]
        if digits:
            at = self._random.choice(digits)
            frame[at : at + 1] = self._random.choice((b"-", b"", b"9" * 12, b"9" * 30, b"x", b" ", b"1.5", b"1e9"))

    def _swap_type(self, frame: bytearray) -> None:
        if len(frame) > 4:
            frame[4] = self._random.choice((0, 1, 1, 2, 255))
