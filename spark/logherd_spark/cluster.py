"""Where a topic's queues are, and who leads each of its groups: asked from the name service, followed through switches.

Every broker of a LogHerd group takes requests and passes them to its leader, so with `any_broker` the others are tried,
too. A RocketMQ slave does not, and is not asked for anything but what it has.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from logherd.model.topic import Permission
from logherd.wire.bodies import decode_body
from logherd.wire.bodies.routes import TopicRoute
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.errors import BodyError
from logherd.wire.frame import Frame
from logherd.wire.headers import encode_header
from logherd.wire.headers.names import RouteHeader
from logherd_spark.connection import Connection, ConnectionLost
from logherd_spark.errors import BrokerRefused, TopicMissing, Unanswered, WriterFenced
from logherd_spark.patience import Patience, Retries

__all__ = ["Cluster", "QueueRef", "Route"]

_TRY_AGAIN = frozenset({
    ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLOW_CONTROL, ResponseCode.FORWARDING_REFUSED,
})  # fmt: skip

_ELSEWHERE_SECONDS = 1.0


class QueueRef(NamedTuple):
    """One queue of a topic. `group` is the broker group (RocketMQ's brokerName)."""

    topic: str
    group: str
    queue_id: int

    def __str__(self) -> str:
        return f"queue {self.queue_id} of topic {self.topic} in group {self.group}"


@dataclass(frozen=True, slots=True)
class Route:
    """A topic's queues in a fixed order, and the brokers of each group, the leader first."""

    readable: tuple[QueueRef, ...]
    writable: tuple[QueueRef, ...]
    brokers: dict[str, tuple[str, ...]] = field(default_factory=dict)


class Cluster:
    """A blocking client for one task or one piece of planning. Not for several threads; close it when done."""

    def __init__(self, bootstrap: Sequence[str], patience: Patience, *, any_broker: bool = False) -> None:
        self.patience = patience
        self.any_broker = any_broker
        self._names = list(bootstrap)
        self._name_connection: Connection | None = None
        self._routes: dict[str, Route] = {}
        self._connections: dict[str, Connection] = {}
        self._turns: dict[str, int] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        if self._name_connection is not None:
            self._name_connection.close()
            self._name_connection = None

    def route(self, topic: str, *, fresh: bool = False) -> Route:
        """The route of a topic. Blocks and tries again while no name server answers.

        A topic that was there, and of which the name service knows nothing now, is where it was: that is so while all
        brokers of its group start again. If it is deleted they say so.
        Raises: TopicMissing, Unanswered, BrokerRefused.
        """
        known = self._routes.get(topic)
        if known is not None and not fresh:
            return known
        retries = Retries(self.patience)
        while True:
            try:
                route = self._routes[topic] = self._ask_route(topic)
            except ConnectionLost as error:
                if not retries.pause():
                    raise Unanswered(
                        f"no name server of {', '.join(sorted(self._names))} answered for "
                        f"{self.patience.total_seconds:.0f} s: {error}"
                    ) from None
            except TopicMissing:
                if known is None:
                    raise
                return known
            else:
                return route

    def ask(self, queue: QueueRef, request: Callable[[], Frame], *, good: frozenset[int] = frozenset({0})) -> Frame:
        """The answer of the queue's leader to a request that may be repeated; `request` makes it anew each time.

        Blocks: until there is an answer with a code in `good`, or the patience ends.
        Raises: BrokerRefused for an answer that will not change, Unanswered, TopicMissing.
        """
        retries = Retries(self.patience)
        while True:
            try:
                connection = self.connection(queue)
                answer = connection.ask(request(), seconds=self.patience.request_seconds)
                if answer.code in good:
                    return answer
                last = self.refusal(answer, connection.address)
            except ConnectionLost as error:
                last = str(error)
            self.lost(queue)
            if not retries.pause():
                raise self.gave_up(queue, last)

    def connection(self, queue: QueueRef) -> Connection:
        """A connection to a broker that answers for this queue. Raises: ConnectionLost, TopicMissing, Unanswered."""
        found = self._connections.get(queue.group)
        if found is not None:
            return found
        addresses = self.route(queue.topic).brokers.get(queue.group, ())
        if not addresses:
            raise ConnectionLost(f"no address of group {queue.group} is known")
        turn = self._turns.get(queue.group, 0) if self.any_broker else 0
        address = addresses[turn % len(addresses)]
        made = self._connections[queue.group] = Connection(address, seconds=self.patience.request_seconds)
        return made

    def lost(self, queue: QueueRef) -> None:
        """What the connection said or did not say means that the leader may be another: look again, try the next."""
        connection = self._connections.pop(queue.group, None)
        if connection is not None:
            connection.close()
        self._turns[queue.group] = self._turns.get(queue.group, 0) + 1
        self._forget_route(queue.topic)

    def refusal(self, answer: Frame, address: str) -> str:
        """Why an answer that was not the wanted one may be another next time. Raises: BrokerRefused if it will not."""
        if answer.code == ResponseCode.WRITER_FENCED:
            raise WriterFenced(answer.code, answer.remark, address)
        if answer.code not in _TRY_AGAIN:
            raise BrokerRefused(answer.code, answer.remark, address)
        return f"{address} answered {answer.code}: {answer.remark or 'no reason given'}"

    def gave_up(self, queue: QueueRef, last: str) -> Unanswered:
        return Unanswered(
            f"the leader of group {queue.group} (topic {queue.topic}) did not answer for "
            f"{self.patience.total_seconds:.0f} s; last: {last}"
        )

    def _forget_route(self, topic: str) -> None:
        try:
            self._routes[topic] = self._ask_route(topic)
        except (ConnectionLost, TopicMissing):
            return  # the one that is known may still be right

    def _ask_route(self, topic: str) -> Route:
        """Raises: ConnectionLost, TopicMissing."""
        connection = self._name_server()
        try:
            answer = connection.ask(_route_question(topic), seconds=self.patience.request_seconds)
        except ConnectionLost:
            self._next_name_server()
            raise
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            found = self._ask_elsewhere(topic, connection.address)
            if found is None:
                raise TopicMissing(f"topic {topic} does not exist: {connection.address} does not know it")
            answer = found
        if answer.code != 0:
            self._next_name_server()
            raise ConnectionLost(f"{connection.address} answered {answer.code}: {answer.remark}")
        try:
            return _route_of(topic, decode_body(TopicRoute, answer.body))
        except BodyError as error:
            raise ConnectionLost(f"{connection.address} gave no route: {error}") from None

    def _ask_elsewhere(self, topic: str, asked: str) -> Frame | None:
        """A broker may have told one name server and not another. Blocks: 1 s or two for each that is lost."""
        for address in self._names:
            if address == asked:
                continue
            try:
                connection = Connection(address, seconds=_ELSEWHERE_SECONDS)
                answer = connection.ask(_route_question(topic), seconds=_ELSEWHERE_SECONDS)
            except ConnectionLost:
                continue
            connection.close()
            if answer.code == 0:
                return answer
        return None

    def _name_server(self) -> Connection:
        last: ConnectionLost | None = None
        for _ in self._names:
            if self._name_connection is not None:
                return self._name_connection
            try:
                self._name_connection = Connection(self._names[0], seconds=self.patience.request_seconds)
            except ConnectionLost as error:
                last = error
                self._next_name_server()
        if self._name_connection is not None:
            return self._name_connection
        raise last or ConnectionLost("no name server is given")

    def _next_name_server(self) -> None:
        if self._name_connection is not None:
            self._name_connection.close()
            self._name_connection = None
        self._names.append(self._names.pop(0))


def _route_question(topic: str) -> Frame:
    return Frame(RequestCode.GET_ROUTEINFO_BY_TOPIC, 0, ext=encode_header(RouteHeader(topic=topic, strict_json=True)))


def _route_of(topic: str, data: TopicRoute) -> Route:
    readable: list[QueueRef] = []
    writable: list[QueueRef] = []
    for queues in sorted(data.queues, key=lambda each: each.broker_name):
        if queues.permission & Permission.READ:
            readable += [QueueRef(topic, queues.broker_name, number) for number in range(queues.read_queues)]
        if queues.permission & Permission.WRITE:
            writable += [QueueRef(topic, queues.broker_name, number) for number in range(queues.write_queues)]
    brokers = {
        each.broker_name: tuple(address for _, address in sorted(each.addresses.items())) for each in data.brokers
    }
    return Route(tuple(readable), tuple(writable), brokers)
