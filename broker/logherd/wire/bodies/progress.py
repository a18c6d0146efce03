"""How far queues and consumers are: 43, 202, 208, 303, 308, 317, 321.

Maps from a queue have its key text, see bodies.base.

Source: apache/rocketmq: remoting/.../protocol/admin/TopicStatsTable.java, ConsumeStats.java and their neighbours
"""

from collections.abc import Mapping, Sequence

from msgspec import UNSET, UnsetType, field

from logherd.wire.bodies.base import Body, Int32, Int64, MessageQueue
from logherd.wire.bodies.clients import Subscription
from logherd.wire.bodies.configs import DataVersion

__all__ = [
    "BrokerConsumeStats",
    "ConsumeQueuePage",
    "ConsumeQueueUnit",
    "ConsumeStats",
    "ConsumerOffsets",
    "CorrectionOffsets",
    "QueueProgress",
    "QueueRange",
    "TimeSpan",
    "TimeSpans",
    "TopicStats",
]


class QueueRange(Body, frozen=True, kw_only=True, gc=False):
    """The ends of one queue; `updated_ms` is the store time of its newest message, 0 if it has none."""

    min_offset: Int64 = 0
    max_offset: Int64 = 0
    updated_ms: Int64 = field(name="lastUpdateTimestamp", default=0)


class TopicStats(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 202, by queue key."""

    queues: Mapping[str, QueueRange] = field(name="offsetTable", default_factory=dict)


class QueueProgress(Body, frozen=True, kw_only=True, gc=False):
    """`consumed_ms` is the store time of the message before the consumer's offset, 0 if there is none."""

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    pull_offset: Int64 = 0
    consumed_ms: Int64 = field(name="lastTimestamp", default=0)


class ConsumeStats(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 208, by queue key. `rate` is messages per second."""

    queues: Mapping[str, QueueProgress] = field(name="offsetTable", default_factory=dict)
    rate: float = field(name="consumeTps", default=0.0)


class BrokerConsumeStats(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 317."""

    broker_address: str | None = field(name="brokerAddr", default=None)
    stats: Sequence[Mapping[str, Sequence[ConsumeStats]]] = field(name="consumeStatsList", default_factory=list)
    lag_total: Int64 = field(name="totalDiff", default=0)
    in_flight_total: Int64 = field(name="totalInflightDiff", default=0)


class ConsumerOffsets(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 43: `topic@group` to queue id to queue offset."""

    version: DataVersion = field(name="dataVersion", default_factory=DataVersion)
    offsets: Mapping[str, Mapping[int, Int64]] = field(name="offsetTable", default_factory=dict)


class TimeSpan(Body, frozen=True, kw_only=True, gc=False):
    """Store times in ms of one queue's oldest, newest and next-to-consume message, and the consumer's delay in ms."""

    queue: MessageQueue = field(name="messageQueue")
    min_timestamp: Int64 = field(name="minTimeStamp", default=0)
    max_timestamp: Int64 = field(name="maxTimeStamp", default=0)
    consume_timestamp: Int64 = field(name="consumeTimeStamp", default=0)
    delay_ms: Int64 = field(name="delayTime", default=0)


class TimeSpans(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 303."""

    spans: Sequence[TimeSpan] = field(name="consumeTimeSpanSet", default_factory=list)


class CorrectionOffsets(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 308, by queue id."""

    offsets: Mapping[int, Int64] = field(name="correctionOffsets", default_factory=dict)


class ConsumeQueueUnit(Body, frozen=True, kw_only=True, gc=False):
    """One unit of a consume queue. `matches` tells whether the asked group's filter passes it."""

    position: Int64 = field(name="physicOffset", default=0)
    size: Int32 = field(name="physicSize", default=0)
    tags_code: Int64 = 0
    extension: str | UnsetType = field(name="extendDataJson", default=UNSET)
    bit_map: str | UnsetType = UNSET
    matches: bool = field(name="eval", default=True)
    message: str | UnsetType = field(name="msg", default=UNSET)


class ConsumeQueuePage(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 321."""

    subscription: Subscription | UnsetType = field(name="subscriptionData", default=UNSET)
    filter_data: str | UnsetType = UNSET
    units: Sequence[ConsumeQueueUnit] = field(name="queueData", default_factory=list)
    max_index: Int64 = field(name="maxQueueIndex", default=0)
    min_index: Int64 = field(name="minQueueIndex", default=0)
