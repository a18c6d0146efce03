"""The compressed form of a registration body, which brokers before RocketMQ 5 may send, and which name services of
every release take; ours send it when they have more topics than one frame holds plainly.

One zlib stream, big-endian: data version (length i32, JSON) | number of topics i32, each (length i32, text) | filter
servers (length i32, JSON list) | from version 5.0 on: number of queue mappings i32, each (length i32, JSON). A topic's
text is `name readQueues writeQueues permission filterType attributesJson`, blanks between; the last may be missing.

Source: apache/rocketmq: remoting/src/main/java/org/apache/rocketmq/remoting/protocol/body/RegisterBrokerBody.java
Source: apache/rocketmq: common/src/main/java/org/apache/rocketmq/common/TopicConfig.java
"""

import struct
import zlib
from collections.abc import Collection, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import msgspec

from logherd.kit.errors import LogHerdError
from logherd.model.topic import TopicConfig
from logherd.service.names.routes import TableVersion
from logherd.wire.bodies.base import Int32, QueueCount

__all__ = [
    "BODY_BYTES_MAX", "TOPICS_MAX", "RegistrationBodyError", "check_count", "decode_compressed", "encode_compressed",
    "inflate",
]  # fmt: skip

BODY_BYTES_MAX: Final = 64 << 20
"""Most bytes that a compressed body may grow to: about 300,000 topics."""
TOPICS_MAX: Final = 300_000
"""Of one registration, whatever their names: ten times as many short ones fit a frame, and the loop waits for each."""

_I32 = struct.Struct(">i")
# RecursionError and UnicodeDecodeError (a ValueError) escape from msgspec's decoder.
_DECODE_ERRORS = (msgspec.DecodeError, RecursionError, ValueError)
_NO_MAPPINGS = _I32.pack(0)
_KINDS = (QueueCount, QueueCount, Int32)
_CACHED_LENGTH_MAX = 128
"""Characters. Thousands of topics have the same few numbers, and the loop waits while they are read."""
_LEVEL = 1
"""Names of topics shrink to a seventh and less by it, and the loop waits."""


class RegistrationBodyError(LogHerdError):
    """A registration body that is damaged, too large or not understood; the message says where."""


def check_count(topics: int) -> None:
    """Raises: RegistrationBodyError for more topics than are read."""
    if topics > TOPICS_MAX:
        raise RegistrationBodyError(f"the registration has {topics} topics, at most {TOPICS_MAX} are taken")


class _Version(msgspec.Struct):
    counter: int = 0
    state_version: int = msgspec.field(name="stateVersion", default=0)
    timestamp: int = 0


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        try:
            (value,) = _I32.unpack_from(self._data, self._at)
        except struct.error as error:
            raise RegistrationBodyError(f"registration body ends at byte {self._at}, a number should follow") from error
        self._at += _I32.size
        return int(value)

    def piece(self) -> bytes:
        length = self.number()
        if not 0 <= length <= len(self._data) - self._at:
            raise RegistrationBodyError(
                f"registration body has a piece of {length} bytes at {self._at}, {len(self._data) - self._at} are left"
            )
        piece = self._data[self._at : self._at + length]
        self._at += length
        return piece


def inflate(body: bytes, *, limit: int = BODY_BYTES_MAX) -> bytes:
    """The zlib stream's content. Raises RegistrationBodyError if it is damaged, cut, or grows beyond `limit` bytes."""
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(body, limit)
    except zlib.error as error:
        raise RegistrationBodyError(f"registration body is no zlib stream: {error}") from error
    if not stream.eof:
        more = f"grows beyond {limit} bytes" if stream.unconsumed_tail else "is cut"
        raise RegistrationBodyError(f"compressed registration body {more}")
    return data


def encode_compressed(version: TableVersion, topics: Collection[TopicConfig]) -> bytes:
    """The body of a registration with these topics. Their `system_flag` and `order` have no place in this form."""
    told = _Version(version.counter, version.state_version, version.timestamp)
    parts = [_piece(msgspec.json.encode(told)), _I32.pack(len(topics))]
    for topic in topics:
        attributes = msgspec.json.encode(dict(topic.attributes)).decode() if topic.attributes else "{}"
        text = f"{topic.name} {topic.read_queues} {topic.write_queues} {topic.permission:d} SINGLE_TAG {attributes}"
        parts.append(_piece(text.encode()))
    return zlib.compress(b"".join((*parts, _piece(b"[]"), _NO_MAPPINGS)), _LEVEL)


def _piece(data: bytes) -> bytes:
    return _I32.pack(len(data)) + data


def decode_compressed(body: bytes) -> tuple[TableVersion, dict[str, TopicConfig]]:
    """Data version and topics of a compressed body. Filter servers and queue mappings are not used, and not read.

    Raises: RegistrationBodyError.
    """
    cursor = _Cursor(inflate(body))
    try:
        version = msgspec.json.decode(cursor.piece(), type=_Version)
    except _DECODE_ERRORS as error:
        raise RegistrationBodyError(f"data version of the registration body is not understood: {error}") from error
    topics, count = {}, cursor.number()
    check_count(count)
    for _ in range(count):
        config = _topic(cursor.piece())
        topics[config.name] = config
    return TableVersion(version.counter, version.state_version, version.timestamp), topics


def _topic(piece: bytes) -> TopicConfig:
    try:
        name, _, rest = piece.decode().partition(" ")
        read_queues, write_queues, permission, attributes = (
            _numbers_cached(rest) if len(rest) <= _CACHED_LENGTH_MAX else _numbers(rest)
        )
        return TopicConfig(name, read_queues, write_queues, permission, attributes=attributes)
    except _DECODE_ERRORS as error:
        raise RegistrationBodyError(f"topic {piece[:100]!r} of the registration body is not understood") from error


def _numbers(text: str) -> tuple[int, int, int, Mapping[str, str]]:
    """Read queues, write queues, permission and attributes: what stands behind a topic's name."""
    parts = text.split(" ", 4)
    attributes = msgspec.json.decode(parts[4], type=dict[str, str]) if len(parts) > 4 and parts[4] else {}
    read_queues, write_queues, permission = (
        msgspec.convert(part, kind, strict=False) for part, kind in zip(parts[:3], _KINDS, strict=True)
    )
    return read_queues, write_queues, permission, MappingProxyType(attributes)


_numbers_cached = lru_cache(maxsize=1024)(_numbers)
