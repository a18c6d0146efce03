"""Sends messages: one, a batch, or oneway; picks queues; repeats an attempt where that is safe or wanted.

Retries follow the Java producer: up to three attempts within the timeout, another broker first, for the response codes
that mean "not now, not here" and for lost connections. An attempt whose outcome is unknown is repeated with the same
unique key, so that a consumer can recognise the double.
"""

import asyncio
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from logherd.client.errors import ClientError, NoRoute, Refused, SendFailed, Unreachable, Unsendable
from logherd.client.link import Link
from logherd.client.routes import DEFAULT_QUEUES, DEFAULT_TOPIC, Route
from logherd.client.unique import UniqueKeys
from logherd.kit.javahash import java_hash
from logherd.model.properties import PAIR, PROPERTIES_BYTES_MAX, Name, format_properties
from logherd.model.record import SysFlag
from logherd.net.connection import Connection
from logherd.net.errors import ConnectFailed, ConnectionLost, NetError
from logherd.wire.batch import BatchMessage, encode_batch
from logherd.wire.bodies import MessageQueue
from logherd.wire.bodies.clients import Heartbeat, ProducerData
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.compression import PLAIN_BYTES_MAX
from logherd.wire.errors import FrameError, HeaderError
from logherd.wire.frame import Frame
from logherd.wire.headers import decode_header, encode_header
from logherd.wire.headers.send import SendMessageHeaderV2, SendMessageResponse

__all__ = ["Outgoing", "Producer", "ProducerOptions", "Sent"]

_RETRIABLE = frozenset({
    ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_ERROR,
    ResponseCode.SYSTEM_BUSY, ResponseCode.NO_PERMISSION, ResponseCode.NO_BUYER_ID, ResponseCode.NOT_IN_CURRENT_UNIT,
    ResponseCode.GO_AWAY,
})  # fmt: skip
_STORED = frozenset({
    ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
})  # fmt: skip
_NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})
RETRY_PAUSE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to send. `keys` are searchable, separated by blanks on the wire; `tag` is what consumers filter by."""

    body: bytes
    tag: str | None = None
    keys: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=lambda: _NO_PROPERTIES)


@dataclass(frozen=True, slots=True)
class Sent:
    """An acknowledged message. `code` 0 means stored as the broker is configured; 10, 11, 12 are RocketMQ's weaker
    acknowledgements. Of a batch `offset_message_id` lists all, and `queue_offset` is the first."""

    queue: MessageQueue
    queue_offset: int
    unique_key: str
    offset_message_id: str
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    """`seconds` bound one send with all its attempts. Bodies from `compress_from` bytes on are sent as zlib level 5,
    unless they are larger than whoever reads them takes back (`wire.compression`)."""

    seconds: float = 3.0
    attempts_max: int = 3
    compress_from: int = 4096


@dataclass(frozen=True, slots=True)
class _Parcel:
    """What goes into the frame, whichever queue is tried."""

    topic: str
    code: int
    body: bytes
    properties: str
    sys_flag: int
    unique_key: str


class Producer:
    """Sends to any topic. One instance per event loop; close it, or use it as an async context manager."""

    def __init__(
        self, name_servers: Sequence[str], group: str = "logherd-producer", *, options: ProducerOptions | None = None
    ) -> None:
        self.group = group
        self._options = options or ProducerOptions()
        self._link = Link(name_servers, self._heartbeat)
        self._unique = UniqueKeys()
        self._turn = 0

    async def __aenter__(self) -> "Producer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections; sends under way fail as unknown. Idempotent."""
        await self._link.close()

    async def send(
        self, topic: str, message: Outgoing, *, key: str | None = None, queue: MessageQueue | None = None
    ) -> Sent:
        """Send one message and wait for its acknowledgement.

        Messages with the same `key` go to the same queue, as long as the number of queues stays; `queue` names one.
        Raises: SendFailed (see its `unknown`), NoRoute, Unreachable, Unsendable.
        """
        return await self._deliver(self._pack(topic, message), key, queue)

    async def send_batch(
        self, topic: str, messages: Sequence[Outgoing], *, key: str | None = None, queue: MessageQueue | None = None
    ) -> Sent:
        """Send messages that are stored one after the other in one queue, all or none. Raises as `send`."""
        return await self._deliver(self._pack_batch(topic, messages), key, queue)

    async def send_oneway(self, topic: str, message: Outgoing, *, key: str | None = None) -> None:
        """Send without acknowledgement: whether it was stored is never known. Raises: NetError, NoRoute."""
        parcel = self._pack(topic, message)
        route = await self._link.routes.get(topic, may_create=True)
        queue = self._choose(route, key, avoid=None)
        connection = await self._link.peers.get(route.address_of(queue))
        await connection.writable()
        connection.oneway(self._frame(parcel, queue))

    async def _deliver(self, parcel: _Parcel, key: str | None, fixed: MessageQueue | None) -> Sent:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.seconds
        unknown, attempts = False, 0
        last: BaseException | None = None
        avoid: str | None = None
        while attempts < self._options.attempts_max and loop.time() < deadline:
            attempts += 1
            connection: Connection | None = None
            try:
                async with asyncio.timeout_at(deadline):
                    route = await self._link.routes.get(parcel.topic, may_create=True, fresh=attempts > 1)
                    queue = fixed or self._choose(route, key, avoid=avoid)
                    avoid = queue.broker_name
                    address = route.address_of(queue)
                    connection = await self._link.peers.get(address)
                self._link.seen(address)
                return await self._attempt(address, connection, parcel, queue, deadline - loop.time())
            except TimeoutError:  # on the way to a broker
                attempts -= 1
                break
            except Refused as error:
                last = error
                if error.code not in _RETRIABLE:
                    raise SendFailed(parcel.topic, attempts=attempts, unknown=unknown, last=error) from error
                # "System error" is what a broker says when it does not know either, and a young name service.
                unknown = unknown or (connection is not None and error.code == ResponseCode.SYSTEM_ERROR)
            except NetError as error:
                last = error
                certain = isinstance(error, ConnectFailed) or (isinstance(error, ConnectionLost) and not error.written)
                unknown = unknown or not certain
            except HeaderError as error:  # an answer that says that it is stored, and not where
                raise SendFailed(parcel.topic, attempts=attempts, unknown=True, last=error) from error
            except ClientError as error:
                if last is None or isinstance(error, Unsendable):
                    raise
                last = error
            await asyncio.sleep(RETRY_PAUSE_SECONDS * attempts)
        self._link.routes.doubt(parcel.topic)  # where one attempt took all the time, nobody has asked yet
        if last is None:
            raise Unreachable(f"no broker of topic {parcel.topic} was reached within {self._options.seconds:g} s")
        raise SendFailed(parcel.topic, attempts=attempts, unknown=unknown, last=last) from last

    async def _attempt(
        self, address: str, connection: Connection, parcel: _Parcel, queue: MessageQueue, seconds: float
    ) -> Sent:
        try:
            answer = await self._link.peers.call(address, connection, self._frame(parcel, queue), seconds=seconds)
        except FrameError as error:
            raise Unsendable(f"not sent: {error}") from error
        if answer.code not in _STORED:
            raise Refused(answer.code, answer.remark, connection.peer)
        response = decode_header(SendMessageResponse, answer.ext)
        placed = MessageQueue(topic=parcel.topic, broker_name=queue.broker_name, queue_id=response.queue_id)
        return Sent(placed, response.queue_offset, parcel.unique_key, response.message_id, answer.code)

    def _choose(self, route: Route, key: str | None, *, avoid: str | None) -> MessageQueue:
        queues = route.writable
        if not queues:
            raise NoRoute(f"topic {route.topic} has no queue that can be written")
        if key is not None:
            return queues[abs(java_hash(key)) % len(queues)]
        elsewhere = [queue for queue in queues if queue.broker_name != avoid] if avoid is not None else queues
        self._turn += 1
        candidates = elsewhere or queues
        return candidates[self._turn % len(candidates)]

    def _pack(self, topic: str, message: Outgoing) -> _Parcel:
        properties, unique_key = self._properties(message)
        body, sys_flag = message.body, 0
        if self._options.compress_from <= len(body) <= PLAIN_BYTES_MAX:  # more would be refused by who reads it
            body, sys_flag = zlib.compress(body, 5), SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB
        return _Parcel(topic, RequestCode.SEND_MESSAGE_V2, body, properties, sys_flag, unique_key)

    def _pack_batch(self, topic: str, messages: Sequence[Outgoing]) -> _Parcel:
        units = []
        for message in messages:
            properties, _ = self._properties(message)
            units.append(BatchMessage(0, message.body, properties.encode()))
        unique_key = self._unique.next()
        properties = format_properties({Name.UNIQ_KEY: unique_key, Name.WAIT: "true"})
        return _Parcel(topic, RequestCode.SEND_BATCH_MESSAGE, encode_batch(units), properties, 0, unique_key)

    def _properties(self, message: Outgoing) -> tuple[str, str]:
        unique_key = self._unique.next()
        properties = dict(message.properties)
        if message.keys:
            properties[Name.KEYS] = " ".join(message.keys)
        if message.tag is not None:
            properties[Name.TAGS] = message.tag
        properties[Name.UNIQ_KEY] = unique_key
        properties[Name.WAIT] = "true"
        text = format_properties(properties)
        if text.count(PAIR) != sum(map(bool, properties.values())):
            raise Unsendable("not sent: a tag, a key or a property has the character 0x02, which ends it")
        size = len(text.encode())
        if size > PROPERTIES_BYTES_MAX:  # no record holds more
            raise Unsendable(
                f"not sent: tag, keys and properties take {size} bytes, at most {PROPERTIES_BYTES_MAX} are allowed"
            )
        return text, unique_key

    def _frame(self, parcel: _Parcel, queue: MessageQueue) -> Frame:
        header = SendMessageHeaderV2(
            producer_group=self.group, topic=parcel.topic, default_topic=DEFAULT_TOPIC,
            default_topic_queues=DEFAULT_QUEUES, queue_id=queue.queue_id, sys_flag=parcel.sys_flag,
            born_timestamp=self._link.now_ms(), flag=0, properties=parcel.properties, reconsume_times=0,
            unit_mode=False, batch=parcel.code == RequestCode.SEND_BATCH_MESSAGE, broker_name=queue.broker_name,
        )  # fmt: skip
        return Frame(parcel.code, 0, ext=encode_header(header), body=parcel.body)

    def _heartbeat(self, client_id: str) -> Heartbeat:
        return Heartbeat(client_id=client_id, producers=[ProducerData(group=self.group)])
