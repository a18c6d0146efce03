"""Requests that lock and unlock queues."""

from logherd.service.locks import Locks
from logherd.service.routing import Role
from logherd.wire.bodies import MessageQueue
from logherd.wire.bodies.clients import LockQueues
from logherd.wire.codes import RequestCode, ResponseCode
from unit.service.asking import Desk, decoded
from unit.service.client_fakes import FakeClock

QUEUE = MessageQueue(topic="T", broker_name="a", queue_id=0)
AS_JSON = {"brokerName": "a", "queueId": 0, "topic": "T"}


def asked(client: str) -> LockQueues:
    return LockQueues(client_id=client, group="g", queues=[QUEUE])


def test_a_queue_is_locked_for_one_client_until_it_unlocks() -> None:
    clock = FakeClock()
    desk = Desk(Role.BROKER, clock, Locks(clock).handlers())
    assert decoded(desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c1"))) == {"lockOKMQSet": [AS_JSON]}
    assert decoded(desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c2"))) == {"lockOKMQSet": []}
    assert desk.park(RequestCode.UNLOCK_BATCH_MQ, None, asked("c1"), oneway=True) is None
    assert decoded(desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c2"))) == {"lockOKMQSet": [AS_JSON]}


def test_a_lock_that_is_not_renewed_ends_by_the_monotonic_clock() -> None:
    clock = FakeClock()
    locks = Locks(clock)
    desk = Desk(Role.BROKER, clock, locks.handlers())
    desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c1"))
    clock.wall += 10**9
    assert decoded(desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c2"))) == {"lockOKMQSet": []}
    clock.monotonic += 60_000
    locks.tick()
    assert len(locks.table) == 0
    assert decoded(desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c2"))) == {"lockOKMQSet": [AS_JSON]}


def test_a_lock_as_fastjson_writes_it_is_read() -> None:
    clock = FakeClock()
    desk = Desk(Role.BROKER, clock, Locks(clock).handlers())
    queue = b'{"brokerName":"a","queueId":0,"topic":"T"}'
    body = b'{"clientId":"c1","consumerGroup":"g","mqSet":[' + queue + b'],"onlyThisBroker":false}'
    assert decoded(desk.ask(RequestCode.LOCK_BATCH_MQ, None, body)) == {"lockOKMQSet": [AS_JSON]}


def test_a_lock_without_an_owner_is_refused() -> None:
    clock = FakeClock()
    desk = Desk(Role.BROKER, clock, Locks(clock).handlers())
    assert desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("")).code == ResponseCode.INVALID_PARAMETER
