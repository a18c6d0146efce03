"""Progress, resets and state of one broker: 26, 204, 208, 222, 223, 308, 314, 315, 317, 323, 905, 906, 908.

Source: apache/rocketmq: remoting/.../protocol/header/GetConsumeStatsRequestHeader.java and its neighbours
"""

from msgspec import field

from logherd.wire.headers.base import Header, Int32, Int64

__all__ = [
    "BrokerConfigResponse",
    "BrokerConsumeStatsHeader",
    "BrokerStatsHeader",
    "CloneOffsetsHeader",
    "ConsumeStatsHeader",
    "ConsumerStatusHeader",
    "CorrectionOffsetHeader",
    "ExchangeHaHeader",
    "MinBrokerIdHeader",
    "ProducerGroupHeader",
    "ResetFlushPositionHeader",
    "ResetOffsetHeader",
    "ResumeCheckHeader",
]


class BrokerConfigResponse(Header, frozen=True, kw_only=True):
    """The answer to 26: the broker's DataVersion as JSON text; the settings are the body."""

    version: str


class ProducerGroupHeader(Header, frozen=True, kw_only=True):
    """204."""

    producer_group: str


class ConsumeStatsHeader(Header, frozen=True, kw_only=True):
    """208. `topics` is a list joined by semicolons."""

    consumer_group: str
    topic: str | None = None
    topics: str | None = field(name="topicList", default=None)


class BrokerConsumeStatsHeader(Header, frozen=True, kw_only=True):
    """317."""

    order: bool = field(name="isOrder", default=False)


class ResetOffsetHeader(Header, frozen=True, kw_only=True):
    """222. A queue id of -1 means all; `queue_offset` wins over the timestamp."""

    group: str
    topic: str
    timestamp: Int64
    force: bool = field(name="isForce", default=False)
    queue_id: Int32 = -1
    queue_offset: Int64 | None = field(name="offset", default=None)


class ConsumerStatusHeader(Header, frozen=True, kw_only=True):
    """223."""

    topic: str
    group: str
    client_address: str | None = field(name="clientAddr", default=None)


class CorrectionOffsetHeader(Header, frozen=True, kw_only=True):
    """308."""

    filter_groups: str | None = None
    compare_group: str
    topic: str


class CloneOffsetsHeader(Header, frozen=True, kw_only=True):
    """314."""

    source_group: str = field(name="srcGroup")
    destination_group: str = field(name="destGroup")
    topic: str | None = None
    offline: bool = False


class BrokerStatsHeader(Header, frozen=True, kw_only=True):
    """315."""

    name: str = field(name="statsName")
    key: str = field(name="statsKey")


class ResumeCheckHeader(Header, frozen=True, kw_only=True):
    """323."""

    topic: str | None = None
    message_id: str | None = field(name="msgId", default=None)


class MinBrokerIdHeader(Header, frozen=True, kw_only=True):
    """905, name service to broker."""

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_address: str | None = field(name="minBrokerAddr", default=None)
    offline_broker_address: str | None = field(name="offlineBrokerAddr", default=None)
    ha_broker_address: str | None = field(name="haBrokerAddr", default=None)


class ExchangeHaHeader(Header, frozen=True, kw_only=True):
    """906, request and answer."""

    master_ha_address: str | None = None
    master_flush_position: Int64 | None = field(name="masterFlushOffset", default=None)
    master_address: str | None = None


class ResetFlushPositionHeader(Header, frozen=True, kw_only=True):
    """908."""

    master_flush_position: Int64 = field(name="masterFlushOffset")
