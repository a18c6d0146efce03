"""Clients: 34, 35, 36, 38, and what a broker asks its clients: 40, 220, 221, 307, 309.

Source: apache/rocketmq: remoting/.../protocol/header/UnregisterClientRequestHeader.java and its neighbours
"""

from msgspec import field

from logherd.wire.headers.base import Header, Int32, Int64

__all__ = [
    "ClientStatusHeader",
    "ConsumeDirectlyHeader",
    "ConsumerGroupHeader",
    "HeartbeatResponse",
    "ResetClientOffsetHeader",
    "RunningInfoHeader",
    "SendBackHeader",
    "UnregisterClientHeader",
]


class HeartbeatResponse(Header, frozen=True, kw_only=True):
    """The answer to 34."""

    heartbeat_v2_supported: bool = field(name="IS_SUPPORT_HEART_BEAT_V2", default=True)
    subscription_changed: bool = field(name="IS_SUB_CHANGE", default=True)


class UnregisterClientHeader(Header, frozen=True, kw_only=True):
    """35."""

    client_id: str = field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None
    broker_name: str | None = field(name="bname", default=None)


class SendBackHeader(Header, frozen=True, kw_only=True):
    """36. `position` is the original message's place in the log; a negative delay level means dead letter."""

    group: str
    position: Int64 = field(name="offset")
    delay_level: Int32
    origin_message_id: str | None = field(name="originMsgId", default=None)
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
    broker_name: str | None = field(name="bname", default=None)


class ConsumerGroupHeader(Header, frozen=True, kw_only=True):
    """38, 40 and 203: one consumer group."""

    consumer_group: str
    broker_name: str | None = field(name="bname", default=None)


class ResetClientOffsetHeader(Header, frozen=True, kw_only=True):
    """220, broker to client; the offsets are in the body."""

    topic: str
    group: str
    timestamp: Int64
    force: bool = field(name="isForce", default=False)


class ClientStatusHeader(Header, frozen=True, kw_only=True):
    """221, broker to client."""

    topic: str
    group: str
    client_address: str | None = field(name="clientAddr", default=None)


class RunningInfoHeader(Header, frozen=True, kw_only=True):
    """307, relayed to the client that it names."""

    consumer_group: str
    client_id: str
    stacks: bool = field(name="jstackEnable", default=False)


class ConsumeDirectlyHeader(Header, frozen=True, kw_only=True):
    """309, relayed to the client that it names, with the stored message as body. The id is an offset message id."""

    consumer_group: str
    client_id: str | None = None
    message_id: str | None = field(name="msgId", default=None)
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
