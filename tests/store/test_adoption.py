"""Stores that RocketMQ wrote: records without our checksum, files at full length, two segments prepared ahead."""

import pytest

from logherd.model.record import CHECKSUM_SIZE, encode_blank, encode_record
from logherd.store import MessageStore, StoreDamaged
from logherd.store.tools import options_of, repair, segment_sizes
from unit.store.helpers import HOST, ROOT, SimClock, SimDisk, append, bodies, flush, open_store, settle

SEGMENT = 8192


def bare_record(position, offset, body, *, topic=b"T", queue_id=0, properties=b"TAGS\x01a\x02", sys_flag=0, at=1000):
    """What RocketMQ writes by default: the same without the checksum property, which is its last twenty bytes."""
    whole = encode_record(
        topic, body, properties, queue_id=queue_id, queue_offset=offset, position=position, store_timestamp=at,
        store_host=HOST, born_timestamp=1, born_host=HOST, sys_flag=sys_flag,
    )  # fmt: skip
    bare = bytearray(whole[:-CHECKSUM_SIZE])
    bare[:4] = len(bare).to_bytes(4)
    length_at = len(bare) - len(properties) - 2
    bare[length_at : length_at + 2] = len(properties).to_bytes(2)
    return bytes(bare)


def rocketmq_store(count=60, *, closed=True, **more):
    """A disk with such a store, the bodies in it, and where its log ends."""
    disk = SimDisk()
    disk.make_directory("/data/commitlog")
    disk.make_directory("/data/consumequeue/T/0")
    for start in (0, SEGMENT, 2 * SEGMENT, 3 * SEGMENT):
        disk.open(f"/data/commitlog/{start:020d}", create=True).allocate(SEGMENT)
    disk.open("/data/consumequeue/T/0/00000000000000000000", create=True).allocate(6_000_000)
    disk.open("/data/checkpoint", create=True).allocate(4096)
    if not closed:
        disk.open("/data/abort", create=True)
    position, written = 0, []
    for number in range(count):
        body = b"%05d" % number * 30
        record = bare_record(position, number, body, **more)
        left = SEGMENT - position % SEGMENT
        if len(record) + 8 > left:
            put(disk, position, encode_blank(left) + b"\xee" * (left - 8))
            position += left
            record = bare_record(position, number, body, **more)
        put(disk, position, record)
        position += len(record)
        written.append(body)
    return disk, written, position


def put(disk, position, data):
    file = disk.open(f"/data/commitlog/{position // SEGMENT * SEGMENT:020d}")
    file.write(position % SEGMENT, (data,))
    file.flush()


def test_a_rocketmq_store_is_adopted_and_read_in_full():
    disk, written, end = rocketmq_store()
    store = open_store(disk)
    assert (store.recovery.store, store.recovery.tail, store.end_position) == ("RocketMQ's", "end", end)
    assert bodies(store) == written
    assert len(disk.list("/data/commitlog")) == 3, "of the files prepared ahead one is kept"
    append(store, body=b"ours")
    flush(store)
    settle(store)
    store.close()
    store = open_store(disk)
    assert store.recovery.store == "ours"
    assert bodies(store) == [*written, b"ours"]


def test_a_rocketmq_store_whose_oldest_files_were_deleted_is_adopted():
    disk, written, end = rocketmq_store()
    disk.unlink("/data/commitlog/" + "0" * 20)
    assert not repair(ROOT, apply=False, files=disk).steps
    store = open_store(disk)
    assert (store.recovery.store, store.min_position, store.end_position) == ("RocketMQ's", SEGMENT, end)
    found = bodies(store)
    assert 0 < len(found) < len(written)
    assert found == written[-len(found) :]
    store.close()
    assert bodies(open_store(disk)) == found


def test_files_behind_those_of_rocketmq_are_as_long_whoever_makes_them():
    """As `store found` opens it, without the settings of a broker."""
    disk, _, end = rocketmq_store()
    for start in (2 * SEGMENT, 3 * SEGMENT):
        disk.unlink(f"/data/commitlog/{start:020d}")
    store = MessageStore.open(ROOT, options_of(ROOT, disk), disk, clock=SimClock())
    while store.end_position < 2 * SEGMENT:
        append(store)
    flush(store)
    assert end > SEGMENT
    assert segment_sizes(ROOT, disk) == (SEGMENT,)


def test_an_adopted_store_can_be_derived_again_and_again():
    disk, written, end = rocketmq_store()
    open_store(disk).close()
    for path in ("/data/queues", "/data/store.json"):
        disk.unlink(path)
        store = open_store(disk)
        assert bodies(store) == written
        store.close()
    assert b'"adoptedEnd":%d' % end in disk.names["/data/store.json"].content()


def test_a_record_without_checksum_behind_the_adopted_end_is_no_record():
    disk, written, end = rocketmq_store()
    open_store(disk).close()
    put(disk, end, bare_record(end, len(written), b"forged"))
    store = open_store(disk)
    assert (store.recovery.tail, store.end_position) == ("torn", end)


def test_a_killed_rocketmqs_half_record_is_cut():
    disk, written, end = rocketmq_store(closed=False)
    put(disk, end, bare_record(end, len(written), b"half" * 100)[:300])
    store = open_store(disk)
    assert (store.recovery.tail, store.recovery.dropped_bytes) == ("torn", 300)
    assert bodies(store) == written


def test_damage_in_a_rocketmq_store_is_refused_not_cut():
    disk, written, end = rocketmq_store()
    segment = disk.names["/data/commitlog/00000000000000000000"].base
    segment[segment.index(b"0001000010")] ^= 1  # in a body: all that RocketMQ's own checksum covers
    before = disk.names["/data/commitlog/00000000000000000000"].content()
    with pytest.raises(StoreDamaged, match="records behind"):
        open_store(disk)
    assert disk.names["/data/commitlog/00000000000000000000"].content() == before
    assert end > SEGMENT
    disk.locks.clear()
    repair(ROOT, apply=True, files=disk)
    assert bodies(open_store(disk)) == written[:1]


def test_transactions_that_are_not_committed_have_no_unit():
    disk, written, end = rocketmq_store(10)
    put(disk, end, bare_record(end, 0, b"prepared", sys_flag=0x4))
    end += len(bare_record(end, 0, b"prepared", sys_flag=0x4))
    put(disk, end, bare_record(end, 10, b"committed", sys_flag=0x8))
    store = open_store(disk)
    assert bodies(store) == [*written, b"committed"]
    assert bytes(store.record_at(end)).find(b"committed") > 0


def test_delayed_messages_keep_their_time_of_delivery_as_tags_code():
    disk, _, _ = rocketmq_store(3, topic=b"SCHEDULE_TOPIC_XXXX", queue_id=2, properties=b"DELAY\x013\x02", at=50_000)
    store = open_store(disk)
    assert store.unit(store.find_queue("SCHEDULE_TOPIC_XXXX", 2), 0)[2] == 50_000 + 10_000


def test_a_queue_that_skips_offsets_is_named_and_refused():
    disk, _, end = rocketmq_store(10)
    put(disk, end, bare_record(end, 15, b"skips"))
    with pytest.raises(StoreDamaged, match="offset 15 in queue T/0, which ends at 10"):
        open_store(disk)


def test_a_topic_that_was_deleted_and_made_again_begins_at_zero():
    disk, _, end = rocketmq_store(10)
    put(disk, end, bare_record(end, 0, b"anew"))
    store = open_store(disk)
    assert bodies(store) == [b"anew"]
    settle(store)
    store.close()
    assert disk.size("/data/consumequeue/T/0/00000000000000000000") == 20
