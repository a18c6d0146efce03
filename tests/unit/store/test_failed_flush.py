"""A failed flush, the next process on the same machine, and then a loss of power.

The system calls the pages of a failed flush clean: the next process reads their bytes, and a flush of its own has
nothing to write there.
"""

from dataclasses import replace
from random import Random

import pytest

from logherd.store import MessageStore, StoreStopped
from sim.disk import SimulatedCrash
from unit.store.helpers import ROOT, SimClock, SimDisk, append, bodies, flush, small_options

PAGE = 4096
OVERHEAD = 112
"""Of a record in the topic T without properties of its own."""


def opened(disk, *, replicated=False, **log) -> MessageStore:
    sizes = {"segment_bytes": 1 << 16, "record_bytes_max": 5 * PAGE, "batch_bytes_max": 5 * PAGE}
    options = replace(small_options(log={**sizes, **log}), replicated=replicated)
    return MessageStore.open(ROOT, options, disk, clock=SimClock())


def sized(store, size: int) -> None:
    """Append a record of so many bytes."""
    append(store, body=b"x" * (size - OVERHEAD))


def written(store) -> None:
    """Write all, commit nothing."""
    while (batch := store.take_batch()) is not None:
        batch.write_and_flush()
        store.flushed(batch)


def shipped(leader, follower) -> None:
    """Let a follower have all that its leader has."""
    while follower.end_position < leader.end_position:
        data, end = leader.read_raw(follower.end_position, 1 << 20)
        follower.append_raw(bytes(data), follower.end_position, end=end)


def stopped(store, disk, *, flushes: int = 0) -> SimDisk:
    """The same machine after a process that stopped at a failed flush of the log."""
    disk.failing_flush, disk.failing_path = flushes, "/commitlog/"
    with pytest.raises(StoreStopped):
        written(store)
    return disk.crash(Random(1), power=False)


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


def test_what_is_found_after_a_failed_flush_outlasts_the_machine(disk):
    store = opened(disk)
    append(store, body=b"1" * 10)
    flush(store)
    append(store, body=b"2" * 3 * PAGE)
    disk = stopped(store, disk)
    store = opened(disk)
    assert bodies(store) == [b"1" * 10, b"2" * 3 * PAGE], "somebody may read it from here on"
    append(store, body=b"3" * PAGE)
    flush(store)
    store = opened(disk.crash(Random(2), power=True))
    assert bodies(store) == [b"1" * 10, b"2" * 3 * PAGE, b"3" * PAGE]


def test_what_is_found_in_two_segments_outlasts_the_machine_too(disk):
    store = opened(disk, flush="async", async_flush_ms=1 << 40)
    store.background_work()  # the first one flushes
    sent = [b"%d" % number * PAGE for number in range(10, 30)]
    for body in sent:
        append(store, body=body)
    flush(store)
    assert store.flushed_position == 0
    assert store.end_position > 1 << 16
    disk.failing_flush, disk.failing_path = 1, "/commitlog/"
    with pytest.raises(StoreStopped):
        store.close()
    disk = disk.crash(Random(1), power=False)
    store = opened(disk)
    assert bodies(store) == sent
    assert bodies(opened(disk.crash(Random(2), power=True))) == sent


def test_a_log_that_was_flushed_is_not_written_again_when_it_is_opened(disk):
    store = opened(disk)
    append(store, body=b"1" * PAGE)
    flush(store)
    after = disk.crash(Random(1), power=False)
    opened(after)
    assert ("write", "/data/commitlog/" + "0" * 20) not in after.trace


def test_no_record_comes_back_after_a_cut_whose_flush_failed(disk):
    """As it stands where a later record ends, it would be taken for one of whoever leads then."""
    store = opened(disk, replicated=True)
    size = 300
    sized(store, size)
    sized(store, 2 * PAGE - size)
    sized(store, 300)
    written(store)
    store.truncate(size)
    disk = stopped(store, disk, flushes=1)  # the cut itself is durable; what lies behind it is not
    store = opened(disk, replicated=True)
    assert store.end_position == size
    sized(store, 2 * PAGE - size)
    written(store)
    assert opened(disk.crash(Random(2), power=True), replicated=True).end_position == 2 * PAGE


@pytest.mark.parametrize("replicated", [False, True])
@pytest.mark.parametrize("flushes", [0, 1, 2])
def test_no_record_comes_back_behind_a_torn_one_when_a_flush_of_its_cut_failed(disk, flushes, replicated):
    store = opened(disk, replicated=replicated)
    sized(store, 2 * PAGE)
    sized(store, 300)
    disk.crash_after(1, at="write /data/commitlog/")
    with pytest.raises(SimulatedCrash):
        written(store)
    disk.crash_after(None)
    log = disk.open("/data/commitlog/" + "0" * 20)
    log.write(0, (bytes(512),))
    log.flush()  # power was lost: all but the first sector had reached the disk
    disk = disk.crash(Random(1), power=True)
    disk.failing_flush, disk.failing_path = flushes, "/commitlog/"
    with pytest.raises(OSError, match="simulated"):
        opened(disk, replicated=replicated)
    disk = disk.crash(Random(1), power=False)
    store = opened(disk, replicated=replicated)
    assert store.end_position == 0
    sized(store, 2 * PAGE)
    written(store)
    assert opened(disk.crash(Random(2), power=True), replicated=replicated).end_position == 2 * PAGE


def test_a_run_that_ends_a_segment_with_a_long_blank_is_written_once_more_from_where_it_begins(disk):
    """A leader whose messages may be larger goes on in the next segment early."""
    leader = opened(SimDisk(), replicated=True)
    store = opened(disk, replicated=True, record_bytes_max=PAGE)
    end = 1 << 16
    while leader.end_position < end - 9 * PAGE:
        sized(leader, PAGE)
    shipped(leader, store)
    written(store)
    for size in (3 * PAGE, PAGE, 5 * PAGE):
        sized(leader, size)
    shipped(leader, store)
    assert store.end_position > end
    disk = stopped(store, disk)
    store = opened(disk, replicated=True, record_bytes_max=PAGE)
    assert store.end_position == end
    shipped(leader, store)
    written(store)
    assert opened(disk.crash(Random(2), power=True), replicated=True).end_position == leader.end_position


def test_without_a_checkpoint_the_last_window_is_written_once_more(disk):
    store = opened(disk)
    append(store, body=b"1" * 10)
    flush(store)
    append(store, body=b"2" * 3 * PAGE)
    disk = stopped(store, disk)
    disk.unlink("/data/checkpoint")
    store = opened(disk)
    assert bodies(store) == [b"1" * 10, b"2" * 3 * PAGE]
    assert bodies(opened(disk.crash(Random(2), power=True))) == [b"1" * 10, b"2" * 3 * PAGE]
