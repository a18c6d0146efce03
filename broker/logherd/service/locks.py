"""Locks on queues for orderly consumption: requests 41 and 42."""

from collections.abc import Callable
from functools import partial
from typing import Final

from logherd.kit.clock import Clock
from logherd.service.errors import RequestError
from logherd.service.lock_table import LockTable, QueueName
from logherd.service.metadata import Metadata, MetadataRefusedError
from logherd.service.ports import Answer, Handler, Reply, Request, Session
from logherd.service.requests import after, body_reply
from logherd.wire.bodies import MessageQueue, decode_body
from logherd.wire.bodies.clients import LockedQueues, LockQueues
from logherd.wire.codes import RequestCode, ResponseCode

__all__ = ["Locks"]

_GROUP_LENGTH_MAX: Final = 255
_CLIENT_LENGTH_MAX: Final = 1024
"""What holds a lock is kept as long as the lock, in the log and in its snapshots."""


class Locks:
    """Handlers over one lock table. `only_this_broker` makes no difference: one broker leads a group.

    An answer waits until the change of owner is committed. In each epoch the table begins with a whole lease for each
    owner that the metadata knows: what an earlier leader granted is not granted to another before it has ended.
    """

    def __init__(
        self, metadata: Metadata, clock: Clock, *, follows: Callable[[str, int, int], bool] = lambda *_: True
    ) -> None:  # fmt: skip
        """`follows` says of two connections of a client whether what comes over the first is later than what came over
        the second, by their sessions' ids."""
        self.table = LockTable()
        self._metadata = metadata
        self._clock = clock
        self._follows = follows
        self._epoch = 0

    def handlers(self) -> dict[RequestCode, Handler]:
        return {RequestCode.LOCK_BATCH_MQ: self.lock, RequestCode.UNLOCK_BATCH_MQ: self.unlock}

    def tick(self) -> None:
        """Forget ended leases. Call it every 10 s."""
        if not self._metadata.leading:
            return
        now = self._clock.monotonic_ms()
        self._begin_epoch(now)
        try:
            for group, queues in self.table.ended(now).items():
                self._metadata.owners.take(group, "", queues)
        except MetadataRefusedError:
            return  # the store reports its own state; the next call tries again
        self.table.expire(now)

    def _begin_epoch(self, now: int) -> None:
        if self._epoch == self._metadata.epoch:
            return
        self._epoch = self._metadata.epoch
        self.table = LockTable()
        for group, owners in self._metadata.owners:
            for queue, client_id in owners.items():
                self.table.lock(group, client_id, [queue], now)

    def is_orderly(self, group: str) -> bool:
        """Whether the group consumes orderly: a client of it holds a queue."""
        now = self._clock.monotonic_ms()
        self._begin_epoch(now)
        return self.table.is_used_by(group, now)

    def lock(self, request: Request, session: Session) -> Answer:
        """41. Raises NotLeading."""
        asked = _asked(request)
        now = self._clock.monotonic_ms()
        self._begin_epoch(now)
        held = self.table.lock(asked.group, asked.client_id, _names(asked), now, session_id=session.id)
        owners = self._metadata.owners
        try:
            position = owners.take(asked.group, asked.client_id, held)
        except MetadataRefusedError:
            # It asks for all its queues at once, and goes on with those alone that it is told of.
            held = owners.owned(asked.group, asked.client_id, held)
            if not held:
                raise
            position = owners.take(asked.group, asked.client_id, held)
        queues = [MessageQueue(broker_name=name.broker, queue_id=name.queue_id, topic=name.topic) for name in held]
        return after(position, body_reply(LockedQueues(queues=queues)))

    def unlock(self, request: Request, session: Session) -> Answer:
        """42. Raises NotLeading."""
        asked = _asked(request)
        self._begin_epoch(self._clock.monotonic_ms())
        follows = partial(self._follows, asked.client_id, session.id)
        freed = self.table.unlock(asked.group, asked.client_id, _names(asked), follows=follows)
        return after(self._metadata.owners.take(asked.group, "", freed), Reply())


def _asked(request: Request) -> LockQueues:
    asked = decode_body(LockQueues, request.body)
    if not asked.group or not asked.client_id:
        raise RequestError(ResponseCode.INVALID_PARAMETER, "a lock needs a consumerGroup and a clientId")
    if len(asked.group) > _GROUP_LENGTH_MAX or len(asked.client_id) > _CLIENT_LENGTH_MAX:
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"consumerGroup has {len(asked.group)} characters and clientId {len(asked.client_id)}, right are at most "
            f"{_GROUP_LENGTH_MAX} and {_CLIENT_LENGTH_MAX}",
        )
    return asked


def _names(asked: LockQueues) -> list[QueueName]:
    return [QueueName(queue.topic, queue.broker_name, queue.queue_id) for queue in asked.queues]
