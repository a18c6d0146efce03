"""Every format of the store as bytes: golden values, round trips, and what a torn or foreign file gives."""

from itertools import islice

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd.kit.javahash import java_hash
from logherd.model.record import RecordError, decode_record, encode_blank, encode_record
from logherd.store.checkpoint import (
    CHECKPOINT_SIZE,
    SLOT_OFFSETS,
    Checkpoint,
    decode_checkpoint,
    encode_java_fields,
    encode_slot,
    slot_version,
)
from logherd.store.consume_queue import UNIT, topic_hash
from logherd.store.format_file import FormatState, decode_format
from logherd.store.index_file import IndexFile, index_name, index_timestamp
from logherd.store.key_index import KeyHasher, hash_key
from logherd.store.queue_list import (
    HEADER,
    QueueEntry,
    QueueList,
    QueueListDamaged,
    decode_queue_list,
    encode_queue_line,
)
from logherd.store.scan import ScanEnd, find_record, read_record, scan_records
from logherd.store.segment import segment_name, segment_start
from unit.store.helpers import HOST, SimDisk

CHECKPOINT = Checkpoint(
    counter=3, log_start=4096, flushed=70_000, queues_dispatched=60_000, index_dispatched=50_000,
    index_name=20240102030405678, index_count=12, index_used_slots=11, index_files=2, window=9000, bare_end=77,
    closed=True,
)  # fmt: skip
GOLDEN_SLOT = (
    "4c4843484b50540000000001000000020000000000000003000000000000100000000000000111700000000000"
    "00ea60000000000000c3500047e843fbbd702e0000000c0000000b0000000000002328000000000000004d00000001"
)


def page(*slots):
    data = bytearray(CHECKPOINT_SIZE)
    for slot in slots:
        at = SLOT_OFFSETS[slot.counter % 2]
        encoded = encode_slot(slot)
        data[at : at + len(encoded)] = encoded
    return data


def test_a_checkpoint_slot_has_its_golden_bytes():
    encoded = encode_slot(CHECKPOINT)
    assert encoded[:-4].hex() == GOLDEN_SLOT
    assert len(encoded) == 96


def test_a_replicas_slot_has_its_golden_bytes_and_says_so():
    encoded = encode_slot(msgspec.structs.replace(CHECKPOINT, committed=65_000, loose=0x123456, start_epoch=7))
    assert encoded[:12].hex() == GOLDEN_SLOT[:16] + "00000002"
    assert encoded[12:-28].hex() == GOLDEN_SLOT[24:]
    assert encoded[-28:-4].hex() == "000000000000fde800000000001234560000000000000007"
    assert len(encoded) == 120


def test_what_was_never_promised_reaches_a_window_far_or_to_what_a_cut_has_left():
    value = Checkpoint(window=100, loose=1000)
    assert (value.reach(500), value.reach(950), value.reach(1200)) == (500, 100, 100)


@given(st.integers(0, 2**63), st.integers(0, 2**63))
def test_a_replicas_checkpoint_comes_back_as_it_was(committed, loose):
    value = Checkpoint(counter=1, committed=committed, loose=loose)
    assert decode_checkpoint(bytes(page(value, Checkpoint(counter=0)))) == value


@given(st.integers(0, 2**63), st.integers(0, 2**63), st.booleans())
def test_a_checkpoint_comes_back_as_it_was(flushed, name, closed):
    value = Checkpoint(counter=1, flushed=flushed, index_name=name % (1 << 62), closed=closed)
    assert decode_checkpoint(bytes(page(value))) == value


def test_the_newer_whole_slot_counts():
    old, new = Checkpoint(counter=4, flushed=4), Checkpoint(counter=5, flushed=5)
    data = page(old, new)
    assert decode_checkpoint(bytes(data)) == new
    data[SLOT_OFFSETS[1] + 24] ^= 1
    assert decode_checkpoint(bytes(data)) == old
    data[SLOT_OFFSETS[0] + 24] ^= 1
    assert decode_checkpoint(bytes(data)) is None
    assert slot_version(bytes(data)) == 1


@pytest.mark.parametrize("torn", range(0, 96, 5))
def test_a_torn_slot_leaves_the_other(torn):
    old, new = Checkpoint(counter=4, flushed=4), Checkpoint(counter=5, flushed=5)
    data = page(old, Checkpoint(counter=3, flushed=3))
    data[SLOT_OFFSETS[1] : SLOT_OFFSETS[1] + torn] = encode_slot(new)[:torn]
    assert decode_checkpoint(bytes(data)) == old


def test_rocketmqs_fields_are_where_it_reads_them():
    fields = encode_java_fields(1_700_000_000_000, 4096)
    assert [int.from_bytes(fields[at : at + 8]) for at in range(0, 40, 8)] == [1_700_000_000_000] * 3 + [4096] * 2


def test_a_page_of_rocketmq_has_no_slot():
    assert slot_version(encode_java_fields(1, 2) + bytes(4056)) is None


def test_segment_names_are_rocketmqs():
    assert segment_name(1 << 30) == "00000000001073741824"
    assert segment_start("00000000001073741824") == 1 << 30
    assert segment_start("1073741824") is None
    assert segment_start("0000000000107374182x") is None


def test_a_unit_has_its_golden_bytes():
    assert UNIT.pack(1 << 33, 300, java_hash("TagA")).hex() == "00000002000000000000012c000000000027a807"
    assert UNIT.pack(0, 1, java_hash("polygenelubricants")).hex()[24:] == "ffffffff80000000"


@pytest.mark.parametrize(
    ("content", "state"),
    [
        (None, FormatState.ABSENT),
        (b"", FormatState.GARBAGE),
        (b"\xff\xfe", FormatState.GARBAGE),
        (b'{"product":"other","format":1}', FormatState.GARBAGE),
        (b'{"product":"logherd"}', FormatState.GARBAGE),
        (b'{"product":"logherd","format":2,"more":[]}', FormatState.UNKNOWN),
        (b'{"product":"logherd","format":1}', FormatState.KNOWN),
    ],
)
def test_the_format_file_tells_what_it_is(content, state):
    assert decode_format(content)[0] is state


# ---- the list of queues


def test_a_queue_line_has_its_golden_bytes():
    line = encode_queue_line(QueueEntry("%RETRY%g", 3, 17, 5))
    assert line == b"ab5c96f6 + 00000000000000000017 00000000000000000005 3 %RETRY%g\n"


entries = st.lists(
    st.builds(
        QueueEntry, st.text(st.characters(exclude_categories=("Cs", "Cc", "Z")), min_size=1, max_size=60),
        st.integers(0, 1 << 20), st.integers(0, 1 << 60), st.integers(0, 1 << 60), live=st.booleans(),
    ),
    max_size=30, unique_by=lambda entry: (entry.topic, entry.queue_id),
)  # fmt: skip


@given(entries)
def test_queue_lines_come_back_and_none_crosses_a_sector(given_entries):
    disk = SimDisk()
    disk.make_directory("/d")
    queue_list, placed = QueueList.create(disk, "/d", ())
    for entry in given_entries:
        queue_list.put(entry)
    data = disk.names["/d/queues"].content()
    found = decode_queue_list(data)
    assert [(e.topic, e.queue_id, e.units, e.first, e.live) for e in found] == [
        (e.topic, e.queue_id, e.units, e.first, e.live) for e in given_entries
    ]
    for entry in found:
        line = encode_queue_line(entry)
        assert data[entry.at : entry.at + len(line)] == line
        assert entry.at // 512 == (entry.at + len(line) - 1) // 512
    assert placed == []


def test_a_queue_line_is_rewritten_in_its_place():
    disk = SimDisk()
    disk.make_directory("/d")
    queue_list, (entry,) = QueueList.create(disk, "/d", [QueueEntry("T", 0, 5)])
    size = disk.size("/d/queues")
    assert queue_list.put(QueueEntry("T", 0, 6, at=entry.at)) == entry.at
    assert disk.size("/d/queues") == size
    assert decode_queue_list(disk.names["/d/queues"].content())[0].units == 6


def test_zeros_of_an_unfinished_append_are_passed_over_and_a_broken_line_is_not():
    line = encode_queue_line(QueueEntry("T", 0, 5))
    assert [e.at for e in decode_queue_list(HEADER + bytes(40) + line)] == [len(HEADER) + 40]
    for broken in (line[:-4] + b"\n", line.replace(b"5 0000", b"6 0000"), b"x" + line):
        with pytest.raises(QueueListDamaged):
            decode_queue_list(HEADER + broken)
    with pytest.raises(QueueListDamaged):
        decode_queue_list(b"logherd queues 2\n")


# ---- the index


def test_index_names_are_utc_times_and_sort_as_they_follow():
    assert index_name(1_700_000_000_123) == "20231114221320123"
    assert index_timestamp("20231114221320123") == 20231114221320123
    assert index_timestamp("notes") is None
    assert index_name(0) == "19700101000000000"


def test_an_index_file_has_rocketmqs_layout():
    disk = SimDisk()
    disk.make_directory("/i")
    file = IndexFile.open(disk, "/i", 20231114221320000, slots=4, writable=True)
    overlay = {}
    data = file.encode([(5, 1000, 10_000), (9, 2000, 12_500), (2, 3000, 9_000)], overlay)
    file.write_entries(1, data)
    file.name_entries(overlay.keys(), overlay.values())
    file.write_header()
    content = disk.names["/i/20231114221320000"].content()
    header = [int.from_bytes(content[at : at + 8]) for at in (0, 8, 16, 24)]
    assert header == [10_000, 9_000, 1000, 3000]
    assert (int.from_bytes(content[32:36]), int.from_bytes(content[36:40])) == (2, 4)
    assert [int.from_bytes(content[at : at + 4]) for at in range(40, 56, 4)] == [0, 2, 3, 0]
    assert content[56:76] == bytes(20), "entry number 0 is never used"
    assert content[76:].hex() == (
        "00000005" "00000000000003e8" "00000000" "00000000"
        "00000009" "00000000000007d0" "00000002" "00000001"
        "00000002" "0000000000000bb8" "00000000" "00000000"
    )  # fmt: skip
    always = (0, 1 << 60)
    assert list(file.find(9, *always)) == [2000, None]
    assert list(file.find(5, *always)) == [None, 1000]
    assert list(file.find(13, *always)) == [None, None]
    assert list(file.find(2, *always)) == [3000]
    # The second message was stored in [12000, 12999], the others at most at 10999: when is not known.
    for begin, end, found in ((12_999, 20_000, 2000), (13_000, 20_000, None), (0, 12_000, 2000), (0, 11_999, None)):
        assert next(file.find(9, begin, end)) == found
    for begin, end, found in ((10_999, 20_000, 3000), (11_000, 20_000, None), (0, 1, 3000)):
        assert next(file.find(2, begin, end)) == found


def test_a_chain_of_many_entries_is_read_in_few_pieces(monkeypatch):
    disk = SimDisk()
    disk.make_directory("/i")
    file = IndexFile.open(disk, "/i", 20231114221320000, slots=4, writable=True)
    overlay = {}
    entries = [(5 if number % 2 else 6, number, 10_000 + number) for number in range(1000)]
    data = file.encode(entries, overlay)
    file.write_entries(1, data)
    file.name_entries(overlay.keys(), overlay.values())
    reads = []
    read = type(file.file).read
    monkeypatch.setattr(type(file.file), "read", lambda *args: reads.append(args) or read(*args))
    assert list(file.find(5, 0, 1 << 60)) == [number for key_hash, number, _ in reversed(entries) if key_hash == 5]
    assert len(reads) <= 1 + 1 + 1000 // 127, "one of them is of the slot"


@pytest.mark.parametrize("previous", [2, 3, 4, 1000, 0x7FFFFFFF, -1, -0x80000000])
def test_a_damaged_chain_ends(previous):
    """Nothing is compared with a checksum here, and a chain that leads anywhere but back would never end."""
    disk = SimDisk()
    disk.make_directory("/i")
    file = IndexFile.open(disk, "/i", 20231114221320000, slots=4, writable=True)
    overlay = {}
    file.write_entries(1, file.encode([(1, 1000, 10_000), (5, 2000, 10_000), (9, 3000, 10_000)], overlay))
    file.name_entries(overlay.keys(), overlay.values())
    file.file.write(56 + 2 * 20 + 16, (previous.to_bytes(4, signed=True),))
    assert list(islice(file.find(9, 0, 1 << 60), 9)) == [3000, None]


@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=60))
def test_key_hashes_are_javas(topic, key):
    expected = java_hash(f"{topic}#{key}")
    expected = 0 if expected == -(1 << 31) else abs(expected)
    raw = key.encode(errors="surrogatepass")
    if raw.decode(errors="replace") != key:
        return
    assert hash_key(topic_hash(topic), raw) == expected
    hasher = KeyHasher()
    assert [hasher.hash_id(topic_hash(topic), raw) for _ in range(2)] == [expected] * 2


# ---- records in a segment


def record(position, body=b"body", topic=b"T", properties=b"TAGS\x01a\x02", **more):
    return encode_record(
        topic, body, properties, queue_id=1, queue_offset=2, position=position, store_timestamp=3,
        store_host=more.pop("store_host", HOST), born_timestamp=4, born_host=HOST, **more,
    )  # fmt: skip


@given(
    st.binary(max_size=300), st.sampled_from([b"T", b"x" * 127, b"y" * 128, "ü".encode()]),
    st.sampled_from([b"", b"TAGS\x01a\x02"]), st.sampled_from([HOST, bytes(20)]), st.integers(0, 1 << 40),
)  # fmt: skip
def test_a_record_is_read_as_the_codec_reads_it(body, topic, properties, store_host, position):
    data = record(position, body, topic, properties, store_host=store_host)
    decoded = decode_record(data)
    found = read_record(memoryview(b"\0" * 7 + data + b"\0" * 9), 7, position, 0)
    assert (found.size, found.queue_id, found.queue_offset, found.store_timestamp, found.sys_flag) == (
        decoded.size, decoded.queue_id, decoded.queue_offset, decoded.store_timestamp, decoded.sys_flag,
    )  # fmt: skip
    assert (found.topic.decode(), found.properties) == (decoded.topic, decoded.properties)


@given(st.data())
def test_no_flipped_bit_and_no_cut_passes_for_a_record(data):
    good = record(640, data.draw(st.binary(max_size=80)), data.draw(st.sampled_from([b"T", b"y" * 130])))
    at = data.draw(st.integers(0, len(good) - 1))
    flipped = bytearray(good)
    flipped[at] ^= 1 << data.draw(st.integers(0, 7))
    for bad in (bytes(flipped), good[:at] + bytes(len(good) - at)):
        if bad != good:
            with pytest.raises(RecordError):
                read_record(memoryview(bad + bytes(100)), 0, 640, 0)


def test_a_record_elsewhere_than_it_says_is_none():
    with pytest.raises(RecordError, match="says position 640"):
        read_record(memoryview(record(640)), 0, 641, 0)


def test_a_record_without_our_checksum_counts_only_below_the_adopted_end():
    whole = record(0, properties=b"TAGS\x01a\x02")
    bare = bytearray(whole[:-20])
    bare[:4] = len(bare).to_bytes(4)
    at = len(bare) - 9
    bare[at : at + 2] = (7).to_bytes(2)
    assert read_record(memoryview(bytes(bare)), 0, 0, bare_end=1).properties == b"TAGS\x01a\x02"
    with pytest.raises(RecordError, match="no checksum of the whole"):
        read_record(memoryview(bytes(bare)), 0, 0, bare_end=0)


def test_a_scan_ends_at_blank_zeros_or_damage_and_says_which():
    first = record(4096)
    size = len(first) + 30

    def ends(data):
        found = list(scan_records(memoryview(data), 4096, 0, 0))
        assert isinstance(found[-1], ScanEnd)
        return len(found) - 1, found[-1].offset, found[-1].reason

    assert ends(first + encode_blank(30) + bytes(22)) == (1, size, None)
    assert ends(first + bytes(30)) == (1, len(first), "")
    assert ends(first + encode_blank(29) + bytes(22))[:2] == (1, len(first))
    assert "magic" in ends(first + b"\1" * 200)[2]
    assert ends(first + bytes(7)) == (1, len(first), None)


def test_a_record_is_found_behind_whatever_lies_before_it():
    data = b"\xda\xa3\x20\xa7" * 9 + record(36)
    found = find_record(memoryview(data), 0, 0, len(data), bare_end=0)
    assert found is not None
    assert found.position == 36
    assert find_record(memoryview(data), 0, 37, len(data), bare_end=0) is None
