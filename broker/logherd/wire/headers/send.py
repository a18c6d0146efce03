"""Sending: 10, 310, 320, request-reply 324 to 326.

Source: apache/rocketmq: remoting/.../protocol/header/SendMessageRequestHeader.java, SendMessageRequestHeaderV2.java
"""

from msgspec import field

from logherd.wire.headers.base import Header, Int32, Int64

__all__ = ["PushReplyHeader", "SendMessageHeader", "SendMessageHeaderV2", "SendMessageResponse"]


class SendMessageHeader(Header, frozen=True, kw_only=True):
    """10 and 324. `queue_id` below zero: the broker picks. `properties` in the encoding of model.properties."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queues: Int32 = field(name="defaultTopicQueueNums")
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
    batch: bool | None = None
    broker_name: str | None = field(name="bname", default=None)


class SendMessageHeaderV2(SendMessageHeader, frozen=True, kw_only=True):
    """310, 320 and 325: the same fields under one-letter names."""

    producer_group: str = field(name="a")
    topic: str = field(name="b")
    default_topic: str = field(name="c")
    default_topic_queues: Int32 = field(name="d")
    queue_id: Int32 = field(name="e")
    sys_flag: Int32 = field(name="f")
    born_timestamp: Int64 = field(name="g")
    flag: Int32 = field(name="h")
    properties: str | None = field(name="i", default=None)
    reconsume_times: Int32 | None = field(name="j", default=None)
    unit_mode: bool | None = field(name="k", default=None)
    max_reconsume_times: Int32 | None = field(name="l", default=None)
    batch: bool | None = field(name="m", default=None)
    broker_name: str | None = field(name="n", default=None)


class SendMessageResponse(Header, frozen=True, kw_only=True):
    """The answer with codes 0, 10, 11 and 12. `message_id` is the offset message id; of a batch all, comma-joined.

    The Java client reads region and trace switch without a null check, so that both are always there.
    """

    message_id: str = field(name="msgId")
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_unique_id: str | None = field(name="batchUniqId", default=None)
    recall_handle: str | None = None
    region: str = field(name="MSG_REGION", default="DefaultRegion")
    trace_on: bool = field(name="TRACE_ON", default=True)


class PushReplyHeader(Header, frozen=True, kw_only=True):
    """326, broker to client. Hosts as text, ip:port."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queues: Int32 = field(name="defaultTopicQueueNums")
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    born_host: str
    store_host: str
    store_timestamp: Int64
