"""Requests that lock and unlock queues."""

import pytest

from logherd.service.clients.registry import ClientRegistry, Connection
from logherd.service.locks import Locks
from logherd.service.metadata import CHANGES, SNAPSHOTS, Metadata
from logherd.service.routing import Role
from logherd.wire.bodies import MessageQueue
from logherd.wire.bodies.clients import LockQueues
from logherd.wire.codes import RequestCode, ResponseCode
from unit.service.asking import Desk, decoded
from unit.service.client_fakes import FakeClock, FakeSession
from unit.service.memory_log import MemoryLog

QUEUE = MessageQueue(topic="T", broker_name="a", queue_id=0)
AS_JSON = {"brokerName": "a", "queueId": 0, "topic": "T"}


def asked(client: str) -> LockQueues:
    return LockQueues(client_id=client, group="g", queues=[QUEUE])


def locks_of(log: MemoryLog, clock: FakeClock) -> Locks:
    return Locks(Metadata.open(log, clock), clock)


def test_a_queue_is_locked_for_one_client_until_it_unlocks() -> None:
    clock = FakeClock()
    desk = Desk(Role.BROKER, clock, locks_of(MemoryLog(), clock).handlers())
    assert decoded(desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c1"))) == {"lockOKMQSet": [AS_JSON]}
    assert decoded(desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c2"))) == {"lockOKMQSet": []}
    assert desk.park(RequestCode.UNLOCK_BATCH_MQ, None, asked("c1"), oneway=True) is None
    assert decoded(desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c2"))) == {"lockOKMQSet": [AS_JSON]}


def on_two_connections() -> tuple[Desk, ClientRegistry, FakeSession, FakeSession]:
    """The client c1 has an older connection and a newer one."""
    clock, registry = FakeClock(), ClientRegistry()
    locks = Locks(Metadata.open(MemoryLog(), clock), clock, follows=registry.follows)
    desk = Desk(Role.BROKER, clock, locks.handlers())
    old, new = FakeSession(id=1), FakeSession(id=2)
    for session in (old, new):
        registry.join_producer("p", Connection("c1", session, "JAVA", 479, 0, 0))
    return desk, registry, old, new


def test_what_the_network_held_back_gives_no_queue_away_that_its_client_has_locked_again_since() -> None:
    """Else another client gets it, and both consume it: who has locked a queue trusts that for 30 s."""
    desk, _, old, new = on_two_connections()
    desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c1"), session=old)
    desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c1"), session=new)
    desk.park(RequestCode.UNLOCK_BATCH_MQ, None, asked("c1"), session=old, oneway=True)
    assert decoded(desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c2"))) == {"lockOKMQSet": []}
    desk.park(RequestCode.UNLOCK_BATCH_MQ, None, asked("c1"), session=new, oneway=True)
    assert decoded(desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c2"))) == {"lockOKMQSet": [AS_JSON]}


@pytest.mark.parametrize("closed", [True, False])
def test_a_queue_is_given_back_over_another_connection_that_is_newer_or_left_over(*, closed: bool) -> None:
    desk, registry, old, new = on_two_connections()
    held_over, given_over = (new, old) if closed else (old, new)
    desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c1"), session=held_over)
    if closed:
        registry.session_closed(held_over.id)
    desk.park(RequestCode.UNLOCK_BATCH_MQ, None, asked("c1"), session=given_over, oneway=True)
    assert decoded(desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c2"))) == {"lockOKMQSet": [AS_JSON]}


def test_no_queue_is_given_back_over_a_connection_that_may_be_the_older_one() -> None:
    """Brokers name their clients to a new leader in any order."""
    desk, registry, old, _ = on_two_connections()
    named = FakeSession(id=3)
    registry.join_producer("p", Connection("c1", named, "JAVA", 479, 0, 0, named=True))
    desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c1"), session=old)
    desk.park(RequestCode.UNLOCK_BATCH_MQ, None, asked("c1"), session=named, oneway=True)
    assert decoded(desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c2"))) == {"lockOKMQSet": []}


def test_a_lock_that_is_not_renewed_ends_by_the_monotonic_clock() -> None:
    clock = FakeClock()
    locks = locks_of(MemoryLog(), clock)
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
    desk = Desk(Role.BROKER, clock, locks_of(MemoryLog(), clock).handlers())
    queue = b'{"brokerName":"a","queueId":0,"topic":"T"}'
    body = b'{"clientId":"c1","consumerGroup":"g","mqSet":[' + queue + b'],"onlyThisBroker":false}'
    assert decoded(desk.ask(RequestCode.LOCK_BATCH_MQ, None, body)) == {"lockOKMQSet": [AS_JSON]}


def test_a_lock_without_an_owner_is_refused() -> None:
    clock = FakeClock()
    desk = Desk(Role.BROKER, clock, locks_of(MemoryLog(), clock).handlers())
    assert desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("")).code == ResponseCode.INVALID_PARAMETER


def test_an_answer_waits_until_the_owner_is_committed_and_renewing_writes_nothing() -> None:
    clock, log = FakeClock(), MemoryLog()
    desk = Desk(Role.BROKER, clock, locks_of(log, clock).handlers())
    desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c1"))
    locked = log.end_position
    assert desk.waits_for == locked
    desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c1"))
    assert (desk.waits_for, log.end_position) == (locked, locked)
    desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c2"))
    assert log.end_position == locked
    desk.ask(RequestCode.UNLOCK_BATCH_MQ, None, asked("c2"))
    assert log.end_position == locked
    desk.ask(RequestCode.UNLOCK_BATCH_MQ, None, asked("c1"))
    assert desk.waits_for == log.end_position > locked


def test_the_next_leader_keeps_a_queue_for_its_owner_for_a_whole_lease() -> None:
    clock, log = FakeClock(), MemoryLog()
    desk = Desk(Role.BROKER, clock, locks_of(log, clock).handlers())
    desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c1"))
    log.commit()
    metadata = Metadata.follow(log, clock, committed=log.committed_position)
    metadata.request_snapshot()
    metadata.promote(7)
    metadata.request_snapshot()
    metadata.end_pass()
    assert metadata.unfinished  # a snapshot is a few records, each in a pass of its own
    while metadata.unfinished:
        metadata.end_pass()
    log.commit()
    log.cut_below(metadata.pinned_position)  # owners are in the snapshot, too
    metadata = Metadata.follow(log, clock, committed=log.committed_position)
    metadata.promote(8)
    locks = Locks(metadata, clock)
    desk = Desk(Role.BROKER, clock, locks.handlers())
    clock.advance(100_000)
    assert decoded(desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c2"))) == {"lockOKMQSet": []}
    clock.advance(59_999)
    locks.tick()
    assert decoded(desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c2"))) == {"lockOKMQSet": []}
    clock.advance(1)
    locks.tick()
    log.commit()
    assert list(Metadata.read(log, clock).owners) == []
    assert decoded(desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c2"))) == {"lockOKMQSet": [AS_JSON]}


def test_a_queue_is_given_back_to_the_next_leader_also_by_the_first_that_it_hears() -> None:
    log, clock = MemoryLog(), FakeClock()
    desk = Desk(Role.BROKER, clock, locks_of(log, clock).handlers())
    desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c1"))
    log.commit()
    desk = Desk(Role.BROKER, clock, locks_of(log, clock).handlers())
    desk.ask(RequestCode.UNLOCK_BATCH_MQ, None, asked("c1"))
    assert decoded(desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c2"))) == {"lockOKMQSet": [AS_JSON]}


def test_a_table_of_an_earlier_leadership_is_forgotten() -> None:
    clock, log = FakeClock(), MemoryLog()
    locks = locks_of(log, clock)
    desk = Desk(Role.BROKER, clock, locks.handlers())
    at = log.end_position
    log.commit()
    desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c1"))
    metadata = locks._metadata
    metadata.demote()
    log.crash()
    metadata.cut(at)
    assert desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c2")).code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert desk.ask(RequestCode.UNLOCK_BATCH_MQ, None, asked("c2")).code == ResponseCode.SERVICE_NOT_AVAILABLE
    locks.tick()
    metadata.promote(9)
    assert decoded(desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c2"))) == {"lockOKMQSet": [AS_JSON]}


def test_the_next_leader_frees_queues_though_nobody_asks_it_for_a_lock() -> None:
    clock, log = FakeClock(), MemoryLog()
    Desk(Role.BROKER, clock, locks_of(log, clock).handlers()).ask(RequestCode.LOCK_BATCH_MQ, None, asked("c1"))
    log.commit()
    metadata = Metadata.open(log, clock)
    locks = Locks(metadata, clock)
    locks.tick()
    assert list(metadata.owners) != []
    clock.advance(60_000)
    locks.tick()
    assert list(metadata.owners) == []


def test_ended_leases_wait_for_space_in_the_log() -> None:
    clock, log = FakeClock(), MemoryLog()
    locks = locks_of(log, clock)
    Desk(Role.BROKER, clock, locks.handlers()).ask(RequestCode.LOCK_BATCH_MQ, None, asked("c1"))
    clock.advance(60_000)
    log.full = True
    locks.tick()
    assert len(locks.table) == 1
    log.full = False
    locks.tick()
    assert len(locks.table) == 0
    log.commit()
    assert list(Metadata.read(log, clock).owners) == []


def test_a_client_keeps_its_queues_while_the_lock_of_another_cannot_be_logged() -> None:
    """It asks for all its queues in one request, and consumes none that was not locked again for 30 s."""
    clock, log = FakeClock(), MemoryLog()
    desk = Desk(Role.BROKER, clock, locks_of(log, clock).handlers())
    desk.ask(RequestCode.LOCK_BATCH_MQ, None, asked("c1"))
    other = MessageQueue(topic="T", broker_name="b", queue_id=9)
    both = LockQueues(client_id="c1", group="g", queues=[QUEUE, other])
    log.full = True
    assert decoded(desk.ask(RequestCode.LOCK_BATCH_MQ, None, both)) == {"lockOKMQSet": [AS_JSON]}
    new = LockQueues(client_id="c1", group="g", queues=[other])
    assert desk.ask(RequestCode.LOCK_BATCH_MQ, None, new).code == ResponseCode.SERVICE_NOT_AVAILABLE
    log.full = False
    told = decoded(desk.ask(RequestCode.LOCK_BATCH_MQ, None, both))
    assert isinstance(told, dict)
    assert len(told["lockOKMQSet"]) == 2


def test_locks_of_the_longest_names_fit_the_smallest_records() -> None:
    """A log takes records of 128 KiB at least. Else ended locks are never forgotten, and no snapshot is whole."""
    clock, log = FakeClock(), MemoryLog()
    log.body_bytes_max = 128 << 10
    metadata = Metadata.open(log, clock)
    locks = Locks(metadata, clock)
    desk = Desk(Role.BROKER, clock, locks.handlers())
    topic, broker = "\x01" * 255, "\x02" * 255
    queues = [MessageQueue(topic=topic, broker_name=broker, queue_id=number) for number in range(1000)]
    for at in range(0, 1000, 20):
        body = LockQueues(client_id="c", group="g", queues=queues[at : at + 20])
        assert desk.ask(RequestCode.LOCK_BATCH_MQ, None, body).code == ResponseCode.SUCCESS
    metadata.request_snapshot()
    for _ in range(200):
        metadata.end_pass()
        log.commit()
    assert metadata.pinned_position
    clock.monotonic += 60_000
    locks.tick()
    assert (len(locks.table), list(metadata.owners)) == (0, [])
    body = LockQueues(client_id="c", group="g", queues=queues)
    assert desk.ask(RequestCode.LOCK_BATCH_MQ, None, body).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(("client", "group"), [("c" * 1025, "g"), ("c", "g" * 256)])
def test_a_lock_for_a_name_that_no_client_has_is_refused(client: str, group: str) -> None:
    clock = FakeClock()
    locks = locks_of(MemoryLog(), clock)
    desk = Desk(Role.BROKER, clock, locks.handlers())
    body = LockQueues(client_id=client, group=group, queues=[QUEUE])
    assert desk.ask(RequestCode.LOCK_BATCH_MQ, None, body).code == ResponseCode.INVALID_PARAMETER
    assert len(locks.table) == 0


def test_however_many_queues_one_client_holds_their_records_and_snapshots_stay_small() -> None:
    """A client may lock queues of any name, and the log takes no record of more than 4 MiB."""
    clock, log = FakeClock(), MemoryLog()
    metadata = Metadata.open(log, clock)
    locks = Locks(metadata, clock)
    desk = Desk(Role.BROKER, clock, locks.handlers())
    for topic in ("a" * 250, "b" * 250):
        queues = [MessageQueue(topic=topic, broker_name="a", queue_id=number) for number in range(10_000)]
        desk.ask(RequestCode.LOCK_BATCH_MQ, None, LockQueues(client_id="c", group="g", queues=queues))
    locked = len(log.entries[CHANGES])
    metadata.request_snapshot()
    while not metadata.pinned_position:
        metadata.end_pass()
        log.commit()
    again = Metadata.open(log, clock)
    assert sum(len(owners) for _, owners in again.owners) == 20_000
    clock.monotonic += 60_000
    locks.tick()
    assert (len(locks.table), list(metadata.owners)) == (0, [])
    written = log.entries[SNAPSHOTS] + log.entries[CHANGES][locked:]
    assert max(len(entry.body) for entry in written) < 512 << 10
