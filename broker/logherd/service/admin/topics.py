"""Topics: requests 17, 18, 21, 202, 215, 300, 305 and 351.

Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/processor/AdminBrokerProcessor.java
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from msgspec import field

from logherd.model.topic import TopicConfig
from logherd.service.admin.attributes import TopicAttributeError, alter_attributes, parse_modifications
from logherd.service.admin.queue_figures import QueueFigures
from logherd.service.admin.slices import Look, Slices
from logherd.service.clients.registry import ClientRegistry
from logherd.service.errors import RequestError
from logherd.service.identity import BrokerIdentity
from logherd.service.metadata import Metadata, TopicChange, is_system_topic
from logherd.service.metadata.reserved import TRACE_TOPIC, reply_topic
from logherd.service.ports import Answer, Handler, Reply, Request, Session
from logherd.service.requests import after, body_reply, header_of, settled
from logherd.service.stats import BrokerStats
from logherd.service.topic_names import check_topic_name
from logherd.store import MessageStore
from logherd.wire.bodies import decode_body, queue_key
from logherd.wire.bodies.configs import DataVersion, TopicConfigBody, TopicConfigList, TopicConfigTable
from logherd.wire.bodies.progress import QueueRange, TopicStats
from logherd.wire.bodies.routes import GroupList, TopicList
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.headers.topics import CreateTopicHeader, TopicConfigHeader, TopicHeader

__all__ = ["TopicAdmin"]

QUEUES_MAX: Final = 16_384
PERMISSION_MAX: Final = 15
_NO_TOPIC: Final = "No topic in this broker. topic: {}"


class _TopicStats(TopicStats, frozen=True, kw_only=True):
    """202 with the rate that `mqadmin topicStatus` prints since RocketMQ 5.3."""

    put_rate: float = field(name="topicPutTps", default=0.0)


class TopicAdmin:
    """Topics of this broker group."""

    def __init__(
        self, metadata: Metadata, store: MessageStore, registry: ClientRegistry, stats: BrokerStats, *,
        identity: BrokerIdentity, slices: Slices,
    ) -> None:  # fmt: skip
        self._metadata = metadata
        self._store = store
        self._figures = QueueFigures(store)
        self._registry = registry
        self._stats = stats
        self._identity = identity
        self._slices = slices
        metadata.on_topic_change.append(self._topic_changed)
        self._own = {identity.cluster, identity.name, reply_topic(identity.cluster)}

    def handlers(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.put,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self.put_all,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete,
            RequestCode.GET_TOPIC_CONFIG: self.configuration,
            RequestCode.GET_ALL_TOPIC_CONFIG: self.all_configurations,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self.system_topics,
            RequestCode.GET_TOPIC_STATS_INFO: self.figures,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self.consumers,
        }

    # -- changes

    def put(self, request: Request, _session: Session) -> Answer:
        """17."""
        header = header_of(request, CreateTopicHeader)
        asked = TopicConfig(
            header.topic, header.read_queues, header.write_queues, header.permission, header.sys_flag or 0,
            bool(header.order),
        )  # fmt: skip
        try:
            modifications = parse_modifications(header.attributes or "")
        except TopicAttributeError as error:
            raise RequestError(ResponseCode.SYSTEM_ERROR, str(error)) from error
        return after(self._metadata.topics.put(self._checked(asked, modifications)))

    def put_all(self, request: Request, _session: Session) -> Answer:
        """18: none if one is wrong. What a log took before it was full stays; the order can be repeated."""
        bodies = decode_body(TopicConfigList, request.body).topics
        configs = [self._checked(replace(body.to_model(), attributes={}), body.attributes) for body in bodies]
        position = 0
        for config in configs:
            position = self._metadata.topics.put(config)
        return after(position)

    def delete(self, request: Request, _session: Session) -> Answer:
        """215. Deleting what is not there succeeds, so that a repeated command does too."""
        name = header_of(request, TopicHeader).topic
        check_topic_name(name)
        self._refuse_system(name)
        position = self._metadata.topics.delete(name)
        self._store.delete_topic(name)
        return after(position)

    def _topic_changed(self, change: TopicChange) -> None:
        """Also when another leader deletes it: this broker may have counted while it led."""
        if change.config is None:
            self._stats.forget_topic(change.name)

    def _checked(self, asked: TopicConfig, modifications: Mapping[str, str]) -> TopicConfig:
        """The topic as it will be. Raises RequestError that names the field and what is right."""
        check_topic_name(asked.name)
        self._refuse_system(asked.name)
        for what, queues in (("readQueueNums", asked.read_queues), ("writeQueueNums", asked.write_queues)):
            if not 1 <= queues <= QUEUES_MAX:
                raise RequestError(ResponseCode.INVALID_PARAMETER, f"{what} is {queues}; right is 1 to {QUEUES_MAX}")
        if not 0 <= asked.permission <= PERMISSION_MAX:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"perm is {asked.permission}; right is a sum of 4 (read), 2 (write) and 1 (inherit)",
            )
        known = self._metadata.topics.get(asked.name)
        try:
            attributes = alter_attributes(None if known is None else known.attributes, modifications)
        except TopicAttributeError as error:
            raise RequestError(ResponseCode.SYSTEM_ERROR, str(error)) from error
        return replace(asked, attributes=attributes)

    def _refuse_system(self, name: str) -> None:
        if self._is_system(name) and name != TRACE_TOPIC:
            raise RequestError(ResponseCode.INVALID_PARAMETER, f"The topic[{name}] is conflict with system topic.")

    def _is_system(self, name: str) -> bool:
        return is_system_topic(name) or name in self._own

    # -- questions

    def configuration(self, request: Request, _session: Session) -> Answer:
        """351."""
        name = header_of(request, TopicConfigHeader).topic
        topic = self._metadata.topics.get(name)
        if topic is None:
            reply = Reply(ResponseCode.TOPIC_NOT_EXIST, remark=_NO_TOPIC.format(name))
        else:
            reply = body_reply(TopicConfigBody.from_model(topic))
        return settled(self._metadata.topics.unsettled, reply)

    def all_configurations(self, _request: Request, _session: Session) -> Answer:
        """21."""
        version = self._metadata.topics.version
        table = TopicConfigTable(
            version=DataVersion(
                counter=version.counter, state_version=version.state_version, timestamp=version.timestamp
            ),
            topics={topic.name: TopicConfigBody.from_model(topic) for topic in self._metadata.topics},
        )
        return settled(self._metadata.topics.unsettled, body_reply(table))

    def system_topics(self, _request: Request, _session: Session) -> Answer:
        """305."""
        return body_reply(TopicList(topics=[t.name for t in self._metadata.topics if self._is_system(t.name)]))

    def figures(self, request: Request, session: Session) -> Answer:
        """202: the ends of every queue and when its newest message was stored. Of many queues only the first are looked
        up at once, and the rest by `Slices.tick`."""
        name = header_of(request, TopicHeader).topic
        topic = self._metadata.topics.get(name)
        if topic is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, _NO_TOPIC.format(name))
        return self._slices.begin(request, session, self._look_at(topic))

    def _look_at(self, topic: TopicConfig) -> Look:
        """What 202 answers."""
        queues = {}
        for queue_id in range(topic.queues):
            least, most = self._figures.range(topic.name, queue_id)
            updated = self._figures.stored_at(topic.name, queue_id, most - 1)
            key = queue_key(topic.name, self._identity.name, queue_id)
            queues[key] = QueueRange(min_offset=least, max_offset=most, updated_ms=updated)
            yield 1
        return body_reply(_TopicStats(queues=queues, put_rate=self._stats.put_rate(topic.name)))

    def consumers(self, request: Request, _session: Session) -> Answer:
        """300: groups that are connected and subscribe to the topic, or have offsets in it."""
        topic = header_of(request, TopicHeader).topic
        connected = [group.name for group in self._registry.consumer_groups() if topic in group.subscriptions]
        return body_reply(GroupList(groups=list(dict.fromkeys(connected + self._metadata.offsets.for_topic(topic)))))
