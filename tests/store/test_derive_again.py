"""Which records are derived again when a store is opened, and what is done about queues that were deleted."""

from dataclasses import replace as replace_options
from random import Random

import pytest
from msgspec.structs import replace

from logherd.store import MessageStore, StoreDamaged, StoreFull, derive_again
from logherd.store.checkpoint import SLOT_OFFSETS, decode_checkpoint, encode_slot
from logherd.store.queue_list import QueueEntry, decode_queue_list, encode_queue_line
from logherd.store.tools import verify
from sim.disk import SimulatedCrash
from unit.store.helpers import (
    ROOT,
    SimClock,
    SimDisk,
    append,
    bodies,
    disk_of,
    flush,
    open_store,
    settle,
    small_options,
)

KEYS = b"UNIQ_KEY\x01u\x02"
UNITS = "/data/consumequeue/T/0/00000000000000000000"
LAST_UNITS = "/data/consumequeue/T/0/00000000000000000320"
RARELY = {"interval_ms": 10**9, "bytes_max": 1 << 40}
WRITTEN = [b"%04d" % number for number in range(20)]


@pytest.fixture
def disk():
    """A store of 20 messages in one queue, closed in order."""
    disk = SimDisk()
    store = open_store(disk)
    for body in WRITTEN:
        append(store, body=body, properties=KEYS)
    flush(store)
    store.close()
    return disk


def checkpoint_of(disk):
    return decode_checkpoint(disk.names["/data/checkpoint"].content())


def promise(disk, **values):
    """Make the checkpoint say this."""
    page, slot = disk.names["/data/checkpoint"].base, encode_slot(replace(checkpoint_of(disk), **values))
    for at in SLOT_OFFSETS:
        page[at : at + len(slot)] = slot


def index_entries(disk):
    return sum(row.records for row in verify(ROOT, disk).rows if row.kind == "index")


def position_of(disk, number):
    return int.from_bytes(disk.names[UNITS].content()[number * 20 : number * 20 + 8])


def lengthened(path, size):
    return lambda disk: disk.open(path).write(size - 1, (b"\0",))


def made(path):
    def make(disk):
        disk.make_directory(path.rpartition("/")[0])
        disk.open(path, create=True).write(0, (b"what is this",))

    return make


@pytest.mark.parametrize("kind", ["queues_dispatched", "index_dispatched"])
def test_files_that_name_more_than_the_log_has_are_derived_anew(disk, kind):
    promise(disk, **{kind: checkpoint_of(disk).flushed + 1})
    store = open_store(disk)
    assert store.recovery.derived == "ahead of the log"
    assert bodies(store) == WRITTEN
    store.close()
    assert verify(ROOT, disk).whole


def test_queues_that_are_behind_are_derived_from_there_and_the_index_is_not(disk):
    promise(disk, queues_dispatched=position_of(disk, 12))
    disk.names[UNITS].base[12 * 20 :] = bytes(4 * 20)
    store = open_store(disk)
    assert (store.recovery.derived, store.recovery.derived_records) == ("whole", 8)
    assert bodies(store) == WRITTEN
    store.close()
    assert index_entries(disk) == 20
    assert verify(ROOT, disk).whole


def test_an_index_that_is_behind_is_derived_from_there():
    disk, lazily = SimDisk(), {"index_write_entries": 1000}
    store = open_store(disk, derived=lazily)
    for body in WRITTEN:
        append(store, body=body, properties=KEYS)
    flush(store)
    settle(store)
    disk.locks.clear()
    assert checkpoint_of(disk).index_dispatched < checkpoint_of(disk).queues_dispatched
    store = open_store(disk, derived=lazily)
    assert (store.recovery.derived, store.recovery.derived_records) == ("whole", 20)
    assert len(store.query_index("T", "u", max_count=64, begin=0, end=1 << 62)) == 20
    store.close()
    assert verify(ROOT, disk).whole


def test_a_queue_that_began_anew_and_has_no_message_yet_is_no_reason_to_derive_all_anew(disk):
    with_list = disk.open("/data/queues")
    size = disk.size("/data/queues")
    with_list.write(size, (encode_queue_line(QueueEntry("U", 3, 0, live=True)),))
    store = open_store(disk)
    assert (store.recovery.derived, store.recovery.derived_records) == ("whole", 0)
    assert (bodies(store), bodies(store, "U", 3)) == (WRITTEN, [])
    append(store, "U", 3, body=b"first")
    flush(store)
    store.close()
    store = open_store(disk)
    assert (store.recovery.derived, bodies(store, "U", 3)) == ("whole", [b"first"])


@pytest.mark.parametrize("is_full", [False, True])
def test_a_deletion_that_was_interrupted_is_finished(disk, monkeypatch, is_full):
    units = disk.names[UNITS].content()
    store = open_store(disk)
    append(store, "U", body=b"stays")
    flush(store)
    store.delete_topic("T")
    settle(store)
    store.close()
    disk.make_directory("/data/consumequeue/T/0")
    disk.open(UNITS, create=True).write(0, (units,))
    if is_full:

        def create(*_):
            raise StoreFull("no room")

        monkeypatch.setattr(derive_again.QueueList, "create", create)
    store = open_store(disk)
    assert store.recovery.derived == "whole"
    assert UNITS not in disk.names
    assert (store.find_queue("T", 0), bodies(store, "U")) == (None, [b"stays"])
    listed = disk.names["/data/queues"].content()
    assert (b" - " in listed) is is_full, "the list as it is will do"
    append(store, "U")
    flush(store)
    store.close()
    again = [entry for entry in decode_queue_list(disk.names["/data/queues"].content()) if entry.live]
    assert [(entry.topic, entry.units) for entry in again] == [("U", 2)], "at its place in the new list"


def test_a_deletion_that_a_killed_process_listed_is_still_listed_if_power_is_lost_while_it_is_finished(disk):
    """It wrote the line, and did not come to flush it. Files that go are else missed by the list that comes back."""
    content = {path: inode.content() for path, inode in disk.names.items()}
    [entry] = decode_queue_list(content["/data/queues"])
    gone = encode_queue_line(QueueEntry("T", 0, 0, live=False))
    for calls in range(1, 100):
        crashed = disk_of(content)
        crashed.open("/data/queues").write(entry.at, (gone,))
        crashed.crash_after(calls, at="consumequeue")
        try:
            open_store(crashed)
        except SimulatedCrash:
            for seed in range(20):
                after = open_store(crashed.crash(Random(100 * seed + calls), power=True))
                assert after.recovery.derived == "whole", (calls, seed)
        else:
            break
    assert calls > 3


@pytest.mark.parametrize("topic", ["T", "U"])
def test_a_deleted_queue_is_listed_for_as_long_as_records_of_it_may_come(disk, topic):
    """A process may be killed again before the checkpoint says that they have passed."""
    store = open_store(disk, derived=RARELY)
    append(store, topic)
    flush(store)
    store.delete_topic("T")
    settle(store)
    made(UNITS)(disk)  # nor have its files gone yet
    for _ in range(3):
        disk.locks.clear()
        assert open_store(disk, derived=RARELY).recovery.derived == "whole"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/data/queues", "the list of queues is missing"),
        (UNITS, "begins with unit 16, should with 0"),
        (LAST_UNITS, "lacks a file between its first and its last"),
    ],
    ids=["list", "first", "last"],
)
def test_why_all_is_derived_anew_is_said(disk, path, why):
    disk.unlink(path)
    assert any(why in note for note in open_store(disk).recovery.notes)


@pytest.mark.parametrize("sealed", [1, 7, 1000])
def test_what_is_derived_anew_is_written_meanwhile(disk, monkeypatch, sealed):
    before = {path: inode.content() for path, inode in disk.names.items() if "/consumequeue/" in path}
    monkeypatch.setattr(derive_again, "_SEALED_RECORDS", sealed)
    disk.unlink("/data/queues")
    store = open_store(disk)
    assert (UNITS in disk.names) is (sealed <= 20)
    assert bodies(store) == WRITTEN
    store.close()
    assert {path: inode.content() for path, inode in disk.names.items() if "/consumequeue/" in path} == before
    assert verify(ROOT, disk).whole


@pytest.mark.parametrize(("sealed", "seeds"), [(3, 1), (1000, 8)])
def test_what_is_derived_anew_is_derived_anew_again_if_power_is_lost_meanwhile(disk, monkeypatch, sealed, seeds):
    monkeypatch.setattr(derive_again, "_SEALED_RECORDS", sealed)
    disk.names["/data/queues"].base[30] ^= 1
    content = {path: inode.content() for path, inode in disk.names.items()}
    for calls in range(1, 1000):
        crashed = disk_of(content)
        crashed.crash_after(calls)
        try:
            open_store(crashed).close()
        except SimulatedCrash:
            for seed in range(seeds):
                after = crashed.crash(Random(1000 * seed + calls), power=True)
                store = open_store(after)
                assert bodies(store) == WRITTEN, (calls, seed)
                assert len(store.query_index("T", "u", max_count=64, begin=0, end=1 << 62)) == 20, (calls, seed)
                store.close()
                assert verify(ROOT, after).whole, (calls, seed)
        else:
            break
    assert calls > 30


def test_queues_of_messages_without_keys_are_derived_anew_again_if_it_is_killed_or_power_is_lost_meanwhile():
    """There is no index then, by whose files it would be seen that those of the queues are gone, too."""
    disk = SimDisk()
    store = open_store(disk)
    for body in WRITTEN:
        append(store, body=body)
    flush(store)
    store.close()
    disk.names["/data/queues"].base[30] ^= 1
    content = {path: inode.content() for path, inode in disk.names.items()}
    assert not any("/index/" in path for path in content)
    for calls in range(1, 1000):
        crashed = disk_of(content)
        crashed.crash_after(calls)
        try:
            open_store(crashed).close()
        except SimulatedCrash:
            for seed in range(8):  # killed at last: that disk is the same one
                store = open_store(crashed.crash(Random(1000 * seed + calls), power=seed < 7))
                assert bodies(store) == WRITTEN, (calls, seed)
                store.close()
        else:
            break
    assert calls > 30


def test_a_log_for_whose_queues_there_is_no_room_is_not_opened(disk, monkeypatch):
    monkeypatch.setattr(derive_again, "_SEALED_RECORDS", 7)
    derived = [path for path in disk.names if path == "/data/queues" or "/consumequeue/" in path or "/index/" in path]
    for path in derived:
        disk.unlink(path)
    disk.capacity = disk.used() + 300
    with pytest.raises(StoreFull, match="to derive queues and index from the log"):
        open_store(disk)


def test_damage_is_named_by_its_place_when_queues_are_derived_anew(disk):
    """The place in its file, behind another file."""
    store = open_store(disk)
    while store.end_position < 8192 + 3000:
        append(store, body=b"x" * 400)
    flush(store)
    queue = store.find_queue("T", 0)
    position, size, _ = store.unit(queue, queue.max_offset - 3)
    store.close()
    second = "/data/commitlog/00000000000000008192"
    disk.names[second].base[position - 8192 : position - 8192 + size] = bytes(size)
    disk.unlink("/data/queues")
    with pytest.raises(StoreDamaged) as refused:
        open_store(disk)
    assert (refused.value.path, refused.value.offset) == (second, position - 8192)


@pytest.mark.parametrize(
    ("harm", "derived"),
    [
        (lambda disk: disk.unlink(LAST_UNITS), "files damaged"),
        (lambda disk: disk.remove_directory("/data/consumequeue/T/0"), "files damaged"),
        (lambda disk: disk.open(LAST_UNITS).truncate(300), "files damaged"),
        (lengthened(LAST_UNITS, 340), "files damaged"),
        (made("/data/consumequeue/T/x/notes.txt"), "files damaged"),
        (made("/data/consumequeue/T/0/notes.txt"), "whole"),
        (made("/data/consumequeue/T/0/00000000000000001280"), "whole"),
        (lengthened("/data/consumequeue/T/0/00000000000000000640", 200), "whole"),
    ],
    ids=["gap", "none", "short", "long", "no queue", "no units", "behind", "longer than listed"],
)
def test_files_of_queues_are_believed_if_all_listed_units_are_in_them(disk, harm, derived):
    store = open_store(disk)
    later = [b"later%d" % number for number in range(20)]
    for body in later:
        append(store, body=body, properties=KEYS)
    flush(store)
    store.close()
    harm(disk)
    store = open_store(disk)
    assert store.recovery.derived == derived
    assert bodies(store) == WRITTEN + later


def test_a_queue_that_begins_in_the_middle_of_a_file_is_whole():
    disk, retention = SimDisk(), {"bytes_max": 8192}
    store = open_store(disk, retention=retention)
    while store.end_position < 4 * 8192 - 500:
        append(store)
        flush(store)
    settle(store)
    assert store.apply_retention(0, 1 << 62)
    settle(store)
    store.close()
    disk.unlink("/data/queues")
    store = open_store(disk, retention=retention)
    begin, left = store.find_queue("T", 0).min_offset, bodies(store)
    assert begin % 16
    store.close()
    store = open_store(disk, retention=retention)
    assert store.recovery.derived == "whole"
    assert (store.find_queue("T", 0).first_offset, bodies(store)) == (begin, left)


@pytest.mark.parametrize("power", [False, True])
def test_an_index_of_which_retention_was_deleting_files_is_whole(disk, power):
    store = open_store(disk, retention={"bytes_max": 8192})
    while store.end_position < 4 * 8192:
        append(store, properties=KEYS)
        flush(store)
    settle(store)
    files = len(disk.list("/data/index"))
    assert store.apply_retention(0, 1 << 62) > 1
    disk.crash_after(2, at="unlink /data/index")
    with pytest.raises(SimulatedCrash):
        settle(store)
    assert len(disk.list("/data/index")) < files - 1
    for seed in range(10 if power else 1):
        store = open_store(disk.crash(Random(seed), power=power))
        assert store.recovery.derived == "whole", seed


def test_retention_takes_nothing_that_is_not_in_queues_and_index_yet(disk):
    store = open_store(disk, derived=RARELY, retention={"bytes_max": 1})
    while store.end_position < 4 * 8192:
        append(store, properties=KEYS)
        flush(store)
    assert store.apply_retention(0, 1 << 62) == 0
    settle(store)
    assert store.apply_retention(0, 1 << 62) > 1
    settle(store)
    kept = len(bodies(store))
    disk.locks.clear()
    store = open_store(disk)
    assert (store.recovery.derived, len(bodies(store))) == ("whole", kept)


def test_files_of_a_replicas_new_queue_are_no_reason_to_derive_all_anew_if_it_stops_before_the_queue_is_listed():
    """What was committed last is told with the next flush of the log, for which the group may wait long."""
    calls, stopped = 0, True
    while stopped:
        calls += 1
        disk = SimDisk()
        options = replace_options(small_options(), replicated=True)
        store = MessageStore.open(ROOT, options, disk, clock=SimClock())
        for topic in ("old", "new"):
            append(store, topic)
            flush(store)
            if topic == "new":
                disk.crash_after(calls)
            try:
                settle(store)
                stopped = topic == "old"
            except SimulatedCrash:
                disk.crash_after(None)
        for seed in range(8):  # killed at last: that disk is the same one
            store = MessageStore.open(ROOT, options, disk.crash(Random(seed), power=seed < 7), clock=SimClock())
            assert store.recovery.derived == "whole", (calls, seed)
            store.advance(store.end_position)
            assert len(bodies(store, "new")) == len(bodies(store, "old")) == 1
    assert calls > 10
