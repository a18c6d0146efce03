"""Runs taken in one pass: the same as taken record by record, and untouched where they are not of the common kind."""

from dataclasses import replace
from random import Random
from zlib import crc32

import pytest

from logherd.model.record import SysFlag
from logherd.store import MessageStore, RawRefused, append_raw, common_run
from unit.store.helpers import ROOT, SimClock, SimDisk, append, small_options

V6 = bytes(15) + b"\x01" + bytes(4)
PROPERTIES = [
    b"", b"UNIQ_KEY\x010A\x02", b"UNIQ_KEY\x017F00000100002A9F00000000000A%04X\x02", b"TAGS\x01t\x02UNIQ_KEY\x01u\x02",
    b"KEYS\x01a  b c\x02UNIQ_KEY\x01" + "schlüssel".encode() + b"\x02",
    b"UNIQ_KEY\x01\x02KEYS\x01 \x02", b"xTAGS\x01no\x02", b"KEYS\x01plane\x02", b"KEYS\x01n%d n\x02TAGS\x01t\x02",
]  # fmt: skip
TOPICS = [*"AAAAAAAABB", "Ä", "SCHEDULE_TOPIC_XXXX"]


def open_replica():
    return MessageStore.open(ROOT, replace(small_options(), replicated=True), SimDisk(), clock=SimClock())


def state(store):
    log, extract = store._log, store._extract
    queues = {(q.topic, q.queue_id): (q.next_offset, bytes(q.tail)) for q in store.queues() if q.next_offset}
    ends = {(q.topic, q.queue_id): end for q, end in log.touched.items()}
    return log.end_position, log.store_timestamp, queues, ends, bytes(extract.pending)


def filled(random, count):
    leader = open_replica()
    for n in range(count):
        properties = random.choice(PROPERTIES)
        append(
            leader, random.choice(TOPICS), random.randrange(3), at=1000 + n,
            body=b"b" * random.choice([0, 1, 70]), properties=properties % n if b"%" in properties else properties,
        )  # fmt: skip
    return leader


def runs(leader, random):
    at = 0
    while at < leader.end_position:
        data, end = leader.read_raw(at, random.choice([1, 400, 1200]))
        yield at, bytes(data), end
        at = end


@pytest.mark.parametrize("seed", range(12))
def test_a_run_leaves_the_same_store_as_its_records_taken_one_by_one(monkeypatch, seed):
    random = Random(seed)
    leader, quick, slow = filled(random, 60), open_replica(), open_replica()
    taken = []

    def watched(*args):
        taken.append(common_run.take_common_run(*args))
        return taken[-1]

    for at, data, end in runs(leader, random):
        monkeypatch.setattr(append_raw, "take_common_run", watched)
        quick.append_raw(data, at, end=end)
        monkeypatch.setattr(append_raw, "take_common_run", lambda *_: False)
        slow.append_raw(data, at, end=end)
        assert state(quick) == state(slow)
    assert set(taken) == {True, False}


def prepared():
    """A follower that knows the queue, and a run of three records that continues its log."""
    leader, follower = open_replica(), open_replica()
    append(leader)
    follower.append_raw(bytes(leader.read_raw(0, 1 << 20)[0]), 0)
    at = leader.end_position
    for n in range(3):
        append(leader, body=b"%d" % n * 50, properties=b"UNIQ_KEY\x01k%d\x02" % n)
    return follower, at, leader.read_raw(at, 1 << 20)[0]


@pytest.mark.parametrize("place", [0, 5, 9, 13, 21, 30, 39, 60, 84, 90, 140, 146, 150, -1, -5, -15, -21])
def test_a_changed_byte_anywhere_is_refused_and_changes_nothing(place):
    follower, at, data = prepared()
    before, broken = state(follower), bytearray(data)
    third = len(data) // 3
    broken[third + place] ^= 1
    assert not common_run.take_common_run(bytes(broken), follower._log, follower._derived.table, follower._extract)
    assert state(follower) == before
    with pytest.raises(RawRefused):
        follower.append_raw(bytes(broken), at)
    assert state(follower) == before


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_a_torn_run_is_left_to_the_careful_way(cut):
    follower, _, data = prepared()
    assert not common_run.take_common_run(bytes(data[:-cut]), follower._log, follower._derived.table, follower._extract)


def test_a_body_checksum_that_differs_is_left_to_the_careful_way():
    follower, at, data = prepared()
    size = int.from_bytes(data[:4])
    broken = bytearray(data[:size])
    broken[8] ^= 1
    broken[-11:-1] = (b"%010d" % (crc32(broken[:-20]) & 0x7FFFFFFF))[::-1]
    with pytest.raises(RawRefused, match="body checksum"):
        follower.append_raw(bytes(broken), at)


def test_records_of_other_layouts_are_taken_all_the_same():
    leader, follower = open_replica(), open_replica()
    append(leader)
    for flags in (0, SysFlag.TRANSACTION_COMMIT):
        leader.append(
            leader.queue("T", 0), b"x", b"", born_timestamp=1, born_host=V6, store_timestamp=5, sys_flag=flags
        )  # fmt: skip
    append(leader)
    data, end = leader.read_raw(0, 1 << 20)
    follower.append_raw(bytes(data), 0, end=end)
    assert state(follower) == state(leader)
