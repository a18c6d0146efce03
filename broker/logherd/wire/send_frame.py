"""The frame of an ordinary send, decoded in one step.

Sends are most of what arrives, and taking their fields out as texts first costs as much as everything else about the
frame. So a header that starts like one of code 310 is decoded straight into typed fields. What is not exactly the
ordinary form (a field that the header does not know, a large header, a value of another JSON type) is left to the
general decoder, which alone says what is wrong with a frame.
"""

import msgspec
from msgspec import field

from logherd.wire.codes import RequestCode
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers.send import SendMessageHeaderV2
from logherd.wire.language import UNKNOWN_LANGUAGE
from logherd.wire.limits import WireLimits

__all__ = ["SendFrame", "decode_typed_send", "typed_header_max"]

_HEADER_BYTES_MAX = 2048
"""An ordinary header; net counts each request with at least half of this."""


class _Fields(SendMessageHeaderV2, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """Known names only: so neither the number of fields nor the length of a name has to be looked at."""


class SendFrame(Frame, kw_only=True, gc=False):
    """A request 310 with its header decoded. `ext` is empty, `language` and `version` were not read."""

    header: _Fields = field(name="extFields")
    ext: dict[str, str] = field(name=" ext", default_factory=dict)
    remark: None = None
    language: str = field(name=" language", default=UNKNOWN_LANGUAGE)
    version: int = field(name=" version", default=0)


_CODE = int(RequestCode.SEND_MESSAGE_V2)
_START = b'{"code":%d,' % _CODE
_decode = msgspec.json.Decoder(SendFrame, strict=False).decode
_RESPONSE = Flag.RESPONSE
# RecursionError and UnicodeDecodeError (a ValueError) escape from msgspec's decoder.
_DECODE_ERRORS = (msgspec.DecodeError, RecursionError, ValueError)


def typed_header_max(limits: WireLimits) -> int:
    """The longest header (bytes) for which `decode_typed_send` keeps these limits without looking; 0 if none does."""
    if limits.fields_max < len(_Fields.__struct_fields__) or limits.key_bytes_max < len(_Fields.__struct_fields__):
        return 0
    return min(_HEADER_BYTES_MAX, limits.value_bytes_max, limits.remark_bytes_max)


def decode_typed_send(header: bytes, body: bytes) -> SendFrame | None:
    """The frame, or None if this is no ordinary send: the general decoder looks at it then."""
    if not header.startswith(_START):
        return None
    try:
        frame = _decode(header)
    except _DECODE_ERRORS:
        return None
    if frame.flag & _RESPONSE or frame.code != _CODE:
        return None
    frame.body = body
    return frame
