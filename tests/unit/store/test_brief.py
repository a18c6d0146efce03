"""Batches that whoever waits for them writes itself: few bytes, one flush, nothing else."""

from dataclasses import replace
from random import Random

import pytest

from logherd.store import MessageStore, StoreStopped
from logherd.store.writer import BRIEF_BYTES_MAX, WriteBatch
from unit.store.helpers import ROOT, SimClock, SimDisk, append, flush, small_options

SEGMENT = 4 * BRIEF_BYTES_MAX
OPTIONS = small_options(
    log={"segment_bytes": SEGMENT, "batch_bytes_max": SEGMENT, "record_bytes_max": 2 * BRIEF_BYTES_MAX},
    derived={"behind_bytes": SEGMENT},
)  # fmt: skip


def opened(disk: SimDisk, **derived: int) -> MessageStore:
    """With a segment of which name and blocks are durable."""
    options = replace(OPTIONS, replicated=True, derived=replace(OPTIONS.derived, **derived))
    store = MessageStore.open(ROOT, options, disk, clock=SimClock())
    append(store)
    flush(store)
    return store


def taken(store: MessageStore) -> WriteBatch:
    batch = store.take_batch()
    assert batch is not None
    return batch


def refused(disk: SimDisk, batch: WriteBatch) -> bool:
    """Whether nothing was done, and the writer thread can do it."""
    before = list(disk.trace)
    if batch.write_if_brief() or disk.trace != before or batch.done:
        return False
    batch.write_and_flush()
    return batch.done


def test_it_is_as_durable_as_what_the_writer_thread_wrote() -> None:
    disk = SimDisk()
    store = opened(disk)
    append(store, body=b"x" * (BRIEF_BYTES_MAX // 2))
    batch, before = taken(store), len(disk.trace)
    assert batch.write_if_brief()
    assert [kind for kind, path in disk.trace[before:] if "commitlog" in path] == ["write", "flush"]
    store.flushed(batch)
    store.advance(batch.end)
    lost = disk.crash(Random(1), power=True)
    again = MessageStore.open(ROOT, replace(OPTIONS, replicated=True), lost, clock=SimClock())
    assert again.end_position == batch.end


def test_how_far_it_is_flushed_is_noted_when_that_is_asked_for_and_lost_without_harm_before() -> None:
    disk = SimDisk()
    store = opened(disk)
    for _ in range(2):
        append(store, body=b"x" * 100)
        batch, before = taken(store), len(disk.trace)
        assert batch.write_if_brief()
        assert not any("checkpoint" in path for _, path in disk.trace[before:])
        store.flushed(batch)
        again = MessageStore.open(
            ROOT, replace(OPTIONS, replicated=True), disk.crash(Random(1), power=False), clock=SimClock()
        )
        assert again.end_position == batch.end
        batch.note()
        assert [kind for kind, path in disk.trace[before:] if "checkpoint" in path] == ["write"]
        batch.note()
        assert len([path for _, path in disk.trace[before:] if "checkpoint" in path]) == 1


def test_what_the_writer_thread_wrote_needs_no_note() -> None:
    disk = SimDisk()
    store = opened(disk)
    append(store)
    batch = taken(store)
    batch.write_and_flush()
    before = len(disk.trace)
    batch.note()
    assert len(disk.trace) == before


def test_many_bytes_are_not_brief() -> None:
    disk = SimDisk()
    store = opened(disk)
    append(store, body=b"x" * BRIEF_BYTES_MAX)
    assert refused(disk, taken(store))


def test_a_segment_that_is_not_durable_yet_is_not_brief() -> None:
    disk = SimDisk()
    store = opened(disk)
    while store.end_position <= SEGMENT:
        append(store, body=b"x" * 1000)
    while (batch := taken(store)).start < SEGMENT:
        batch.write_and_flush()
    batch.segment.created = False  # as if there had been no time to prepare it
    assert refused(disk, batch)


def test_a_cut_is_not_brief() -> None:
    disk = SimDisk()
    store = opened(disk)
    at = store.end_position
    append(store)
    batch = taken(store)
    batch.write_and_flush()
    store.flushed(batch)
    store.truncate(at)
    assert refused(disk, taken(store))


def test_nothing_is_brief_while_derived_files_are_behind() -> None:
    disk = SimDisk()
    store = opened(disk, behind_bytes=1)
    append(store)
    flush(store)
    append(store)
    assert refused(disk, taken(store))


def test_what_need_not_be_flushed_is_only_written_until_that_is_due() -> None:
    disk = SimDisk()
    later = replace(OPTIONS, log=replace(OPTIONS.log, flush="async", async_unflushed_bytes_max=3000))
    store = MessageStore.open(ROOT, later, disk, clock=SimClock())
    append(store)
    flush(store)
    append(store, body=b"x" * 1000)
    batch, before = taken(store), len(disk.trace)
    assert batch.write_if_brief()
    assert {kind for kind, _ in disk.trace[before:]} == {"write"}
    append(store, body=b"x" * 3000)
    assert refused(disk, taken(store))
    assert store.flushed_position == store.end_position


def test_a_flush_that_fails_here_is_as_final_as_on_the_writer_thread() -> None:
    """A follower would acknowledge what the disk may have dropped."""
    disk = SimDisk()
    store = opened(disk)
    append(store)
    batch = taken(store)
    disk.failing_flush, disk.failing_path = 0, "/commitlog/"
    with pytest.raises(StoreStopped):
        batch.write_if_brief()
    disk.failing_flush = None
    with pytest.raises(StoreStopped):
        batch.write_if_brief()
    with pytest.raises(StoreStopped):
        batch.write_and_flush()
    assert not batch.done
