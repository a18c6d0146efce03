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


class BatchMessage(NamedTuple):
    """One message of a batch. Properties are in the encoding of model.properties and belong to this message alone."""

    flag: int
    body: bytes | memoryview
    properties: bytes


def decode_batch(body: bytes | memoryview, *, count_max: int = BATCH_MESSAGES_MAX) -> list[BatchMessage]:
    """The messages of a batch, in order. Bodies are views into `body`.

    Raises: BodyError for lengths that disagree, an empty batch, or more than `count_max` messages.
    """
    view = memoryview(body)
    end = len(view)
    at = 0
    messages: list[BatchMessage] = []
    while at < end:
        left = end - at
        if left < _OVERHEAD:
            raise BodyError(f"message {len(messages)} of the batch has {left} bytes, the least is {_OVERHEAD}")
        total, _, _, flag, body_length = _HEAD.unpack_from(view, at)
        if not _OVERHEAD <= total <= left:
            raise BodyError(f"message {len(messages)} of the batch says {total} bytes, {left} are left")
        if not 0 <= body_length <= total - _OVERHEAD:
            raise BodyError(f"message {len(messages)} of the batch has body length {body_length} in {total} bytes")
        properties_at = at + _HEAD.size + body_length + _I16.size
        (properties_length,) = _I16.unpack_from(view, properties_at - _I16.size)
        if properties_at + properties_length != at + total:
            raise BodyError(
                f"message {len(messages)} of the batch has properties length {properties_length},"
                f" {at + total - properties_at} bytes are there"
            )
        if len(messages) == count_max:
            raise BodyError(f"the batch has more than {count_max} messages")
        messages.append(
            BatchMessage(
                flag, view[at + _HEAD.size : properties_at - _I16.size], bytes(view[properties_at : at + total])
            )
        )
        at += total
    if not messages:
        raise BodyError("the batch has no message")
    return messages


def encode_batch(messages: Iterable[BatchMessage]) -> bytes:
    """The inverse of `decode_batch`. Raises: BodyError for properties over 32767 bytes, which do not fit."""
    parts: list[bytes | memoryview] = []
    for flag, body, properties in messages:
        if len(properties) > 0x7FFF:
            raise BodyError(f"the properties of a message take {len(properties)} bytes, at most 32767 fit")
        total = _OVERHEAD + len(body) + len(properties)
        parts += (_HEAD.pack(total, 0, 0, flag, len(body)), body, _I16.pack(len(properties)), properties)
    return b"".join(parts)
