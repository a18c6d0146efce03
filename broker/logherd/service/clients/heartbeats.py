"""Heartbeats and what follows from them: membership, retry topics, groups, and telling a group that it changed.

Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/processor/ClientManageProcessor.java
Source: apache/rocketmq: broker/.../client/DefaultConsumerIdsChangeListener.java
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from logherd.kit.clock import Clock
from logherd.model.topic import RETRY_PREFIX, GroupConfig, Permission, TopicConfig
from logherd.service.clients.registry import (
    BROADCASTING,
    PLACES_MAX,
    ClientRegistry,
    Connection,
    ConsumerProfile,
    Subscription,
)  # fmt: skip
from logherd.service.errors import RequestError
from logherd.service.group_names import check_group_name
from logherd.service.metadata import Metadata, MetadataRefusedError, is_system_group
from logherd.service.ports import PARKED, Answer, Handler, Reply, Request, Session
from logherd.service.requests import after, body_reply, header_of
from logherd.wire.bodies import decode_body
from logherd.wire.bodies.clients import ClientConfig, ConsumerData, ConsumerIds, Heartbeat
from logherd.wire.bodies.clients import Subscription as SubscriptionBody
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.errors import BodyError
from logherd.wire.frame import Flag
from logherd.wire.headers.clients import ConsumerGroupHeader, HeartbeatResponse, UnregisterClientHeader

__all__ = ["Heartbeats", "HeartbeatsOptions", "decode_heartbeat", "subscription_of"]

UNIT_SUBSCRIPTION = 2
GROUPS_MAX: Final = 1_000
SUBSCRIPTIONS_MAX: Final = 10_000
"""Of one heartbeat: each new group is two records of the log, and nothing else is done meanwhile."""
CLIENT_LENGTH_MAX: Final = 1024
GROUP_LENGTH_MAX: Final = 255
CALM_MS: Final = 2_000
"""For so long after a new leader has heard of its first client it tells no group that it changed: the other brokers
have to hear of it and name their clients, and those of one that is gone come back. Who is told shares out its queues at
once, and consumes those of members that are not in the list yet a second time. For the same reason who asks for the
members hears of them at the end of this time, as long as stock clients wait for it (3 s)."""
LED_MS: Final = 10_000
"""Who has led for so long without any client begins calmly no more: all brokers have had the time."""
_ASKING_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class HeartbeatsOptions:
    """What is configured about heartbeats."""

    auto_create_groups: bool = True


class Heartbeats:
    """Requests 34, 35, 38 and 46, and the notifications of request 40."""

    def __init__(
        self, registry: ClientRegistry, metadata: Metadata, clock: Clock, *, options: HeartbeatsOptions
    ) -> None:
        self._registry = registry
        self._metadata = metadata
        self._clock = clock
        self._told: dict[str, bool] = {}
        """Groups that were told since the last `tell_again`, and whether they have changed after that."""
        self._begins = False
        self._leads_from = 0
        self._calm_until = 0
        self._asking: list[tuple[Request, Session]] = []
        """Who asks for members while it is calm."""
        self.auto_create_groups = options.auto_create_groups

    def handlers(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.HEART_BEAT: self.heartbeat,
            RequestCode.UNREGISTER_CLIENT: self.unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.members,
            RequestCode.CHECK_CLIENT_CONFIG: self.check_configuration,
        }

    # -- what the app calls

    def session_closed(self, session: Session) -> None:
        """A connection is gone: its clients leave their groups, and the others hear of it."""
        self._notify(self._registry.session_closed(session.id))

    def tick(self) -> None:
        """Drop clients that fell silent. Call it every 10 s."""
        self._notify(self._registry.expire(self._clock.monotonic_ms()))

    def step_down(self) -> None:
        """This broker leads no more: the next leader tells the groups. If it leads again, it begins calmly."""
        self._told.clear()
        self._begins, self._leads_from = True, self._clock.monotonic_ms()
        gone = Reply(ResponseCode.SYSTEM_ERROR, remark="the leader has changed: ask again")
        self._answer_all(lambda _: gone)

    def tell_again(self) -> None:
        """Tell the groups that have changed once more since they were told, and answer who asked for their members.
        Call it every 100 ms or so."""
        now_ms = self._clock.monotonic_ms()
        if not self._metadata.leading:
            self._leads_from = now_ms
        elif now_ms - self._leads_from >= LED_MS:
            self._begins = False
        if now_ms < self._calm_until:
            return
        self._answer_all(self._members)
        again = [name for name, changed in self._told.items() if changed]
        self._told = dict.fromkeys(again, False)
        for name in again:
            self._tell(name)

    # -- requests

    def heartbeat(self, request: Request, session: Session) -> Answer:
        """34. Groups that cannot be made are refused at the end, after all others joined.

        A client of heartbeat version 2 leaves out its subscriptions once it knows that the broker has them, by their
        fingerprint; the answer asks for them when the broker does not, as after its restart.
        """
        data = decode_heartbeat(request.body)
        if not data.client_id:
            raise RequestError(ResponseCode.INVALID_PARAMETER, "clientID is missing")
        self._check_room(session, data)
        refused, missing, position = list[RequestError | MetadataRefusedError](), False, 0
        for producer in data.producers:
            self._registry.join_producer(producer.group, self._connection(request, session, data))
        for consumer in data.consumers:
            try:
                position = max(position, self._ensure_group(consumer))
            except (RequestError, MetadataRefusedError) as error:
                refused.append(error)
                if consumer.group not in self._metadata.groups:
                    continue  # of a group that exists the log has not taken the retry topic, which can wait
            missing = self._join(request, session, data, consumer) or missing
        if refused:
            raise refused[0]
        changed = missing or not data.fingerprint
        return after(position, Reply(header=HeartbeatResponse(subscription_changed=changed)))

    def unregister(self, request: Request, session: Session) -> Answer:
        """35."""
        header = header_of(request, UnregisterClientHeader)
        group = header.consumer_group or ""
        lost = self._registry.leave(
            session.id, header.client_id, producer_group=header.producer_group or "", consumer_group=group
        )
        if lost:
            self._notify([group])
        return Reply()

    def members(self, request: Request, session: Session) -> Answer:
        """38. A group without members is an error, so that a client never takes it for "nobody needs a queue"."""
        if self._is_calm() and len(self._asking) < _ASKING_MAX:
            self._asking.append((request, session))
            return PARKED
        return self._members(request)

    def check_configuration(self, request: Request, _session: Session) -> Answer:
        """46. Clients send it for subscriptions that are no tags, of which there are none that this broker filters."""
        subscription = decode_body(ClientConfig, request.body).subscription
        if subscription is not None and subscription.expression_type not in (None, "", "TAG"):
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"The broker does not support consumer to filter message by {subscription.expression_type}",
            )
        return Reply()

    # -- inside

    def _members(self, request: Request) -> Reply:
        name = header_of(request, ConsumerGroupHeader).consumer_group
        group = self._registry.consumer_group(name)
        if group is None:
            return Reply(ResponseCode.SYSTEM_ERROR, remark=f"no consumer for this group, {name}")
        return body_reply(ConsumerIds(ids=list(group.members)))

    def _check_room(self, session: Session, data: Heartbeat) -> None:
        """What a connection names is kept, and one that is not silent may name more again and again."""
        producers = [producer.group for producer in data.producers]
        consumers = [consumer.group for consumer in data.consumers]
        if not self._registry.has_room(session.id, data.client_id, producers=producers, consumers=consumers):
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"the clients of this connection are in {PLACES_MAX} groups, which is the most; use another one",
            )

    def _answer_all(self, answer: Callable[[Request], Reply]) -> None:
        asking, self._asking = self._asking, []
        for request, session in asking:
            session.reply(request, answer(request))

    def _is_calm(self) -> bool:
        """Whether a leader has just begun; it does with whatever is the first that it hears of clients."""
        now_ms = self._clock.monotonic_ms()
        if self._begins:
            self._begins, self._calm_until = False, now_ms + CALM_MS
        return now_ms < self._calm_until

    def _ensure_group(self, consumer: ConsumerData) -> int:
        """Create the group and its retry topic if they are missing; returns the position to wait for."""
        name = consumer.group
        groups, topics = self._metadata.groups, self._metadata.topics
        config = groups.get(name)
        position = 0
        if config is None:
            check_group_name(name)
            if not self.auto_create_groups and not is_system_group(name):
                raise RequestError(
                    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                    f"subscription group {name} does not exist and autoCreateSubscriptionGroup is false",
                )
            config = GroupConfig(name)
            position = groups.put(config)
        retry_topic = RETRY_PREFIX + name
        if config.retry_queues > 0 and topics.get(retry_topic) is None:
            flag = UNIT_SUBSCRIPTION if consumer.unit_mode else 0
            position = topics.put(
                TopicConfig(retry_topic, config.retry_queues, config.retry_queues, Permission.READ_WRITE, flag)
            )
        return position

    def _join(self, request: Request, session: Session, data: Heartbeat, consumer: ConsumerData) -> bool:
        """Add one consumer; whether the broker lacks the subscriptions that the client left out."""
        connection = self._connection(request, session, data)
        known = self._registry.consumer_group(consumer.group)
        before = known.connection(data.client_id) if known else None
        missing = data.without_subscriptions and (before is None or before.fingerprint != data.fingerprint)
        if data.without_subscriptions:
            connection.fingerprint = 0
            subscriptions = None
        else:
            subscriptions = {item.topic: subscription_of(item) for item in consumer.subscriptions}
        profile = ConsumerProfile(consumer.consume_type, consumer.message_model, consumer.consume_from)
        if self._registry.join_consumer(consumer.group, profile, connection, subscriptions=subscriptions):
            self._notify([consumer.group])
        return missing

    def _connection(self, request: Request, session: Session, data: Heartbeat) -> Connection:
        # Brokers name their clients to a new leader oneway; what clients send is passed on as a request of two ways.
        frame = request.frame
        return Connection(
            data.client_id, session, frame.language, frame.version, self._clock.monotonic_ms(), self._clock.now_ms(),
            data.fingerprint, named=bool(frame.flag & Flag.ONEWAY),
        )  # fmt: skip

    def _notify(self, groups: list[str]) -> None:
        """Members or topics of these groups changed: tell them now, or at the next `tell_again` if they were told since
        the last one. A thousand members that come back at once would else be told of each other a million times."""
        if not groups:
            return  # a broker that does not lead has no clients here, and is looked at for silent ones all the same
        calm = self._is_calm()
        for name in groups:
            again = self._told[name] = name in self._told or calm
            if not again:
                self._tell(name)

    def _tell(self, name: str) -> None:
        """Tell every member of a group that it changed, so that they share out the queues at once."""
        group = self._registry.consumer_group(name)
        config = self._metadata.groups.get(name)
        if group is None or group.profile.message_model == BROADCASTING:
            return
        if config is not None and not config.notify_members:
            return
        header = ConsumerGroupHeader(consumer_group=name)
        for member in group.connections():
            member.session.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header)


def decode_heartbeat(body: bytes) -> Heartbeat:
    """What a heartbeat says. Raises: BodyError if it is none, or holds more than any client has."""
    data = decode_body(Heartbeat, body)
    groups = len(data.producers) + len(data.consumers)
    subscriptions = sum(len(consumer.subscriptions) for consumer in data.consumers)
    if groups > GROUPS_MAX or subscriptions > SUBSCRIPTIONS_MAX:
        raise BodyError(
            f"a heartbeat names {groups} groups and {subscriptions} subscriptions; at most {GROUPS_MAX} and "
            f"{SUBSCRIPTIONS_MAX} are taken from one client"
        )
    longest = max([len(producer.group) for producer in data.producers], default=0)
    if len(data.client_id) > CLIENT_LENGTH_MAX or longest > GROUP_LENGTH_MAX:
        raise BodyError(
            f"clientID has {len(data.client_id)} characters and the longest producer group {longest}, right are at "
            f"most {CLIENT_LENGTH_MAX} and {GROUP_LENGTH_MAX}"
        )
    return data


def subscription_of(data: SubscriptionBody) -> Subscription:
    """A subscription as a client describes it."""
    return Subscription(
        data.topic, data.expression or "", data.expression_type or "TAG", tuple(data.tags), tuple(data.codes),
        data.version, data.class_filter,
    )  # fmt: skip
