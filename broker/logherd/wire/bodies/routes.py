"""Routes and clusters: 105, 106, 206, 217, 219, 224, 304, 311 to 313, 343, 901.

Keys of `addresses` are broker ids; strict JSON quotes them, which Java and Go both read. Nothing may be printed with
blanks: the Go client keeps them as part of an address.

Source: apache/rocketmq: remoting/.../protocol/route/TopicRouteData.java, remoting/.../protocol/body/ClusterInfo.java
"""

from collections.abc import Mapping, Sequence

from msgspec import UNSET, UnsetType, field

from logherd.wire.bodies.base import Body, Int32, QueueCount

__all__ = [
    "BrokerData",
    "ClusterInfo",
    "GroupList",
    "KVTable",
    "MemberGroup",
    "MemberGroupAnswer",
    "QueueData",
    "TopicList",
    "TopicRoute",
]


class QueueData(Body, frozen=True, kw_only=True, gc=False):
    """How many queues of a topic one broker group has."""

    broker_name: str
    read_queues: QueueCount = field(name="readQueueNums", default=0)
    write_queues: QueueCount = field(name="writeQueueNums", default=0)
    permission: Int32 = field(name="perm", default=0)
    sys_flag: Int32 = field(name="topicSysFlag", default=0)


class BrokerData(Body, frozen=True, kw_only=True, gc=False):
    """The addresses of one broker group, host:port by broker id; id 0 is the one that takes writes."""

    cluster: str | UnsetType = UNSET
    broker_name: str
    addresses: Mapping[int, str] = field(name="brokerAddrs", default_factory=dict)
    acting_master: bool = field(name="enableActingMaster", default=False)
    zone_name: str | UnsetType = UNSET


class TopicRoute(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 105, and the body of 217."""

    order_config: str | UnsetType = field(name="orderTopicConf", default=UNSET)
    queues: Sequence[QueueData] = field(name="queueDatas", default_factory=list)
    brokers: Sequence[BrokerData] = field(name="brokerDatas", default_factory=list)
    filter_servers: Mapping[str, Sequence[str]] = field(name="filterServerTable", default_factory=dict)


class ClusterInfo(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 106: broker groups by name, names by cluster."""

    brokers: Mapping[str, BrokerData] = field(name="brokerAddrTable", default_factory=dict)
    clusters: Mapping[str, Sequence[str]] = field(name="clusterAddrTable", default_factory=dict)


class TopicList(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 206, 224, 304, 305, 311 to 313 and 343."""

    topics: Sequence[str] = field(name="topicList", default_factory=list)
    broker_address: str | UnsetType = field(name="brokerAddr", default=UNSET)


class GroupList(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 300."""

    groups: Sequence[str] = field(name="groupList", default_factory=list)


class KVTable(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 28, 103 and 219."""

    table: Mapping[str, str] = field(default_factory=dict)


class MemberGroup(Body, frozen=True, kw_only=True, gc=False):
    cluster: str | None = None
    broker_name: str | None = None
    addresses: Mapping[int, str] = field(name="brokerAddrs", default_factory=dict)


class MemberGroupAnswer(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 901."""

    group: MemberGroup = field(name="brokerMemberGroup", default_factory=MemberGroup)
