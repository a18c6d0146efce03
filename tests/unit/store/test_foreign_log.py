"""A store whose records another program writes: without checksums of the whole, and beginning where its log begins."""

from dataclasses import replace
from random import Random

import pytest

from logherd.kit.errors import InvariantError
from logherd.model.record import encode_blank
from logherd.store import MessageStore, RawRefused, StoreDamaged, begin_at
from logherd.store.consume_queue import UNIT_SIZE
from unit.store.bare import bare_record
from unit.store.helpers import ROOT, SimClock, SimDisk, append, bodies, flush, settle, small_options

SEGMENT = 8192


def open_foreign(disk: SimDisk, *, bare: bool = True) -> MessageStore:
    return MessageStore.open(ROOT, replace(small_options(), bare=bare), disk, clock=SimClock())


def take(store: MessageStore, count: int, *, first: int = 0) -> None:
    for number in range(first, first + count):
        data = bare_record(store.end_position, queue_offset=number, body=b"%03d" % number)
        left = SEGMENT - store.end_position % SEGMENT
        if len(data) + 8 > left:
            store.append_raw(encode_blank(left), store.end_position)
            data = bare_record(store.end_position, queue_offset=number, body=b"%03d" % number)
        store.append_raw(data, store.end_position)
    flush(store)


def test_records_without_a_checksum_are_taken_only_from_a_foreign_log() -> None:
    with pytest.raises(RawRefused, match="no checksum of the whole"):
        open_foreign(SimDisk(), bare=False).append_raw(bare_record(0), 0)
    store = open_foreign(SimDisk())
    take(store, 3)
    assert bodies(store) == [b"000", b"001", b"002"]


def test_a_foreign_log_outlives_a_crash_and_goes_on() -> None:
    disk = SimDisk()
    store = open_foreign(disk)
    take(store, 20)
    store.append_raw(bare_record(store.end_position, queue_offset=20), store.end_position)
    end = store.committed_position
    again = open_foreign(disk.crash(Random(1), power=True))
    assert again.end_position == end
    take(again, 5, first=20)
    assert len(bodies(again)) == 25


def test_batches_in_one_record_are_named_where_queues_are_derived_of_them() -> None:
    """RocketMQ's topics of type BatchCQ: a record takes as many numbers as it has messages."""
    disk, log = SimDisk(), b""
    for offset in (0, 5):
        log += bare_record(len(log), queue_offset=offset, sys_flag=0xC0)
    disk.make_directory(f"{ROOT}/commitlog")
    file = disk.open(f"{ROOT}/commitlog/{0:020d}", create=True)
    file.write(0, (log.ljust(SEGMENT, b"\0"),))
    with pytest.raises(StoreDamaged, match=r"has offset 5 in queue T/0, which ends at 1; it is a batch in one record"):
        open_foreign(disk, bare=False)


def test_a_queue_that_begins_again_keeps_nothing_of_the_one_before_it() -> None:
    """Its topic was deleted and made again. RocketMQ takes every unit that it finds in a file for a message."""
    disk = SimDisk()
    store = open_foreign(disk)
    take(store, 20)
    settle(store)
    names = [f"/data/consumequeue/T/0/{first * UNIT_SIZE:020d}" for first in (0, 16)]
    assert [disk.size(name) for name in names] == [16 * UNIT_SIZE, 4 * UNIT_SIZE]
    take(store, 3)
    settle(store)
    assert bodies(store) == [b"000", b"001", b"002"]
    assert [disk.size(name) for name in names] == [3 * UNIT_SIZE, None]
    store.close()
    assert bodies(open_foreign(disk)) == [b"000", b"001", b"002"]


def test_opened_as_our_own_its_end_is_where_bare_records_end() -> None:
    disk = SimDisk()
    store = open_foreign(disk)
    take(store, 20)
    store.close()
    own = open_foreign(disk, bare=False)
    assert len(bodies(own)) == 20
    with pytest.raises(RawRefused, match="no checksum of the whole"):
        own.append_raw(bare_record(own.end_position, queue_offset=20), own.end_position)
    append(own)
    flush(own)
    own.close()
    assert len(bodies(open_foreign(disk, bare=False))) == 21


def test_a_log_can_begin_where_a_file_of_the_other_log_begins() -> None:
    disk = SimDisk()
    begin_at(ROOT, disk, position=3 * SEGMENT)
    begin_at(ROOT, disk, position=5 * SEGMENT)
    store = open_foreign(disk)
    assert (store.min_position, store.end_position) == (5 * SEGMENT, 5 * SEGMENT)
    take(store, 2, first=700)
    again = open_foreign(disk.crash(Random(1), power=True))
    assert bodies(again) == [b"700", b"701"]
    queue = again.find_queue("T", 0)
    assert queue is not None
    assert (queue.min_offset, queue.max_offset) == (700, 702)


def test_a_log_that_is_there_is_not_moved() -> None:
    disk = SimDisk()
    open_foreign(disk).close()
    with pytest.raises(InvariantError, match="a log that is there is not moved"):
        begin_at(ROOT, disk, position=SEGMENT)


def test_committed_bytes_are_those_of_the_files_with_the_zeros_at_their_ends() -> None:
    disk = SimDisk()
    store = open_foreign(disk)
    take(store, 100)
    found, at = b"", 0
    while at < store.committed_position:
        part = store.committed_bytes(at, 1000)
        assert 0 < len(part) <= 1000
        found, at = found + part, at + len(part)
    assert at == store.committed_position > SEGMENT
    files = b"".join(bytes(segment.view) for segment in store._log.segments)
    assert found == files[:at]
    store.append_raw(bare_record(at, queue_offset=100), at)
    with pytest.raises(InvariantError, match="only bytes that are kept"):
        store.committed_bytes(at, 1)


def test_a_record_that_was_cut_in_its_properties_is_no_record() -> None:
    store = open_foreign(SimDisk())
    torn = bare_record(0)
    with pytest.raises(RawRefused, match="zero bytes"):
        store.append_raw(torn[:-3] + b"\0\0\0", 0)


def test_damage_below_what_was_flushed_is_never_cut() -> None:
    disk = SimDisk()
    take(open_foreign(disk), 20)
    disk = disk.crash(Random(1), power=True)
    file = disk.open("/data/commitlog/" + "0" * 20)
    file.write(300, (b"\x07" * 40,))
    file.flush()
    with pytest.raises(StoreDamaged):
        open_foreign(disk)
