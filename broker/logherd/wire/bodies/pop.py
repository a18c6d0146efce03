"""POP assignment and batch acknowledgement: 400, 401, 200151.

Source: apache/rocketmq: remoting/.../protocol/body/QueryAssignmentRequestBody.java, BatchAck.java
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import field

from logherd.wire.bodies.base import Body, Int32, Int64, Many, MessageQueue

__all__ = ["Assignment", "Assignments", "BatchAck", "BatchAckMessages", "QueryAssignment", "SetRequestMode"]


class QueryAssignment(Body, frozen=True, kw_only=True, gc=False):
    """400."""

    topic: str
    group: str = field(name="consumerGroup")
    client_id: str
    strategy: str = field(name="strategyName", default="AVG")
    message_model: str = "CLUSTERING"


class Assignment(Body, frozen=True, kw_only=True, gc=False):
    """`mode` is PULL or POP."""

    queue: MessageQueue = field(name="messageQueue")
    mode: str = "PULL"
    attachments: Mapping[str, str] = field(default_factory=dict)


class Assignments(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 400; an empty list means no queue."""

    assignments: Sequence[Assignment] = field(name="messageQueueAssignments", default_factory=list)


class SetRequestMode(Body, frozen=True, kw_only=True, gc=False):
    """401."""

    topic: str
    group: str = field(name="consumerGroup")
    mode: str = "PULL"
    share_queues: Int32 = field(name="popShareQueueNum", default=0)


class BatchAck(Body, frozen=True, kw_only=True, gc=False):
    """Acknowledged offsets of one receipt: bit i of `bits` (Base64, little-endian) is start_offset + i."""

    group: str = field(name="c")
    topic: str = field(name="t")
    retry: str = field(name="r")
    start_offset: Int64 = field(name="so")
    queue_id: Int32 = field(name="q")
    revive_queue_id: Int32 = field(name="rq")
    pop_time: Int64 = field(name="pt")
    invisible_time: Int64 = field(name="it")
    bits: bytes = field(name="b")


class BatchAckMessages(Body, frozen=True, kw_only=True, gc=False):
    """200151."""

    broker_name: str | None = None
    acks: Annotated[Sequence[BatchAck], Many] = field(default_factory=list)
