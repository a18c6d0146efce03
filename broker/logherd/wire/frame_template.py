"""An answer that goes to many requests: encoded once, but for the opaque."""

from struct import Struct

from logherd.wire.codec import encode_frame
from logherd.wire.frame import Frame

__all__ = ["FrameTemplate"]

_LENGTHS = Struct(">II")
_MARK = -2_000_000_000
"""An opaque to be found again."""


class FrameTemplate:
    """The JSON form of one frame, whose opaque is filled in for each request that it answers."""

    __slots__ = ("_after", "_before", "_body", "_size")

    def __init__(self, frame: Frame) -> None:
        """Encode everything of `frame` but its opaque. Raises: FrameError for a frame that no peer would accept."""
        data = encode_frame(Frame(
            frame.code, _MARK, flag=frame.flag, ext=frame.ext, remark=frame.remark, body=frame.body,
        ))  # fmt: skip
        header_end = 8 + (_LENGTHS.unpack_from(data)[1] & 0xFFFFFF)
        # Within a text the quote before the name would be escaped, so the last one of this form is the key.
        before, name, self._after = data[8:header_end].rpartition(b'"opaque":%d' % _MARK)
        self._before = before + name[: len(b'"opaque":')]
        self._body = data[header_end:]
        self._size = len(self._before) + len(self._after)

    def encode(self, opaque: int) -> bytes:
        """The whole frame."""
        text = b"%d" % opaque
        header_size = self._size + len(text)
        lengths = _LENGTHS.pack(4 + header_size + len(self._body), header_size)
        return b"".join((lengths, self._before, text, self._after, self._body))
