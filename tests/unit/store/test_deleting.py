"""What is deleted goes because of something that the log says: that must outlive any crash first."""

from dataclasses import replace
from random import Random

import pytest

from logherd.store import MessageStore
from logherd.store.queues import QueueTable
from unit.store.helpers import ROOT, SimClock, SimDisk, append, bodies, flush, open_store, settle, small_options

UNITS = f"{ROOT}/consumequeue/T"
FIRST = f"{ROOT}/commitlog/{0:020d}"
ASYNC = {"flush": "async"}
SEEDS = range(8)


def opened(disk: SimDisk, *, replicated: bool) -> MessageStore:
    options = small_options(log=ASYNC, retention={"bytes_max": 1})
    return MessageStore.open(ROOT, replace(options, replicated=replicated), disk, clock=SimClock())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("replicated", [False, True], ids=["alone", "replica"])
def test_segments_go_only_once_what_was_committed_by_then_is_flushed(*, replicated: bool, seed: int) -> None:
    """As the snapshot at the log's end, without which nothing is known of what stood in them."""
    disk = SimDisk()
    store = opened(disk, replicated=replicated)
    while store.end_position < 2 * small_options().log.segment_bytes:
        append(store)
        flush(store)
    settle(store)
    append(store, "snapshot")
    flush(store)
    end = store.committed_position
    assert store.flushed_position < end
    assert store.apply_retention(0, end)
    while FIRST in disk.names:
        store.background_work()
    again = opened(disk.crash(Random(seed), power=True), replicated=replicated)
    assert again.min_position == 0 or again.end_position == end


@pytest.mark.parametrize("power", [False, True])
def test_a_topic_keeps_its_messages_until_what_tells_of_its_deletion_is_stored(*, power: bool) -> None:
    disk = SimDisk()
    store = open_store(disk)
    append(store, body=b"kept")
    flush(store)
    settle(store)
    append(store, "deletions")
    store.delete_topic("T")
    assert store.find_queue("T", 0) is None
    settle(store)
    assert disk.list(UNITS), "nobody may know of the deletion yet"
    again = open_store(disk.crash(Random(1), power=power))
    assert bodies(again) == [b"kept"]


def test_a_topic_is_gone_once_what_tells_of_its_deletion_is_stored() -> None:
    disk = SimDisk()
    store = open_store(disk)
    append(store, body=b"old")
    append(store, "deletions")
    store.delete_topic("T")
    append(store, body=b"new")
    flush(store)
    settle(store)
    assert bodies(store) == [b"new"]
    append(store, "deletions")
    store.delete_topic("T")
    flush(store)
    settle(store)
    assert not disk.list(UNITS)
    store.close()
    assert open_store(disk).find_queue("T", 0) is None


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("replicated", [False, True], ids=["alone", "replica"])
def test_queues_go_only_once_what_tells_of_their_deletion_is_flushed(*, replicated: bool, seed: int) -> None:
    disk = SimDisk()
    store = opened(disk, replicated=replicated)
    append(store, body=b"kept")
    flush(store)
    settle(store)
    append(store, "deletions")
    store.delete_topic("T")
    flush(store)
    end = store.committed_position
    while disk.list(UNITS):
        store.background_work()
    again = opened(disk.crash(Random(seed), power=True), replicated=replicated)
    assert again.find_queue("T", 0) is not None or again.end_position == end


@pytest.mark.parametrize("replicated", [False, True], ids=["alone", "replica"])
def test_a_deletion_looks_at_no_queue_of_another_topic(monkeypatch: pytest.MonkeyPatch, *, replicated: bool) -> None:
    """A follower hears of each while it serves, and there may be very many queues."""
    store = opened(SimDisk(), replicated=replicated)
    for topic in ("T", "other"):
        append(store, topic, body=b"kept")
    append(store, "deletions")
    flush(store)
    with monkeypatch.context() as patch:
        patch.delattr(QueueTable, "__iter__")
        assert store.forget_deleted({"T": store.end_position, "unknown": store.end_position}) == ["T"]
    assert (bodies(store), bodies(store, "other")) == ([], [b"kept"])
