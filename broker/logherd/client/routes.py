"""Where a topic's queues are, asked from the name service and remembered for a while."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from logherd.client.errors import ClientError, NoRoute, Refused, Unreachable
from logherd.client.peers import Peers
from logherd.model.topic import Permission
from logherd.net.errors import NetError
from logherd.wire.bodies import MessageQueue, decode_body
from logherd.wire.bodies.routes import ClusterInfo, TopicList, TopicRoute
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from logherd.wire.headers import encode_header
from logherd.wire.headers.names import RouteHeader

__all__ = ["BODY_BYTES_MAX", "DEFAULT_TOPIC", "NameService", "Route", "Routes"]

BODY_BYTES_MAX = 64 * 1024 * 1024
"""Of answers that list whatever there is; a frame holds less."""
DEFAULT_TOPIC = "TBW102"
ROUTE_SECONDS = 30.0
JUST_STARTED_SECONDS = 5.0
_ASK_AGAIN_SECONDS = 0.2
NEXT_SECONDS = 1.0
"""So long a name server is waited for while there is another one to ask: less than a send has."""
KNOWN_SECONDS = 1.5
"""So long a route is asked for while one is known that may still be right."""
DEFAULT_QUEUES = 4


@dataclass(frozen=True, slots=True)
class Route:
    """The queues of one topic in a fixed order, and the address of each broker group's writer (host:port by name)."""

    topic: str
    writable: tuple[MessageQueue, ...]
    readable: tuple[MessageQueue, ...]
    addresses: dict[str, str]

    def address_of(self, queue: MessageQueue) -> str:
        """host:port of the broker that takes writes for this queue. Raises: NoRoute."""
        address = self.addresses.get(queue.broker_name)
        if address is None:
            raise NoRoute(f"no address of broker {queue.broker_name} is known for topic {self.topic}")
        return address


def _route_of(topic: str, data: TopicRoute, *, queues_max: int | None = None) -> Route:
    """A queue whose group has no leader cannot be written, as for stock clients."""
    addresses = {broker.broker_name: broker.addresses[0] for broker in data.brokers if 0 in broker.addresses}
    writable: list[MessageQueue] = []
    readable: list[MessageQueue] = []
    for queues in sorted(data.queues, key=lambda each: each.broker_name):
        led = queues.permission if queues.broker_name in addresses else queues.permission & ~Permission.WRITE
        for permission, count, found in (
            (Permission.WRITE, queues.write_queues, writable),
            (Permission.READ, queues.read_queues, readable),
        ):
            if led & permission:
                count = count if queues_max is None else min(count, queues_max)
                found += [MessageQueue(topic=topic, broker_name=queues.broker_name, queue_id=n) for n in range(count)]
    return Route(topic, tuple(writable), tuple(readable), addresses)


def _route_question(topic: str) -> Frame:
    return Frame(RequestCode.GET_ROUTEINFO_BY_TOPIC, 0, ext=encode_header(RouteHeader(topic=topic, strict_json=True)))


class NameService:
    """Asks one of several name servers, staying with the one that answered last."""

    def __init__(self, peers: Peers, addresses: Sequence[str]) -> None:
        if not addresses:
            raise ValueError("at least one name server address is needed")
        self._peers = peers
        self._addresses = list(addresses)

    async def ask(self, request: Frame) -> Frame:
        """The successful answer of the first name server that can be reached.

        Raises: Refused; Unreachable, with the last error as cause, when none can be.
        """
        last: NetError | TimeoutError | None = None
        addresses = tuple(self._addresses)
        for address in addresses:
            try:
                async with asyncio.timeout(None if address == addresses[-1] else NEXT_SECONDS):
                    return await self._peers.ask(address, request)
            except (NetError, TimeoutError) as error:
                last = error
                self._put_last(address)
            except asyncio.CancelledError:  # as of a send whose time is over; the next one is not to wait here, too
                self._put_last(address)
                raise
        raise Unreachable(f"no name server answers: {', '.join(sorted(self._addresses))}") from last

    def _put_last(self, address: str) -> None:
        if self._addresses[0] == address:  # else another question has found out already
            self._addresses.append(self._addresses.pop(0))

    async def route(self, topic: str) -> TopicRoute | None:
        """The route of a topic as the name service has it; None for a topic that none of its servers knows.

        A broker may have told one of them and not another: where one does not know the topic, the others are asked, for
        1 s together. One that has just started says "try again" for up to a lease, because brokers may not have told it
        yet: that is waited for, and meanwhile the others are asked, too. Raises: Refused, Unreachable.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + JUST_STARTED_SECONDS
        while True:
            try:
                answer = await self.ask(_route_question(topic))
            except Refused as error:
                if error.code == ResponseCode.TOPIC_NOT_EXIST:
                    return await self._route_elsewhere(topic, error.peer)
                if error.code != ResponseCode.SYSTEM_ERROR or loop.time() >= deadline:
                    raise
                self._put_last(error.peer)
                await asyncio.sleep(_ASK_AGAIN_SECONDS)
            else:
                return decode_body(TopicRoute, answer.body)

    async def _route_elsewhere(self, topic: str, asked: str) -> TopicRoute | None:
        async def ask(address: str) -> Frame | None:
            try:
                async with asyncio.timeout(NEXT_SECONDS):
                    return await self._peers.ask(address, _route_question(topic))
            except (NetError, Refused, TimeoutError):
                return None

        answers = await asyncio.gather(*(ask(each) for each in self._addresses if each != asked))
        return next((decode_body(TopicRoute, answer.body) for answer in answers if answer is not None), None)

    async def clusters(self) -> ClusterInfo:
        """All broker groups by cluster, with their addresses."""
        return decode_body(ClusterInfo, (await self.ask(Frame(RequestCode.GET_BROKER_CLUSTER_INFO, 0))).body)

    async def topics(self) -> list[str]:
        """The names of all topics."""
        answer = await self.ask(Frame(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, 0))
        return sorted(decode_body(TopicList, answer.body, bytes_max=BODY_BYTES_MAX).topics)

    async def delete_topic(self, topic: str) -> None:
        """Forget a topic's route on every name server that answers. Raises: Unreachable when none does."""
        reached = 0
        for address in tuple(self._addresses):
            try:
                await self._peers.ask(address, Frame(RequestCode.DELETE_TOPIC_IN_NAMESRV, 0, ext={"topic": topic}))
                reached += 1
            except NetError:
                continue
        if not reached:
            raise Unreachable(f"no name server answers: {', '.join(sorted(self._addresses))}")


class Routes:
    """Routes of the topics that a client uses, each asked again after 30 s or when told so."""

    def __init__(self, names: NameService) -> None:
        self._names = names
        self._known: dict[str, tuple[float, Route]] = {}

    async def get(self, topic: str, *, may_create: bool = False, fresh: bool = False) -> Route:
        """The route of `topic`; with `may_create` an unknown topic gets the one on which a broker would create it.

        A known route is kept while the name service cannot be asked, or cannot tell yet, and while it knows nothing of
        the topic: that is so when the leader is gone for longer than routes name one, and whether the topic is, too,
        its brokers say.

        Raises: NoRoute, Unreachable, Refused.
        """
        now = asyncio.get_running_loop().time()
        known = self._known.get(topic)
        if known is not None and not fresh and now - known[0] < ROUTE_SECONDS:
            return known[1]
        try:
            async with asyncio.timeout(None if known is None else KNOWN_SECONDS):
                route = await self._ask(topic, may_create=may_create and known is None)
        except (ClientError, TimeoutError):
            if known is None:
                raise
            route = known[1]
        self._known[topic] = (now, route)
        return route

    def name(self, address: str) -> bool:
        """Whether a route that is remembered has its writer at host:port."""
        return any(address in route.addresses.values() for _, route in self._known.values())

    def doubt(self, topic: str) -> None:
        """Ask again next time, and go on with what is known if the name service cannot be asked then."""
        if (known := self._known.get(topic)) is not None:
            self._known[topic] = (known[0] - ROUTE_SECONDS, known[1])

    def forget(self, topic: str) -> None:
        """Ask again next time."""
        self._known.pop(topic, None)

    async def _ask(self, topic: str, *, may_create: bool) -> Route:
        data = await self._names.route(topic)
        if data is not None:
            return _route_of(topic, data)
        template = await self._names.route(DEFAULT_TOPIC) if may_create else None
        if template is None:
            raise NoRoute(f"no route of topic {topic}: the name service does not know it")
        return _route_of(topic, template, queues_max=DEFAULT_QUEUES)
