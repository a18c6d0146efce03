"""Who is connected: 203, 204, 328, 345.

Source: apache/rocketmq: remoting/.../protocol/body/ConsumerConnection.java and its neighbours
"""

from collections.abc import Mapping, Sequence

from msgspec import field

from logherd.wire.bodies.base import Body, Int32, Int64
from logherd.wire.bodies.clients import Subscription

__all__ = [
    "Connection",
    "ConsumerConnections",
    "GroupSubscription",
    "ProducerConnections",
    "ProducerInfo",
    "ProducerTable",
]


class Connection(Body, frozen=True, kw_only=True, gc=False):
    """`address` is ip:port; `version` the ordinal that the client sent."""

    client_id: str
    address: str = field(name="clientAddr")
    language: str = "OTHER"
    version: Int32 = 0


class ConsumerConnections(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 203."""

    connections: Sequence[Connection] = field(name="connectionSet", default_factory=list)
    subscriptions: Mapping[str, Subscription] = field(name="subscriptionTable", default_factory=dict)
    consume_type: str | None = None
    message_model: str | None = None
    consume_from: str | None = field(name="consumeFromWhere", default=None)


class ProducerConnections(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 204."""

    connections: Sequence[Connection] = field(name="connectionSet", default_factory=list)


class ProducerInfo(Body, frozen=True, kw_only=True, gc=False):
    client_id: str
    remote_ip: str = field(name="remoteIP")
    language: str = "OTHER"
    version: Int32 = 0
    updated_ms: Int64 = field(name="lastUpdateTimestamp", default=0)


class ProducerTable(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 328, by producer group."""

    groups: Mapping[str, Sequence[ProducerInfo]] = field(name="data", default_factory=dict)


class GroupSubscription(Body, frozen=True, kw_only=True, gc=False):
    """The answer to 345."""

    group: str
    topic: str
    subscription: Subscription | None = field(name="subscriptionData", default=None)
