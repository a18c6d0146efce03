"""Consumer offsets and the ends of queues: 14, 15, 29 to 32, 43 and the reset 222.

Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/processor/ConsumerManageProcessor.java
Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/processor/AdminBrokerProcessor.java
"""

from collections.abc import Callable

from logherd.model.topic import TopicConfig
from logherd.service.admin.slices import QUEUES_AT_ONCE, Look, Slices
from logherd.service.errors import RequestError
from logherd.service.metadata import Metadata, MetadataRefusedError
from logherd.service.offset_rules import OffsetRules
from logherd.service.ports import Answer, Handler, Reply, ReplyAfter, Request, Session
from logherd.service.requests import body_reply, header_of, settled
from logherd.store import MessageStore, QueueLog
from logherd.wire.bodies.base import queue_key
from logherd.wire.bodies.clients import ClientOffsets
from logherd.wire.bodies.configs import DataVersion
from logherd.wire.bodies.progress import ConsumerOffsets
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Flag
from logherd.wire.headers.admin import ResetOffsetHeader
from logherd.wire.headers.offsets import (
    GetMaxOffsetHeader,
    OffsetResponse,
    QueryConsumerOffsetHeader,
    QueueHeader,
    SearchOffsetHeader,
    TimestampResponse,
    UpdateConsumerOffsetHeader,
)

__all__ = ["YOUNG_BYTES", "OffsetsHandler"]

YOUNG_BYTES = 4 << 30
"""A new group starts at a queue's first message while no more log than this follows it, whatever it asked for.

RocketMQ decides by whether that message still counts as being in memory, which is 40 % of the machine's; a fixed figure
makes the same queue behave alike on every machine.
"""

_SEARCH_LOOKS = 2
"""What the search for a time in one queue counts for among looks at one."""
_BOUNDARIES = {"LOWER": False, "UPPER": True}


class OffsetsHandler:
    """Answers about committed state only: an offset that is told is durable, a queue's end is visible.

    `on_reset(queues)` hears which queues were reset, so that parked pulls of their consumers look again.
    """

    def __init__(
        self, store: MessageStore, metadata: Metadata, rules: OffsetRules, *,
        broker_name: str, on_reset: Callable[[list[QueueLog]], None], slices: Slices,
    ) -> None:  # fmt: skip
        self._store = store
        self._metadata = metadata
        self._rules = rules
        self._broker_name = broker_name
        self._on_reset = on_reset
        self._slices = slices

    def handlers(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.QUERY_CONSUMER_OFFSET: self.query,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.update,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.search,
            RequestCode.GET_MAX_OFFSET: self.max,
            RequestCode.GET_MIN_OFFSET: self.min,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self.earliest,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.all,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset,
        }

    # ---- consumer offsets

    def query(self, request: Request, session: Session) -> Answer:
        """14. What it tells survives a crash: the answer waits for the newest offset record, or tells the offset before
        those that the log does not take. 22 if there is none, which
        waits for the deletion that may have taken it."""
        header = header_of(request, QueryConsumerOffsetHeader)
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        offset = self._metadata.offsets.get(group, topic, queue_id)
        if offset is not None:
            try:
                position = self._metadata.flush_pending()
            except MetadataRefusedError:
                # An earlier one is right, too: the group gets some messages once more. An error is not: the clients for
                # C++ and Node begin at the queue's end then.
                offset = self._metadata.offsets.logged(group, topic, queue_id)
                if offset is None:
                    raise
                position = self._metadata.offsets.position
            reply = Reply(header=OffsetResponse(queue_offset=offset))
            return ReplyAfter(position, reply) if position > self._store.committed_position else reply
        queue = self._store.find_queue(topic, queue_id)
        if header.set_zero_if_not_found is not False and queue is not None and self._is_young(queue):
            reply = Reply(header=OffsetResponse(queue_offset=0))
        else:
            remark = f"group {group} has no offset in queue {queue_id} of topic {topic}"
            reply = Reply(ResponseCode.QUERY_NOT_FOUND, remark=remark)
        return settled(self._metadata.unsettled, reply)

    def _is_young(self, queue: QueueLog) -> bool:
        if queue.min_offset > 0:
            return False
        first = self._store.unit(queue, 0)
        return first is not None and self._store.committed_position - first[0] <= YOUNG_BYTES

    def update(self, request: Request, session: Session) -> Answer:
        """15. Oneway commits of a pass become one record at its end; an answered one is durable before its answer."""
        header = header_of(request, UpdateConsumerOffsetHeader)
        group = self._group(header.consumer_group)
        topic = self._topic(header.topic)
        _check_queue(topic, header.queue_id)
        self._rules.commit(group, topic.name, header.queue_id, offset=header.commit_offset, session=session)
        if request.frame.flag & Flag.ONEWAY:
            return Reply()
        return ReplyAfter(self._metadata.flush_pending(), Reply())

    def all(self, request: Request, session: Session) -> Answer:
        """43. All offsets of all groups."""
        version = self._metadata.version
        table = {f"{topic}@{group}": dict(queues) for group, topic, queues in self._metadata.offsets}
        body = ConsumerOffsets(
            version=DataVersion(
                counter=version.counter, state_version=version.state_version, timestamp=version.timestamp
            ),
            offsets=table,
        )
        return ReplyAfter(self._metadata.flush_pending(), body_reply(body))

    # ---- ends of queues

    def search(self, request: Request, session: Session) -> Answer:
        """29. The first offset stored at or after a time, with UPPER the last one stored at or before it."""
        header = header_of(request, SearchOffsetHeader)
        upper = _BOUNDARIES.get((header.boundary_type or "LOWER").upper())
        if upper is None:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"boundaryType is {header.boundary_type!a}, it must be LOWER or UPPER",
            )
        queue = self._queue(header.topic, header.queue_id)
        offset = self._store.offset_by_time(queue, header.timestamp, upper=upper) if queue is not None else 0
        return self._of_queue(header.topic, OffsetResponse(queue_offset=offset))

    def max(self, request: Request, session: Session) -> Answer:
        """30. The committed end, whatever `committed` says: what lies beyond it may still be lost."""
        header = header_of(request, GetMaxOffsetHeader)
        queue = self._queue(header.topic, header.queue_id)
        return self._of_queue(header.topic, OffsetResponse(queue_offset=queue.max_offset if queue is not None else 0))

    def min(self, request: Request, session: Session) -> Answer:
        """31."""
        header = header_of(request, QueueHeader)
        queue = self._queue(header.topic, header.queue_id)
        return self._of_queue(header.topic, OffsetResponse(queue_offset=queue.min_offset if queue is not None else 0))

    def earliest(self, request: Request, session: Session) -> Answer:
        """32. -1 for a queue without messages."""
        header = header_of(request, QueueHeader)
        queue = self._queue(header.topic, header.queue_id)
        stored = self._store.store_timestamp(queue, queue.min_offset) if queue is not None else None
        return self._of_queue(header.topic, TimestampResponse(timestamp=-1 if stored is None else stored))

    # ---- reset

    def reset(self, request: Request, session: Session) -> Answer:
        """222. Sets the group's offsets of one queue or all, by time or to a given one (timestamp -1: the end).

        Consumers need not be connected: the next pull of each queue is answered "moved" with the new offset, until one
        asks from there or three were told, and what they commit until then is dropped.
        """
        header = header_of(request, ResetOffsetHeader)
        group = self._group(header.group)
        topic = self._topic(header.topic)
        if header.queue_id >= 0:
            _check_queue(topic, header.queue_id)
            queue_ids = [header.queue_id]
        else:
            queue_ids = list(range(topic.read_queues))
        queues = [self._store.queue(topic.name, queue_id) for queue_id in queue_ids]
        if not queues:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"topic {topic.name} has no read queues to reset")
        if header.timestamp >= 0 and len(queues) * _SEARCH_LOOKS > QUEUES_AT_ONCE:
            return self._slices.begin(request, session, self._look_for(group, topic.name, queues, header))
        offsets = [self._reset_offset(queue, header) for queue in queues]
        return ReplyAfter(*self._set(group, topic.name, queues, offsets))

    def _look_for(self, group: str, topic: str, queues: list[QueueLog], header: ResetOffsetHeader) -> Look:
        """The same where many queues are searched: at first only that. All of them are set at once, as ever."""
        found: list[int] = []
        for queue in queues:
            found.append(self._reset_offset(queue, header))
            yield _SEARCH_LOOKS
        self._group(group)
        self._topic(topic)
        if any(self._store.find_queue(topic, queue.queue_id) is not queue for queue in queues):
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"topic {topic} was made anew meanwhile; nothing was reset")
        epoch = self._metadata.epoch
        position, reply = self._set(group, topic, queues, found)
        while self._store.committed_position < position:
            if not self._metadata.leading or self._metadata.epoch != epoch:
                raise RequestError(ResponseCode.SYSTEM_ERROR, "the leader changed: whether it was reset is unknown")
            yield QUEUES_AT_ONCE
        return reply

    def _set(self, group: str, topic: str, queues: list[QueueLog], offsets: list[int]) -> tuple[int, Reply]:
        of_queues = {queue.queue_id: offset for queue, offset in zip(queues, offsets, strict=True)}
        position = self._metadata.offsets.reset(group, topic, of_queues)
        self._on_reset(queues)
        table = {queue_key(topic, self._broker_name, queue_id): offset for queue_id, offset in of_queues.items()}
        return position, body_reply(ClientOffsets(offsets=table))

    def _reset_offset(self, queue: QueueLog, header: ResetOffsetHeader) -> int:
        wanted = header.queue_offset
        if wanted is not None and wanted >= 0 and header.queue_id >= 0:
            if not queue.min_offset <= wanted <= queue.max_offset:
                raise RequestError(
                    ResponseCode.SYSTEM_ERROR,
                    f"offset is {wanted}, queue {queue.queue_id} of topic {queue.topic} holds {queue.min_offset} to "
                    f"{queue.max_offset}",
                )
            return wanted
        if header.timestamp < 0:
            return queue.max_offset
        return self._store.offset_by_time(queue, header.timestamp, upper=False)

    def _of_queue(self, topic: str, header: OffsetResponse | TimestampResponse) -> Answer:
        return settled(self._metadata.topics.deletion_unsettled(topic), Reply(header=header))

    # ---- checks

    def _group(self, name: str) -> str:
        if name not in self._metadata.groups:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"group {name[:255]!a} does not exist, make it with updateSubGroup",
            )
        return name

    def _topic(self, name: str) -> TopicConfig:
        topic = self._metadata.topics.get(name)
        if topic is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST, f"topic {name[:127]!a} does not exist, make it with updateTopic"
            )
        return topic

    def _queue(self, topic_name: str, queue_id: int) -> QueueLog | None:
        """The queue's handle, None if it never had a message; also of one with messages that the topic has no more, so
        that who has read of it can know whether that was all. Raises RequestError 17 and 29."""
        topic = self._topic(topic_name)
        queue = self._store.find_queue(topic_name, queue_id)
        if queue is None:
            _check_queue(topic, queue_id)
        return queue


def _check_queue(topic: TopicConfig, queue_id: int) -> None:
    if not 0 <= queue_id < topic.queues:
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"queueId is {queue_id}, topic {topic.name} has queues 0 to {topic.queues - 1}",
        )
