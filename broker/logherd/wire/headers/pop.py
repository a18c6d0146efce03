"""POP consumption: 200050 to 200055.

Source: apache/rocketmq: remoting/.../protocol/header/PopMessageRequestHeader.java and its neighbours
"""

from msgspec import field

from logherd.wire.headers.base import Header, Int32, Int64

__all__ = [
    "AckMessageHeader",
    "ChangeInvisibleTimeHeader",
    "ChangeInvisibleTimeResponse",
    "NotificationHeader",
    "NotificationResponse",
    "PeekMessageHeader",
    "PollingInfoHeader",
    "PollingInfoResponse",
    "PopMessageHeader",
    "PopMessageResponse",
]


class PopMessageHeader(Header, frozen=True, kw_only=True):
    """200050. A queue id of -1 means all; `init_mode` 0 starts at the oldest message, 1 at the newest. Times in ms."""

    consumer_group: str
    topic: str
    queue_id: Int32
    messages_max: Int32 = field(name="maxMsgNums")
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64
    init_mode: Int32
    expression_type: str | None = field(name="expType", default=None)
    expression: str | None = field(name="exp", default=None)
    order: bool = False
    attempt_id: str | None = None
    broker_name: str | None = field(name="bname", default=None)


class PopMessageResponse(Header, frozen=True, kw_only=True):
    """The answer to 200050 and 200052."""

    pop_time: Int64
    invisible_time: Int64
    revive_queue_id: Int32 = field(name="reviveQid")
    messages_left: Int64 = field(name="restNum")
    start_offset_info: str | None = None
    message_offset_info: str | None = field(name="msgOffsetInfo", default=None)
    order_count_info: str | None = None


class AckMessageHeader(Header, frozen=True, kw_only=True):
    """200051."""

    consumer_group: str
    topic: str
    queue_id: Int32
    receipt: str = field(name="extraInfo")
    queue_offset: Int64 = field(name="offset")
    broker_name: str | None = field(name="bname", default=None)


class ChangeInvisibleTimeHeader(Header, frozen=True, kw_only=True):
    """200053."""

    consumer_group: str
    topic: str
    queue_id: Int32
    receipt: str = field(name="extraInfo")
    queue_offset: Int64 = field(name="offset")
    invisible_time: Int64
    broker_name: str | None = field(name="bname", default=None)


class ChangeInvisibleTimeResponse(Header, frozen=True, kw_only=True):
    """The answer to 200053: the parts of the new receipt."""

    pop_time: Int64
    invisible_time: Int64
    revive_queue_id: Int32 = field(name="reviveQid")


class PeekMessageHeader(Header, frozen=True, kw_only=True):
    """200052."""

    topic: str
    queue_id: Int32
    messages_max: Int32 = field(name="maxMsgNums")
    consumer_group: str


class NotificationHeader(Header, frozen=True, kw_only=True):
    """200054."""

    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: Int64
    born_time: Int64
    order: bool = False
    attempt_id: str | None = None


class NotificationResponse(Header, frozen=True, kw_only=True):
    """The answer to 200054."""

    has_message: bool = field(name="hasMsg")
    polling_full: bool


class PollingInfoHeader(Header, frozen=True, kw_only=True):
    """200055."""

    consumer_group: str
    topic: str
    queue_id: Int32


class PollingInfoResponse(Header, frozen=True, kw_only=True):
    """The answer to 200055."""

    polls: Int32 = field(name="pollingNum")
