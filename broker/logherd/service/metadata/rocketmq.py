"""A RocketMQ broker's `config/*.json` files: read when its store is adopted, written when ours is exported.

Java writes numbers as bare keys, which is no JSON; it reads both forms, so that ours are strict.

Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/offset/ConsumerOffsetManager.java
Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/topic/TopicConfigManager.java
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from logherd.service.metadata.changes import Version
from logherd.service.metadata.errors import MetadataError
from logherd.service.metadata.state import Metadata
from logherd.wire.bodies import decode_body, encode_body
from logherd.wire.bodies.configs import (
    DataVersion,
    GroupConfigBody,
    GroupConfigTable,
    TopicConfigBody,
    TopicConfigTable,
)
from logherd.wire.bodies.progress import ConsumerOffsets
from logherd.wire.errors import BodyError

__all__ = [
    "CONFIG_FILES",
    "Adopted",
    "AdoptionError",
    "adopt_config",
    "check_config",
    "configured_names",
    "export_config",
]

TOPICS = "topics.json"
GROUPS = "subscriptionGroup.json"
OFFSETS = "consumerOffset.json"
CONFIG_FILES = (TOPICS, GROUPS, OFFSETS)
_FILE_BYTES_MAX = 1 << 30

_Table = TypeVar("_Table")


class AdoptionError(MetadataError):
    """A file is not what RocketMQ writes; names it and what is wrong. Nothing was taken over."""


class Adopted(NamedTuple):
    """How many topics, groups and queue offsets were taken over."""

    topics: int
    groups: int
    offsets: int


def check_config(files: Mapping[str, bytes]) -> None:
    """Raises: AdoptionError for what `adopt_config` would not understand."""
    _read_all(files)


def configured_names(files: Mapping[str, bytes]) -> tuple[frozenset[str], frozenset[str]]:
    """Names of the topics and of the groups that the files hold. Raises: AdoptionError."""
    tables = _read_all(files)
    topics = (topic.to_model().name for topic in tables.topics.values())
    return frozenset(topics), frozenset(group.to_model().name for group in tables.groups.values())


def adopt_config(
    metadata: Metadata, files: Mapping[str, bytes], *, end_of: Callable[[str, int], int] | None = None
) -> Adopted:
    """Take over what a RocketMQ broker kept beside its store. A file that is missing counts as empty.

    Meant for a store that holds no metadata of ours yet (`metadata.is_new`); what is there already is replaced, and
    what is not in the files stays. With `end_of` (topic, queue) no offset is taken that lies beyond a queue's end: a
    message that is stored there later would never be consumed.
    Durable: no; once the log is committed up to `metadata.position`.
    Raises: AdoptionError; MetadataRefusedError, after which a part may be taken over and the call is to be repeated.
    """
    topics, groups, offsets = _read_all(files)
    for topic in topics.values():
        metadata.topics.put(topic.to_model())
    for group in groups.values():
        metadata.groups.put(group.to_model())
    count = 0
    for key, queues in offsets.items():
        topic_name, _, group_name = key.partition("@")
        for queue_id, offset in queues.items():
            most = offset if end_of is None else end_of(topic_name, queue_id)
            metadata.offsets.replace(group_name, topic_name, queue_id, min(offset, most))
            count += 1
    metadata.flush_pending()
    return Adopted(len(topics), len(groups), count)


class _Tables(NamedTuple):
    topics: Mapping[str, TopicConfigBody]
    groups: Mapping[str, GroupConfigBody]
    offsets: Mapping[str, Mapping[int, int]]


def _read_all(files: Mapping[str, bytes]) -> _Tables:
    topics = _read(files, TOPICS, TopicConfigTable).topics
    groups = _read(files, GROUPS, GroupConfigTable).groups
    offsets = _read(files, OFFSETS, ConsumerOffsets).offsets
    for key in offsets:
        topic, _, group = key.partition("@")
        if not topic or not group:
            raise AdoptionError(f"{OFFSETS}: the key {key!a} is not topic@group")
    return _Tables(topics, groups, offsets)


def export_config(metadata: Metadata) -> dict[str, bytes]:
    """The files, by name, that complete a store for a RocketMQ broker."""
    topics = TopicConfigTable(
        version=_version(metadata.topics.version),
        topics={topic.name: TopicConfigBody.from_model(topic) for topic in metadata.topics},
    )
    groups = GroupConfigTable(
        version=_version(metadata.groups.version),
        groups={group.name: GroupConfigBody.from_model(group) for group in metadata.groups},
    )
    offsets = ConsumerOffsets(
        version=_version(metadata.topics.version),
        offsets={f"{topic}@{group}": dict(queues) for group, topic, queues in metadata.offsets},
    )
    return {TOPICS: encode_body(topics), GROUPS: encode_body(groups), OFFSETS: encode_body(offsets)}


def _read(files: Mapping[str, bytes], name: str, table: type[_Table]) -> _Table:
    try:
        return decode_body(table, files.get(name) or b"{}", bytes_max=_FILE_BYTES_MAX, tokens_max=_FILE_BYTES_MAX)
    except BodyError as error:
        raise AdoptionError(f"{name}: {error}") from error


def _version(version: Version) -> DataVersion:
    return DataVersion(counter=version.counter, state_version=version.state_version, timestamp=version.timestamp)
