"""MessageStore as one replica's log: runs in and out, cuts, and what the group has committed."""

from dataclasses import replace
from random import Random
from zlib import crc32

import pytest

from logherd.kit.errors import InvariantError
from logherd.model.record import encode_record
from logherd.store import MessageStore, RawRefused, ReadStatus, StoreFull, begin_at, derive_again
from sim.disk import SimulatedCrash
from unit.store.helpers import HOST, ROOT, SimClock, SimDisk, append, bodies, flush, settle, small_options


def open_replica(disk=None, **options):
    values = replace(small_options(**options), replicated=True)
    return MessageStore.open(ROOT, values, disk or SimDisk(), clock=SimClock())


def written(store):
    """Write all, commit nothing."""
    while (batch := store.take_batch()) is not None:
        batch.write_and_flush()
        store.flushed(batch)


def ship(leader, follower, bytes_max=1 << 20):
    while follower.end_position < leader.end_position:
        data, end = leader.read_raw(follower.end_position, bytes_max)
        follower.append_raw(data, follower.end_position, end=end)


@pytest.fixture
def leader():
    return open_replica()


@pytest.fixture
def follower():
    return open_replica()


def raw(store, position=0):
    """All of a log from a position on, in one piece each segment."""
    found = []
    while position < store.end_position:
        data, position = store.read_raw(position, 1 << 20)
        found.append(bytes(data))
    return b"".join(found)


@pytest.mark.parametrize("bytes_max", [1, 700, 1 << 20])
def test_a_follower_of_runs_of_any_size_has_the_same_log_and_the_same_queues(leader, follower, bytes_max):
    for n in range(150):
        append(leader, "AB"[n % 2], n % 3, body=b"%d" % n * (n % 40), properties=b"KEYS\x01k%d\x02TAGS\x01t\x02" % n)
        if n % 20 == 0:
            written(leader)
    assert leader.end_position > 2 * 8192
    ship(leader, follower, bytes_max)
    assert raw(follower) == raw(leader)
    flush(leader)
    flush(follower)
    for queue in leader.queues():
        other = follower.find_queue(queue.topic, queue.queue_id)
        assert [follower.unit(other, n) for n in range(other.max_offset)] == [
            leader.unit(queue, n) for n in range(queue.max_offset)
        ]
    assert follower.query_index("A", "k140", max_count=9, begin=0, end=1 << 60)
    assert raw(follower) == raw(leader), "from the files it reads the same as from memory"


def test_what_would_be_readable_is_known_before_it_is(leader):
    ends = [0]
    for _ in range(4):
        append(leader)
        written(leader)
        ends.append(leader.end_position)
    append(leader)  # not flushed
    for position in range(ends[0], leader.end_position + 1, 7):
        told = leader.readable_to(position)
        assert told == max(end for end in ends if end <= position)
        leader.advance(position)
        assert leader.committed_position == leader.readable_to(0) == told
    assert leader.readable_to(leader.end_position) == ends[-1]


def test_a_run_ends_with_a_segment_and_never_waits_for_the_disk(leader):
    while leader.end_position < 8192:
        append(leader, body=b"x" * 300)
    data, end = leader.read_raw(0, 1 << 20)
    assert leader.flushed_position == 0
    assert end < 8192, "what is not yet written comes batch by batch"
    written(leader)
    data, end = leader.read_raw(0, 1 << 20)
    assert end == 8192
    assert len(data) < 8192, "of the blank record only the head is carried"


def test_damage_is_refused_and_nothing_of_the_run_is_taken(leader, follower):
    for n in range(5):
        append(leader, body=b"%d" % n * 50)
    data = bytearray(leader.read_raw(0, 1 << 20)[0])
    data[-30] ^= 1
    with pytest.raises(RawRefused, match="checksum"):
        follower.append_raw(data, 0)
    assert (follower.end_position, follower.queue("T", 0).next_offset, follower.take_batch()) == (0, 0, None)


def record(**changes):
    values = {"queue_id": 0, "queue_offset": 0, "position": 0, "store_timestamp": 1, "store_host": HOST,
              "born_timestamp": 1, "born_host": HOST}  # fmt: skip
    return encode_record(b"T", b"body", b"", **{**values, **changes})


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no record"),
        (record()[:-1], "total size"),
        (record(position=7), "position 7"),
        (record(queue_offset=3), "message 3 of queue 0 of T; the next one here would be 0"),
        (record() + record(position=len(record()), queue_offset=2), "the next one here would be 1"),
        (record() + record(position=len(record()), queue_offset=5, sys_flag=0xC0), "would be 1; it is a batch in one"),
        (record()[:-20] + b"x" * 20, "no checksum|disagree"),
    ],
)
def test_records_that_do_not_continue_the_log_are_refused(follower, data, why):
    with pytest.raises(RawRefused, match=why):
        follower.append_raw(data, 0)
    assert follower.end_position == 0


def test_a_body_whose_own_checksum_differs_is_refused_though_the_whole_one_is_right(follower):
    data = bytearray(record())
    data[8] ^= 1
    data[-11:-1] = (b"%010d" % (crc32(data[:-20]) & 0x7FFFFFFF))[::-1]
    with pytest.raises(RawRefused, match="body checksum"):
        follower.append_raw(bytes(data), 0)


@pytest.mark.parametrize("segment_bytes", [4096, 16384])
def test_a_log_of_other_segments_is_refused_by_name(leader, segment_bytes):
    follower = open_replica(log={"segment_bytes": segment_bytes})
    while leader.end_position < 8500:
        append(leader, body=b"x" * 300)
    with pytest.raises(RawRefused, match="the same segment size"):
        ship(leader, follower)


SMALL = {"record_bytes_max": 500, "batch_bytes_max": 500}


def test_a_record_that_no_client_might_send_here_is_taken_of_who_leads(leader):
    """Brokers that were restarted with a smaller largest message follow one that was not, or have to copy what it had
    taken before."""
    follower = open_replica(log=SMALL)
    for number in range(12):
        append(leader, body=b"%d" % number * 450)
    ship(leader, follower)
    assert raw(follower) == raw(leader)


@pytest.mark.parametrize("flush", ["sync", "async"])
@pytest.mark.parametrize("seed", range(40))
def test_what_a_power_cut_leaves_of_a_record_above_the_own_limit_is_cut_to_its_last_byte(leader, seed, flush):
    disk = SimDisk()
    follower = open_replica(disk, log={**SMALL, "flush": flush, "async_unflushed_bytes_max": 100})
    append(leader, body=b"x" * 1700)
    append(leader, body=b"y" * 1800)
    ship(leader, follower)
    disk.crash_after(1, at="write /data/commitlog")
    with pytest.raises(SimulatedCrash):
        written(follower)
    disk = disk.crash(Random(seed), power=True)
    follower = open_replica(disk, log=SMALL)
    end = follower.end_position
    assert disk.names["/data/commitlog/00000000000000000000"].content()[end:].strip(b"\0") == b""
    ship(leader, follower)
    written(follower)
    assert raw(follower) == raw(leader)


def test_what_fits_a_batch_is_taken_because_a_leader_appends_it():
    leader, follower = (open_replica(log={"record_bytes_max": 500, "batch_bytes_max": 2000}) for _ in range(2))
    append(leader, body=b"x" * 900)
    ship(leader, follower)
    assert raw(follower) == raw(leader)


def test_what_fits_a_batch_of_the_leader_is_taken_wherever_a_batch_has_begun_here():
    log = {"record_bytes_max": 1500, "batch_bytes_max": 2000}
    leader, follower = open_replica(log=log), open_replica(log=log)
    append(leader)
    ship(leader, follower)
    flush(leader)
    append(leader, body=b"x" * 1700)
    ship(leader, follower)
    assert raw(follower) == raw(leader)
    flush(follower)
    assert len(bodies(follower)) == 2


def test_a_deletion_by_an_earlier_leader_is_undone_by_a_cut_and_done_by_a_commit(leader):
    append(leader, "T", 0)
    append(leader, "T", 1)
    append(leader, "other")
    deletion = leader.end_position
    append(leader, "METADATA")
    deleted = leader.end_position
    replica = open_replica()
    data, _ = leader.read_raw(0, deleted)
    replica.append_raw(data, 0)
    replica.delete_topic("T", deleted)
    assert replica.find_queue("T", 0) is None
    assert replica.find_queue("T", 1) is None
    replica.truncate(deletion)
    assert [replica.find_queue("T", n).next_offset for n in (0, 1)] == [1, 1]
    again, _ = leader.read_raw(deletion, deleted - deletion)
    replica.append_raw(again, deletion)
    replica.delete_topic("T", deleted)
    append(replica, "T", 1)
    assert replica.find_queue("T", 1).next_offset == 1
    flush(replica)
    assert bodies(replica, "T", 0) == []
    assert len(bodies(replica, "T", 1)) == 1


def test_deletions_are_undone_in_order_of_position_whatever_order_they_were_told_in(leader):
    for topic in "AB":
        append(leader, topic)
    first = leader.end_position
    append(leader, "METADATA")
    second = leader.end_position
    append(leader, "METADATA")
    leader.delete_topic("B", leader.end_position)
    leader.delete_topic("A", second)
    leader.truncate(second)
    assert leader.find_queue("B", 0) is not None
    assert leader.find_queue("A", 0) is None
    leader.truncate(first)
    assert leader.find_queue("A", 0) is not None


def test_a_follower_without_room_for_the_next_segment_takes_nothing_of_the_run(leader):
    disk = SimDisk()
    follower = open_replica(disk)
    while leader.end_position < 8192:
        append(leader, body=b"x" * 300)
    written(leader)
    disk.capacity = disk.used() + 1000
    follower.background_work()
    with pytest.raises(StoreFull):
        ship(leader, follower)
    assert follower.end_position == 0
    disk.capacity = 1 << 30
    follower.background_work()
    ship(leader, follower)
    assert follower.end_position == leader.end_position


def test_appends_at_another_place_than_the_end_are_the_callers_error(leader, follower):
    append(leader)
    with pytest.raises(InvariantError, match="at the end"):
        follower.append_raw(leader.read_raw(0, 1000)[0], 5)


def test_a_topic_that_was_made_again_begins_at_offset_0_on_the_follower_too(leader, follower):
    for n in range(3):
        append(leader, "T", 0, body=b"old %d" % n)
    ship(leader, follower)
    flush(follower)
    append(leader, "deletions")
    leader.delete_topic("T")
    append(leader, "T", 0, body=b"new")
    flush(leader)
    ship(leader, follower)
    flush(follower)
    assert bodies(follower) == bodies(leader) == [b"new"]
    settle(follower)
    assert bodies(follower) == [b"new"]


# ---- cuts


def test_a_cut_takes_records_units_and_keys_wherever_they_are(leader):
    ends = []
    for n in range(12):
        append(leader, "T", n % 2, body=b"%d" % n * 60, properties=b"KEYS\x01k%d\x02" % n)
        ends.append(leader.end_position)
        if n == 3:
            flush(leader)
        if n == 7:
            written(leader)
    taken = leader.take_batch()
    for cut in (ends[8], ends[5], ends[4]):
        leader.truncate(cut)
        assert leader.end_position == cut
    assert [queue.next_offset for queue in leader.queues()] == [3, 2]
    append(leader, "T", 1, body=b"other", properties=b"KEYS\x01other\x02")
    taken.write_and_flush()
    leader.flushed(taken)
    flush(leader)
    assert bodies(leader, "T", 0) == [b"0" * 60, b"2" * 60, b"4" * 60]
    assert bodies(leader, "T", 1) == [b"1" * 60, b"3" * 60, b"other"]
    assert not leader.query_index("T", "k5", max_count=9, begin=0, end=1 << 60)
    assert leader.query_index("T", "other", max_count=9, begin=0, end=1 << 60) == [ends[4]]


def test_what_was_cut_is_not_read_while_a_batch_from_above_is_still_being_written(leader):
    ends = []
    for n in range(4):
        append(leader, body=b"%d" % n * 60)
        ends.append(leader.end_position)
        if n == 2:
            written(leader)
    taken = leader.take_batch()
    kept = bytes(leader.read_raw(0, ends[1])[0])
    leader.truncate(ends[1])
    assert leader.read_raw(0, 1 << 20) == (kept, ends[1])
    append(leader, body=b"other")
    assert raw(leader)[: ends[1]] == kept
    found = raw(leader)
    assert len(found) == leader.end_position
    taken.write_and_flush()
    leader.flushed(taken)
    written(leader)
    assert raw(leader) == found


def test_a_cut_back_over_a_segments_end_goes_on_in_the_earlier_segment():
    disk = SimDisk()
    store = open_replica(disk)
    ends = []
    while store.end_position < 3 * 8192:
        append(store, body=b"x" * 500)
        ends.append(store.end_position)
        written(store)
    store.truncate(ends[2])
    for n in range(60):
        append(store, body=b"%d" % n * 200)
    flush(store)
    assert len(bodies(store)) == 63
    disk.locks.clear()
    store = open_replica(disk)
    store.advance(store.end_position)
    assert len(bodies(store)) == 63


def test_nothing_committed_is_cut_and_no_record_is_cut_in_two(leader):
    append(leader)
    flush(leader)
    end = leader.end_position
    append(leader)
    for at in (end - 1, 0, end + 1, leader.end_position + 1):
        with pytest.raises(InvariantError):
            leader.truncate(at)
    leader.truncate(end)


def test_only_a_replica_is_cut():
    store = MessageStore.open(ROOT, small_options(), SimDisk(), clock=SimClock())
    append(store)
    with pytest.raises(InvariantError, match="only a replica"):
        store.truncate(0)


def delete_what_is_kept(store):
    """One committed message in T, and a deletion of T that is not committed; where the deletion begins."""
    append(store, "T", 0, body=b"kept")
    flush(store)
    settle(store)
    end = store.end_position
    append(store, "deletions")
    store.delete_topic("T")
    return end


def test_a_deletion_that_is_cut_brings_the_queue_back(leader):
    end = delete_what_is_kept(leader)
    assert leader.find_queue("T", 0) is None
    append(leader, "T", 0, body=b"new")
    leader.truncate(end)
    assert leader.queue("T", 0).next_offset == 1
    assert bodies(leader) == [b"kept"]
    append(leader, "T", 0, body=b"more")
    flush(leader)
    settle(leader)
    assert bodies(leader) == [b"kept", b"more"]


def test_what_an_earlier_deletion_says_of_a_name_takes_no_files_of_a_queue_that_may_come_back():
    """The name began anew behind a deletion that is not committed; that queue holds nothing, and no file is its own."""
    disk = SimDisk()
    store = open_replica(disk)
    append(store, "other")
    deleted_before = store.end_position
    end = delete_what_is_kept(store)
    deleted = store.end_position
    append(store, "T", 0, body=b"new")
    store.truncate(deleted)
    append(store, "deletions")
    store.delete_topic("T")
    store.forget_deleted({"T": deleted_before})
    store.truncate(end)
    settle(store)
    assert bodies(store) == [b"kept"]
    disk.locks.clear()
    assert bodies(open_replica(disk)) == [b"kept"]


def topics_on(disk):
    return set(disk.list(f"{ROOT}/consumequeue"))


def test_nothing_is_left_of_a_topic_whose_deletion_is_committed():
    disk = SimDisk()
    store = open_replica(disk)
    for queue_id in range(3):
        append(store, "gone", queue_id)
    append(store, "other")
    flush(store)
    settle(store)
    assert topics_on(disk) == {"gone", "other"}
    append(store, "deletions")
    store.delete_topic("gone")
    settle(store)
    assert topics_on(disk) == {"gone", "other"}
    flush(store)
    settle(store)
    assert topics_on(disk) == {"deletions", "other"}


def test_a_topic_of_which_one_queue_is_deleted_keeps_the_files_of_the_others():
    disk = SimDisk()
    store = open_replica(disk)
    append(store, "T", 0)
    deleted = store.end_position
    append(store, "T", 1)
    flush(store)
    settle(store)
    store.forget_deleted({"T": deleted})
    settle(store)
    assert disk.list(f"{ROOT}/consumequeue/T") == ["1"]
    append(store, "T", 0)
    flush(store)
    settle(store)
    assert disk.list(f"{ROOT}/consumequeue/T") == ["0", "1"]


# ---- what is committed outlasts the process


@pytest.mark.parametrize("seed", range(8))
def test_that_a_deletion_is_committed_outlasts_the_machine_before_files_go(seed):
    disk = SimDisk()
    store = open_replica(disk)
    append(store, "gone")
    flush(store)
    settle(store)
    append(store)
    store.delete_topic("gone")
    flush(store)
    while store.background_work():
        pass
    assert not disk.list("/data/consumequeue/gone"), "what is committed is carried out"
    again = open_replica(disk.crash(Random(seed), power=True))
    assert again.find_queue("gone", 0) is not None or again.committed_position == store.end_position


def half_committed(disk):
    """Four messages are written, and the first two of them committed."""
    store = open_replica(disk)
    for n in range(4):
        append(store, body=b"%d" % n)
        written(store)
        if n == 1:
            store.advance(store.end_position)
    return store


def test_only_what_was_committed_is_readable_after_a_restart_and_the_rest_is_there():
    disk = SimDisk()
    store = half_committed(disk)
    store.background_work()
    end, committed = store.end_position, store.committed_position
    disk.locks.clear()
    store = open_replica(disk)
    queue = store.find_queue("T", 0)
    assert (store.end_position, store.flushed_position, store.committed_position) == (end, end, committed)
    assert (queue.max_offset, queue.next_offset) == (2, 4)
    assert store.read(queue, 2, messages_max=1, bytes_max=1000).status is ReadStatus.AT_END
    assert [position for position, _ in store.uncommitted(queue)] == [
        committed, committed + (end - committed) // 2
    ]  # fmt: skip
    assert store.advance(end) == [queue]
    assert bodies(store) == [b"0", b"1", b"2", b"3"]


def test_what_is_not_committed_is_not_derived_again_and_counts_as_little_at_the_next_start(monkeypatch):
    """What derived files hold counts as committed: a leader whose end was cut would be believed instead."""
    monkeypatch.setattr(derive_again, "_SEALED_RECORDS", 1)
    disk = SimDisk()
    store = half_committed(disk)
    settle(store)
    committed = store.committed_position
    disk.locks.clear()
    disk.names.pop("/data/queues")
    for derived in ("files damaged", "whole"):
        store = open_replica(disk)
        settle(store)
        disk.locks.clear()
        assert (store.recovery.derived.split(":")[0], store.committed_position) == (derived, committed)
        assert bodies(store) == [b"0", b"1"]


def test_what_is_found_above_the_committed_position_becomes_readable_as_it_is_committed():
    disk, log = SimDisk(), {"segment_bytes": 1 << 20}
    store = open_replica(disk, log=log)
    ends = []
    while store.end_position < 200_000:
        append(store, body=b"x" * 900)
        ends.append(store.end_position)
    written(store)
    disk.locks.clear()
    store = open_replica(disk, log=log)
    queue = store.queue("T", 0)
    store.advance(100_000)
    assert 0 < store.committed_position <= 100_000
    assert queue.max_offset == ends.index(store.committed_position) + 1
    store.advance(ends[-1])
    assert queue.max_offset == len(ends)


def test_a_log_that_begins_in_the_middle_is_opened_again_before_anything_of_it_is_committed(leader):
    while leader.end_position < 2 * 8192:
        append(leader, body=b"%d" % leader.end_position)
    flush(leader)
    disk = SimDisk()
    begin_at(ROOT, disk, position=8192)
    store = open_replica(disk)
    ship(leader, store)
    written(store)
    store.truncate(8192)
    ship(leader, store)
    written(store)
    disk.locks.clear()
    store = open_replica(disk)
    assert store.committed_position == 8192
    store.advance(store.end_position)
    queue, ours = leader.queue("T", 0), store.queue("T", 0)
    assert 0 < ours.min_offset < ours.max_offset == queue.max_offset
    assert bodies(store) == bodies(leader)[ours.min_offset :]


def test_a_store_of_a_lone_broker_is_all_committed_when_it_joins_a_group():
    disk = SimDisk()
    lone = MessageStore.open(ROOT, small_options(), disk, clock=SimClock())
    append(lone)
    flush(lone)
    lone.close()
    store = open_replica(disk)
    assert store.committed_position == store.end_position > 0
