"""Heartbeats, membership, locks, and what brokers and clients tell each other: 34, 38, 41, 42, 46, 220, 221, 309.

Source: apache/rocketmq: remoting/.../protocol/heartbeat/*.java, remoting/.../protocol/body/LockBatchRequestBody.java
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import UNSET, Meta, UnsetType, field
from msgspec.structs import force_setattr

from logherd.wire.bodies.base import Body, Int32, Int64, Many, MessageQueue

__all__ = [
    "ClientConfig",
    "ClientOffsets",
    "ClientPositions",
    "ConsumeDirectlyResult",
    "ConsumerData",
    "ConsumerIds",
    "Heartbeat",
    "LockQueues",
    "LockedQueues",
    "ProducerData",
    "Subscription",
]


_TYPES: Final = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
_MODELS: Final = ("BROADCASTING", "CLUSTERING")
_BEGINNINGS: Final = (
    "CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST", "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET", "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP",
)  # fmt: skip
_NUMBERED: Final = {"consume_type": _TYPES, "message_model": _MODELS, "consume_from": _BEGINNINGS}

if TYPE_CHECKING:
    _Type = str
    _Model = str
    _Beginning = str
else:  # also decoded from its number, as the C++ client sends it and Java reads it
    _Type = str | Annotated[int, Meta(ge=0, lt=len(_TYPES))]
    _Model = str | Annotated[int, Meta(ge=0, lt=len(_MODELS))]
    _Beginning = str | Annotated[int, Meta(ge=0, lt=len(_BEGINNINGS))]


class Subscription(Body, frozen=True, kw_only=True, gc=False):
    """Java's SubscriptionData. `codes` are the Java hashes of `tags`; `version` is the subscriber's clock in ms."""

    class_filter: bool = field(name="classFilterMode", default=False)
    topic: str
    expression: str | None = field(name="subString", default=None)
    tags: Annotated[Sequence[str], Many] = field(name="tagsSet", default_factory=list)
    codes: Annotated[Sequence[Int32], Many] = field(name="codeSet", default_factory=list)
    version: Int64 = field(name="subVersion", default=0)
    expression_type: str | None = field(default="TAG")


class ProducerData(Body, frozen=True, kw_only=True, gc=False):
    group: str = field(name="groupName")


class ConsumerData(Body, frozen=True, kw_only=True, gc=False):
    """`consume_type` CONSUME_ACTIVELY, _PASSIVELY or CONSUME_POP; `message_model` CLUSTERING or BROADCASTING. The
    numbers of Java's constants become their names."""

    group: str = field(name="groupName")
    consume_type: _Type = "CONSUME_PASSIVELY"
    message_model: _Model = "CLUSTERING"
    consume_from: _Beginning = field(name="consumeFromWhere", default="CONSUME_FROM_LAST_OFFSET")
    subscriptions: Annotated[Sequence[Subscription], Many] = field(name="subscriptionDataSet", default_factory=list)
    unit_mode: bool = False

    def __post_init__(self) -> None:
        for attribute, names in _NUMBERED.items():
            value: object = getattr(self, attribute)
            if isinstance(value, int):
                force_setattr(self, attribute, names[value])


class Heartbeat(Body, frozen=True, kw_only=True, gc=False):
    """34. A fingerprint other than 0 is version 2, whose short form has `without_subscriptions`."""

    client_id: str = field(name="clientID")
    producers: Annotated[Sequence[ProducerData], Many] = field(name="producerDataSet", default_factory=list)
    consumers: Annotated[Sequence[ConsumerData], Many] = field(name="consumerDataSet", default_factory=list)
    fingerprint: Int64 = field(name="heartbeatFingerprint", default=0)
    without_subscriptions: bool = field(name="withoutSub", default=False)


class ConsumerIds(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 38."""

    ids: Sequence[str] = field(name="consumerIdList", default_factory=list)


class LockQueues(Body, frozen=True, kw_only=True, gc=False):
    """41 and 42."""

    client_id: str
    group: str = field(name="consumerGroup")
    queues: Annotated[Sequence[MessageQueue], Many] = field(name="mqSet", default_factory=list)
    only_this_broker: bool = False


class LockedQueues(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 41."""

    queues: Sequence[MessageQueue] = field(name="lockOKMQSet", default_factory=list)


class ClientConfig(Body, frozen=True, kw_only=True, gc=False):
    """46."""

    client_id: str | None = None
    group: str | None = None
    subscription: Subscription | None = field(name="subscriptionData", default=None)


class ClientOffsets(Body, frozen=True, kw_only=True, gc=False):
    """220, and the answer to 222: queue key to queue offset."""

    offsets: Mapping[str, Int64] = field(name="offsetTable", default_factory=dict)


class ClientPositions(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 221 and 223: what the client says, and per client id what each said. Queue key to queue offset."""

    offsets: Mapping[str, Int64] = field(name="messageQueueTable", default_factory=dict)
    by_client: Mapping[str, Mapping[str, Int64]] = field(name="consumerTable", default_factory=dict)


class ConsumeDirectlyResult(Body, frozen=True, kw_only=True, gc=False):
    """The client's answer to 309. `result` is CR_SUCCESS, CR_LATER, CR_ROLLBACK, CR_COMMIT, CR_THROW_EXCEPTION, ..."""

    order: bool = False
    auto_commit: bool = True
    result: str = field(name="consumeResult", default="CR_SUCCESS")
    remark: str | UnsetType = UNSET
    spent_time_ms: Int64 = field(name="spentTimeMills", default=0)
