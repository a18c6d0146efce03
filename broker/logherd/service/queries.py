"""Looking for single messages: requests 12, 33 and 321.

Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/processor/QueryMessageProcessor.java
"""

from typing import Final

from msgspec import UNSET

from logherd.service.clients.connections import subscription_data
from logherd.service.clients.registry import ClientRegistry, Subscription
from logherd.service.errors import RequestError
from logherd.service.named_records import record_named
from logherd.service.ports import Answer, Handler, Reply, Request, Session
from logherd.service.requests import body_reply, header_of
from logherd.store import MessageStore, QueueLog
from logherd.wire.bodies.progress import ConsumeQueuePage, ConsumeQueueUnit
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.headers.queries import (
    QueryConsumeQueueHeader,
    QueryMessageHeader,
    QueryMessageResponse,
    ViewMessageHeader,
)  # fmt: skip

__all__ = ["Queries"]

MESSAGES_MAX: Final = 64
UNIQUE_KEY_MESSAGES_MAX: Final = 32
BODY_BYTES_MAX: Final = 8 << 20
"""Most bytes of records in one answer, half of what a frame holds; the first record is sent however large."""
UNITS_MAX: Final = 1024


class Queries:
    """Messages by key, by position, and a queue's units."""

    def __init__(self, store: MessageStore, registry: ClientRegistry) -> None:
        self._store = store
        self._registry = registry

    def handlers(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.QUERY_MESSAGE: self.by_key,
            RequestCode.VIEW_MESSAGE_BY_ID: self.by_position,
            RequestCode.QUERY_CONSUME_QUEUE: self.units,
        }

    def by_key(self, request: Request, _session: Session) -> Answer:
        """12. The index knows hashes of keys only: the client sorts out messages with another key."""
        header = header_of(request, QueryMessageHeader)
        most = UNIQUE_KEY_MESSAGES_MAX if header.by_unique_key else min(header.messages_max, MESSAGES_MAX)
        positions = self._store.query_index(
            header.topic, header.key, max_count=most, begin=header.begin_timestamp, end=header.end_timestamp
        )
        records: list[memoryview] = []
        size = 0
        # The index finds the newest first; RocketMQ answers in the order of the log, which is what users see.
        for position in sorted(positions):
            record = self._store.record_at(position)
            if record is not None and (not records or size + len(record) <= BODY_BYTES_MAX):
                records.append(record)
                size += len(record)
        if not records:
            raise RequestError(ResponseCode.QUERY_NOT_FOUND, "can not find message, maybe time range not correct")
        reach = QueryMessageResponse(
            index_timestamp=header.end_timestamp, index_position=self._store.committed_position
        )
        return Reply(header=reach, body=records)

    def by_position(self, request: Request, _session: Session) -> Answer:
        """33."""
        position = header_of(request, ViewMessageHeader).position
        record = record_named(self._store.record_at, position)
        if record is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {position}")
        return Reply(body=[record])

    def units(self, request: Request, _session: Session) -> Answer:
        """321."""
        header = header_of(request, QueryConsumeQueueHeader)
        queue = self._store.find_queue(header.topic, header.queue_id)
        if queue is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"{header.queue_id}@{header.topic} is not exist!")
        return body_reply(self._page_of(header, queue))

    # -- inside

    def _units(self, queue: QueueLog, index: int, count: int, wanted: frozenset[int] | None) -> list[ConsumeQueueUnit]:
        found = []
        for offset in range(index, index + count):
            unit = self._store.unit(queue, offset)
            if unit is not None:
                position, size, code = unit
                matches = wanted is None or code in wanted
                found.append(ConsumeQueueUnit(position=position, size=size, tags_code=code, matches=matches))
        return found

    def _wanted(self, header: QueryConsumeQueueHeader) -> Subscription | None:
        return self._registry.find(header.consumer_group, header.topic) if header.consumer_group else None

    def _page_of(self, header: QueryConsumeQueueHeader, queue: QueueLog) -> ConsumeQueuePage:
        wanted = self._wanted(header)
        offline = header.consumer_group is not None and wanted is None
        codes = None if wanted is None else wanted.tag_codes
        return ConsumeQueuePage(
            units=self._units(queue, header.index, min(header.count, UNITS_MAX), codes),
            max_index=queue.max_offset,
            min_index=queue.min_offset,
            subscription=UNSET if wanted is None else subscription_data(wanted),
            filter_data=f"{header.consumer_group}@{header.topic} is not online!" if offline else UNSET,
        )
