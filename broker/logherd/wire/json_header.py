"""The JSON form of a frame's header.

One object: code, extFields, flag, language, opaque, remark, serializeTypeCurrentRPC, version. Every value of extFields
is a string. A peer that sends a number or a boolean there gets it read as text and a null as absent, as Java does; an
array or an object is refused. Of a key that repeats the last value counts; it is decoded once, for everybody. Half a
UTF-16 pair, which JavaScript escapes like a whole one, is no character: U+FFFD takes its place.

Source: apache/rocketmq: remoting/src/main/java/org/apache/rocketmq/remoting/protocol/RemotingCommand.java
"""

import re

import msgspec
from msgspec import Struct, field

from logherd.wire.errors import FrameError, LimitError, shorten
from logherd.wire.frame import Frame, Int32, Serialize
from logherd.wire.language import LANGUAGES, UNKNOWN_LANGUAGE, language_name
from logherd.wire.limits import WireLimits

__all__ = ["check_ext", "decode_json_header", "encode_json_header"]

_KNOWN_LANGUAGES = frozenset(LANGUAGES)
_TEXT_START = ord('"')
_NESTED_START = b"[{"
_ESCAPE = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\[^u])|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
"""Whole pairs and the other escapes, among them an escaped backslash, as group 1; and what is only half a pair."""


class _OutgoingHeader(Struct, gc=False, omit_defaults=True):
    """What we send: RocketMQ's keys in the order in which Java writes them."""

    code: int
    ext: dict[str, str] | None = field(name="extFields", default=None)
    flag: int | None = None
    language: str | None = None
    opaque: int | None = None
    remark: str | None = None
    serialize: str | None = field(name="serializeTypeCurrentRPC", default=None)
    version: int | None = None


class _LooseHeader(Struct, gc=False):
    """What Java's parser would take."""

    code: Int32
    ext: dict[str, msgspec.Raw] | None = field(name="extFields", default=None)
    flag: Int32 | None = None
    language: str | int | None = None
    opaque: Int32 | None = None
    remark: str | None = None
    version: Int32 | None = None


_decode = msgspec.json.Decoder(Frame).decode
_decode_loose = msgspec.json.Decoder(_LooseHeader).decode
_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode
# RecursionError and UnicodeDecodeError (a ValueError) escape from msgspec's decoder.
_DECODE_ERRORS = (msgspec.DecodeError, RecursionError, ValueError)


def decode_json_header(header: bytes | memoryview, body: bytes, limits: WireLimits) -> Frame:
    """A frame from its header's bytes and its body.

    Raises: FrameError if it is no such object; LimitError if a part of it is too large.
    """
    try:
        frame = _decode(header)
    except msgspec.ValidationError:
        frame = _decode_tolerantly(header)
    except _DECODE_ERRORS as error:
        frame = _decode_tolerantly(_without_halves(header, "is not JSON", error))
    # Whatever the header said about these two.
    frame.body = body
    frame.serialize = Serialize.JSON
    if frame.language not in _KNOWN_LANGUAGES:
        frame.language = UNKNOWN_LANGUAGE
    ext = frame.ext
    keys = "".join(ext)
    size = len(header)
    # A text in UTF-8 is never longer than its JSON form, so that a short header needs no look at each value.
    if len(keys) > limits.key_bytes_max or size > limits.value_bytes_max or not keys.isascii():
        check_ext(ext, limits)
    elif len(ext) > limits.fields_max:
        raise LimitError("the number of header fields", len(ext), limits.fields_max)
    if size > limits.remark_bytes_max and frame.remark is not None:
        remark_size = len(frame.remark.encode())
        if remark_size > limits.remark_bytes_max:
            raise LimitError("the remark in bytes", remark_size, limits.remark_bytes_max)
    return frame


def check_ext(ext: dict[str, str], limits: WireLimits) -> None:
    """Compare the number of fields and the size of each. Raises LimitError."""
    if len(ext) > limits.fields_max:
        raise LimitError("the number of header fields", len(ext), limits.fields_max)
    for number, (key, value) in enumerate(ext.items()):
        key_size = len(key) if key.isascii() else len(key.encode())
        if key_size > limits.key_bytes_max:
            raise LimitError(f"the key of header field {number} in bytes", key_size, limits.key_bytes_max)
        value_size = len(value) if value.isascii() else len(value.encode())
        if value_size > limits.value_bytes_max:
            raise LimitError(f"header field {shorten(key)} in bytes", value_size, limits.value_bytes_max)


def _decode_tolerantly(header: bytes | memoryview) -> Frame:
    try:
        loose = _decode_loose(header)
        ext = {key: text for key, raw in (loose.ext or {}).items() if (text := _as_text(key, raw)) is not None}
    except _DECODE_ERRORS as error:
        return _decode_tolerantly(_without_halves(header, "is wrong", error))
    language = loose.language
    return Frame(
        loose.code, loose.opaque or 0, flag=loose.flag or 0, ext=ext, remark=loose.remark, version=loose.version or 0,
        language=language_name(language) if isinstance(language, int) else language or UNKNOWN_LANGUAGE,
    )  # fmt: skip


def _without_halves(header: bytes | memoryview, what: str, error: Exception) -> bytes:
    """Raises: FrameError if there are none, so that they are not what is wrong."""
    whole = _ESCAPE.sub(lambda escape: escape[1] or b"\\ufffd", header)
    if whole == header:
        raise FrameError(f"the header {what}: {error}; it starts {shorten(bytes(header[:65]))}") from error
    return whole


def _as_text(key: str, raw: msgspec.Raw) -> str | None:
    value = bytes(raw)
    if value[0] == _TEXT_START:
        return _decode_text(value)
    if value[0] in _NESTED_START:
        raise FrameError(f"header field {shorten(key)} is not a scalar: {shorten(value)}")
    return None if value == b"null" else value.decode("ascii")


def encode_json_header(frame: Frame) -> bytes:
    """The header of a frame; extFields and remark are left out when empty.

    Raises: FrameError if a text in it cannot be written as UTF-8.
    """
    outgoing = _OutgoingHeader(
        frame.code, frame.ext or None, frame.flag, frame.language, frame.opaque, frame.remark, "JSON", frame.version
    )
    try:
        return _encode(outgoing)
    except UnicodeEncodeError as error:
        raise FrameError(f"a header text is not UTF-8: {error.reason}") from error
