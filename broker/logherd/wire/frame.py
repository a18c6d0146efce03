"""One frame, decoded: what every other room passes around."""

from enum import IntEnum

__all__ = ["VERSION", "Flag", "Frame", "Serialize"]

VERSION = 479
"""The version ordinal that we report: RocketMQ V5_3_3."""


class Serialize(IntEnum):
    """The header encoding of a frame."""

    JSON = 0
    BINARY = 1


class Flag:
    """Bits of `Frame.flag`."""

    RESPONSE = 1
    ONEWAY = 2


class Frame:
    """A request or a response.

    `ext` is never None; `body` is b"" when absent. The code is the full code also where the binary header cut it to
    16 bits (POP family).
    """

    __slots__ = ("body", "code", "ext", "flag", "language", "opaque", "remark", "serialize", "version")

    def __init__(
        self, code: int, opaque: int, *, flag: int = 0, ext: dict[str, str] | None = None, body: bytes = b"",
        remark: str | None = None, language: str = "PYTHON", version: int = VERSION,
        serialize: Serialize = Serialize.JSON,
    ) -> None:  # fmt: skip
        self.code = code
        self.opaque = opaque
        self.flag = flag
        self.ext = {} if ext is None else ext
        self.body = body
        self.remark = remark
        self.language = language
        self.version = version
        self.serialize = serialize

    @property
    def is_response(self) -> bool:
        return bool(self.flag & Flag.RESPONSE)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & Flag.ONEWAY)
