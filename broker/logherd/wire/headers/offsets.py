"""Consumer offsets and the ends of queues: 14, 15, 29 to 32.

Source: apache/rocketmq: remoting/.../protocol/header/QueryConsumerOffsetRequestHeader.java and its neighbours
"""

from msgspec import field

from logherd.wire.headers.base import Header, Int32, Int64

__all__ = [
    "GetMaxOffsetHeader",
    "OffsetResponse",
    "QueryConsumerOffsetHeader",
    "QueueHeader",
    "SearchOffsetHeader",
    "TimestampResponse",
    "UpdateConsumerOffsetHeader",
]


class QueryConsumerOffsetHeader(Header, frozen=True, kw_only=True):
    """14. Answered with OffsetResponse, or 22 when nothing is stored."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None
    broker_name: str | None = field(name="bname", default=None)


class UpdateConsumerOffsetHeader(Header, frozen=True, kw_only=True):
    """15, usually oneway."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64
    broker_name: str | None = field(name="bname", default=None)


class SearchOffsetHeader(Header, frozen=True, kw_only=True):
    """29. `boundary_type` is LOWER (the default) or UPPER."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None
    broker_name: str | None = field(name="bname", default=None)


class GetMaxOffsetHeader(Header, frozen=True, kw_only=True):
    """30."""

    topic: str
    queue_id: Int32
    committed: bool = True
    broker_name: str | None = field(name="bname", default=None)


class QueueHeader(Header, frozen=True, kw_only=True):
    """31 and 32: one queue."""

    topic: str
    queue_id: Int32
    broker_name: str | None = field(name="bname", default=None)


class OffsetResponse(Header, frozen=True, kw_only=True):
    """The answer to 14, 29, 30 and 31."""

    queue_offset: Int64 = field(name="offset")


class TimestampResponse(Header, frozen=True, kw_only=True):
    """The answer to 32."""

    timestamp: Int64
