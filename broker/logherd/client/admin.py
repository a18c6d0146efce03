"""Questions and orders to a whole cluster: topics, routes, queue ends, group progress."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from logherd.client.errors import NoRoute, Refused
from logherd.client.link import Link
from logherd.client.routes import BODY_BYTES_MAX, DEFAULT_TOPIC, Route
from logherd.model.topic import TopicConfig
from logherd.wire.bodies import MessageQueue, decode_body, parse_queue_key
from logherd.wire.bodies.configs import TopicConfigBody
from logherd.wire.bodies.progress import ConsumeStats, TopicStats
from logherd.wire.bodies.routes import ClusterInfo, KVTable
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from logherd.wire.headers import encode_header
from logherd.wire.headers.admin import ConsumeStatsHeader
from logherd.wire.headers.topics import CreateTopicHeader, TopicConfigHeader

__all__ = ["Admin", "GroupOffset", "QueueEnds"]

_NO_TOPIC = (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
"""Brokers before RocketMQ 5 do not know the question; then the name service says whether there is a topic."""


@dataclass(frozen=True, slots=True)
class QueueEnds:
    """What one queue holds: offsets `first` up to, not including, `next`; `updated_ms` is its newest message's time."""

    queue: MessageQueue
    first: int
    next: int
    updated_ms: int


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """How far a group is in one queue; `lag` counts messages."""

    queue: MessageQueue
    next: int
    committed: int

    @property
    def lag(self) -> int:
        return self.next - self.committed


class Admin:
    """Administers through the name service. One instance per event loop; close it, or use it as a context manager.

    Every call raises Refused, Unreachable or NetError when it cannot be done, and does nothing by halves silently: it
    stops at the first broker that fails.
    """

    def __init__(self, name_servers: Sequence[str]) -> None:
        self._link = Link(name_servers, None)

    async def __aenter__(self) -> "Admin":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections. Idempotent."""
        await self._link.close()

    async def clusters(self) -> ClusterInfo:
        """Broker groups and their addresses."""
        return await self._link.names.clusters()

    async def topics(self) -> list[str]:
        """All topic names, also those of the system."""
        return await self._link.names.topics()

    async def route(self, topic: str) -> Route:
        """Where the queues of a topic are, as the name service says now. Raises: NoRoute for an unknown topic."""
        self._link.routes.forget(topic)
        return await self._link.routes.get(topic)

    async def create_topic(self, topic: TopicConfig, *, brokers: Sequence[str] | None = None) -> None:
        """Create or change a topic on all broker groups, or on those named."""
        header = CreateTopicHeader(
            topic=topic.name, default_topic=DEFAULT_TOPIC, read_queues=topic.read_queues,
            write_queues=topic.write_queues, permission=topic.permission, filter_type="SINGLE_TAG",
            sys_flag=topic.system_flag, order=topic.order,
            attributes=",".join(f"+{name}={value}" for name, value in topic.attributes.items()) or None,
        )  # fmt: skip
        for address in (await self._addresses(brokers)).values():
            request = Frame(RequestCode.UPDATE_AND_CREATE_TOPIC, 0, ext=encode_header(header))
            await self._link.peers.ask(address, request)

    async def delete_topic(self, topic: str) -> bool:
        """Delete a topic and its messages on all broker groups, then its route on the name servers. The result is
        whether any of them had it; what an earlier call has left behind goes in any case."""
        addresses = await self._addresses(None)
        was_there = await self._link.names.route(topic) is not None
        for address in addresses.values():
            was_there = await self._config(address, topic) is not None or was_there
            await self._link.peers.ask(address, Frame(RequestCode.DELETE_TOPIC_IN_BROKER, 0, ext={"topic": topic}))
        await self._link.names.delete_topic(topic)
        self._link.routes.forget(topic)
        return was_there

    async def topic_configs(self, topic: str) -> dict[str, TopicConfig | None]:
        """What a topic is on each broker group, by its name; None where it is not.

        Given to `create_topic` again they change nothing: without attributes, which stay unless they are named."""
        found = {name: await self._config(address, topic) for name, address in (await self._addresses(None)).items()}
        return {name: None if each is None else replace(each.to_model(), attributes={}) for name, each in found.items()}

    async def _config(self, address: str, topic: str) -> TopicConfigBody | None:
        header = encode_header(TopicConfigHeader(topic=topic))
        try:
            answer = await self._link.peers.ask(address, Frame(RequestCode.GET_TOPIC_CONFIG, 0, ext=header))
        except Refused as error:
            if error.code not in _NO_TOPIC:
                raise
            return None
        return decode_body(TopicConfigBody, answer.body, bytes_max=BODY_BYTES_MAX)

    async def topic_stats(self, topic: str) -> list[QueueEnds]:
        """The ends of all queues of a topic, by broker and queue."""
        found: list[QueueEnds] = []
        for answer in await self._ask_all(topic, Frame(RequestCode.GET_TOPIC_STATS_INFO, 0, ext={"topic": topic})):
            stats = decode_body(TopicStats, answer.body, bytes_max=BODY_BYTES_MAX)
            found += [
                QueueEnds(parse_queue_key(key), ends.min_offset, ends.max_offset, ends.updated_ms)
                for key, ends in stats.queues.items()
            ]
        return sorted(found, key=lambda ends: (ends.queue.broker_name, ends.queue.queue_id))

    async def group_offsets(self, group: str, topic: str) -> list[GroupOffset]:
        """How far a group is in each queue of a topic, by broker and queue."""
        header = encode_header(ConsumeStatsHeader(consumer_group=group, topic=topic))
        found: list[GroupOffset] = []
        for answer in await self._ask_all(topic, Frame(RequestCode.GET_CONSUME_STATS, 0, ext=header)):
            stats = decode_body(ConsumeStats, answer.body, bytes_max=BODY_BYTES_MAX)
            found += [
                GroupOffset(parse_queue_key(key), progress.broker_offset, progress.consumer_offset)
                for key, progress in stats.queues.items()
            ]
        return sorted(found, key=lambda offset: (offset.queue.broker_name, offset.queue.queue_id))

    async def broker_state(self, address: str) -> dict[str, str]:
        """The runtime figures of the broker at host:port, as it names them."""
        answer = await self._link.peers.ask(address, Frame(RequestCode.GET_BROKER_RUNTIME_INFO, 0))
        return dict(decode_body(KVTable, answer.body).table)

    async def wait_for_route(self, topic: str, *, seconds: float) -> Route:
        """Ask until the topic has a queue that can be written: brokers register with a delay. Raises: NoRoute."""
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            try:
                route = await self.route(topic)
            except NoRoute:
                route = None
            if route is not None and route.writable:
                return route
            if asyncio.get_running_loop().time() >= deadline:
                raise NoRoute(f"topic {topic} has no writable queue after {seconds:g} s")
            await asyncio.sleep(0.1)

    async def _addresses(self, brokers: Sequence[str] | None) -> dict[str, str]:
        """Of who leads each broker group, or those named, by its name."""
        info = await self._link.names.clusters()
        chosen = sorted(info.brokers) if brokers is None else brokers
        addresses = {}
        for name in chosen:
            broker = info.brokers.get(name)
            if broker is None or 0 not in broker.addresses:
                raise NoRoute(f"the name service knows no writable broker {name}; it knows {sorted(info.brokers)}")
            addresses[name] = broker.addresses[0]
        if not addresses:
            raise NoRoute("no broker is registered at the name service")
        return addresses

    async def _ask_all(self, topic: str, request: Frame) -> list[Frame]:
        """Of every broker group that has queues of the topic. Raises: NoRoute for one that nobody leads, too."""
        route = await self.route(topic)
        of_queues = {queue.broker_name: route.address_of(queue) for queue in (*route.readable, *route.writable)}
        return [
            await self._link.peers.ask(address, Frame(request.code, 0, ext=dict(request.ext)))
            for _, address in sorted({**route.addresses, **of_queues}.items())
        ]
