"""Transactions and recall: 37, 39, 370.

Source: apache/rocketmq: remoting/.../protocol/header/EndTransactionRequestHeader.java and its neighbours
"""

from msgspec import field

from logherd.wire.headers.base import Header, Int32, Int64

__all__ = [
    "CheckTransactionHeader",
    "EndTransactionHeader",
    "RecallMessageHeader",
    "RecallMessageResponse",
    "TransactionDecision",
]


class TransactionDecision:
    """Values of EndTransactionHeader.decision."""

    UNKNOWN = 0
    COMMIT = 8
    ROLLBACK = 12


class EndTransactionHeader(Header, frozen=True, kw_only=True):
    """37. `half_queue_offset` and `half_position` name the prepared message; `message_id` is its unique key."""

    topic: str | None = None
    producer_group: str
    half_queue_offset: Int64 = field(name="tranStateTableOffset")
    half_position: Int64 = field(name="commitLogOffset")
    decision: Int32 = field(name="commitOrRollback")
    from_check: bool = field(name="fromTransactionCheck", default=False)
    message_id: str = field(name="msgId")
    transaction_id: str | None = None
    broker_name: str | None = field(name="bname", default=None)


class CheckTransactionHeader(Header, frozen=True, kw_only=True):
    """39, broker to producer, with the prepared message as body."""

    topic: str | None = None
    half_queue_offset: Int64 = field(name="tranStateTableOffset")
    half_position: Int64 = field(name="commitLogOffset")
    message_id: str | None = field(name="msgId", default=None)
    transaction_id: str | None = None
    offset_message_id: str | None = field(name="offsetMsgId", default=None)
    broker_name: str | None = field(name="bname", default=None)


class RecallMessageHeader(Header, frozen=True, kw_only=True):
    """370."""

    producer_group: str | None = None
    topic: str
    recall_handle: str
    broker_name: str | None = field(name="bname", default=None)


class RecallMessageResponse(Header, frozen=True, kw_only=True):
    """The answer to 370: the unique key of the message that will not be delivered."""

    message_id: str = field(name="msgId")
