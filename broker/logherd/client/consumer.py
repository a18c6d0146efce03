"""Reads assigned queues by long polling and commits how far it got. There is no rebalancing: the caller says which
queues it reads, all of a topic by default.

One task per queue pulls ahead into a queue bounded by bytes; `poll` hands messages out; `commit` stores, for each
queue, the offset after the last message that `poll` handed out.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from logherd.aiokit.queue import BoundedQueue, QueueClosed
from logherd.client.errors import ClientError, Refused
from logherd.client.link import Link
from logherd.kit.errors import ensure
from logherd.kit.javahash import java_hash
from logherd.net.errors import NetError
from logherd.telemetry.log import Log
from logherd.wire.bodies import MessageQueue
from logherd.wire.bodies.clients import ConsumerData, Heartbeat, Subscription
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.compression import PLAIN_BYTES_MAX
from logherd.wire.errors import BodyTooLarge, WireError
from logherd.wire.frame import Frame
from logherd.wire.headers import decode_header, encode_header
from logherd.wire.headers.offsets import (
    GetMaxOffsetHeader,
    OffsetResponse,
    QueryConsumerOffsetHeader,
    QueueHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from logherd.wire.headers.pull import PullFlag, PullMessageHeader, PullMessageResponse
from logherd.wire.message import Message, decode_messages

__all__ = ["AGAIN_PAUSE_SECONDS", "Consumer", "ConsumerOptions", "Received", "Start"]

_log = Log("logherd.client.consumer")
Start = Literal["committed", "first", "last"]
_ANSWERED = frozenset({
    ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
})  # fmt: skip
_NOT_NOW = frozenset({
    ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.GO_AWAY,
})  # fmt: skip
ERROR_PAUSE_SECONDS = 1.0
AGAIN_PAUSE_SECONDS = 0.02
"""After "pull again" (215), as stock consumers pause. It is no fault: nobody leads, or the answers before it have not
been read yet."""
COMMIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """`poll_ms` is how long a broker may hold a pull; `ahead_bytes` bounds what is pulled before it is asked for, and
    `body_bytes_max` what a compressed body may become."""

    messages_max: int = 32
    poll_ms: int = 15_000
    answer_seconds: float = 30.0
    ahead_bytes: int = 8 * 1024 * 1024
    body_bytes_max: int = PLAIN_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Received:
    """A message and the queue that it was read from."""

    queue: MessageQueue
    message: Message


class _Pulled(NamedTuple):
    """What one pull gave of a queue, where that goes on, and what it counts for among what is read ahead."""

    queue: MessageQueue
    messages: list[Message]
    next_offset: int
    weight: int


class Consumer:
    """Reads for one group. One instance per event loop; close it, or use it as an async context manager.

    `tags` are those to receive of each topic, None for all.
    """

    def __init__(
        self, name_servers: Sequence[str], group: str, *, tags: Sequence[str] | None = None,
        options: ConsumerOptions | None = None,
    ) -> None:  # fmt: skip
        self.group = group
        self._options = options or ConsumerOptions()
        self._expression = "*" if not tags else " || ".join(tags)
        self._tags = tuple(tags or ())
        self._link = Link(name_servers, self._heartbeat)
        self._topics: dict[str, int] = {}
        self._ahead: BoundedQueue[_Pulled] = BoundedQueue(self._options.ahead_bytes)
        self._current: list[Received] = []
        self._reached: dict[MessageQueue, int] = {}
        self._consumed: dict[MessageQueue, int] = {}
        self._committed: dict[MessageQueue, int] = {}
        self.faults: dict[MessageQueue, str] = {}
        """Queues whose last pull has failed, and why: what they hold may be missing from what `poll` gives."""

    async def __aenter__(self) -> "Consumer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop reading. What was not committed will be read again by the group. Idempotent."""
        self._ahead.close()
        await self._link.close()

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """All readable queues of a topic. Raises: NoRoute, Unreachable."""
        return (await self._link.routes.get(topic)).readable

    async def assign(
        self, topic: str, *, queues: Iterable[MessageQueue] | None = None, start: Start = "committed"
    ) -> None:
        """Read these queues of `topic` (all when None) from the group's committed offset, or their first or next one.

        A queue for which the group has committed nothing is read from its first message. Where another start is asked
        for, that is what `commit` stores also of a queue of which nothing comes. Call once per topic; when it raises
        nothing is read, and it may be called again. Raises: NoRoute, Unreachable, Refused, NetError.
        """
        ensure(topic not in self._topics, "a topic is assigned once", topic)
        route = await self._link.routes.get(topic)
        self._topics[topic] = self._link.now_ms()
        chosen = tuple(queues) if queues is not None else route.readable
        try:
            for address in {route.address_of(queue) for queue in chosen}:
                await self._link.beat_once(address)  # the broker answers offsets and pulls of groups that it knows
                self._link.seen(address)
            offsets = [await self._start_offset(queue, start) for queue in chosen]
        except BaseException:
            del self._topics[topic]
            raise
        if start != "committed":
            self._consumed.update(zip(chosen, offsets, strict=True))
        for queue, offset in zip(chosen, offsets, strict=True):
            name = f"pull {queue.topic} {queue.broker_name} {queue.queue_id}"
            self._link.guard.start(name, self._pull_forever(queue, offset))

    async def poll(self, *, messages_max: int = 32, seconds: float = 1.0) -> list[Received]:
        """The next messages, at least one unless `seconds` pass without any; messages of a queue stay in order.

        Raises: QueueClosed after `close`.
        """
        try:
            async with asyncio.timeout(seconds):
                while not self._current:
                    self._take(await self._ahead.take())
        except TimeoutError:
            return []
        while len(self._current) < messages_max and (more := self._ahead.try_take()) is not None:
            self._take(more)
        given, self._current = self._current[:messages_max], self._current[messages_max:]
        for received in given:
            self._consumed[received.queue] = received.message.queue_offset + 1
        self._settle()
        return given

    async def commit(self) -> None:
        """Store for the group that everything `poll` returned, and what is before it, is done. Tried again for some
        seconds, as while the lead changes: an offset may be stored twice. Raises: ClientError, NetError."""
        for queue, offset in tuple(self._consumed.items()):
            if self._committed.get(queue) != offset:
                header = UpdateConsumerOffsetHeader(
                    consumer_group=self.group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset,
                    broker_name=queue.broker_name,
                )  # fmt: skip
                await self._store_offset(queue, encode_header(header))
                self._committed[queue] = offset

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's committed offset of a queue, None when there is none. Raises: Refused, NetError, NoRoute."""
        header = QueryConsumerOffsetHeader(
            consumer_group=self.group, topic=queue.topic, queue_id=queue.queue_id, set_zero_if_not_found=False
        )
        try:
            answer = await self._ask(queue, RequestCode.QUERY_CONSUMER_OFFSET, encode_header(header))
        except Refused as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        return decode_header(OffsetResponse, answer.ext).queue_offset

    async def first_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message that is still there. Raises: Refused, NetError, NoRoute."""
        header = QueueHeader(topic=queue.topic, queue_id=queue.queue_id)
        answer = await self._ask(queue, RequestCode.GET_MIN_OFFSET, encode_header(header))
        return decode_header(OffsetResponse, answer.ext).queue_offset

    async def next_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get. Raises: Refused, NetError, NoRoute."""
        header = GetMaxOffsetHeader(topic=queue.topic, queue_id=queue.queue_id)
        answer = await self._ask(queue, RequestCode.GET_MAX_OFFSET, encode_header(header))
        return decode_header(OffsetResponse, answer.ext).queue_offset

    async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at or after a time. Raises: Refused, NetError, NoRoute."""
        header = SearchOffsetHeader(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms)
        answer = await self._ask(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, encode_header(header))
        return decode_header(OffsetResponse, answer.ext).queue_offset

    # ---- inside

    def _take(self, pulled: _Pulled) -> None:
        # Brokers compare hashes of tags, which collide; and what was filtered away counts as done with the rest.
        wanted = self._tags
        self._current += [Received(pulled.queue, each) for each in pulled.messages if not wanted or each.tag in wanted]
        self._reached[pulled.queue] = pulled.next_offset
        self._settle()

    async def _put(self, queue: MessageQueue, messages: list[Message], next_offset: int, weight: int = 1) -> None:
        await self._ahead.put(_Pulled(queue, messages, next_offset, weight), weight)

    def _drop(self, queue: MessageQueue) -> None:
        """Forget what was read ahead of a queue."""
        self._current = [each for each in self._current if each.queue != queue]
        ahead: list[_Pulled] = []
        while (pulled := self._ahead.try_take()) is not None:
            ahead.append(pulled)
        for pulled in ahead:
            if pulled.queue != queue:
                self._ahead.try_put(pulled, pulled.weight)  # it fits, as it did before
        self._settle()

    def _settle(self) -> None:
        """When all that was read is given, what was passed over behind it is done, too."""
        if not self._current:
            self._consumed.update(self._reached)

    async def _start_offset(self, queue: MessageQueue, start: Start) -> int:
        if start == "last":
            return await self.next_offset(queue)
        committed = await self.committed(queue) if start == "committed" else None
        return committed if committed is not None else await self.first_offset(queue)

    async def _pull_forever(self, queue: MessageQueue, offset: int) -> None:
        try:
            while True:
                try:
                    offset = await self._pull(queue, offset)
                    self.faults.pop(queue, None)
                except (NetError, ClientError, WireError) as error:
                    setting = " (body_bytes_max)" if isinstance(error, BodyTooLarge) else ""
                    self.faults[queue] = f"offset {offset}: {error}{setting}"
                    if isinstance(error, Refused) and error.code == ResponseCode.FLOW_CONTROL:
                        await asyncio.sleep(AGAIN_PAUSE_SECONDS)
                        continue
                    _log.warning("pull failed", queue=_shown(queue), offset=offset, error=error)
                    self._link.routes.doubt(queue.topic)
                    await asyncio.sleep(ERROR_PAUSE_SECONDS)
        except QueueClosed:
            await asyncio.Event().wait()  # the consumer closes: its guard ends this task

    async def _pull(self, queue: MessageQueue, offset: int) -> int:
        address = (await self._link.routes.get(queue.topic)).address_of(queue)
        connection = await self._link.peers.get(address)
        self._link.seen(address)  # another one than at the beginning, where the lead has changed
        header = PullMessageHeader(
            consumer_group=self.group, topic=queue.topic, queue_id=queue.queue_id, queue_offset=offset,
            messages_max=self._options.messages_max, sys_flag=PullFlag.SUSPEND | PullFlag.SUBSCRIPTION,
            commit_offset=0, suspend_timeout_ms=self._options.poll_ms, subscription_version=self._topics[queue.topic],
            subscription=self._expression, expression_type="TAG", broker_name=queue.broker_name,
        )  # fmt: skip
        request = Frame(RequestCode.PULL_MESSAGE, 0, ext=encode_header(header))
        answer = await self._link.peers.call(address, connection, request, seconds=self._options.answer_seconds)
        if answer.code not in _ANSWERED:
            raise Refused(answer.code, answer.remark, address)
        next_offset = decode_header(PullMessageResponse, answer.ext).next_begin_offset
        if answer.code == ResponseCode.SUCCESS:
            messages = decode_messages(answer.body, bytes_max=self._options.body_bytes_max)
            weight = max(len(answer.body), sum(len(each.body) for each in messages))
            await self._put(queue, messages, next_offset, weight)
        elif answer.code == ResponseCode.PULL_OFFSET_MOVED:
            _log.warning("offset moved by the broker", queue=_shown(queue), old=offset, new=next_offset)
            self._consumed.pop(queue, None)  # of where it was nothing is to be committed any more
            self._reached.pop(queue, None)
            if next_offset < offset:  # what was read ahead comes again; if it moved on, it is what there was
                self._drop(queue)
            await self._put(queue, [], next_offset)
        elif next_offset > offset:  # over messages with other tags, which are done with what was read before them
            await self._put(queue, [], next_offset)
        return next_offset

    async def _store_offset(self, queue: MessageQueue, ext: dict[str, str]) -> None:
        deadline = asyncio.get_running_loop().time() + COMMIT_SECONDS
        while True:
            try:
                await self._ask(queue, RequestCode.UPDATE_CONSUMER_OFFSET, dict(ext))
            except (NetError, ClientError) as error:
                for_good = isinstance(error, Refused) and error.code not in _NOT_NOW
                if for_good or asyncio.get_running_loop().time() >= deadline:
                    raise
                _log.warning("commit failed", queue=_shown(queue), error=error)
                self._link.routes.doubt(queue.topic)
                await asyncio.sleep(ERROR_PAUSE_SECONDS)
            else:
                return

    async def _ask(self, queue: MessageQueue, code: int, ext: dict[str, str]) -> Frame:
        route = await self._link.routes.get(queue.topic)
        return await self._link.peers.ask(route.address_of(queue), Frame(code, 0, ext=ext))

    def _heartbeat(self, client_id: str) -> Heartbeat:
        subscriptions = [
            Subscription(
                topic=topic, expression=self._expression, tags=self._tags, codes=[java_hash(tag) for tag in self._tags],
                version=version,
            )
            for topic, version in self._topics.items()
        ]  # fmt: skip
        data = ConsumerData(
            group=self.group, consume_type="CONSUME_ACTIVELY", consume_from="CONSUME_FROM_FIRST_OFFSET",
            subscriptions=subscriptions,
        )  # fmt: skip
        return Heartbeat(client_id=client_id, consumers=[data])


def _shown(queue: MessageQueue) -> str:
    return f"{queue.topic}@{queue.broker_name}:{queue.queue_id}"
