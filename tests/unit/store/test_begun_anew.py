"""A queue whose files hold more than it has: what they held is never read again, whatever is written there later."""

from dataclasses import replace
from random import Random

import pytest
from msgspec.structs import replace as changed

from logherd.store import MessageStore, QueueLog
from logherd.store.checkpoint import SLOT_OFFSETS, decode_checkpoint, encode_slot
from sim.disk import SimulatedCrash
from unit.store.helpers import ROOT, SimClock, SimDisk, append, bodies, flush, open_store, settle, small_options

UNITS = f"{ROOT}/consumequeue/T/0"


def queue_of(store: MessageStore) -> QueueLog:
    found = store.find_queue("T", 0)
    assert found is not None
    return found


def append_all(store: MessageStore, word: str, count: int) -> list[bytes]:
    """Append messages, and let nothing but the files of the queue hold them."""
    made = [b"%s%d" % (word.encode(), number) + b"." * 300 for number in range(count)]
    for body in made:
        append(store, body=body)
        flush(store)
    for _ in range(2):
        settle(store)
        append(store, "other")
        flush(store)
    settle(store)
    return made


def test_a_topic_made_again_after_a_crash_has_none_of_the_messages_it_had() -> None:
    disk = SimDisk()
    store = open_store(disk)
    append_all(store, "old", 6)
    deleted = store.end_position
    store.close()  # as a process does that is killed before it has deleted the files
    store = open_store(disk)
    assert store.forget_deleted({"T": deleted}) == ["T"]
    settle(store)
    made = append_all(store, "new", 6)
    assert queue_of(store).tail_start == 6
    assert bodies(store) == made


def test_a_topic_made_again_after_a_crash_has_all_its_messages_though_retention_took_some_of_the_old_ones() -> None:
    disk = SimDisk()
    derived = {"queue_file_units": 1000}
    store = open_store(disk, derived=derived, retention={"bytes_max": 16384})
    while store.end_position < 3 * small_options().log.segment_bytes:
        append_all(store, "old", 10)
    assert store.apply_retention(10**9, store.committed_position)
    settle(store)
    deleted = store.end_position
    store.close()
    store = open_store(disk, derived=derived)
    assert queue_of(store).min_offset > 0
    assert store.forget_deleted({"T": deleted}) == ["T"]
    settle(store)
    made = append_all(store, "new", 4)
    assert bodies(store) == made


@pytest.mark.parametrize("power", [False, True])
def test_files_of_a_queue_that_was_deleted_go_at_the_start_though_records_are_derived_again_then(power: bool) -> None:
    disk, derived = SimDisk(), {"index_write_entries": 1000}
    store = open_store(disk, derived=derived)
    append_all(store, "old", 20)
    append(store, "other", properties=b"KEYS\x01k\x02")
    flush(store)
    settle(store)
    store.delete_topic("T")
    disk.crash_after(2, at="queues")
    with pytest.raises(SimulatedCrash):
        settle(store)
    disk = disk.crash(Random(1), power=power)
    assert len(disk.list(UNITS)) == 2
    store = open_store(disk, derived=derived)
    assert (store.recovery.derived, store.recovery.derived_records > 0) == ("whole", True)
    assert not disk.list(UNITS)
    made = append_all(store, "new", 3)
    assert bodies(store) == made


@pytest.mark.parametrize("name", ["00000000000000000640", "notes.txt"])
def test_retention_keeps_what_a_queue_has_though_files_are_behind_its_own(name: str) -> None:
    disk = SimDisk()
    store = open_store(disk, retention={"bytes_max": 1})
    append_all(store, "early", 16)
    while store.end_position < small_options().log.segment_bytes:
        append(store, "other")
    late = append_all(store, "late", 3)
    file = disk.open(f"{UNITS}/{name}", create=True)
    file.write(0, (bytes(60),))
    assert store.apply_retention(0, store.committed_position)
    settle(store)
    assert f"{UNITS}/{0:020d}" not in disk.names
    assert bodies(store) == late


def test_units_that_a_replica_writes_again_into_a_new_file_are_read_from_it() -> None:
    disk, clock, options = SimDisk(), SimClock(), replace(small_options(), replicated=True)
    store = MessageStore.open(ROOT, options, disk, clock=clock)
    made = append_all(store, "a", 20)
    known, last = store.unit(queue_of(store), 16), store.unit(queue_of(store), 19)
    assert known is not None
    assert last is not None
    assert known[0] < options.log.segment_bytes <= last[0]
    store.close()
    file = disk.open(f"{ROOT}/checkpoint")  # as a machine leaves it that stopped before the newest one was flushed
    checkpoint = decode_checkpoint(file.read(0, file.size()))
    assert checkpoint is not None
    old = changed(
        checkpoint, committed=known[0], queues_dispatched=known[0], index_dispatched=known[0], closed=False
    )  # fmt: skip
    for counter in (old.counter + 1, old.counter + 2):
        file.write(SLOT_OFFSETS[counter % 2], (encode_slot(changed(old, counter=counter)),))
    store = MessageStore.open(ROOT, options, disk, clock=clock)
    assert queue_of(store).max_offset == 16
    store.advance(options.log.segment_bytes)
    assert queue_of(store).max_offset < 20
    settle(store)
    store.advance(store.end_position)
    made += append_all(store, "b", 6)
    assert queue_of(store).tail_start == 26
    assert bodies(store) == made


@pytest.mark.parametrize("counted", [False, True], ids=["of a life before", "with what is not committed"])
def test_a_cut_leaves_a_queue_that_began_with_it_where_it_had_ended_before(counted: bool) -> None:
    """Whoever says how far it went may have counted the records that are cut, and then nothing was before them."""
    store = MessageStore.open(ROOT, replace(small_options(), replicated=True), SimDisk(), clock=SimClock())
    append(store, "other")
    flush(store)
    committed = store.committed_position
    for _ in range(2):
        append(store)
    store.queues_went_to("T", [0, 2], store.end_position if counted else committed)
    assert queue_of(store).next_offset == 2
    store.truncate(committed)
    assert queue_of(store).next_offset == (0 if counted else 2)
    append(store)
    flush(store)
    assert queue_of(store).max_offset == (1 if counted else 3)
