"""How bodies are read and written, and the message queue that many of them use as a key.

Java maps whose keys are message queues travel as JSON objects whose keys are the JSON text of a queue: build them with
`queue_key` and read them with `parse_queue_key`.
"""

from functools import lru_cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from logherd.wire.bodies.fastjson import TOKENS_MAX, normalise
from logherd.wire.errors import BodyError, shorten
from logherd.wire.frame import Int32
from logherd.wire.headers.base import Int64

__all__ = [
    "BODY_BYTES_MAX",
    "COUNT_MAX",
    "Body",
    "Int32",
    "Int64",
    "Many",
    "MessageQueue",
    "QueueCount",
    "decode_body",
    "encode_body",
    "parse_queue_key",
    "queue_key",
]

BODY_BYTES_MAX = 4 * 1024 * 1024
COUNT_MAX = 10_000
Many = Meta(max_length=COUNT_MAX)
"""Bounds the lists that ordinary clients send."""
QueueCount = Annotated[int, Meta(ge=-(1 << 31), le=1 << 16)]
"""How many queues a topic has on a broker. Clients make a list of as many from each route, and a name service tells
what whoever registered there has said."""

_BodyType = TypeVar("_BodyType")
_Name = Annotated[str, Meta(max_length=255)]
# RecursionError and UnicodeDecodeError (a ValueError) escape from msgspec's decoder.
_DECODE_ERRORS = (msgspec.DecodeError, RecursionError, ValueError)
_encoder = msgspec.json.Encoder()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


class Body(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Base of all bodies."""


class MessageQueue(Body, frozen=True, kw_only=True, gc=False):
    """One queue of a topic on a broker group; hashable. The fields stand in the order in which Java writes them."""

    broker_name: _Name
    queue_id: Int32
    topic: _Name


def decode_body(
    cls: type[_BodyType], data: bytes | memoryview, *, bytes_max: int = BODY_BYTES_MAX, tokens_max: int = TOKENS_MAX
) -> _BodyType:
    """A typed body from JSON, strict or as fastjson writes it.

    `bytes_max` bounds what a peer may make us build; raise it for peers of one's own group only. `tokens_max` bounds
    the work for what is not strict, microseconds each; raise it only where nobody else waits.

    Raises: BodyError if it is too large, no JSON, or not of this shape.
    """
    if len(data) > bytes_max:
        raise BodyError(f"the body has {len(data)} bytes, at most {bytes_max} are read as JSON")
    decoder = _decoders.get(cls)
    if decoder is None:
        decoder = _decoders[cls] = msgspec.json.Decoder(cls)
    try:
        decoded: _BodyType = decoder.decode(data)
    except _DECODE_ERRORS as error:
        decoded = _decode_fastjson(cls, data, tokens_max, error)
    return decoded


def _decode_fastjson(cls: type[Any], data: bytes | memoryview, tokens_max: int, first: Exception) -> Any:
    # fastjson also takes a number in quotes: the Go client sends `"codeSet":["-123"]`.
    try:
        return msgspec.json.decode(normalise(data, tokens_max), type=cls, strict=False)
    except (*_DECODE_ERRORS, BodyError) as error:
        start = shorten(bytes(data[:65]))
        raise BodyError(f"the body has not the shape that was expected: {first}; it starts {start}") from error


def encode_body(body: Any) -> bytes:
    """Compact strict JSON. Raises: BodyError if a text in it cannot be written as UTF-8."""
    try:
        return _encoder.encode(body)
    except UnicodeEncodeError as error:
        raise BodyError(f"a text of the body is not UTF-8: {error.reason}") from error


@lru_cache(maxsize=4096)
def queue_key(topic: str, broker_name: str, queue_id: int) -> str:
    """The JSON text of a queue, as key of a map."""
    return encode_body(MessageQueue(topic=topic, broker_name=broker_name, queue_id=queue_id)).decode()


def parse_queue_key(key: str) -> MessageQueue:
    """The queue that a key names. Raises: BodyError if it names none."""
    try:
        return decode_body(MessageQueue, key.encode())
    except UnicodeEncodeError as error:
        raise BodyError(f"a queue key is not UTF-8: {error.reason}") from error
