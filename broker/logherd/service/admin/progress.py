"""How far consumer groups have come: requests 208, 303, 308, 314, 317, 343 and 345.

Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/processor/AdminBrokerProcessor.java
"""

from collections.abc import Generator, Iterable
from typing import Final

from logherd.kit.clock import Clock
from logherd.model.topic import TopicConfig
from logherd.service.admin.queue_figures import QueueFigures
from logherd.service.admin.slices import Look, Slices
from logherd.service.clients.connections import subscription_data
from logherd.service.clients.registry import ClientRegistry
from logherd.service.errors import RequestError
from logherd.service.group_names import check_group_name
from logherd.service.identity import BrokerIdentity
from logherd.service.metadata import Metadata
from logherd.service.ports import Answer, Handler, Reply, Request, Session
from logherd.service.requests import after, body_reply, header_of
from logherd.service.stats import BrokerStats
from logherd.store import MessageStore
from logherd.wire.bodies import MessageQueue, queue_key
from logherd.wire.bodies.connections import GroupSubscription
from logherd.wire.bodies.progress import (
    BrokerConsumeStats,
    ConsumeStats,
    CorrectionOffsets,
    QueueProgress,
    TimeSpan,
    TimeSpans,
)  # fmt: skip
from logherd.wire.bodies.routes import TopicList
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.headers.admin import (
    BrokerConsumeStatsHeader,
    CloneOffsetsHeader,
    ConsumeStatsHeader,
    CorrectionOffsetHeader,
)  # fmt: skip
from logherd.wire.headers.topics import GroupHeader, GroupTopicHeader
from logherd.wire.limits import DEFAULT_LIMITS

__all__ = ["ProgressAdmin"]

_NEVER = (1 << 63) - 1
_QUEUE_BYTES_MIN = 126
QUEUES_MAX: Final = DEFAULT_LIMITS.frame_bytes_max // _QUEUE_BYTES_MIN
"""No frame holds an answer with the progress of more: each takes so many bytes at least. That is known before all are
looked up, which may be millions."""


class ProgressAdmin:
    """Consumer offsets beside the ends of their queues."""

    def __init__(
        self, metadata: Metadata, store: MessageStore, registry: ClientRegistry, stats: BrokerStats, *,
        identity: BrokerIdentity, clock: Clock, slices: Slices,
    ) -> None:  # fmt: skip
        self._metadata = metadata
        self._figures = QueueFigures(store)
        self._registry = registry
        self._stats = stats
        self._identity = identity
        self._clock = clock
        self._slices = slices

    def handlers(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.GET_CONSUME_STATS: self.group_progress,
            RequestCode.GET_BROKER_CONSUME_STATS: self.broker_progress,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self.time_spans,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self.topics_of_group,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self.subscription,
            RequestCode.QUERY_CORRECTION_OFFSET: self.correction,
            RequestCode.CLONE_GROUP_OFFSET: self.clone,
        }

    def group_progress(self, request: Request, session: Session) -> Answer:
        """208. Topics that are named are told in any case, others only while the group subscribes to them. Where they
        have many queues, only the first are looked up at once, and the rest by `Slices.tick`."""
        header = header_of(request, ConsumeStatsHeader)
        group = header.consumer_group
        named = list(dict.fromkeys(filter(None, (header.topics or "").split(";"))))
        if not named:
            topics = [header.topic] if header.topic else list(self._metadata.offsets.for_group(group))
            named = [topic for topic in topics if self._is_consumed(group, topic)]
        return self._slices.begin(request, session, _bounded(self._look_at(group, self._existing(named))))

    def _look_at(self, group: str, topics: list[TopicConfig]) -> Look:
        """What 208 answers; gives after each queue how many were looked up."""
        queues: dict[str, QueueProgress] = {}
        rates: list[float] = []
        for topic in topics:
            part = yield from self._progress(group, topic, topic.read_queues)
            queues.update(part.queues)
            rates.append(part.rate)
        return body_reply(ConsumeStats(queues=queues, rate=sum(rates)))

    def broker_progress(self, request: Request, session: Session) -> Answer:
        """317. Where groups have many queues, only the first are looked up at once, and the rest by `Slices.tick`."""
        look = self._look(ordered_only=header_of(request, BrokerConsumeStatsHeader).order)
        return self._slices.begin(request, session, _bounded(look))

    def _look(self, *, ordered_only: bool) -> Look:
        """What 317 answers; gives after each queue how many were looked up."""
        stats, lag = [], 0
        for group in self._metadata.groups:
            parts: list[ConsumeStats] = []
            stats.append({group.name: parts})
            for topic in self._existing(self._metadata.offsets.for_group(group.name)):
                if (topic.order or not ordered_only) and self._is_consumed(group.name, topic.name):
                    part = yield from self._progress(group.name, topic, topic.write_queues)
                    lag += sum(queue.broker_offset - queue.consumer_offset for queue in part.queues.values())
                    parts.append(part)
        return body_reply(BrokerConsumeStats(broker_address=self._identity.address, stats=stats, lag_total=lag))

    def time_spans(self, request: Request, session: Session) -> Answer:
        """303. Where the topic has many queues, only the first are looked up at once, and the rest by `Slices.tick`."""
        header = header_of(request, GroupTopicHeader)
        topic = self._metadata.topics.get(header.topic)
        if topic is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
        return self._slices.begin(request, session, self._look_at_times(header.group, topic))

    def _look_at_times(self, group: str, topic: TopicConfig) -> Look:
        """What 303 answers; gives after each queue how many were looked up."""
        spans = []
        for queue_id in range(topic.write_queues):
            spans.append(self._span(group, topic.name, queue_id))
            yield 1
        return body_reply(TimeSpans(spans=spans))

    def topics_of_group(self, request: Request, _session: Session) -> Answer:
        """343."""
        group = header_of(request, GroupHeader).group
        topics = list(self._metadata.offsets.for_group(group))
        return body_reply(TopicList(topics=topics, broker_address=self._identity.address))

    def subscription(self, request: Request, _session: Session) -> Answer:
        """345."""
        header = header_of(request, GroupTopicHeader)
        wanted = self._registry.find(header.group, header.topic)
        told = None if wanted is None else subscription_data(wanted)
        return body_reply(GroupSubscription(group=header.group, topic=header.topic, subscription=told))

    def correction(self, request: Request, _session: Session) -> Answer:
        """308: the least offset of all groups by queue; the largest number where the compared group is behind it."""
        header = header_of(request, CorrectionOffsetHeader)
        offsets = self._metadata.offsets
        left_out = set(filter(None, (header.filter_groups or "").split(",")))
        least: dict[int, int] = {}
        for group in offsets.for_topic(header.topic):
            if group not in left_out:
                for queue_id, offset in offsets.queues(group, header.topic).items():
                    least[queue_id] = min(offset, least.get(queue_id, _NEVER))
        for queue_id, offset in offsets.queues(header.compare_group, header.topic).items():
            if least.get(queue_id, _NEVER) > offset:
                least[queue_id] = _NEVER
        return body_reply(CorrectionOffsets(offsets=least))

    def clone(self, request: Request, _session: Session) -> Answer:
        """314: the destination group stands where the source group stands, also if it was reset and not told yet."""
        header = header_of(request, CloneOffsetsHeader)
        offsets, source, group = self._metadata.offsets, header.source_group, header.destination_group
        if group not in self._metadata.groups:
            check_group_name(group)
        topics = [header.topic] if header.topic else list(offsets.for_group(source))
        for topic in self._existing(topics if group != source else ()):
            if header.offline or self._is_consumed(source, topic.name):
                for queue_id, offset in offsets.queues(source, topic.name).items():
                    offsets.replace(group, topic.name, queue_id, offset)
        return after(self._metadata.flush_pending())

    # -- inside

    def _existing(self, names: Iterable[str]) -> list[TopicConfig]:
        found = (self._metadata.topics.get(name) for name in names)
        return [topic for topic in found if topic is not None]

    def _is_consumed(self, group: str, topic: str) -> bool:
        """False for a topic that a connected group does not subscribe to any more."""
        entry = self._registry.consumer_group(group)
        return entry is None or not entry.subscriptions or topic in entry.subscriptions

    def _progress(self, group: str, topic: TopicConfig, queues: int) -> Generator[int, None, ConsumeStats]:
        table = {}
        for queue_id in range(queues):
            offset = self._metadata.offsets.get(group, topic.name, queue_id) or 0
            table[queue_key(topic.name, self._identity.name, queue_id)] = QueueProgress(
                broker_offset=self._figures.range(topic.name, queue_id).most,
                consumer_offset=offset,
                pull_offset=offset,
                consumed_ms=self._figures.stored_at(topic.name, queue_id, offset - 1),
            )
            yield 1
        return ConsumeStats(queues=table, rate=self._stats.consume_rate(group, topic.name))

    def _span(self, group: str, topic: str, queue_id: int) -> TimeSpan:
        figures = self._figures
        least, most = figures.range(topic, queue_id)
        oldest = figures.stored_at(topic, queue_id, least)
        offset = self._metadata.offsets.get(group, topic, queue_id) or 0
        waiting_since = figures.stored_at(topic, queue_id, max(offset, least)) if offset < most else 0
        return TimeSpan(
            queue=MessageQueue(broker_name=self._identity.name, queue_id=queue_id, topic=topic),
            min_timestamp=oldest,
            max_timestamp=figures.stored_at(topic, queue_id, most - 1),
            consume_timestamp=figures.stored_at(topic, queue_id, offset - 1) if offset > 0 else oldest,
            delay_ms=self._clock.now_ms() - waiting_since if waiting_since else 0,
        )  # fmt: skip


def _bounded(look: Look) -> Look:
    """The same, until it is known that no frame holds the answer. Raises: RequestError 1 then."""
    queues = 0
    while True:
        try:
            more = next(look)
        except StopIteration as ended:
            reply: Reply = ended.value
            return reply
        queues += more
        if queues > QUEUES_MAX:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"the answer would have more than {QUEUES_MAX} queues, which no frame holds; ask for one group, or "
                "some of its topics, at a time (208)",
            )
        yield more
