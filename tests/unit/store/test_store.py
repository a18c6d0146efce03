"""MessageStore: what appending, committing and reading promise."""

import errno
import os
from pathlib import Path

import pytest

from logherd.kit.errors import InvariantError
from logherd.kit.javahash import java_hash
from logherd.model.record import MAGIC_V2, SysFlag, decode_record
from logherd.store import ReadStatus, RecordTooLarge, StoreFull, StoreStopped
from logherd.store import reader as store_reader
from logherd.store.files_os import OsFiles
from logherd.store.reader import QueueReader
from logherd.store.store import MessageStore
from unit.store.helpers import HOST, SimClock, SimDisk, append, bodies, flush, open_store, settle, small_options


@pytest.fixture
def disk():
    return SimDisk()


@pytest.fixture
def store(disk):
    return open_store(disk)


def append_many(store, *, flushing=False):
    for _ in range(1000):
        append(store)
        if flushing:
            flush(store)


def flush_settle_close(store):
    flush(store)
    settle(store)
    store.close()


# ---- appending and committing


def test_offsets_are_dense_and_positions_are_where_the_records_lie(store):
    answers = [append(store, "AB"[n % 2], n % 3, body=b"%d" % n) for n in range(120)]
    flush(store)
    for n, (offset, position) in enumerate(answers):
        assert offset == sum(m % 6 == n % 6 for m in range(n))
        record = decode_record(store.record_at(position))
        assert (record.position, record.queue_offset, bytes(record.body)) == (position, offset, b"%d" % n)


def test_nothing_is_readable_before_it_is_committed(store):
    append(store)
    queue = store.find_queue("T", 0)
    assert (queue.max_offset, queue.next_offset) == (0, 1)
    batch = store.take_batch()
    batch.write_and_flush()
    assert store.read(queue, 0, messages_max=1, bytes_max=1000).status is ReadStatus.QUEUE_EMPTY
    assert store.record_at(0) is None
    store.flushed(batch)
    assert store.read(queue, 0, messages_max=1, bytes_max=1000).status is ReadStatus.QUEUE_EMPTY
    assert store.advance(batch.end) == [queue]
    assert store.read(queue, 0, messages_max=1, bytes_max=1000).count == 1


def test_batches_are_bounded_and_given_in_order(store):
    for _ in range(50):
        append(store)
    batches = []
    while (batch := store.take_batch()) is not None:
        batches.append(batch)
    assert len(batches) > 4
    assert all(batch.end - batch.start <= 2000 + 8 for batch in batches)
    assert [batch.start for batch in batches[1:]] == [batch.end for batch in batches[:-1]]
    for batch in batches:
        batch.write_and_flush()
    with pytest.raises(InvariantError, match="in order"):
        store.flushed(batches[1])
    for batch in batches:
        store.flushed(batch)
    store.advance(batches[-1].end)
    assert store.committed_position == store.end_position


def test_what_was_flushed_becomes_readable_in_whole_batches_up_to_the_position(store):
    for n in range(30):
        append(store, "T", n % 2, body=b"%02d" % n * 60)
    batches = []
    while (batch := store.take_batch()) is not None:
        batch.write_and_flush()
        store.flushed(batch)
        batches.append(batch)
    assert len(batches) > 3
    assert store.flushed_position == store.end_position
    assert store.advance(batches[1].end - 1) == [store.queue("T", 0), store.queue("T", 1)]
    assert store.committed_position == batches[0].end
    assert len(bodies(store, "T", 0)) == batches[0].touched[store.queue("T", 0)]
    assert store.advance(batches[1].end - 1) == []
    assert sorted(queue.queue_id for queue in store.advance(1 << 60)) == [0, 1]
    assert store.committed_position == store.end_position
    assert len(bodies(store, "T", 0)) == 15


def test_a_batch_that_was_not_written_cannot_be_committed(store):
    append(store)
    with pytest.raises(InvariantError, match="in order"):
        store.flushed(store.take_batch())


def test_unwritten_bytes_count_what_nobody_took(store):
    append(store)
    assert store.unwritten_bytes == store.end_position > 0
    store.take_batch()
    assert store.unwritten_bytes == 0


@pytest.mark.parametrize("body", [1900, 5000])
def test_a_record_beyond_the_limit_is_refused_and_nothing_is_appended(store, body):
    with pytest.raises(RecordTooLarge):
        append(store, body=b"x" * body)
    assert store.end_position == 0
    assert append(store) == (0, 0)


def test_properties_beyond_their_length_field_are_refused(store):
    with pytest.raises(RecordTooLarge, match="32767"):
        append(store, properties=b"A\x01" + b"x" * 32_760 + b"\x02")


def test_long_topics_ipv6_hosts_and_flags_are_stored(store):
    queue = store.queue("t" * 200, 1)
    _, position = store.append(
        queue, b"body", b"", born_timestamp=5, born_host=bytes(20), store_timestamp=6, flag=7,
        sys_flag=SysFlag.COMPRESSED, reconsume_times=2, prepared_position=9,
    )  # fmt: skip
    flush(store)
    view = store.record_at(position)
    record = decode_record(view)
    assert int.from_bytes(view[4:8]) == MAGIC_V2
    assert record.sys_flag == SysFlag.COMPRESSED | SysFlag.BORN_HOST_V6
    assert (record.flag, record.reconsume_times, record.prepared_position) == (7, 2, 9)
    assert store.store_timestamp(queue, 0) == 6


# ---- reading


def test_reads_respect_both_limits_but_give_at_least_one(store):
    for n in range(10):
        append(store, body=b"%d" % n * 50)
    flush(store)
    queue = store.find_queue("T", 0)
    assert store.read(queue, 0, messages_max=3, bytes_max=10**6).count == 3
    assert store.read(queue, 0, messages_max=9, bytes_max=1).count == 1
    result = store.read(queue, 2, messages_max=99, bytes_max=400)
    assert (result.count, result.next_offset, result.max_offset) == (2, 4, 10)
    assert sum(map(len, result.slices)) <= 400


def test_adjacent_records_are_one_slice(store):
    for n in range(6):
        append(store, "AB"[n == 3])
    flush(store)
    assert len(store.read(store.find_queue("A", 0), 0, messages_max=9, bytes_max=10**6).slices) == 2


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [(-1, ReadStatus.TOO_SMALL, 0), (3, ReadStatus.AT_END, 3), (4, ReadStatus.BEYOND_END, 3)],
)
def test_offsets_outside_the_queue_are_answered_as_rocketmq_does(store, offset, status, next_offset):
    for _ in range(3):
        append(store)
    flush(store)
    result = store.read(store.find_queue("T", 0), offset, messages_max=9, bytes_max=1000)
    assert (result.status, result.next_offset, result.count, result.slices) == (status, next_offset, 0, [])


def test_a_filter_passes_only_its_tags_and_moves_on(store):
    for n in range(30):
        append(store, properties=b"TAGS\x01%s\x02" % (b"a" if n == 25 else b"b"))
    flush(store)
    queue = store.find_queue("T", 0)
    result = store.read(queue, 0, messages_max=9, bytes_max=10**6, tag_codes=frozenset({java_hash("a")}))
    assert (result.status, result.count, result.next_offset) == (ReadStatus.FOUND, 1, 30)
    result = store.read(queue, 0, messages_max=9, bytes_max=10**6, tag_codes=frozenset({1}))
    assert (result.status, result.count, result.next_offset) == (ReadStatus.NO_MATCH, 0, 30)


def test_units_say_position_size_and_tags_code(store):
    _, position = append(store, properties=b"MYTAGS\x01no\x02TAGS\x01yes\x02")
    flush(store)
    queue = store.find_queue("T", 0)
    assert store.unit(queue, 0) == (position, len(store.record_at(position)), java_hash("yes"))
    assert store.unit(queue, 1) is None


def test_only_positions_of_records_are_records(store):
    positions = {append(store, body=b"\xda\xa3\x20\xa7" * 30)[1] for _ in range(50)}
    flush(store)
    found = {at for at in range(-1, store.end_position + 300) if store.record_at(at) is not None}
    assert found == positions


def test_units_are_read_from_files_once_they_left_memory(disk):
    store = open_store(disk, derived={"tail_units_max": 0, "open_files_max": 2})
    for n in range(200):
        append(store, "T", n % 5, body=b"%d" % n)
        flush(store)
    settle(store)
    append(store, "other")
    flush(store)
    settle(store)
    assert all(len(store.find_queue("T", q).tail) == 0 for q in range(5))
    for q in range(5):
        assert bodies(store, "T", q) == [b"%d" % n for n in range(200) if n % 5 == q]


def test_open_files_stay_bounded_with_many_queues(disk):
    store = open_store(disk, derived={"open_files_max": 3, "tail_units_max": 0})
    for n in range(40):
        append(store, f"T{n}")
    flush(store)
    settle(store)
    for n in range(40):
        assert len(bodies(store, f"T{n}")) == 1
    assert len(store._derived.reader.cache) <= 3
    assert len(store._derived._units.cache) <= 3


@pytest.mark.parametrize(
    ("timestamp", "first", "last"), [(0, 0, 0), (1000, 0, 0), (1005, 1, 0), (1010, 1, 3), (1020, 4, 4), (1021, 5, 4)]
)
def test_offsets_are_found_by_time(store, timestamp, first, last):
    for at in (1000, 1010, 1010, 1010, 1020):
        append(store, at=at)
    flush(store)
    queue = store.find_queue("T", 0)
    assert store.offset_by_time(queue, timestamp, upper=False) == first
    assert store.offset_by_time(queue, timestamp, upper=True) == last


@pytest.mark.parametrize("settled", [False, True])
def test_keys_are_found_newest_first_and_within_their_times(store, settled):
    positions = [append(store, properties=b"KEYS\x01a b\x02UNIQ_KEY\x01u%d\x02" % n, at=1000 + n)[1] for n in range(50)]
    flush(store)
    if settled:
        settle(store)
    assert store.query_index("T", "u7", max_count=9, begin=0, end=10**9) == [positions[7]]
    assert store.query_index("T", "b", max_count=3, begin=0, end=1040) == positions[40:37:-1]
    assert store.query_index("T", "a", max_count=99, begin=1048, end=10**9) == positions[:47:-1]
    assert store.query_index("other", "a", max_count=9, begin=0, end=10**9) == []


@pytest.mark.parametrize("settled", [False, True])
def test_of_a_key_of_many_messages_only_those_of_that_time_are_looked_at(store, settled, monkeypatch):
    count = 300
    positions = [append(store, properties=b"KEYS\x01k\x02", at=1_000_000 + 1000 * n)[1] for n in range(count)]
    flush(store)
    if settled:
        settle(store)
    looked = []
    timestamp = QueueReader.position_timestamp
    monkeypatch.setattr(
        QueueReader, "position_timestamp", lambda reader, at: looked.append(at) or timestamp(reader, at)
    )
    assert store.query_index("T", "k", max_count=9, begin=1_005_000, end=1_006_000) == [positions[6], positions[5]]
    assert len(set(looked)) < 30, "that second, and the first one of each file"
    assert store.query_index("T", "k", max_count=9, begin=0, end=999_999) == []
    monkeypatch.setattr(store_reader, "INDEX_ENTRIES_MAX", 100)
    assert store.query_index("T", "k", max_count=9, begin=1_005_000, end=1_006_000) == [], "too many newer ones"


def test_uncommitted_keys_are_not_found(store):
    append(store, properties=b"UNIQ_KEY\x01u\x02")
    assert store.query_index("T", "u", max_count=9, begin=0, end=10**9) == []


# ---- deleting


def test_a_deleted_topic_is_gone_at_once_and_begins_anew(disk, store):
    for n in range(40):
        append(store, "T", n % 2)
    append(store, "keep")
    flush(store)
    settle(store)
    store.delete_topic("T")
    assert store.find_queue("T", 0) is None
    assert append(store, "T", body=b"new")[0] == 0
    flush(store)
    settle(store)
    assert bodies(store, "T") == [b"new"]
    store.close()
    store = open_store(disk)
    assert bodies(store, "T") == [b"new"]
    assert store.find_queue("T", 1) is None
    assert len(bodies(store, "keep")) == 1


def test_old_handles_of_a_deleted_topic_read_as_empty(store):
    append(store)
    flush(store)
    queue = store.find_queue("T", 0)
    append(store)
    store.delete_topic("T")
    flush(store)
    assert store.read(queue, 0, messages_max=9, bytes_max=1000).status is ReadStatus.QUEUE_EMPTY
    with pytest.raises(InvariantError):
        store.append(queue, b"", b"", born_timestamp=1, born_host=HOST, store_timestamp=1)


# ---- retention


def test_retention_by_size_keeps_what_is_pinned_and_the_active_segment(disk):
    store = open_store(disk, retention={"bytes_max": 8192})
    for n in range(200):
        append(store, body=b"%03d" % n * 30)
    flush(store)
    settle(store)
    assert store.apply_retention(0, pinned=8192 * 2 - 1) == 1
    assert store.min_position == 8192
    assert store.apply_retention(0, pinned=1 << 60) >= 1
    settle(store)
    segments = sorted(path for path in disk.names if "/commitlog/" in path)
    assert len(segments) <= 2
    queue = store.find_queue("T", 0)
    assert 0 < queue.min_offset < queue.max_offset == 200
    assert store.unit(queue, queue.min_offset)[0] >= store.min_position
    result = store.read(queue, 0, messages_max=1, bytes_max=1)
    assert (result.status, result.next_offset) == (ReadStatus.TOO_SMALL, queue.min_offset)
    assert bodies(store)[-1] == b"199" * 30
    store.close()
    store = open_store(disk)
    assert store.find_queue("T", 0).min_offset == queue.min_offset


def test_retention_by_age_looks_at_the_newest_record_of_a_segment(disk):
    store = open_store(disk, retention={"age_ms": 1000})
    for n in range(120):
        append(store, at=n * 100)
    flush(store)
    settle(store)
    first_of_second = store.store_timestamp(
        store.find_queue("T", 0), next(n for n in range(120) if store.unit(store.find_queue("T", 0), n)[0] >= 8192)
    )
    assert store.apply_retention(first_of_second + 1000, pinned=1 << 60) == 0
    assert store.apply_retention(first_of_second + 1001, pinned=1 << 60) == 1


def test_slices_outlive_the_segment_they_were_read_from(disk):
    store = open_store(disk, retention={"bytes_max": 0})
    for n in range(100):
        append(store, body=b"%03d" % n * 30)
    flush(store)
    settle(store)
    result = store.read(store.find_queue("T", 0), 0, messages_max=2, bytes_max=10**6)
    before = bytes(result.slices[0])
    assert store.apply_retention(0, pinned=1 << 60) > 0
    settle(store)
    assert bytes(result.slices[0]) == before


def test_files_of_queues_and_index_below_the_log_go_too(disk):
    store = open_store(disk, retention={"bytes_max": 0})
    for n in range(200):
        append(store, properties=b"UNIQ_KEY\x01u%d\x02" % n, at=1_000_000 + 1000 * n)
        flush(store)
        settle(store)
    store.apply_retention(0, pinned=1 << 60)
    settle(store)
    first = store.find_queue("T", 0).min_offset
    names = disk.list("/data/consumequeue/T/0")
    assert int(names[0]) // 20 <= first < int(names[0]) // 20 + 16
    assert len(disk.list("/data/index")) < 10
    assert store.query_index("T", "u199", max_count=1, begin=0, end=10**9) != []
    assert store.query_index("T", "u0", max_count=1, begin=0, end=10**9) == []
    disk.locks.clear()
    assert open_store(disk).recovery.derived == "whole"


# ---- when the disk says no


def test_a_full_disk_refuses_clients_keeps_room_for_metadata_and_recovers_by_itself(disk):
    store = open_store(disk, log={"metadata_bytes": 1024})
    disk.capacity = disk.used() + 6000
    with pytest.raises(StoreFull):
        append_many(store)
    appended = store.end_position
    for _ in range(3):
        append(store, "metadata", reserve=True)
    assert store.end_position > appended
    flush(store)
    with pytest.raises(StoreFull):
        append(store)
    assert len(bodies(store, "metadata")) == 3
    disk.capacity = 1 << 30
    settle(store)
    append(store)
    flush(store)
    assert store.committed_position == store.end_position


@pytest.mark.parametrize("count", [2, 7, 30, 60])
def test_messages_that_belong_together_are_stored_all_or_not_at_all(disk, count):
    store = open_store(disk, log={"metadata_bytes": 1024})
    disk.capacity = disk.used() + 20_000
    messages = [(0, b"%03d" % n + b"x" * 200, b"") for n in range(count)]
    stored = 0
    more = {"born_timestamp": 1, "born_host": HOST, "store_timestamp": 1}
    for _ in range(200):
        queue = store.queue("T", 0)
        before = (store.end_position, queue.next_offset)
        try:
            first, positions = store.append_all(queue, messages, **more)
        except StoreFull:
            assert (store.end_position, queue.next_offset) == before
            break
        assert (first, len(positions)) == (stored, count)
        stored += count
        flush(store)
        store.background_work()
    else:
        raise AssertionError("the disk never was full")
    assert bodies(store) == [message[1] for message in messages] * (stored // count)
    disk.capacity = 1 << 30
    settle(store)
    assert store.append_all(store.queue("T", 0), messages, **more)[0] == stored


def test_a_message_too_large_keeps_those_that_belong_to_it_out(store):
    with pytest.raises(RecordTooLarge):
        store.append_all(
            store.queue("T", 0), [(0, b"small", b""), (0, b"x" * 3000, b"")], born_timestamp=1, born_host=HOST,
            store_timestamp=1,
        )  # fmt: skip
    assert store.end_position == 0


def test_below_the_reserve_clients_are_refused_while_there_is_room_in_the_segment(disk):
    store = open_store(disk, log={"reserve_bytes": 100_000})
    disk.capacity = disk.used() + 50_000
    store.background_work()
    assert not store.disk.accepts_messages
    with pytest.raises(StoreFull, match=r"the disk of .* has 0.0 MiB free, and messages need 0.1 MiB") as refused:
        append(store)
    assert store.disk.refusal == str(refused.value)
    assert append(store, reserve=True) == (0, 0)
    disk.capacity = 1 << 30
    store.background_work()
    assert append(store)[0] == 1
    assert store.disk.refusal == ""
    store.shut("too few are in sync")
    assert store.disk.refusal == "too few are in sync"


def test_messages_that_find_no_further_segment_are_not_said_to_be_accepted(disk):
    """What the log itself fills leaves the reserve whole: the segment that would take of it is not made."""
    store = open_store(disk, log={"reserve_bytes": 100_000})
    disk.capacity = disk.used() + 100_000 + 10_000
    store.background_work()
    assert store.disk.accepts_messages
    with pytest.raises(StoreFull, match="the log needs a further segment"):
        append_many(store, flushing=True)
    store.background_work()
    assert store.disk.free_bytes >= store.disk.reserve_bytes
    assert not store.disk.accepts_messages
    disk.capacity = 1 << 30
    store.background_work()
    assert store.disk.accepts_messages
    store.shut("too few are in sync")
    assert store.disk.accepts_messages, "the disk is not to blame"


def test_derived_files_wait_for_space_and_the_store_goes_on(disk):
    store = open_store(disk)
    append(store, body=b"first")
    flush(store)
    disk.capacity = disk.used()
    settle(store)
    with pytest.raises(StoreFull):
        append_many(store)
    flush(store)
    assert bodies(store)[0] == b"first"
    disk.capacity = 1 << 30
    settle(store)
    assert disk.size("/data/consumequeue/T/0/00000000000000000000")
    assert store.disk.stopped is None


def test_retention_frees_the_space_that_derived_files_wait_for(disk):
    store = open_store(disk, retention={"bytes_max": 16384})
    while store.end_position < 4 * 8192:
        append(store)
        flush(store)
    settle(store)
    disk.capacity = disk.used()
    append(store, "new")
    flush(store)
    settle(store)
    written = "/data/consumequeue/new/0/00000000000000000000"
    assert not disk.size(written)
    assert store.apply_retention(10**9, store.committed_position)
    settle(store)
    assert disk.size(written)
    assert disk.used() < disk.capacity


def test_a_store_with_deleted_topics_opens_on_a_full_disk(disk):
    store = open_store(disk)
    for topic in ("deleted", "kept"):
        append(store, topic)
    flush(store)
    settle(store)
    store.delete_topic("deleted")
    store.close()
    disk.capacity = disk.used()
    store = open_store(disk)
    assert len(bodies(store, "kept")) == 1
    store.close()
    disk.capacity = 1 << 30
    store = open_store(disk)
    assert [queue.topic for queue in store.queues()] == ["kept"]
    assert store.recovery.derived == "whole"
    assert b"deleted" not in disk.open("/data/queues").read(0, 1 << 20)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_failed_flush_of_the_log_stops_the_store_for_good(disk, number):
    store = open_store(disk)
    disk.failing_flush, disk.failing_path = number, "/commitlog/"
    with pytest.raises(StoreStopped, match="simulated"):
        append_many(store, flushing=True)
    assert store.committed_position == number * len(store.record_at(0) or b"")
    assert store.flushed_position == store.committed_position
    for refused in (lambda: append(store), lambda: append(store, reserve=True), store.background_work):
        with pytest.raises(StoreStopped):
            refused()
    batch = store.take_batch()
    if batch is not None:
        with pytest.raises(StoreStopped):
            batch.write_and_flush()
    assert isinstance(store.disk.stopped, OSError)
    assert len(bodies(store)) == number, "reads go on"


@pytest.mark.parametrize("path", ["/checkpoint", "/consumequeue/", "/queues", "/index/"])
def test_a_failed_flush_of_any_other_file_stops_the_store_too(disk, path):
    store = open_store(disk)
    disk.failing_flush, disk.failing_path = 0, path
    append(store, properties=b"UNIQ_KEY\x01u\x02")
    with pytest.raises(StoreStopped):
        flush_settle_close(store)
    with pytest.raises(StoreStopped):
        append(store)


def test_a_store_whose_close_fails_is_let_go_of(tmp_path, monkeypatch):
    def opened():
        return open_store(OsFiles(), tmp_path)

    def fail(_):
        raise OSError(errno.EIO, "simulated")

    before = set(Path("/proc/self/fd").iterdir())
    store = opened()
    append(store)
    flush(store)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(StoreStopped):
            store.close()
    assert set(Path("/proc/self/fd").iterdir()) <= before
    again = opened()
    assert bodies(again) == [b"x" * 100]
    again.close()


def test_async_flush_answers_before_the_disk_and_flushes_in_time(disk):
    clock = SimClock()
    store = open_store(disk, clock=clock, log={"flush": "async", "async_flush_ms": 500})
    store.background_work()
    append(store)
    flush(store)
    assert (store.committed_position, store.flushed_position) == (store.end_position, 0)
    clock.now += 501
    settle(store)
    assert store.flushed_position == store.end_position


def test_async_flush_bounds_what_can_be_lost(disk):
    store = open_store(disk, log={"flush": "async", "async_flush_ms": 10**9, "async_unflushed_bytes_max": 1000})
    for _ in range(50):
        append(store)
        flush(store)
        assert store.committed_position - store.flushed_position <= 1000 + 300


# ---- a real disk


def test_the_same_on_a_real_disk(tmp_path):
    options = small_options(log={"segment_bytes": 1 << 16}, retention={"bytes_max": 1 << 17})
    store = MessageStore.open(tmp_path, options, OsFiles(), clock=SimClock())
    for n in range(3000):
        append(store, "T", n % 3, body=b"%04d" % n * 20, properties=b"UNIQ_KEY\x01u%d\x02" % n, at=n)
        if n % 50 == 0:
            flush(store)
            settle(store)
    flush(store)
    settle(store)
    assert store.apply_retention(0, pinned=1 << 60) > 0
    settle(store)
    expected = [bodies(store, "T", q) for q in range(3)]
    assert all(found[-1] == b"%04d" % (2997 + q) * 20 for q, found in enumerate(expected))
    found = store.query_index("T", "u2999", max_count=5, begin=0, end=10**9)
    assert b"2999" * 20 in bytes(store.record_at(found[0]))
    store.close()
    assert not (tmp_path / "abort").exists()
    store = MessageStore.open(tmp_path, options, OsFiles(), clock=SimClock())
    assert (tmp_path / "abort").exists()
    assert store.recovery.derived_records == 0
    assert [bodies(store, "T", q) for q in range(3)] == expected
    store.close()


def test_derived_files_keep_up_although_no_moment_is_idle(disk):
    """What is not yet derived stands in memory: batches that never stop wait for it in the end."""
    behind_bytes = 20_000
    store = open_store(disk, derived={"behind_bytes": behind_bytes})
    furthest = 0
    for _ in range(2000):
        append(store, body=bytes(100))
        flush(store)
        furthest = max(furthest, store.committed_position - store._writer.checkpoint.value.queues_dispatched)
    assert store.committed_position > 20 * behind_bytes
    assert furthest < 3 * behind_bytes
