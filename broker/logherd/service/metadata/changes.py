"""Every metadata record, as it stands in the log: one compact JSON array, its tag first.

    ["epoch", epoch, start position, ms, format, incarnation]   barrier: a new leadership or start
    ["topic", name, read queues, write queues, permission, system flag, order, attributes, version,
        [queue, offset, queue, offset, ...]]                in a snapshot: how far its queues went; else empty
    ["topic-", name, version, position]                     also forgets the topic's offsets; see TopicDeleted
    ["group", name, seventeen fields of GroupConfig in order..., version]
    ["group-", name, clean offsets, version]
    ["offsets", [[group, topic, [queue, offset, queue, offset, ...]], ...]]
    ["reset", [rows as above]]                              committed offset, and pending until the next pull
    ["reset-", [rows as above]]                             the pending reset was told to the consumer
    ["locks", group, client id, [[topic, broker, queue], ...]]   these queues are locked by the client; "": by nobody
    ...                                                     those of idempotent writers: see writer_changes
    ["begin", snapshot number, change offset, format]       snapshot: state that covers all changes below that offset
    ["part", snapshot number, [changes]]                    each a change of the kinds above
    ["end", snapshot number, parts, digest]                 hex SHA-256 over the bodies of all parts

Every change states a value, never a difference, so that applying it twice, or to a state that has it already, gives the
same. Snapshots rely on it: they are written in slices while changes go on.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec

from logherd.model.topic import GroupConfig, TopicConfig
from logherd.service.metadata.errors import MetadataDamagedError
from logherd.service.metadata.writer_changes import ChunkCut, ChunksKept, ChunkStored, WriterForgotten, WriterPut

__all__ = [
    "FORMAT", "Barrier", "Change", "GroupDeleted", "GroupPut", "OffsetRow", "OffsetsCommitted", "OffsetsReset",
    "QueueName", "QueuesLocked", "ResetsTold", "SnapshotBegin", "SnapshotEnd", "SnapshotPart", "SnapshotRecord",
    "TopicDeleted", "TopicPut", "Version", "WriterChange", "decode_change", "decode_snapshot_record", "digest_parts",
    "encode",
]  # fmt: skip

FORMAT = 1

OffsetRow = tuple[str, str, list[int]]
"""(group, topic, [queue id, queue offset, queue id, queue offset, ...])"""


class Version(msgspec.Struct, frozen=True, array_like=True):
    """What RocketMQ calls DataVersion: `counter` rises with every change, `timestamp` is ms since 1970 UTC."""

    state_version: int = 0
    timestamp: int = 0
    counter: int = 0


class Barrier(msgspec.Struct, frozen=True, array_like=True, tag="epoch"):
    epoch: int
    start_position: int
    started_ms: int
    format: int = FORMAT
    incarnation: str = ""


class TopicPut(msgspec.Struct, frozen=True, array_like=True, tag="topic"):
    """`ends` is [queue id, offset of its next message, ...]. The log may begin behind all messages of a queue, and then
    nothing else says which number the next one has. Of a topic with many queues each of several changes has a part.
    Releases before do not write it, and read over it."""

    name: str
    read_queues: int
    write_queues: int
    permission: int
    system_flag: int
    order: bool
    attributes: dict[str, str]
    version: Version
    ends: Sequence[int] = ()

    @classmethod
    def of(cls, config: TopicConfig, version: Version, ends: Sequence[int] = ()) -> "TopicPut":
        return cls(
            config.name, config.read_queues, config.write_queues, config.permission, config.system_flag, config.order,
            dict(config.attributes), version, ends,
        )  # fmt: skip

    def config(self) -> TopicConfig:
        return TopicConfig(
            self.name, self.read_queues, self.write_queues, self.permission, self.system_flag, self.order,
            self.attributes,
        )  # fmt: skip


class TopicDeleted(msgspec.Struct, frozen=True, array_like=True, tag="topic-"):
    """Messages of the topic below `position` are deleted with it. 0: those below the record's own end, as it stands in
    the log; a snapshot says it, because its records stand elsewhere."""

    name: str
    version: Version
    position: int = 0


class GroupPut(msgspec.Struct, frozen=True, array_like=True, tag="group"):
    name: str
    consume_enabled: bool
    consume_from_min_enabled: bool
    broadcast_enabled: bool
    orderly: bool
    retry_queues: int
    retries_max: int
    broker_id: int
    broker_id_when_slow: int
    notify_members: bool
    system_flag: int
    consume_timeout_minutes: int
    attributes: dict[str, str]
    version: Version

    @classmethod
    def of(cls, config: GroupConfig, version: Version) -> "GroupPut":
        return cls(
            config.name, config.consume_enabled, config.consume_from_min_enabled, config.broadcast_enabled,
            config.orderly, config.retry_queues, config.retries_max, config.broker_id, config.broker_id_when_slow,
            config.notify_members, config.system_flag, config.consume_timeout_minutes, dict(config.attributes), version,
        )  # fmt: skip

    def config(self) -> GroupConfig:
        return GroupConfig(
            self.name, self.consume_enabled, self.consume_from_min_enabled, self.broadcast_enabled, self.orderly,
            self.retry_queues, self.retries_max, self.broker_id, self.broker_id_when_slow, self.notify_members,
            self.system_flag, self.consume_timeout_minutes, self.attributes,
        )  # fmt: skip


class GroupDeleted(msgspec.Struct, frozen=True, array_like=True, tag="group-"):
    name: str
    clean_offsets: bool
    version: Version


class OffsetsCommitted(msgspec.Struct, frozen=True, array_like=True, tag="offsets"):
    rows: list[OffsetRow]


class OffsetsReset(msgspec.Struct, frozen=True, array_like=True, tag="reset"):
    rows: list[OffsetRow]


class ResetsTold(msgspec.Struct, frozen=True, array_like=True, tag="reset-"):
    rows: list[OffsetRow]


class QueueName(NamedTuple):
    """A queue as clients name it."""

    topic: str
    broker: str
    queue_id: int


class QueuesLocked(msgspec.Struct, frozen=True, array_like=True, tag="locks"):
    group: str
    client_id: str
    queues: list[QueueName]


WriterChange = WriterPut | WriterForgotten | ChunkStored | ChunkCut | ChunksKept
Change = (
    Barrier | TopicPut | TopicDeleted | GroupPut | GroupDeleted | OffsetsCommitted | OffsetsReset | ResetsTold
    | QueuesLocked | WriterChange
)  # fmt: skip


class SnapshotBegin(msgspec.Struct, frozen=True, array_like=True, tag="begin"):
    number: int
    change_offset: int
    format: int = FORMAT


class SnapshotPart(msgspec.Struct, frozen=True, array_like=True, tag="part"):
    number: int
    changes: list[Change]


class SnapshotEnd(msgspec.Struct, frozen=True, array_like=True, tag="end"):
    number: int
    parts: int
    digest: str


SnapshotRecord = SnapshotBegin | SnapshotPart | SnapshotEnd

_encode = msgspec.json.Encoder().encode
_changes: msgspec.json.Decoder[Change] = msgspec.json.Decoder(Change)
_snapshots: msgspec.json.Decoder[SnapshotRecord] = msgspec.json.Decoder(SnapshotRecord)


def encode(record: Change | SnapshotRecord) -> bytes:
    return _encode(record)


def decode_change(body: bytes | memoryview, queue_offset: int) -> Change:
    """Raises MetadataDamagedError for anything that this LogHerd does not write, with the queue offset."""
    try:
        return _changes.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MetadataDamagedError(f"metadata record {queue_offset} is none of format {FORMAT}: {error}") from error


def decode_snapshot_record(body: bytes | memoryview, queue_offset: int) -> SnapshotRecord:
    """Raises MetadataDamagedError for anything that this LogHerd does not write, with the queue offset."""
    try:
        return _snapshots.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MetadataDamagedError(f"snapshot record {queue_offset} is none of format {FORMAT}: {error}") from error


def digest_parts(bodies: list[bytes]) -> str:
    """The digest that a snapshot's end record carries."""
    digest = sha256()
    for body in bodies:
        digest.update(body)
    return digest.hexdigest()
