"""One frame, decoded: what every other room passes around."""

from enum import IntEnum
from typing import Annotated

from msgspec import Meta, Struct, field

__all__ = ["VERSION", "Flag", "Frame", "Int32", "Serialize"]

VERSION = 479
"""The version ordinal that we report: RocketMQ V5_3_3."""

Int32 = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]


class Serialize(IntEnum):
    """The header encoding of a frame."""

    JSON = 0
    BINARY = 1


class Flag:
    """Bits of `Frame.flag`."""

    RESPONSE = 1
    ONEWAY = 2


class _Identity(Struct, gc=False):
    """The two fields that a frame is made with by position."""

    code: Int32
    opaque: Int32


class Frame(_Identity, kw_only=True, gc=False):
    """A request or a response.

    `ext` is never None; `body` is b"" when absent. The code is the full code also where the binary header cut it to
    16 bits (POP family). `language` is one of LANGUAGES, OTHER where the peer named none of them.

    A JSON header is decoded straight into this class, which saves a fifth of the time that a frame takes; the names
    with a blank are those that no header may set.
    """

    flag: Int32 = 0
    ext: dict[str, str] = field(name="extFields", default_factory=dict)
    body: bytes = field(name=" body", default=b"")
    remark: str | None = None
    language: str = "PYTHON"
    version: Int32 = VERSION
    serialize: Serialize = field(name=" serialize", default=Serialize.JSON)

    @property
    def is_response(self) -> bool:
        return bool(self.flag & Flag.RESPONSE)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & Flag.ONEWAY)
