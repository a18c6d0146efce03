"""What a leader tells with a run: taken instead of reading the records, believed as far as it can be compared."""

from dataclasses import replace
from random import Random
from zlib import crc32

import pytest
from msgspec.structs import replace as changed

from logherd.model.record import decode_record
from logherd.store import MessageStore, RawRefused, common_run
from logherd.store.consume_queue import UNIT
from logherd.store.outline import Outline, Share, decode_outlines, encode_outlines
from unit.store.helpers import HOST, ROOT, SimClock, SimDisk, append, flush, open_store, settle, small_options
from unit.store.test_common_run import state

OPTIONS = small_options(log={"batch_bytes_max": 1 << 20, "segment_bytes": 1 << 20})
PLAIN = b"UNIQ_KEY\x017F00000100002A9F00000000000A%04X\x02"
OTHERS = [
    b"",
    b"TAGS\x01t%d\x02UNIQ_KEY\x01u\x02",
    b"KEYS\x01a  b%d\x02" + PLAIN % 7,
    b"UNIQ_KEY\x01k%d\x02TAGS\x01x\x02",
]


def open_replica(options=OPTIONS):
    return MessageStore.open(ROOT, replace(options, replicated=True), SimDisk(), clock=SimClock())


def append_run(store, count, *, topic="T", random=None, at=1000):
    """A run of messages to three queues, some with other properties if there is chance."""
    messages = []
    for n in range(count):
        properties, key = PLAIN % n, (PLAIN % n)[9:-1]
        if random is not None and random.random() < 0.3:
            properties, key = random.choice(OTHERS), None
            properties = properties % n if b"%d" in properties else properties
        body = b"b" * (n % 5 * 30)
        messages.append((store.queue(topic, n * 7 % 3), body, properties, key, 900, 0, 0, 0))
    placed = store.append_run(messages, HOST, at)
    assert len(placed) == count


def shipped(store):
    """Its last run has ended, as when somebody gets it."""
    return store.outlines.between(0, store.end_position)


def append_batch(store, count, *, topic="T", at=1000):
    rows = [(0, b"row%d" % n, PLAIN % n if n % 3 else b"TAGS\x01r\x02") for n in range(count)]
    store.append_all(store.queue(topic, 1), rows, born_timestamp=1, born_host=HOST, store_timestamp=at)


def knowing(leader, *topics):
    """A follower that has this leader's queues, of which nothing is outlined."""
    follower = open_replica()
    for topic in topics:
        for number in range(3):
            append(leader, topic, number)
    data, end = leader.read_raw(0, 1 << 20)
    shipped(leader)
    follower.append_raw(bytes(data), 0, end=end)
    return follower


def test_outlined_runs_leave_the_same_store_and_no_record_is_read(monkeypatch):
    leader = open_replica()
    quick, slow = knowing(leader, "T", "U"), knowing(open_replica(), "T", "U")
    after, random = leader.end_position, Random(1)
    for n in range(6):
        append_run(leader, 20, topic="TU"[n % 2], random=random, at=2000 + n)
        append_batch(leader, 9, at=2000 + n)
    data, end = leader.read_raw(after, 1 << 20)
    outlines = leader.outlines.between(after, end)
    assert [outline.topic for outline in outlines] == ["T", "U"] * 3 + ["T"]
    assert sum(outline.size for outline in outlines) == end - after
    slow.append_raw(bytes(data), after, end=end)
    monkeypatch.setattr(common_run, "_read_stretch", lambda *_, **__: pytest.fail("a record was read"))
    quick.append_raw(bytes(data), after, end=end, outlines=decode_outlines(encode_outlines(outlines)))
    assert state(quick) == state(slow)
    for store in (quick, slow):
        while (batch := store.take_batch()) is not None:
            batch.write_and_flush()
            store.flushed(batch)
        store.advance(end)
        settle(store)
    assert state(quick) == state(slow)
    for queue in quick.queues():
        for offset in range(queue.max_offset):
            position, size, _ = quick.unit(queue, offset)
            record = decode_record(bytes(quick.read_raw(position, 1)[0]), 0)
            assert (record.size, record.queue_id, record.queue_offset) == (size, queue.queue_id, offset)


@pytest.mark.parametrize("seed", range(15))
def test_whatever_is_outlined_the_store_is_the_same(seed):
    random, options = Random(seed), small_options(log={"segment_bytes": 1 << 16})
    leader, quick, slow = (open_replica(options) for _ in range(3))
    for n in range(60):
        topic = random.choice(["T", "T", "U", "SCHEDULE_TOPIC_XXXX"])
        match random.randrange(3):
            case 0:
                append(leader, topic, random.randrange(3), at=1000 + n)
            case 1:
                length = random.randrange(1, 6)
                messages = [(leader.queue(topic, 0), b"x", PLAIN % n, None, 9, 0, 0, 0) for _ in range(length)]
                leader.append_run(messages, HOST, 1000 + n)
            case 2:
                append_batch(leader, random.randrange(1, 6), topic=topic, at=1000 + n)
    at, given = 0, 0
    while at < leader.end_position:
        data, end = leader.read_raw(at, random.choice([1, 400, 1200, 5000]))
        outlines = leader.outlines.between(at, end)
        given += len(outlines)
        quick.append_raw(bytes(data), at, end=end, outlines=outlines)
        slow.append_raw(bytes(data), at, end=end)
        assert state(quick) == state(slow)
        at = end
    assert given > 5


def shifted(units, by):
    return b"".join(UNIT.pack(position + by, size, code) for position, size, code in UNIT.iter_unpack(units))


def first_share(outline, **changes):
    return changed(outline, shares=[outline.shares[0]._replace(**changes), *outline.shares[1:]])


WRONG = {
    "another checksum": lambda o: changed(o, checksum=o.checksum ^ 1),
    "another place": lambda o: changed(o, position=o.position + 1),
    "a place before the data": lambda o: changed(o, position=-(1 << 70)),
    "a place behind the data": lambda o: changed(o, position=1 << 70),
    "a longer run": lambda o: changed(o, size=o.size + 1),
    "no run": lambda o: changed(o, size=0),
    "a run that goes back": lambda o: changed(o, size=-o.size),
    "a topic that is not here": lambda o: changed(o, topic="V"),
    "a queue that is not here": lambda o: first_share(o, queue_id=77),
    "another offset": lambda o: first_share(o, first_offset=o.shares[0].first_offset + 1),
    "no units": lambda o: changed(o, shares=[]),
    "a unit is missing": lambda o: first_share(o, units=o.shares[0].units[20:]),
    "half a unit": lambda o: first_share(o, units=o.shares[0].units[:-1]),
    "units elsewhere": lambda o: first_share(o, units=shifted(o.shares[0].units, 1)),
    "units of another size": lambda o: first_share(o, units=o.shares[0].units[:11] + b"\x01" + o.shares[0].units[12:]),
    "a queue twice": lambda o: changed(o, shares=[o.shares[0]._replace(units=o.shares[0].units[:20]),
                                                  o.shares[0]._replace(units=o.shares[0].units[20:]), *o.shares[1:]]),
    "a unit of no bytes": lambda o: first_share(o, units=o.shares[0].units[:8] + bytes(12) + o.shares[0].units),
    "entries elsewhere": lambda o: changed(o, entries=o.entries[:4] + bytes(8) + o.entries[12:]),
    "entries in another order": lambda o: changed(o, entries=o.entries[20:] + o.entries[:20]),
    "half an entry": lambda o: changed(o, entries=o.entries[:-1]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_an_outline_that_does_not_fit_is_as_good_as_none(name):
    leader = open_replica()
    quick, slow = knowing(leader, "T"), knowing(open_replica(), "T")
    after = leader.end_position
    for _ in range(3):
        append_run(leader, 9)
        shipped(leader)
    data, end = leader.read_raw(after, 1 << 20)
    outlines = leader.outlines.between(after, end)
    outlines[1] = WRONG[name](outlines[1])
    outlines.append(Outline(end, 10, 0, 1, "T", [Share(2, 0, b"u" * 20)], b""))
    slow.append_raw(bytes(data), after, end=end)
    quick.append_raw(bytes(data), after, end=end, outlines=outlines)
    assert state(quick) == state(slow)


def test_what_the_leader_has_outlined_is_taken_from_it():
    leader = open_replica()
    follower, after = knowing(leader, "T"), leader.end_position
    append_run(leader, 3)
    data, end = leader.read_raw(after, 1 << 20)
    (outline,) = leader.outlines.between(after, end)
    coded = [share._replace(units=share.units[:12] + b"\0\0\0\0\0\0\0\x63") for share in outline.shares]
    follower.append_raw(bytes(data), after, end=end, outlines=[changed(outline, shares=coded)])
    for number in range(3):
        assert UNIT.unpack(follower.queue("T", number).tail[-20:])[2] == 0x63


@pytest.mark.parametrize("place", [0, 5, 21, 60, 90, -1, -15])
def test_a_changed_byte_is_refused_with_an_outline_too(place):
    leader = open_replica()
    follower, after = knowing(leader, "T"), leader.end_position
    append_run(leader, 9)
    data, end = leader.read_raw(after, 1 << 20)
    outlines, before, broken = leader.outlines.between(after, end), state(follower), bytearray(data)
    broken[place] ^= 1
    with pytest.raises(RawRefused):
        follower.append_raw(bytes(broken), after, end=end, outlines=outlines)
    assert state(follower) == before
    follower.append_raw(bytes(data), after, end=end, outlines=outlines)
    assert follower.end_position == leader.end_position


def test_a_deleted_queue_gets_nothing_by_an_outline():
    leader = open_replica()
    follower, after = knowing(leader, "T"), leader.end_position
    append_run(leader, 9)
    data, end = leader.read_raw(after, 1 << 20)
    follower.delete_topic("T")
    with pytest.raises(RawRefused, match="the next one here would be"):
        follower.append_raw(bytes(data), after, end=end, outlines=leader.outlines.between(after, end))


def test_an_outline_is_of_whole_runs_between_two_positions():
    leader, places = open_replica(), [0]
    for _ in range(5):
        append_run(leader, 3)
        shipped(leader)
        places.append(leader.end_position)

    def found(start, end):
        return [outline.position for outline in leader.outlines.between(start, end)]

    assert found(0, places[5]) == places[:5]
    assert found(1, places[4] - 1) == places[1:3]
    assert found(places[5], 1 << 40) == []
    assert found(-9, 0) == []


def test_what_is_appended_to_one_topic_is_one_run_until_it_is_shipped():
    leader = open_replica()
    follower, after = knowing(leader, "T", "U"), leader.end_position
    for n in range(3):
        append(leader, "T", n, properties=OTHERS[n % 2] % n if n % 2 else b"")
    append_run(leader, 4)
    append_batch(leader, 1)
    append(leader, "U")
    append(leader, "U")
    append(leader, "T")
    last = leader.end_position
    append(leader, "U")
    data, end = leader.read_raw(after, 1 << 20)
    first, second = leader.outlines.between(after, end)
    assert (first.topic, sum(len(share.units) for share in first.shares)) == ("T", 8 * 20)
    assert (second.topic, sum(len(share.units) for share in second.shares)) == ("U", 2 * 20)
    assert second.position + second.size < last
    follower.append_raw(bytes(data), after, end=end, outlines=[first, second])
    assert state(follower)[:3] == state(leader)[:3]
    assert state(follower)[4] == state(leader)[4]


def test_a_run_ends_with_its_batch():
    """A follower that was busy gets it batch by batch."""
    leader, ends = open_replica(), [0]
    for _ in range(2):
        append_run(leader, 4)
        leader.take_batch()
        ends.append(leader.end_position)
    assert [outline.position for outline in shipped(leader)] == ends[:2]
    assert [leader.read_raw(at, 1 << 20)[1] for at in ends[:2]] == ends[1:]


def test_a_run_ends_before_it_gets_long():
    leader = open_replica(small_options(log={"batch_bytes_max": 4 << 20, "segment_bytes": 8 << 20}))
    queue = leader.queue("T", 0)
    for _ in range(300):
        append(leader, body=b"x" * 1900)
    sizes = [outline.size for outline in shipped(leader)]
    assert len(sizes) == 3
    assert sum(sizes) == leader.end_position
    assert all(256 << 10 <= size < (256 << 10) + 2100 for size in sizes[:-1])
    assert queue.next_offset == 300


def test_outlines_of_the_newest_runs_only_are_kept():
    leader = open_replica(small_options(log={"batch_bytes_max": 8 << 20, "segment_bytes": 16 << 20}))
    while leader.end_position < 7 << 20:
        append(leader, body=b"x" * 1900)
    kept = shipped(leader)
    assert kept[-1].position + kept[-1].size == leader.end_position
    assert 3 << 20 <= kept[0].position < (3 << 20) + (300 << 10)


def more_units(queue):
    queue.tail += bytes(20)


def fewer_units(queue):
    queue.drop_tail(0)
    del queue.tail[:20]
    queue.tail_start += 1


@pytest.mark.parametrize("change", [more_units, fewer_units])
def test_a_run_whose_units_do_not_wait_there_any_more_has_no_outline(change):
    leader = open_replica()
    append_run(leader, 5)
    change(leader.queue("T", 0))
    assert shipped(leader) == []


def test_a_cut_log_has_no_outlines():
    leader = open_replica()
    append_run(leader, 5)
    at = leader.end_position
    assert shipped(leader)
    append_run(leader, 5)
    leader.truncate(at)
    assert shipped(leader) == []
    append_run(leader, 5)
    assert [outline.position for outline in shipped(leader)] == [at]


def test_a_store_without_followers_outlines_nothing():
    store = open_store(SimDisk())
    append_run(store, 5)
    assert store.outlines is None
    flush(store)


def test_bytes_that_are_no_outlines_are_none():
    random, whole = Random(3), encode_outlines([Outline(5, 9, 7, 1, "T", [Share(0, 1, b"u" * 20)], b"e" * 20)])
    assert decode_outlines(whole) == [Outline(5, 9, 7, 1, "T", [Share(0, 1, b"u" * 20)], b"e" * 20)]
    assert decode_outlines(b"") == []
    assert encode_outlines([]) == b""
    for data in (b"\xc1", b"\x91\x90", b"\x91" * 5000, whole[:-1], whole + b"x"):
        assert decode_outlines(data) == []
    for _ in range(2000):
        damaged = bytearray(whole)
        damaged[random.randrange(len(damaged))] = random.randrange(256)
        for outline in decode_outlines(damaged):
            assert isinstance(outline, Outline)


def test_the_checksum_is_that_of_the_bytes_in_the_log():
    leader = open_replica()
    append_run(leader, 5)
    (outline,) = leader.outlines.between(0, leader.end_position)
    assert outline.checksum == crc32(bytes(leader.read_raw(0, 1 << 20)[0]))
