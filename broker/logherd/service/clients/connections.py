"""Which clients are connected, for operators: requests 203, 204 and 328.

Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/processor/AdminBrokerProcessor.java
"""

from logherd.service.clients import registry
from logherd.service.clients.registry import ClientRegistry
from logherd.service.errors import RequestError
from logherd.service.ports import Answer, Handler, Request, Session
from logherd.service.requests import body_reply, header_of
from logherd.wire.bodies.clients import Subscription
from logherd.wire.bodies.connections import (
    Connection,
    ConsumerConnections,
    ProducerConnections,
    ProducerInfo,
    ProducerTable,
)  # fmt: skip
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.headers.admin import ProducerGroupHeader
from logherd.wire.headers.clients import ConsumerGroupHeader

__all__ = ["Connections", "subscription_data"]


class Connections:
    """Lists of connected clients."""

    def __init__(self, registry: ClientRegistry) -> None:
        self._registry = registry

    def handlers(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumers,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producers,
            RequestCode.GET_ALL_PRODUCER_INFO: self.all_producers,
        }

    def consumers(self, request: Request, _session: Session) -> Answer:
        """203."""
        name = header_of(request, ConsumerGroupHeader).consumer_group
        group = self._registry.consumer_group(name)
        if group is None:
            raise RequestError(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
        return body_reply(
            ConsumerConnections(
                connections=[_connection(member) for member in group.connections()],
                subscriptions={topic: subscription_data(wanted) for topic, wanted in group.subscriptions.items()},
                consume_type=group.profile.consume_type,
                message_model=group.profile.message_model,
                consume_from=group.profile.consume_from,
            )
        )

    def producers(self, request: Request, _session: Session) -> Answer:
        """204."""
        name = header_of(request, ProducerGroupHeader).producer_group
        members = self._registry.producers(name)
        if not members:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
        return body_reply(ProducerConnections(connections=[_connection(member) for member in members]))

    def all_producers(self, _request: Request, _session: Session) -> Answer:
        """328."""
        table = {
            name: [
                ProducerInfo(
                    client_id=member.client_id, remote_ip=_address(member), language=member.language,
                    version=member.version, updated_ms=member.seen_wall_ms,
                )
                for member in self._registry.producers(name)
            ]
            for name in self._registry.producer_groups()
        }  # fmt: skip
        return body_reply(ProducerTable(groups=table))


def subscription_data(wanted: registry.Subscription) -> Subscription:
    """A subscription as clients and tools read it."""
    return Subscription(
        topic=wanted.topic, expression=wanted.expression, expression_type=wanted.expression_type,
        tags=list(wanted.tags), codes=list(wanted.codes), version=wanted.version, class_filter=wanted.class_filter,
    )  # fmt: skip


def _connection(member: registry.Connection) -> Connection:
    return Connection(
        client_id=member.client_id, address=_address(member), language=member.language, version=member.version
    )


def _address(member: registry.Connection) -> str:
    return f"{member.session.remote_ip}:{member.session.remote_port}"
