"""A failed flush, the next process on the same machine, and then a loss of power.

The system calls the pages of a failed flush clean: the next process reads their bytes, and a flush of its own has
nothing to write there.
"""

from dataclasses import replace
from random import Random

import pytest

from logherd.store import MessageStore, StoreStopped
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
    start = store.end_position
    append(store, body=b"x" * (size - OVERHEAD))
    assert store.end_position == start + size


def written(store) -> None:
    """Write all, commit nothing."""
    while (batch := store.take_batch()) is not None:
        batch.write_and_flush()
        store.flushed(batch)


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
