"""Topic and group configurations, and the registration of a broker: 18, 21, 103, 200, 201, 225, 351 to 353.

Source: apache/rocketmq: common/.../TopicConfig.java, remoting/.../protocol/body/RegisterBrokerBody.java
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated

from msgspec import UNSET, Raw, UnsetType, field

from logherd.model.topic import GroupConfig, TopicConfig
from logherd.wire.bodies.base import Body, Int32, Int64, Many, QueueCount

__all__ = [
    "DataVersion",
    "Forbidden",
    "GroupConfigBody",
    "GroupConfigList",
    "GroupConfigTable",
    "RegisterBroker",
    "RetryPolicy",
    "TopicConfigBody",
    "TopicConfigList",
    "TopicConfigTable",
]


class DataVersion(Body, frozen=True, kw_only=True, gc=False):
    """Java's version of a set of configurations; also travels as JSON text in headers."""

    counter: Int64 = 0
    state_version: Int64 = 0
    timestamp: Int64 = 0


class TopicConfigBody(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 351, and part of 18, 21 and 103."""

    name: str = field(name="topicName")
    read_queues: QueueCount = field(name="readQueueNums", default=16)
    write_queues: QueueCount = field(name="writeQueueNums", default=16)
    permission: Int32 = field(name="perm", default=6)
    filter_type: str = field(name="topicFilterType", default="SINGLE_TAG")
    sys_flag: Int32 = field(name="topicSysFlag", default=0)
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_model(cls, topic: TopicConfig) -> "TopicConfigBody":
        return cls(
            name=topic.name, read_queues=topic.read_queues, write_queues=topic.write_queues,
            permission=topic.permission, sys_flag=topic.system_flag, order=topic.order,
            attributes=dict(topic.attributes),
        )  # fmt: skip

    def to_model(self) -> TopicConfig:
        return TopicConfig(
            self.name, self.read_queues, self.write_queues, self.permission, self.sys_flag, self.order,
            MappingProxyType(dict(self.attributes)),
        )  # fmt: skip


class TopicConfigList(Body, frozen=True, kw_only=True, gc=False):
    """18."""

    topics: Annotated[Sequence[TopicConfigBody], Many] = field(name="topicConfigList", default_factory=list)


class TopicConfigTable(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 21, and the main part of 103. Static topics are not ours: their two tables stay as they came."""

    version: DataVersion = field(name="dataVersion", default_factory=DataVersion)
    mapping_version: DataVersion = field(name="mappingDataVersion", default_factory=DataVersion)
    topics: Mapping[str, TopicConfigBody] = field(name="topicConfigTable", default_factory=dict)
    mapping_details: Mapping[str, Raw] = field(name="topicQueueMappingDetailMap", default_factory=dict)
    mapping_infos: Mapping[str, Raw] = field(name="topicQueueMappingInfoMap", default_factory=dict)


class RegisterBroker(Body, frozen=True, kw_only=True, gc=False):
    """103, uncompressed."""

    filter_servers: Sequence[str] = field(name="filterServerList", default_factory=list)
    topics: TopicConfigTable = field(name="topicConfigSerializeWrapper", default_factory=TopicConfigTable)


class RetryPolicy(Body, frozen=True, kw_only=True, gc=False):
    kind: str = field(name="type", default="CUSTOMIZED")


class GroupConfigBody(Body, frozen=True, kw_only=True, gc=False):
    """200, the answer to 352, and part of 201 and 225: Java's SubscriptionGroupConfig."""

    name: str = field(name="groupName")
    consume_enabled: bool = field(name="consumeEnable", default=True)
    consume_from_min_enabled: bool = field(name="consumeFromMinEnable", default=True)
    broadcast_enabled: bool = field(name="consumeBroadcastEnable", default=True)
    orderly: bool = field(name="consumeMessageOrderly", default=False)
    retry_queues: Int32 = field(name="retryQueueNums", default=1)
    retries_max: Int32 = field(name="retryMaxTimes", default=16)
    retry_policy: RetryPolicy = field(name="groupRetryPolicy", default_factory=RetryPolicy)
    broker_id: Int64 = 0
    broker_id_when_slow: Int64 = field(name="whichBrokerWhenConsumeSlowly", default=1)
    notify_members: bool = field(name="notifyConsumerIdsChangedEnable", default=True)
    sys_flag: Int32 = field(name="groupSysFlag", default=0)
    consume_timeout_minutes: Int32 = field(name="consumeTimeoutMinute", default=15)
    attributes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_model(cls, group: GroupConfig) -> "GroupConfigBody":
        return cls(
            name=group.name, consume_enabled=group.consume_enabled,
            consume_from_min_enabled=group.consume_from_min_enabled, broadcast_enabled=group.broadcast_enabled,
            orderly=group.orderly, retry_queues=group.retry_queues, retries_max=group.retries_max,
            broker_id=group.broker_id, broker_id_when_slow=group.broker_id_when_slow,
            notify_members=group.notify_members, sys_flag=group.system_flag,
            consume_timeout_minutes=group.consume_timeout_minutes, attributes=dict(group.attributes),
        )  # fmt: skip

    def to_model(self) -> GroupConfig:
        return GroupConfig(
            name=self.name, consume_enabled=self.consume_enabled,
            consume_from_min_enabled=self.consume_from_min_enabled, broadcast_enabled=self.broadcast_enabled,
            orderly=self.orderly, retry_queues=self.retry_queues, retries_max=self.retries_max,
            broker_id=self.broker_id, broker_id_when_slow=self.broker_id_when_slow,
            notify_members=self.notify_members, system_flag=self.sys_flag,
            consume_timeout_minutes=self.consume_timeout_minutes, attributes=MappingProxyType(dict(self.attributes)),
        )  # fmt: skip


class GroupConfigList(Body, frozen=True, kw_only=True, gc=False):
    """225."""

    groups: Annotated[Sequence[GroupConfigBody], Many] = field(name="groupConfigList", default_factory=list)


class GroupConfigTable(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 201."""

    version: DataVersion = field(name="dataVersion", default_factory=DataVersion)
    forbidden: Mapping[str, Mapping[str, Int32]] = field(name="forbiddenTable", default_factory=dict)
    groups: Mapping[str, GroupConfigBody] = field(name="subscriptionGroupTable", default_factory=dict)


class Forbidden(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 353."""

    group: str
    topic: str
    readable: bool = True
    writable: bool | UnsetType = UNSET
