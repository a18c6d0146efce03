"""Each way in which a store can be found: what opening does, what it says, and that nothing promised is cut away."""

import errno
import os
from dataclasses import replace
from random import Random

import pytest

from logherd.store import MessageStore, StoreDamaged, StoreFull, StoreInUse, StoreVersionError
from logherd.store.checkpoint import SLOT_OFFSETS
from logherd.store.files_os import OsFiles
from sim.disk import SimulatedCrash
from unit.store.helpers import ROOT, SimClock, SimDisk, append, bodies, flush, open_store, settle, small_options

KEYS = b"UNIQ_KEY\x01u\x02TAGS\x01abc\x02"
LOG = "/data/commitlog/00000000000000000000"
RECORD = 212 + 20  # bytes of one record of `filled`
NEXT = "/data/commitlog/00000000000000008192"


@pytest.fixture
def disk():
    return SimDisk()


def filled(disk, count=20, *, close=True):
    """A store of `count` messages, closed in order or killed after its last flush."""
    store = open_store(disk)
    for number in range(count):
        append(store, body=b"%04d" % number * 25, properties=KEYS)
    flush(store)
    if close:
        store.close()
    disk.locks.clear()
    return [b"%04d" % number * 25 for number in range(count)]


def end_of_log(disk):
    store = open_store(disk)
    end = store.end_position
    store.close()
    return end


def overwrite(disk, path, at, data):
    file = disk.open(path)
    file.write(at, (data,))
    file.flush()


def test_an_empty_directory_becomes_a_store(disk):
    store = open_store(disk)
    assert (store.recovery.store, store.end_position) == ("new", 0)
    assert disk.size(LOG) == 8192


def test_a_store_in_use_is_not_opened_twice(disk):
    open_store(disk)
    with pytest.raises(StoreInUse, match="/data/lock"):
        open_store(disk)


def test_a_store_closed_in_order_is_opened_without_reading_its_log(disk):
    written = filled(disk)
    store = open_store(disk)
    assert (store.recovery.store, store.recovery.tail, store.recovery.derived) == ("ours", "end", "whole")
    assert store.recovery.derived_records == 0
    assert bodies(store) == written


def test_a_killed_store_derives_what_came_after_its_checkpoint(disk):
    written = filled(disk, close=False)
    store = open_store(disk)
    assert store.recovery.derived_records == 20
    assert bodies(store) == written


def test_a_torn_tail_is_cut_counted_and_gone_for_good(disk):
    written = filled(disk)
    end = end_of_log(disk)
    overwrite(disk, LOG, end, b"\0\0\0\xff\xda\xa3\x20\xa7" + b"y" * 70)
    store = open_store(disk)
    assert (store.recovery.tail, store.recovery.dropped_bytes) == ("torn", 78)
    assert bodies(store) == written
    store.close()
    assert not any(disk.open(LOG).read(end, 200))


def test_what_a_torn_write_left_behind_its_lost_head_is_zeroed(disk):
    filled(disk, close=False)
    end = 20 * RECORD
    overwrite(disk, LOG, end + 512, b"y" * 70)
    store = open_store(disk)
    assert (store.recovery.tail, store.recovery.dropped_bytes) == ("torn, head lost", 582)
    assert not any(disk.open(LOG).read(end, 2000))


def test_a_record_torn_inside_its_properties_is_no_record(disk):
    """Its lengths agree and its body is whole, but the checksum, last of the properties, is not there."""
    filled(disk)
    end = end_of_log(disk)
    store = open_store(disk)
    append(store, body=b"half", properties=b"TAGS\x01" + b"t" * 400 + b"\x02")
    batch = store.take_batch()
    (record,) = batch.parts
    store.close()
    torn = bytes(record[:200]) + bytes(len(record) - 200)
    overwrite(disk, LOG, end, torn)
    disk.locks.clear()
    store = open_store(disk)
    assert store.recovery.tail == "torn"
    assert store.end_position == end


@pytest.mark.parametrize("byte", [0, 4, 20, 28, 100])
def test_damage_below_the_flushed_position_refuses_and_changes_nothing(disk, byte):
    filled(disk, close=False)
    disk.names[LOG].base[RECORD * 3 + byte] ^= 0x10
    before = {path: inode.content() for path, inode in disk.names.items()}
    with pytest.raises(StoreDamaged) as refused:
        open_store(disk)
    assert (refused.value.path, refused.value.offset) == (LOG, RECORD * 3)
    assert "logherd store repair /data" in str(refused.value)
    assert {path: inode.content() for path, inode in disk.names.items()} == before


def test_damage_with_whole_records_far_behind_refuses_even_if_the_checkpoint_is_stale(disk):
    """A machine that lost power may have an old checkpoint; records beyond one window prove that it is old."""
    store = open_store(disk, derived={"interval_ms": 10**9, "bytes_max": 1 << 40})
    old = disk.names["/data/checkpoint"].content()
    for _ in range(60):
        append(store, properties=KEYS)
        flush(store)
    disk.locks.clear()
    disk.names[LOG].base[RECORD + 60] ^= 1
    overwrite(disk, "/data/checkpoint", 0, old)
    with pytest.raises(StoreDamaged, match="records behind") as refused:
        open_store(disk)
    assert refused.value.offset == RECORD


def test_a_stale_checkpoint_costs_reading_and_loses_nothing(disk):
    store = open_store(disk)
    old = disk.names["/data/checkpoint"].content()
    for _ in range(30):
        append(store)
    flush(store)
    store.close()
    overwrite(disk, "/data/checkpoint", 0, old)
    store = open_store(disk)
    assert len(bodies(store)) == 30


def test_a_lost_checkpoint_has_all_derived_again(disk):
    written = filled(disk)
    for at in SLOT_OFFSETS:
        overwrite(disk, "/data/checkpoint", at + 20, b"\xff\xff")
    store = open_store(disk)
    assert (store.recovery.store, store.recovery.derived) == ("checkpoint lost", "no checkpoint")
    assert bodies(store) == written


def test_a_lost_checkpoint_does_not_tell_where_the_log_begins(disk):
    store = open_store(disk, retention={"bytes_max": 8192})
    while store.end_position < 4 * 8192:
        append(store)
        flush(store)
    settle(store)
    assert store.apply_retention(0, 1 << 62) > 1
    settle(store)
    begin, left = store.min_position, bodies(store)
    store.close()
    disk.unlink("/data/checkpoint")
    store = open_store(disk)
    assert (store.recovery.store, store.min_position, bodies(store)) == ("checkpoint lost", begin, left)
    store.close()
    disk.unlink("/data/checkpoint")
    with pytest.raises(StoreDamaged, match="first missing"):  # a replica's has to know of which epoch the rest was
        MessageStore.open(ROOT, replace(small_options(), replicated=True), disk, clock=SimClock())


def test_a_lost_format_file_is_written_again(disk):
    written = filled(disk)
    content = disk.names["/data/store.json"].content()
    disk.unlink("/data/store.json")
    store = open_store(disk)
    assert store.recovery.store == "format lost"
    assert disk.names["/data/store.json"].content() == content
    assert bodies(store) == written


def test_an_unknown_format_is_refused_by_name(disk):
    filled(disk)
    content = disk.names["/data/store.json"].content().replace(b'"format":1', b'"format":7')
    overwrite(disk, "/data/store.json", 0, content)
    with pytest.raises(StoreVersionError, match="format 7"):
        open_store(disk)


def test_an_unknown_checkpoint_version_is_refused_by_name(disk):
    filled(disk)
    for at in SLOT_OFFSETS:
        overwrite(disk, "/data/checkpoint", at + 8, (9).to_bytes(4))
    with pytest.raises(StoreVersionError, match="checkpoint version 9"):
        open_store(disk)


def test_a_wrong_magic_in_the_format_file_is_refused(disk):
    filled(disk)
    overwrite(disk, "/data/store.json", 0, b'{"product":"other"}')
    with pytest.raises(StoreDamaged, match="wrong magic"):
        open_store(disk)


def test_a_missing_log_is_refused_and_not_made_anew(disk):
    filled(disk)
    disk.unlink(LOG)
    with pytest.raises(StoreDamaged, match="log missing"):
        open_store(disk)


@pytest.mark.parametrize(
    ("name", "row"), [(0, "first missing"), (1, "gap"), (2, "last, promise beyond")], ids=["first", "middle", "last"]
)
def test_a_missing_segment_is_refused(disk, name, row):
    filled(disk, 90)
    segments = [path for path in sorted(disk.names) if "/commitlog/" in path]
    assert len(segments) == 3
    disk.unlink(segments[name])
    with pytest.raises(StoreDamaged, match=row):
        open_store(disk)


def test_a_segment_cut_short_below_the_promise_is_refused(disk):
    filled(disk)
    disk.names[LOG] = type(disk.names[LOG])(disk.names[LOG].content()[:4000])
    with pytest.raises(StoreDamaged, match="short, promise broken"):
        open_store(disk)


def allocate_little(descriptor, at, size, allocate=os.posix_fallocate):
    """As on a disk that has room for small files only."""
    if size > 4096:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    allocate(descriptor, at, size)


@pytest.mark.parametrize("room", [True, False])
def test_a_segment_cut_short_behind_the_promise_is_made_whole_or_kept_on_a_full_disk(tmp_path, monkeypatch, room):
    store = open_store(OsFiles(), tmp_path)
    for _ in range(20):
        append(store)
    flush(store)
    store.close()
    os.truncate(tmp_path / "commitlog" / f"{0:020d}", 6000)
    with monkeypatch.context() as patch:
        if not room:
            patch.setattr(os, "posix_fallocate", allocate_little)
            with pytest.raises(StoreFull, match="no room for the rest"):
                MessageStore.open(tmp_path, replace(small_options(), replicated=True), OsFiles(), clock=SimClock())
        store = open_store(OsFiles(), tmp_path)
    assert any("short, promise kept" in note for note in store.recovery.notes)
    for _ in range(30):
        append(store)
    flush(store)
    assert len(bodies(store)) == 50
    assert (tmp_path / "commitlog" / f"{6000:020d}").exists() == (not room)
    store.close()


def test_overlapping_segments_are_refused(disk):
    filled(disk)
    disk.open("/data/commitlog/00000000000000004096", create=True).allocate(8192)
    with pytest.raises(StoreDamaged, match="overlap"):
        open_store(disk)


@pytest.mark.parametrize("size", [0, 4096])
def test_a_segment_whose_creation_was_interrupted_is_mended(disk, size):
    written = filled(disk)
    file = disk.open(NEXT, create=True)
    if size:
        file.allocate(size)
    store = open_store(disk)
    assert disk.size(NEXT) == (8192 if size else None)
    assert bodies(store) == written


def test_foreign_files_in_the_log_directory_are_left_alone_and_named(disk):
    filled(disk)
    disk.open("/data/commitlog/notes.txt", create=True)
    store = open_store(disk)
    assert any("notes.txt" in note for note in store.recovery.notes)
    assert "/data/commitlog/notes.txt" in disk.names


@pytest.mark.parametrize("path", ["/data/queues", "/data/consumequeue/T/0/00000000000000000000", "index"])
def test_missing_derived_files_are_derived_again(disk, path):
    written = filled(disk)
    for name in [name for name in disk.names if path in name]:
        disk.unlink(name)
    store = open_store(disk)
    assert store.recovery.derived == "files damaged"
    assert store.recovery.derived_records == 20
    assert bodies(store) == written


@pytest.mark.parametrize("path", ["/data/queues", "/data/consumequeue/T/0/00000000000000000320"])
def test_short_derived_files_are_derived_again(disk, path):
    written = filled(disk)
    disk.open(path).truncate(40)
    store = open_store(disk)
    assert store.recovery.derived == "files damaged"
    assert bodies(store) == written


def test_a_queue_that_the_list_lost_is_found_by_its_files(disk):
    written = filled(disk)
    content = disk.names["/data/queues"].content()
    overwrite(disk, "/data/queues", content.index(b"\n") + 1, bytes(len(content) - content.index(b"\n") - 1))
    store = open_store(disk)
    assert store.recovery.derived == "files damaged"
    assert bodies(store) == written


@pytest.mark.parametrize("have_files", [True, False])
def test_a_queue_of_which_nothing_is_left_but_its_later_records_is_derived_again(disk, have_files):
    """It would begin with those that came after the checkpoint otherwise, and lack all before."""
    rarely = {"interval_ms": 10**9, "bytes_max": 1 << 40}
    written = filled(disk)
    store = open_store(disk, derived=rarely)
    append(store, body=b"later")
    flush(store)
    if not have_files:
        content = disk.names["/data/queues"].content()
        overwrite(disk, "/data/queues", content.index(b"\n") + 1, bytes(len(content) - content.index(b"\n") - 1))
        disk.remove_directory("/data/consumequeue/T")
    disk.locks.clear()
    store = open_store(disk, derived=rarely)
    assert store.recovery.derived == ("whole" if have_files else "files damaged")
    assert bodies(store) == [*written, b"later"]


def test_nothing_is_derived_anew_from_a_log_with_damage_though_no_queue_goes_on_behind_it(disk):
    store = open_store(disk)
    for topic, end in (("T", 3000), ("U", 6000), ("V", 9000)):
        while store.end_position < end:
            append(store, topic)
    flush(store)
    position, _, _ = store.unit(store.queue("U", 0), 0)
    store.close()
    overwrite(disk, LOG, position, bytes(20))
    disk.unlink("/data/queues")
    with pytest.raises(StoreDamaged, match="zeros where a record should be"):
        open_store(disk)


def test_records_of_a_topic_that_was_deleted_behind_them_do_not_cost_the_derived_files(disk):
    rarely = {"interval_ms": 10**9, "bytes_max": 1 << 40}
    filled(disk)
    store = open_store(disk, derived=rarely)
    append(store)
    flush(store)
    store.delete_topic("T")
    settle(store)
    disk.locks.clear()
    assert open_store(disk, derived=rarely).recovery.derived == "whole"


def test_the_list_of_queues_does_not_grow_from_one_process_to_the_next(disk):
    filled(disk)
    size = len(disk.names["/data/queues"].content())
    store = open_store(disk)
    append(store)
    flush(store)
    store.close()
    assert len(disk.names["/data/queues"].content()) == size


def test_a_queues_file_that_comes_back_after_retention_took_it_does_no_harm(disk):
    store = open_store(disk, retention={"bytes_max": 3 * 8192})
    while store.end_position < 4 * 8192:
        append(store)
        flush(store)
    settle(store)
    path = "/data/consumequeue/T/0/" + "0" * 20
    content = disk.names[path].content()
    assert store.apply_retention(0, 1 << 62) > 1
    settle(store)
    assert path not in disk.names
    readable = bodies(store)
    store.close()
    assert len(readable) > 20
    disk.open(path, create=True)
    overwrite(disk, path, 0, content)
    store = open_store(disk)
    assert store.recovery.derived == "whole"
    assert bodies(store) == readable


def test_other_file_lengths_have_all_derived_again(disk):
    written = filled(disk)
    store = open_store(disk, derived={"queue_file_units": 8})
    assert store.recovery.derived == "other geometry"
    assert bodies(store) == written


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("geometry", [{"index_slots": 8}, {"queue_file_units": 8}, {"index_entries": 30}])
def test_other_file_lengths_are_not_believed_of_files_that_a_start_before_has_not_derived_again(geometry, back):
    """Each start with the new lengths dies one call later than the one before, until one comes through."""
    calls, survived = 0, False
    while not survived:
        disk, calls = SimDisk(), calls + 1
        store = open_store(disk)
        for number in range(15):
            append(store, body=b"%04d" % number * 25, properties=b"KEYS\x01k%d\x02" % number)
        flush(store)
        store.close()
        disk.locks.clear()
        disk.crash_after(calls)
        try:
            open_store(disk, derived=geometry)
            survived = True
        except SimulatedCrash:
            pass
        disk = disk.crash(Random(calls), power=False)
        store = open_store(disk, derived={} if back else geometry)
        found = [store.query_index("T", f"k{n}", max_count=9, begin=0, end=1 << 60) for n in range(15)]
        assert all(len(each) == 1 for each in found), (calls, store.recovery.derived, found)
        assert len(bodies(store)) == 15
    assert calls > 20


def test_a_full_disk_without_a_first_segment_is_said_so():
    with pytest.raises(StoreFull, match="no room for a segment"):
        open_store(SimDisk(capacity=5000))


def test_derived_files_are_rebuilt_byte_for_byte(disk):
    store = open_store(disk)
    for number in range(300):
        append(
            store,
            "AB"[number % 2],
            number % 3,
            body=b"%d" % number,
            at=1000 + number * 700,
            properties=b"UNIQ_KEY\x01u%d\x02KEYS\x01a%d b\x02TAGS\x01t%d\x02" % (number, number % 7, number % 2),
        )
        if number % 10 == 0:
            flush(store)
            settle(store)
    flush(store)
    store.close()

    def derived():
        return {path: inode.content() for path, inode in disk.names.items()
                if path.startswith(("/data/consumequeue/", "/data/index/"))}  # fmt: skip

    first = derived()
    assert len(first) > 30
    for path in (*first, "/data/queues"):
        disk.unlink(path)
    store = open_store(disk)
    assert store.recovery.derived == "files damaged"
    store.close()
    assert derived() == first


def test_opening_does_not_read_history(disk):
    """Proof 6: what opening reads after a kill is bounded by what came after the last checkpoint."""
    store = open_store(disk)
    for _ in range(2000):
        append(store, body=b"x")
        flush(store)
        settle(store)
    disk.locks.clear()
    assert open_store(disk).recovery.derived_records <= 2


def test_a_loss_of_power_while_segments_are_deleted_leaves_a_log_that_begins_later(disk):
    store = open_store(disk, retention={"bytes_max": 8192})
    while store.end_position < 4 * 8192:
        append(store)
        flush(store)
    settle(store)
    assert store.apply_retention(0, 1 << 62) > 1
    first = "/data/commitlog/" + "0" * 20
    disk.trace.clear()
    while ("unlink", first) not in disk.trace or disk.trace[-1][0] != "sync_dir":
        store.background_work()
    store = open_store(disk.crash(Random(1), power=True))
    assert store.min_position > 0
    assert bodies(store)
