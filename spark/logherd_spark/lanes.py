"""Requests to one broker group that are sent before earlier ones are answered, and sent again, in their order, when the
leader moves."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from logherd.kit.errors import InvariantError
from logherd.wire.frame import Frame
from logherd_spark.cluster import Cluster, QueueRef
from logherd_spark.connection import Connection, ConnectionLost
from logherd_spark.patience import Retries

__all__ = ["Lane"]

_WINDOW_BYTES = 8 << 20
_WINDOW_COUNT = 32


@dataclass(slots=True)
class _Sent:
    queue: QueueRef
    make: Callable[[], Frame]
    size: int
    opaque: int = 0


class Lane:
    """Requests that may be repeated.

    1. Requests are on the wire in the order in which they were given, also after a new connection. With `in_order` a
       refusal repeats all that were sent after it; without, only what was refused or has no answer is sent again.
    2. What was given is answered with success when `drain` returns.
    """

    def __init__(self, cluster: Cluster, *, in_order: bool = True) -> None:
        self._cluster = cluster
        self._in_order = in_order
        self._sent: deque[_Sent] = deque()
        self._size = 0
        self._connection: Connection | None = None
        self._retries = Retries(cluster.patience)

    def submit(self, queue: QueueRef, make: Callable[[], Frame], size: int) -> None:
        """Send a request of about `size` bytes; blocks while too many are open. Raises as `drain`."""
        while self._sent and (self._size + size > _WINDOW_BYTES or len(self._sent) >= _WINDOW_COUNT):
            self._take()
        request = _Sent(queue, make, size)
        self._sent.append(request)
        self._size += size
        try:
            self._send(request)
        except ConnectionLost as error:
            self._again(str(error))

    def drain(self) -> None:
        """Wait until all are answered. Raises: BrokerRefused, Unanswered, TopicMissing."""
        while self._sent:
            self._take()

    def _take(self) -> None:
        """Take the answer to the oldest request."""
        oldest = self._sent[0]
        connection = self._connection
        if connection is None:
            raise InvariantError("what is open was sent on a connection")
        try:
            answer = connection.receive(oldest.opaque, seconds=self._cluster.patience.request_seconds)
        except ConnectionLost as error:
            self._again(str(error))
            return
        if answer.code == 0:
            self._sent.popleft()
            self._size -= oldest.size
            self._retries.succeeded()
            return
        why = self._cluster.refusal(answer, connection.address)
        if not self._in_order:
            self._leave_stored(connection)
        self._again(why)

    def _leave_stored(self, connection: Connection) -> None:
        """The oldest was refused: take the answers to the others too, for what they say is stored need not come again.

        The oldest stays the oldest, so that its failures in a row are counted. Blocks at most the patience for each
        answer. Raises: BrokerRefused.
        """
        kept = deque([self._sent.popleft()])
        try:
            while self._sent:
                answer = connection.receive(self._sent[0].opaque, seconds=self._cluster.patience.request_seconds)
                request = self._sent.popleft()
                if answer.code == 0:
                    self._size -= request.size
                else:
                    self._cluster.refusal(answer, connection.address)
                    kept.append(request)
        except ConnectionLost:
            kept.extend(self._sent)  # the connection is given up in any case
        self._sent = kept

    def _send(self, request: _Sent) -> None:
        """Raises: ConnectionLost."""
        if self._connection is None:
            self._connection = self._cluster.connection(request.queue)
        request.opaque = self._connection.send(request.make(), seconds=self._cluster.patience.request_seconds)

    def _again(self, last: str) -> None:
        """Connect anew and send all that has no answer. Raises: Unanswered."""
        queue = self._sent[0].queue
        while True:
            self._cluster.lost(queue)
            self._connection = None
            if not self._retries.pause():
                raise self._cluster.gave_up(queue, last)
            try:
                for request in self._sent:
                    self._send(request)
            except ConnectionLost as error:
                last = str(error)
            else:
                return
