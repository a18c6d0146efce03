"""The ROCKETMQ binary form of a frame's header, big-endian:

    0 code i16 | 2 language u8 | 3 version i16 | 5 opaque i32 | 9 flag i32 | 13 remark length i32 | remark
    then fields length i32 | fields: key length i16 | key | value length i32 | value ...

A length of zero means absent. The code is cut to 16 bits: the POP family is mapped back, which is safe because no other
request has the remaining number.

Source: apache/rocketmq: remoting/src/main/java/org/apache/rocketmq/remoting/protocol/RocketMQSerializable.java
"""

from struct import Struct

from logherd.wire.codes import SHORT_TO_FULL
from logherd.wire.errors import FrameError, LimitError
from logherd.wire.frame import Flag, Frame, Serialize
from logherd.wire.language import language_name, language_ordinal
from logherd.wire.limits import WireLimits

__all__ = ["decode_binary_header", "encode_binary_header"]

_FIXED = Struct(">hBhiii")
_I32 = Struct(">i")
_I16 = Struct(">h")
_U16 = Struct(">H")
_KEY_BYTES_MAX = 0x7FFF


def decode_binary_header(header: bytes, body: bytes, limits: WireLimits) -> Frame:
    """A frame from its header's bytes and its body.

    Raises: FrameError if lengths disagree or a text is not UTF-8; LimitError if a part is too large.
    """
    size = len(header)
    if size < _FIXED.size + _I32.size:
        raise FrameError(f"the binary header has {size} bytes, the fixed fields take {_FIXED.size + _I32.size}")
    code, language, version, opaque, flag, remark_size = _FIXED.unpack_from(header)
    at = _FIXED.size
    if not 0 <= remark_size <= size - at - _I32.size:
        raise FrameError(f"remark length is {remark_size}, the header has {size - at - _I32.size} bytes for it")
    if remark_size > limits.remark_bytes_max:
        raise LimitError("the remark in bytes", remark_size, limits.remark_bytes_max)
    try:
        remark = header[at : at + remark_size].decode() if remark_size else None
        at += remark_size
        (fields_size,) = _I32.unpack_from(header, at)
        at += _I32.size
        if fields_size != size - at:
            raise FrameError(f"fields length is {fields_size}, the header has {size - at} bytes after it")
        ext = _decode_fields(header, at, limits) if fields_size else {}
    except UnicodeDecodeError as error:
        raise FrameError(f"a text of the binary header is not UTF-8: {error.reason}") from error
    if not flag & Flag.RESPONSE:
        code = SHORT_TO_FULL.get(code, code)
    return Frame(
        code, opaque, flag=flag, ext=ext, body=body, remark=remark, language=language_name(language), version=version,
        serialize=Serialize.BINARY,
    )  # fmt: skip


def _decode_fields(header: bytes, at: int, limits: WireLimits) -> dict[str, str]:
    ext: dict[str, str] = {}
    size = len(header)
    pairs = 0
    while at < size:
        pairs += 1
        if pairs > limits.fields_max:
            raise LimitError("the number of header fields", pairs, limits.fields_max)
        if at + 2 > size:
            raise FrameError(f"{size - at} bytes are left, a key length takes 2")
        (key_size,) = _I16.unpack_from(header, at)
        at += 2
        if not 0 <= key_size <= size - at - 4:
            raise FrameError(f"key length is {key_size}, {size - at - 4} bytes are left for it")
        if key_size > limits.key_bytes_max:
            raise LimitError("a header key in bytes", key_size, limits.key_bytes_max)
        key = header[at : at + key_size].decode()
        at += key_size
        (value_size,) = _I32.unpack_from(header, at)
        at += 4
        if not 0 <= value_size <= size - at:
            raise FrameError(f"value length is {value_size}, {size - at} bytes are left")
        if value_size > limits.value_bytes_max:
            raise LimitError("a header value in bytes", value_size, limits.value_bytes_max)
        if key_size and value_size:
            ext[key] = header[at : at + value_size].decode()
        at += value_size
    return ext


def encode_binary_header(frame: Frame) -> bytes:
    """The header of a frame. Fields with an empty key or value cannot be told from absent ones and are left out.

    Raises: FrameError if a key is longer than its length field holds, or code or version do not fit, or a text is not
    UTF-8.
    """
    code = frame.code
    if not -0x8000 <= code <= 0x7FFF:
        if SHORT_TO_FULL.get(code & 0xFFFF) != code:
            raise FrameError(f"code {code} does not fit into a binary header")
        code &= 0xFFFF
    if not -0x8000 <= frame.version <= 0x7FFF:
        raise FrameError(f"version {frame.version} does not fit into a binary header")
    try:
        remark = (frame.remark or "").encode()
        parts: list[bytes] = []
        for key, value in frame.ext.items():
            if key and value:
                key_bytes, value_bytes = key.encode(), value.encode()
                if len(key_bytes) > _KEY_BYTES_MAX:
                    raise FrameError(f"a header key takes {len(key_bytes)} bytes, at most {_KEY_BYTES_MAX} fit")
                parts += (_U16.pack(len(key_bytes)), key_bytes, _I32.pack(len(value_bytes)), value_bytes)
    except UnicodeEncodeError as error:
        raise FrameError(f"a header text is not UTF-8: {error.reason}") from error
    fields = b"".join(parts)
    fixed = _FIXED.pack(code, language_ordinal(frame.language), frame.version, frame.opaque, frame.flag, len(remark))
    return b"".join((fixed, remark, _I32.pack(len(fields)), fields))
