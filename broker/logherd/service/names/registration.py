"""Between the route table and what travels: registration bodies of all ages, routes, and the requests of a broker that
registers at a name service in another process.

Source: apache/rocketmq: namesrv/.../processor/DefaultRequestProcessor.java, broker/.../out/BrokerOuterAPI.java
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

import msgspec

from logherd.kit.checksum import crc32
from logherd.kit.clock import Clock
from logherd.model.topic import Permission, TopicConfig
from logherd.service.errors import RequestError
from logherd.service.identity import LEADER_ID, BrokerIdentity
from logherd.service.metadata import Metadata, TopicChange
from logherd.service.names.compressed import (
    BODY_BYTES_MAX,
    RegistrationBodyError,
    check_count,
    decode_compressed,
    encode_compressed,
)
from logherd.service.names.routes import (
    EXPIRY_MS,
    BrokerRoute,
    Registration,
    RouteTable,
    TableVersion,
)  # fmt: skip
from logherd.service.names.routes import TopicRoute as Route
from logherd.service.ports import Request
from logherd.wire.bodies import decode_body, encode_body
from logherd.wire.bodies.configs import DataVersion, RegisterBroker, TopicConfigBody, TopicConfigTable
from logherd.wire.bodies.routes import BrokerData, QueueData, TopicRoute
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.headers.names import RegisterBrokerHeader, UnregisterBrokerHeader

__all__ = ["LocalRegistration", "OutgoingRequest", "Registrar", "broker_data", "decode_registration", "queue_configs",
    "route_data"]  # fmt: skip

_CRC_MASK: Final = 0x7FFFFFFF
_PLAIN_BYTES_MAX: Final = 12 << 20
"""Longest body that is sent as RocketMQ 5 sends it; a frame has 16 MiB, which are 90,000 topics with short names."""
_TOPIC_BYTES_MIN: Final = 150
"""Of one topic in such a body; whoever has too many of them for it need not make it to know, while the loop waits."""
_VERSION_WITH_WRAPPER: Final = 37
"""V3_0_11: before it, the body was the topic table alone."""

ZONE_FIELD: Final = "__ZONE_NAME"


def decode_registration(request: Request, header: RegisterBrokerHeader, session_id: int) -> Registration:
    """What a broker says in a 103, in any of the body forms.

    Raises: RequestError 1 if the body's checksum differs, 29 if it is not understood; BodyError from its JSON.
    """
    body = request.body
    if header.body_crc and crc32(body) & _CRC_MASK != header.body_crc:
        raise RequestError(ResponseCode.SYSTEM_ERROR, "crc32 not match: the body was changed on its way")
    version, topics = _decode_topics(body, header, request.frame.version)
    return Registration(
        BrokerIdentity(header.cluster_name, header.broker_name, header.broker_id, header.broker_address),
        topics, version,
        ha_address=header.ha_address,
        session_id=session_id,
        expiry_ms=header.heartbeat_timeout_ms or EXPIRY_MS,
        acting_master=bool(header.acting_master),
        zone=request.frame.ext.get(ZONE_FIELD),
        complete=bool(header.complete),
        epoch=header.epoch if header.broker_id == LEADER_ID else None,
    )  # fmt: skip


def _decode_topics(
    body: bytes, header: RegisterBrokerHeader, version: int
) -> tuple[TableVersion, dict[str, TopicConfig]]:
    if not body:
        return TableVersion(), {}
    try:
        if header.compressed:
            return decode_compressed(body)
        if version < _VERSION_WITH_WRAPPER:
            table = decode_body(TopicConfigTable, body, bytes_max=BODY_BYTES_MAX)
        else:
            table = decode_body(RegisterBroker, body, bytes_max=BODY_BYTES_MAX).topics
        check_count(len(table.topics))
    except RegistrationBodyError as error:
        raise RequestError(ResponseCode.INVALID_PARAMETER, str(error)) from error
    # The key counts, as in RocketMQ; the name inside a configuration is the same in every sender known.
    topics = {name: config.to_model() for name, config in table.topics.items()}
    told = table.version
    return TableVersion(told.counter, told.state_version, told.timestamp), topics


def route_data(route: Route, *, zone: str | None) -> TopicRoute:
    """The answer to 105. With a zone, brokers with a leader in another zone are left out, and their queues."""
    brokers = [broker for broker in route.brokers if not zone or 0 not in broker.addresses or broker.zone == zone]
    names = {broker.name for broker in brokers}
    return TopicRoute(
        queues=[_queue_data(name, config) for name, config in route.queues.items() if name in names],
        brokers=[broker_data(broker) for broker in brokers],
    )


def _queue_data(broker_name: str, config: TopicConfig) -> QueueData:
    return QueueData(
        broker_name=broker_name, read_queues=config.read_queues, write_queues=config.write_queues,
        permission=config.permission, sys_flag=config.system_flag,
    )  # fmt: skip


def broker_data(broker: BrokerRoute) -> BrokerData:
    """A broker as routes and the cluster list name it."""
    return BrokerData(
        cluster=broker.cluster, broker_name=broker.name, addresses=dict(broker.addresses),
        acting_master=broker.acting_master, zone_name=broker.zone or msgspec.UNSET,
    )  # fmt: skip


def queue_configs(topic: str, route: TopicRoute) -> dict[str, TopicConfig]:
    """The queues of a topic by broker name, as 217 sets them."""
    return {
        queue.broker_name: TopicConfig(
            topic, queue.read_queues, queue.write_queues, queue.permission, queue.sys_flag
        )
        for queue in route.queues
    }  # fmt: skip


class LocalRegistration:
    """Keeps a route table of this process in step with the metadata of the broker in this process.

    A broker that is alone in its group leads without an epoch; one of several leads between `lead` and `follow`.
    """

    def __init__(
        self, routes: RouteTable, identity: BrokerIdentity, metadata: Metadata, clock: Clock, *,
        ha_address: str = "", alone: bool = True,
    ) -> None:  # fmt: skip
        self._routes = routes
        self._identity = identity if alone else identity._replace(broker_id=LEADER_ID)
        self._metadata = metadata
        self._clock = clock
        self._ha_address = ha_address
        self._permission: int = Permission.READ_WRITE
        self._leads = alone
        self._epoch: int | None = None
        metadata.on_topic_change.append(self._topic_changed)

    def lead(self, epoch: int) -> None:
        """This broker leads its group in this epoch; `register` puts it into routes."""
        self._leads, self._epoch = True, epoch

    def follow(self) -> None:
        """This broker leads no more: its routes end with the next leader, or after a while."""
        self._leads = False
        if self._epoch is not None:
            self._routes.withdraw(self._identity, self._epoch, self._clock.monotonic_ms())

    def register(self) -> None:
        """Put the broker and all its topics into routes, if it leads: call it when the broker is ready to serve.

        Raises: RegistrationError if another broker holds the same name and id with a newer state.
        """
        if not self._leads:
            return
        topics = {topic.name: _permitted(topic, self._permission) for topic in self._metadata.topics}
        told = self._metadata.version
        version = TableVersion(told.counter, told.state_version, told.timestamp)
        registration = Registration(
            self._identity, topics, version, ha_address=self._ha_address, complete=True, epoch=self._epoch
        )
        self._routes.register(registration, self._clock.monotonic_ms())

    def set_permission(self, permission: int) -> None:
        """Take the broker's own permission into routes: clients send to and pull from it only as far as it goes."""
        self._permission = permission
        if self._identity.name in self._routes.brokers():
            self.register()

    def unregister(self) -> None:
        """Take the broker out of all routes: call it before the broker stops serving."""
        self.follow()
        if self._epoch is None:
            self._routes.unregister(self._identity)

    def _topic_changed(self, change: TopicChange) -> None:
        if not self._leads:
            return
        if change.config is not None:
            # Not known before register(), which takes all topics.
            self._routes.register_topic(change.name, {self._identity.name: _permitted(change.config, self._permission)})
        else:
            self._routes.drop_topic(change.name, self._identity.name)


class OutgoingRequest(NamedTuple):
    """A request to send to each name service."""

    code: RequestCode
    header: msgspec.Struct
    body: bytes = b""


class Registrar:
    """The requests of a broker whose name services are in other processes; the app sends them.

    A broker that is alone in its group always leads, without an epoch. One of several leads between `lead` and
    `follow`, and registers under the leader's id whatever its own is.
    """

    def __init__(
        self, identity: BrokerIdentity, metadata: Metadata, *, ha_address: str, routed: str = "", alone: bool = True
    ) -> None:  # fmt: skip
        """`routed`: an address that follows the leader, which routes name instead of this broker's own."""
        self._own = identity.address
        self._routed = routed or identity.address
        own = identity if alone else identity._replace(broker_id=LEADER_ID)
        self._identity = own._replace(address=self._routed)
        self._metadata = metadata
        self._ha_address = ha_address
        self._permission: int = Permission.READ_WRITE
        self._permission_changes = 0
        self._leads = alone
        self.ever_led = alone
        """Whether there may be something to withdraw."""
        self._epoch: int | None = None

    @property
    def leads(self) -> bool:
        """Whether there is something to register."""
        return self._leads

    @property
    def address(self) -> str:
        """What is registered while this broker leads."""
        return self._identity.address

    def name(self, *, own: bool) -> bool:
        """Register this broker's own address from now on, or the one that follows the leader; whether that is another
        one. A name service puts it in the place of the other."""
        address = self._own if own else self._routed
        if address == self.address:  # nearly always, and asked after each step of the replica
            return False
        self._identity = self._identity._replace(address=address)
        return True

    def lead(self, epoch: int) -> None:
        """This broker leads its group in this epoch and is ready to serve."""
        self._leads, self._epoch, self.ever_led = True, epoch, True

    def follow(self) -> None:
        """This broker leads no more: what it registered is to be withdrawn."""
        self._leads = False

    def set_permission(self, permission: int) -> None:
        """Take the broker's own permission into the next registration."""
        self._permission_changes += permission != self._permission
        self._permission = permission

    def register(self) -> OutgoingRequest | None:
        """103 with all topics, uncompressed as RocketMQ 5 sends it unless they are too many for that, with a checksum
        of the body; None if it follows.

        To be sent when a connection opens, every 30 s, and soon after anything changed. A name service of RocketMQ does
        not take a deleted topic out of its routes by it: there, `mqadmin deleteTopic` does so itself. Nor does it know
        epochs, but it lets the higher state version win, as it does for its own controllers' masters.
        """
        if not self._leads:
            return None
        topics = [_permitted(topic, self._permission) for topic in self._metadata.topics]
        fits = len(topics) * _TOPIC_BYTES_MIN <= _PLAIN_BYTES_MAX
        body = self._plain_body(topics) if fits else b""
        compressed = not fits or len(body) > _PLAIN_BYTES_MAX
        if compressed:
            body = encode_compressed(self._version, topics)
        identity = self._identity
        header = RegisterBrokerHeader(
            broker_name=identity.name, broker_address=identity.address, cluster_name=identity.cluster,
            ha_address=self._ha_address, broker_id=identity.broker_id, heartbeat_timeout_ms=EXPIRY_MS,
            acting_master=False, compressed=compressed, body_crc=crc32(body) & _CRC_MASK, complete=True,
            epoch=self._epoch,
        )  # fmt: skip
        return OutgoingRequest(RequestCode.REGISTER_BROKER, header, body)

    @property
    def _version(self) -> TableVersion:
        """Another one whenever another table is told: RocketMQ reads the topics of no version that it knows. Each
        start is an epoch, so that what is counted since then is enough."""
        told = self._metadata.version
        counter = told.counter + self._permission_changes
        return TableVersion(counter, max(told.state_version, self._epoch or 0), told.timestamp)

    def _plain_body(self, topics: Iterable[TopicConfig]) -> bytes:
        told = self._version
        version = DataVersion(counter=told.counter, state_version=told.state_version, timestamp=told.timestamp)
        bodies = {topic.name: TopicConfigBody.from_model(topic) for topic in topics}
        return encode_body(RegisterBroker(topics=TopicConfigTable(version=version, topics=bodies)))

    def attend(self, follower: BrokerIdentity) -> OutgoingRequest | None:
        """103 of a broker that follows and answers pulls: under its own id and address, without topics, which are the
        leader's to tell; None while it leads."""
        if self._leads:
            return None
        told = self._metadata.version
        version = DataVersion(counter=told.counter, state_version=told.state_version, timestamp=told.timestamp)
        body = encode_body(RegisterBroker(topics=TopicConfigTable(version=version, topics={})))
        header = RegisterBrokerHeader(
            broker_name=follower.name, broker_address=follower.address, cluster_name=follower.cluster, ha_address="",
            broker_id=follower.broker_id, heartbeat_timeout_ms=EXPIRY_MS, acting_master=False, compressed=False,
            body_crc=crc32(body) & _CRC_MASK, complete=True,
        )  # fmt: skip
        return OutgoingRequest(RequestCode.REGISTER_BROKER, header, body)

    def depart(self, follower: BrokerIdentity) -> OutgoingRequest:
        """104: what `attend` has registered is withdrawn."""
        header = UnregisterBrokerHeader(
            broker_name=follower.name, broker_address=follower.address, cluster_name=follower.cluster,
            broker_id=follower.broker_id,
        )  # fmt: skip
        return OutgoingRequest(RequestCode.UNREGISTER_BROKER, header)

    def unregister(self) -> OutgoingRequest | None:
        """104: what was registered in the latest epoch is withdrawn, and nothing later.

        None for the address that follows the leader: a name service of RocketMQ, which knows no epoch, would take the
        next leader's registration for it. It goes with the connection, or when it is no more repeated.
        """
        if self.address != self._own:
            return None
        identity = self._identity
        header = UnregisterBrokerHeader(
            broker_name=identity.name, broker_address=identity.address, cluster_name=identity.cluster,
            broker_id=identity.broker_id, epoch=self._epoch,
        )  # fmt: skip
        return OutgoingRequest(RequestCode.UNREGISTER_BROKER, header)


def _permitted(topic: TopicConfig, permission: int) -> TopicConfig:
    """The topic as far as the broker's own permission allows it."""
    allowed = topic.permission & (permission | ~Permission.READ_WRITE)
    return topic if allowed == topic.permission else replace(topic, permission=allowed)
