"""Topics and groups that exist from the first start, as on a RocketMQ broker.

Left out are the topics of what LogHerd does not do yet: schedule, timer, transactions, POP revival, traces, members.

Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/topic/TopicConfigManager.java
"""

from dataclasses import dataclass

from logherd.model.topic import GroupConfig, Permission, TopicConfig
from logherd.service.metadata.reserved import (
    BENCHMARK_TOPIC,
    DEFAULT_TOPIC,
    OFFSET_MOVED_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_GROUPS,
    reply_topic,
)
from logherd.service.metadata.state import Metadata

__all__ = ["DefaultsOptions", "ensure_defaults"]

_BENCHMARK_QUEUES = 1024
_CLUSTER_QUEUES = 16
_READ_WRITE_INHERIT = Permission.READ_WRITE | Permission.INHERIT


@dataclass(frozen=True, slots=True)
class DefaultsOptions:
    """Whose defaults. `auto_create_queues`: queues of TBW102, the template of topics made by a send; 0 means none."""

    cluster_name: str
    broker_name: str
    auto_create_queues: int = 8


def ensure_defaults(metadata: Metadata, options: DefaultsOptions) -> None:
    """Create what is missing and leave alone what exists, whatever an administrator made of it.

    Durable: no; any later answer's position lies behind these records. Raises: MetadataRefusedError.
    """
    for config in _topics(options):
        if config.name not in metadata.topics:
            metadata.topics.put(config)
    for name in SYSTEM_GROUPS:
        if name not in metadata.groups:
            metadata.groups.put(GroupConfig(name))


def _topics(options: DefaultsOptions) -> list[TopicConfig]:
    topics = [
        _topic(SELF_TEST_TOPIC, 1),
        _topic(BENCHMARK_TOPIC, _BENCHMARK_QUEUES),
        _topic(options.cluster_name, _CLUSTER_QUEUES, _READ_WRITE_INHERIT),
        _topic(options.broker_name, 1, _READ_WRITE_INHERIT),
        _topic(OFFSET_MOVED_TOPIC, 1),
        _topic(reply_topic(options.cluster_name), 1),
    ]
    if options.auto_create_queues:
        topics.append(_topic(DEFAULT_TOPIC, options.auto_create_queues, _READ_WRITE_INHERIT))
    return topics


def _topic(name: str, queues: int, permission: int = Permission.READ_WRITE) -> TopicConfig:
    return TopicConfig(name, queues, queues, permission)
