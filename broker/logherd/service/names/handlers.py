"""Answers of the name service about brokers and topics, by request code.

Routes are encoded once for all clients and kept until the table changes: thousands of clients ask for the same few
every 30 s.

Source: apache/rocketmq: namesrv/.../processor/DefaultRequestProcessor.java, ClientRequestProcessor.java
"""

from msgspec import UNSET

from logherd.kit.clock import Clock
from logherd.model.topic import TopicConfig
from logherd.service.errors import RequestError
from logherd.service.identity import BrokerIdentity
from logherd.service.names.epochs import Superseded
from logherd.service.names.keyvalues import ORDER_TOPICS, KeyValues
from logherd.service.names.registration import broker_data, decode_registration, queue_configs, route_data
from logherd.service.names.routes import RegistrationError, RouteTable, TableVersion
from logherd.service.ports import Answer, Handler, Reply, Request, Session
from logherd.service.requests import body_reply, header_of
from logherd.service.topic_names import check_topic_name
from logherd.wire.bodies import decode_body, encode_body
from logherd.wire.bodies.configs import DataVersion
from logherd.wire.bodies.routes import ClusterInfo, KVTable, MemberGroup, MemberGroupAnswer, TopicList, TopicRoute
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.headers.names import (
    AddWritePermissionResponse,
    BrokerHeartbeatHeader,
    BrokerNameHeader,
    ClusterHeader,
    DataVersionHeader,
    DataVersionResponse,
    DeleteNamesTopicHeader,
    MemberGroupHeader,
    RegisterBrokerHeader,
    RegisterBrokerResponse,
    RegistrationRefusal,
    RouteHeader,
    UnregisterBrokerHeader,
    WipeWritePermissionResponse,
)  # fmt: skip
from logherd.wire.headers.topics import TopicHeader

__all__ = ["BrokerNames", "TopicNames"]

UNIT, UNIT_SUBSCRIPTION = 1, 2
"""Bits of a topic's system flag: it, or its retry topics, belong to a unit (a part of a multi-site deployment)."""


class TopicNames:
    """Routes and lists of topics."""

    def __init__(self, routes: RouteTable, clock: Clock) -> None:
        self._routes = routes
        self._clock = clock
        self._encoded: dict[str, bytes] = {}
        self._encoded_revision = -1

    def handlers(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self.route,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self.all_topics,
            RequestCode.GET_TOPICS_BY_CLUSTER: self.topics_of_cluster,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self.system_topics,
            RequestCode.GET_UNIT_TOPIC_LIST: self.unit_topics,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self.unit_subscribed_topics,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self.unit_subscribed_other_topics,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self.delete_topic,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: self.register_topic,
        }

    def route(self, request: Request, _session: Session) -> Answer:
        """105. The body is strict JSON whatever the client's version: all of them read it."""
        header = header_of(request, RouteHeader)
        if self._encoded_revision != self._routes.revision:
            self._encoded_revision = self._routes.revision
            self._encoded.clear()
        body = self._encoded.get(header.topic)
        zone = header.zone_name if (header.zone_mode or "").lower() == "true" else None
        if body is None or zone:
            route = self._routes.route(header.topic)
            if route is None:
                raise self._unknown(header.topic)
            body = encode_body(route_data(route, zone=zone))
            if not zone:
                self._encoded[header.topic] = body
        return Reply(body=body)

    def _unknown(self, topic: str) -> RequestError:
        if not self._routes.settled(self._clock.monotonic_ms()):
            return RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"the name service has just started and does not know yet whether topic {topic} exists; try again",
            )
        return RequestError(ResponseCode.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {topic}")

    def all_topics(self, _request: Request, _session: Session) -> Answer:
        """206."""
        return body_reply(TopicList(topics=self._routes.topics()))

    def topics_of_cluster(self, request: Request, _session: Session) -> Answer:
        """224."""
        return body_reply(TopicList(topics=self._routes.topics_of_cluster(header_of(request, ClusterHeader).cluster)))

    def system_topics(self, _request: Request, _session: Session) -> Answer:
        """304: clusters and brokers have topics of their own name; the tool asks the broker for the others."""
        clusters = self._routes.clusters()
        names = [name for cluster, brokers in clusters.items() for name in (cluster, *brokers)]
        leaders = (min(broker.addresses.items())[1] for broker in self._routes.brokers().values())
        return body_reply(TopicList(topics=names, broker_address=next(leaders, UNSET)))

    def unit_topics(self, _request: Request, _session: Session) -> Answer:
        """311."""
        return self._with_flags(present=UNIT)

    def unit_subscribed_topics(self, _request: Request, _session: Session) -> Answer:
        """312."""
        return self._with_flags(present=UNIT_SUBSCRIPTION)

    def unit_subscribed_other_topics(self, _request: Request, _session: Session) -> Answer:
        """313."""
        return self._with_flags(present=UNIT_SUBSCRIPTION, absent=UNIT)

    def _with_flags(self, *, present: int, absent: int = 0) -> Answer:
        def keep(config: TopicConfig) -> bool:
            return bool(config.system_flag & present) and not config.system_flag & absent

        return body_reply(TopicList(topics=self._routes.topics(keep)))

    def delete_topic(self, request: Request, _session: Session) -> Answer:
        """216."""
        header = header_of(request, DeleteNamesTopicHeader)
        self._routes.delete_topic(header.topic, header.cluster_name or None)
        return Reply()

    def register_topic(self, request: Request, _session: Session) -> Answer:
        """217. RocketMQ takes any name; one that no broker takes would stand in routes, and in lists for people."""
        topic = header_of(request, TopicHeader).topic
        check_topic_name(topic)
        queues = queue_configs(topic, decode_body(TopicRoute, request.body))
        if queues and not self._routes.register_topic(topic, queues):
            names = ", ".join(sorted(queues))
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"topic {topic}: not all of {names} are registered brokers")
        return Reply()


class BrokerNames:
    """Registration of brokers, and questions about them."""

    def __init__(self, routes: RouteTable, values: KeyValues, clock: Clock) -> None:
        self._routes = routes
        self._values = values
        self._clock = clock

    def handlers(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.REGISTER_BROKER: self.register,
            RequestCode.UNREGISTER_BROKER: self.unregister,
            RequestCode.BROKER_HEARTBEAT: self.heartbeat,
            RequestCode.QUERY_DATA_VERSION: self.data_version,
            RequestCode.GET_BROKER_CLUSTER_INFO: self.cluster_info,
            RequestCode.GET_BROKER_MEMBER_GROUP: self.member_group,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self.wipe_write,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self.restore_write,
        }

    def register(self, request: Request, session: Session) -> Answer:
        """103. A broker is gone as soon as its connection closes, a leader among replicas when it has a successor."""
        registration = decode_registration(request, header_of(request, RegisterBrokerHeader), session.id)
        try:
            registered = self._routes.register(registration, self._clock.monotonic_ms())
        except Superseded as error:
            refusal = RegistrationRefusal(offered=error.offered, epoch=error.epoch, leader=error.leader)
            return Reply(ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH, refusal, remark=str(error))
        except RegistrationError as error:
            raise RequestError(ResponseCode.SYSTEM_ERROR, str(error)) from error
        header = RegisterBrokerResponse(
            ha_address=registered.leader_ha_address or None, master_address=registered.leader_address or None
        )
        orders = self._values.namespace(ORDER_TOPICS)
        return Reply(header=header, body=encode_body(KVTable(table=dict(orders))) if orders else b"")

    def unregister(self, request: Request, session: Session) -> Answer:
        """104. With an epoch only what was registered in it is taken back."""
        header = header_of(request, UnregisterBrokerHeader)
        broker = BrokerIdentity(header.cluster_name, header.broker_name, header.broker_id, header.broker_address)
        if header.epoch is None:
            self._routes.unregister(broker, session_id=session.id)
        else:
            self._routes.withdraw(broker, header.epoch, self._clock.monotonic_ms())
        return Reply()

    def heartbeat(self, request: Request, _session: Session) -> Answer:
        """904."""
        header = header_of(request, BrokerHeartbeatHeader)
        self._routes.touch(header.cluster_name, header.broker_address, self._clock.monotonic_ms())
        return Reply()

    def data_version(self, request: Request, _session: Session) -> Answer:
        """322: whether the broker should register again because its topics changed."""
        header = header_of(request, DataVersionHeader)
        asked = decode_body(DataVersion, request.body)
        known = self._routes.version_of(header.cluster_name, header.broker_address)
        self._routes.touch(header.cluster_name, header.broker_address, self._clock.monotonic_ms())
        changed = known != TableVersion(asked.counter, asked.state_version, asked.timestamp)
        body = b""
        if known is not None:
            body = encode_body(
                DataVersion(counter=known.counter, state_version=known.state_version, timestamp=known.timestamp)
            )
        return Reply(header=DataVersionResponse(changed=changed), body=body)

    def cluster_info(self, _request: Request, _session: Session) -> Answer:
        """106."""
        brokers = {name: broker_data(broker) for name, broker in self._routes.brokers().items()}
        return body_reply(ClusterInfo(brokers=brokers, clusters=self._routes.clusters()))

    def member_group(self, request: Request, _session: Session) -> Answer:
        """901. An unknown broker name is a group without addresses."""
        header = header_of(request, MemberGroupHeader)
        broker = self._routes.brokers().get(header.broker_name)
        known = broker is not None and broker.cluster == header.cluster_name
        addresses = dict(broker.addresses) if broker is not None and known else {}
        group = MemberGroup(cluster=header.cluster_name, broker_name=header.broker_name, addresses=addresses)
        return body_reply(MemberGroupAnswer(group=group))

    def wipe_write(self, request: Request, _session: Session) -> Answer:
        """205."""
        count = self._routes.wipe_write(header_of(request, BrokerNameHeader).broker_name)
        return Reply(header=WipeWritePermissionResponse(topics=count))

    def restore_write(self, request: Request, _session: Session) -> Answer:
        """327."""
        count = self._routes.restore_write(header_of(request, BrokerNameHeader).broker_name)
        return Reply(header=AddWritePermissionResponse(topics=count))
