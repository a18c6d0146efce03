"""Looking for messages: 12, 33, 321.

Source: apache/rocketmq: remoting/.../protocol/header/QueryMessageRequestHeader.java and its neighbours
"""

from msgspec import field

from logherd.wire.headers.base import Header, Int32, Int64

__all__ = ["QueryConsumeQueueHeader", "QueryMessageHeader", "QueryMessageResponse", "ViewMessageHeader"]


class QueryMessageHeader(Header, frozen=True, kw_only=True):
    """12. With `by_unique_key` the key is the client's message id."""

    topic: str
    key: str
    messages_max: Int32 = field(name="maxNum")
    begin_timestamp: Int64
    end_timestamp: Int64
    by_unique_key: bool = field(name="_UNIQUE_KEY_QUERY", default=False)


class QueryMessageResponse(Header, frozen=True, kw_only=True):
    """The answer to 12: how far the index reaches."""

    index_timestamp: Int64 = field(name="indexLastUpdateTimestamp")
    index_position: Int64 = field(name="indexLastUpdatePhyoffset")


class ViewMessageHeader(Header, frozen=True, kw_only=True):
    """33. `position` is the place in the log that an offset message id names."""

    topic: str | None = None
    position: Int64 = field(name="offset")


class QueryConsumeQueueHeader(Header, frozen=True, kw_only=True):
    """321."""

    topic: str
    queue_id: Int32
    index: Int64
    count: Int32
    consumer_group: str | None = None
