"""Two stores, a Shipper and a Receiver between them, on real files."""

from pathlib import Path

import pytest

from logherd.replica import ReplicaStore
from logherd.store import MessageStore
from sim.two_replicas import Pair


def log_of(store: MessageStore, start: int) -> bytes:
    found, position = [], start
    while position < store.end_position:
        data, position = store.read_raw(position, 1 << 20)
        found.append(bytes(data))
    return b"".join(found)


def check_equal(one: MessageStore, other: MessageStore) -> None:
    assert one.end_position == other.end_position
    start = max(one.min_position, other.min_position)
    assert log_of(one, start) == log_of(other, start)
    for queue in one.queues():
        twin = other.queue(queue.topic, queue.queue_id)
        assert (queue.max_offset, queue.next_offset) == (twin.max_offset, twin.next_offset)
        first = max(queue.min_offset, twin.min_offset)
        units = range(first, queue.max_offset)
        assert [one.unit(queue, offset) for offset in units] == [other.unit(twin, offset) for offset in units]


def last_run(log: ReplicaStore, pair: Pair) -> tuple[int, int]:
    """Epoch, and after which position, as far as both logs still go back."""
    run = log.epochs.runs[-1]
    return run.epoch, max(run.after, pair.leader.store.min_position, pair.follower.store.min_position)


@pytest.mark.parametrize("seed", range(16))
def test_two_replicas_come_to_hold_the_same_whatever_happened_between(tmp_path: Path, seed: int) -> None:
    pair = Pair(tmp_path, seed)
    for _ in range(200):
        pair.step()
    pair.settle()
    check_equal(pair.leader.store, pair.follower.store)
    assert last_run(pair.leader.log, pair) == last_run(pair.follower.log, pair)
    assert pair.seen["cut"]
    assert pair.seen["outlined"]
    assert pair.seen["follower crashed"]
    assert pair.seen["leader crashed"] + pair.seen["other leader"]
    for replica in (pair.leader, pair.follower):
        for _ in range(3):
            replica.store.tick()
            while replica.store.background_work():
                pass
    left, right = pair.leader.crashed(900), pair.follower.crashed(901)
    check_equal(left.store, right.store)
    assert left.log.epochs.last_epoch == pair.epoch


def test_a_follower_that_is_too_far_behind_begins_where_the_leaders_log_does(tmp_path: Path) -> None:
    pair = Pair(tmp_path, 5)
    pair.settle()
    follower, pair.follower = pair.follower, pair.follower.crashed(1)
    del follower
    behind = pair.follower.crashed(2)
    for _ in range(100):
        pair.leader.append("A", 0, b"x" * 900)
        pair.settle()
    pair.background()
    while pair.leader.log.apply_retention(pair.clock.now, pair.committed):
        pair.background()
    assert pair.leader.store.min_position > behind.store.end_position
    pair.follower = behind
    pair.begin_epoch()
    pair.settle()
    assert pair.seen["began again"] == 1
    assert pair.follower.store.min_position == pair.leader.store.min_position
    check_equal(pair.leader.store, pair.follower.store)
    again = pair.follower.crashed(3)
    assert again.log.epochs.base == pair.leader.log.epochs.base
