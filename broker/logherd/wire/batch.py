"""The body of request 320: messages back to back, without separators.

    0 total u32 | 4 magic u32 (0) | 8 body crc u32 (0) | 12 flag i32 | 16 body length i32 | 20 body
    then properties length i16 | properties

Source: apache/rocketmq: common/src/main/java/org/apache/rocketmq/common/message/MessageDecoder.java
"""

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from logherd.wire.errors import BodyError

__all__ = ["BATCH_MESSAGES_MAX", "BatchMessage", "decode_batch", "encode_batch"]

BATCH_MESSAGES_MAX = 32768
_HEAD = Struct(">IIIii")
_I16 = Struct(">h")
_OVERHEAD = _HEAD.size + _I16.size
_PROPERTIES_MAX = 0x7FFF
_unpack_head = _HEAD.unpack_from


class BatchMessage(NamedTuple):
    """One message of a batch. Properties are in the encoding of model.properties and belong to this message alone."""

    flag: int
    body: bytes | memoryview
    properties: bytes


def decode_batch(body: bytes | memoryview, *, count_max: int = BATCH_MESSAGES_MAX) -> list[tuple[int, bytes, bytes]]:
    """The messages of a batch, in order, each (flag, body, properties): plain tuples, since there are thousands.

    Raises: BodyError for lengths that disagree, an empty batch, or more than `count_max` messages.
    """
    data = bytes(body)
    end, at = len(data), 0
    messages = list[tuple[int, bytes, bytes]]()
    while end - at >= _OVERHEAD and len(messages) < count_max:
        total, _, _, flag, body_length = _unpack_head(data, at)
        properties_at = at + _OVERHEAD + body_length
        if body_length < 0 or properties_at > end or not _OVERHEAD <= total <= end - at:
            break
        length = data[properties_at - 2] << 8 | data[properties_at - 1]
        if length > _PROPERTIES_MAX or properties_at + length != at + total:
            break
        messages.append((flag, data[at + _HEAD.size : properties_at - 2], data[properties_at : at + total]))
        at += total
    if at < end:
        few = len(messages) < count_max
        raise BodyError(
            _what_is_wrong(data, at, len(messages)) if few else f"the batch has more than {count_max} messages"
        )
    if not messages:
        raise BodyError("the batch has no message")
    return messages


def _what_is_wrong(data: bytes, at: int, number: int) -> str:
    """Of the message that begins at `at`, and is none."""
    left = len(data) - at
    if left < _OVERHEAD:
        return f"message {number} of the batch has {left} bytes, the least is {_OVERHEAD}"
    total, _, _, _, body_length = _unpack_head(data, at)
    if not _OVERHEAD <= total <= left:
        return f"message {number} of the batch says {total} bytes, {left} are left"
    if not 0 <= body_length <= total - _OVERHEAD:
        return f"message {number} of the batch has body length {body_length} in {total} bytes"
    properties_at = at + _OVERHEAD + body_length
    (length,) = _I16.unpack_from(data, properties_at - _I16.size)
    return f"message {number} of the batch has properties length {length}, {at + total - properties_at} bytes are there"


def encode_batch(messages: Iterable[BatchMessage]) -> bytes:
    """The inverse of `decode_batch`. Raises: BodyError for properties over 32767 bytes, which do not fit."""
    parts: list[bytes | memoryview] = []
    for flag, body, properties in messages:
        if len(properties) > _PROPERTIES_MAX:
            raise BodyError(f"the properties of a message take {len(properties)} bytes, at most 32767 fit")
        total = _OVERHEAD + len(body) + len(properties)
        parts += (_HEAD.pack(total, 0, 0, flag, len(body)), body, _I16.pack(len(properties)), properties)
    return b"".join(parts)
