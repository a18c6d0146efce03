"""What is wrong with bytes or values on the wire. No other error leaves this room.

`FrameError` and its `LimitError` end the connection, because the place where the next frame starts is lost.
`HeaderError` and `BodyError` concern one request, which can be answered with a code.
"""

from typing import TYPE_CHECKING

from logherd.kit.errors import LogHerdError

if TYPE_CHECKING:
    from logherd.wire.frame import Frame

__all__ = ["BodyError", "BodyTooLarge", "FrameError", "HeaderError", "LimitError", "WireError"]

_SHOWN_MAX = 64


class WireError(LogHerdError):
    """The family. The message is safe to log: what the peer sent is shortened and escaped in it."""


class FrameError(WireError):
    """Bytes that are no frame. The connection cannot be read any further.

    `frames` are the whole frames that came before the damage in the same call; they are to be handled first.
    """

    def __init__(self, message: str, frames: "tuple[Frame, ...]" = ()) -> None:
        super().__init__(message)
        self.frames = frames


class LimitError(FrameError):
    """A frame or a part of it is larger than WireLimits allows. Names the part, its size and the limit."""

    def __init__(self, part: str, size: int, limit: int) -> None:
        super().__init__(f"{part} is {size}, the limit is {limit}")
        self.part = part
        self.size = size
        self.limit = limit


class HeaderError(WireError):
    """A header field is missing or has a value that its type does not take."""

    def __init__(self, field: str, value: str | None, expected: str) -> None:
        found = "is missing" if value is None else f"is {shorten(value)}"
        super().__init__(f"field {field} {found}, expected {expected}")
        self.field = field
        self.value = value
        self.expected = expected


class BodyError(WireError):
    """A body that does not have the form of its request. The message says what and where."""


class BodyTooLarge(BodyError):
    """A compressed body that is larger than its reader takes."""


def shorten(value: str | bytes) -> str:
    """What a peer sent, escaped and cut so that it can neither forge nor flood a log."""
    if len(value) <= _SHOWN_MAX:
        return repr(value)
    return f"{value[:_SHOWN_MAX]!r}... ({len(value)} long)"
