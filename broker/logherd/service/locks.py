"""Locks on queues for orderly consumption: requests 41 and 42."""

from logherd.kit.clock import Clock
from logherd.service.errors import RequestError
from logherd.service.lock_table import LockTable, QueueName
from logherd.service.ports import Answer, Handler, Reply, Request, Session
from logherd.service.requests import body_reply
from logherd.wire.bodies import MessageQueue, decode_body
from logherd.wire.bodies.clients import LockedQueues, LockQueues
from logherd.wire.codes import RequestCode, ResponseCode

__all__ = ["Locks"]


class Locks:
    """Handlers over one lock table. `only_this_broker` makes no difference: one broker leads a group."""

    def __init__(self, clock: Clock) -> None:
        self.table = LockTable()
        self._clock = clock

    def handlers(self) -> dict[RequestCode, Handler]:
        return {RequestCode.LOCK_BATCH_MQ: self.lock, RequestCode.UNLOCK_BATCH_MQ: self.unlock}

    def tick(self) -> None:
        """Forget ended leases. Call it every 10 s."""
        self.table.expire(self._clock.monotonic_ms())

    def lock(self, request: Request, _session: Session) -> Answer:
        """41."""
        asked = _asked(request)
        held = self.table.lock(asked.group, asked.client_id, _names(asked), self._clock.monotonic_ms())
        queues = [MessageQueue(broker_name=name.broker, queue_id=name.queue_id, topic=name.topic) for name in held]
        return body_reply(LockedQueues(queues=queues))

    def unlock(self, request: Request, _session: Session) -> Answer:
        """42."""
        asked = _asked(request)
        self.table.unlock(asked.group, asked.client_id, _names(asked))
        return Reply()


def _asked(request: Request) -> LockQueues:
    asked = decode_body(LockQueues, request.body)
    if not asked.group or not asked.client_id:
        raise RequestError(ResponseCode.INVALID_PARAMETER, "a lock needs a consumerGroup and a clientId")
    return asked


def _names(asked: LockQueues) -> list[QueueName]:
    return [QueueName(queue.topic, queue.broker_name, queue.queue_id) for queue in asked.queues]
