"""Leases on queues: who gets them, who keeps them, and when they end."""

from logherd.service.lock_table import LEASE_MS, LockTable, QueueName

Q0, Q1 = QueueName("T", "a", 0), QueueName("T", "a", 1)


def test_a_free_queue_goes_to_the_first_who_asks() -> None:
    table = LockTable()
    assert table.lock("g", "c1", [Q0, Q1], 0) == [Q0, Q1]
    assert table.lock("g", "c2", [Q0, Q1], 1) == []
    assert table.owner("g", Q0, 1) == "c1"


def test_groups_do_not_see_each_other() -> None:
    table = LockTable()
    table.lock("g", "c1", [Q0], 0)
    assert table.lock("h", "c2", [Q0], 0) == [Q0]


def test_locking_again_renews_the_lease() -> None:
    table = LockTable()
    table.lock("g", "c1", [Q0], 0)
    assert table.lock("g", "c1", [Q0], LEASE_MS - 1) == [Q0]
    assert table.lock("g", "c2", [Q0], LEASE_MS) == []


def test_a_lease_ends_after_sixty_seconds_and_not_before() -> None:
    table = LockTable()
    table.lock("g", "c1", [Q0], 0)
    assert table.lock("g", "c2", [Q0], LEASE_MS - 1) == []
    assert table.lock("g", "c2", [Q0], LEASE_MS) == [Q0]
    assert table.owner("g", Q0, LEASE_MS) == "c2"


def test_only_the_owner_can_give_a_queue_back() -> None:
    table = LockTable()
    table.lock("g", "c1", [Q0], 0)
    table.unlock("g", "c2", [Q0])
    assert table.owner("g", Q0, 1) == "c1"
    table.unlock("g", "c1", [Q0, Q1])
    assert table.owner("g", Q0, 1) is None
    assert table.lock("g", "c2", [Q0], 1) == [Q0]


def test_ended_leases_take_no_room() -> None:
    table = LockTable()
    table.lock("g", "c1", [Q0], 0)
    table.lock("g", "c1", [Q1], 10)
    table.expire(LEASE_MS)
    assert len(table) == 1
    table.expire(LEASE_MS + 10)
    assert len(table) == 0
