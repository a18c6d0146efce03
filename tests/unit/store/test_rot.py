"""Bits that flip in the log of an open store, in what it wrote itself, are told by whoever reads, and never served."""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from logherd.model.record import RecordError, check_record
from logherd.store import MessageStore, StoreDamaged
from logherd.store.files_os import OsFiles
from unit.store.helpers import SimClock, append, flush, settle, small_options

random = Random(5)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    made = MessageStore.open(tmp_path, small_options(), OsFiles(), clock=SimClock())
    while made.end_position < 5 * 8192:
        append(made)
        flush(made)
    yield made
    made.close()


def flipped(store: MessageStore, position: int, size: int) -> Iterator[Callable[[], None]]:
    """Flip a bit of each byte of a record in turn, in the file of a closed segment."""
    segment = store._log.segment_of(position)
    assert segment is not None
    assert segment.end <= store._log.active.start
    with Path(segment.path).open("r+b") as file:
        for at in range(position - segment.start, position - segment.start + size):
            file.seek(at)
            (was,) = file.read(1)

            def put(value: int, at: int = at) -> None:
                file.seek(at)
                file.write(bytes((value,)))
                file.flush()

            put(was ^ 1 << random.randrange(8))
            yield lambda was=was, put=put: put(was)  # type: ignore[misc]


def test_no_flipped_bit_of_a_closed_segment_is_served_or_shipped(store: MessageStore) -> None:
    queue = store.find_queue("T", 0)
    assert queue is not None
    position, size, _ = store.unit(queue, 3) or (0, 0, 0)
    whole = bytes(store.record_at(position) or b"")
    assert len(whole) == size
    count = 0
    for mend in flipped(store, position, size):
        count += 1
        with pytest.raises(StoreDamaged):
            store.read(queue, 3, messages_max=32, bytes_max=1 << 20)
        assert store.read(queue, 0, messages_max=32, bytes_max=1 << 20).count == 3, "what is whole is served"
        with pytest.raises(StoreDamaged):
            store.read_raw(position, 1 << 20)
        try:
            assert store.record_at(position) is None, "no record is known to begin there"
        except StoreDamaged:
            pass
        mend()
    assert count == size
    assert bytes(store.record_at(position) or b"") == whole


def test_h1_what_a_broker_writes_has_a_checksum_of_the_whole_and_without_its_name_it_is_damaged(
    store: MessageStore,
) -> None:
    record = bytearray(store.record_at(0) or b"")
    check_record(memoryview(record), 0, bare=False)
    record[record.index(b"__CRC32#")] ^= 1
    check_record(memoryview(record), 0)  # as a broker without such checksums writes it: the body's is right
    with pytest.raises(RecordError, match="no checksum of the whole"):
        check_record(memoryview(record), 0, bare=False)


def rotten(store: MessageStore, offset: int) -> None:
    """Damage the store timestamp of a message of a closed segment: it would be from long ago."""
    position, _, _ = store.unit(store.queue("T", 0), offset) or (0, 0, 0)
    segment = store._log.segment_of(position)
    assert segment is not None
    with Path(segment.path).open("r+b") as file:
        file.seek(position - segment.start + 56)
        was = file.read(8)
        file.seek(position - segment.start + 56)
        file.write(bytes(8))
        assert was != bytes(8)


@pytest.fixture
def timed(tmp_path: Path) -> Iterator[MessageStore]:
    """Each message is stored 10 ms after the one before it."""
    made = MessageStore.open(tmp_path, small_options(retention={"age_ms": 10_000}), OsFiles(), clock=SimClock())
    while made.end_position < 5 * 8192:
        append(made, at=1_000_000 + 10 * made.queue("T", 0).next_offset)
        flush(made)
    yield made
    made.close()


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_a_time_is_found_by_messages_that_are_as_they_were_written(timed: MessageStore, count: int) -> None:
    queue = timed.queue("T", 0)
    last = timed._log.active.start
    closed = [offset for offset in range(queue.max_offset) if (timed.unit(queue, offset) or (last,))[0] < last]
    assert len(closed) > 60
    bad = range(20, 20 + count)
    for offset in bad:
        rotten(timed, offset)
        assert timed.store_timestamp(queue, offset) is None
    for offset in set(closed) - set(bad):
        at = 1_000_000 + 10 * offset
        assert timed.store_timestamp(queue, offset) == at
        # A damaged message is found with the first whole one behind it, so that nobody passes over it.
        first = 20 if offset == bad[-1] + 1 else offset
        assert timed.offset_by_time(queue, at, upper=False) == first
        assert timed.offset_by_time(queue, at, upper=True) == offset


def test_a_search_by_time_does_not_read_all_of_a_large_damage_and_ends_before_it(
    timed: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("logherd.store.reader.SCANNED_UNITS_MAX", 5)
    queue = timed.queue("T", 0)
    for offset in range(30, 75):
        rotten(timed, offset)
    looked_at = list[int]()
    known = timed._reader.store_timestamp
    monkeypatch.setattr(
        "logherd.store.reader.QueueReader.store_timestamp",
        lambda _, queue, offset: looked_at.append(offset) or known(queue, offset),
    )
    for offset in (10, 29, 76, 80):
        looked_at.clear()
        found = timed.offset_by_time(queue, 1_000_000 + 10 * offset, upper=False)
        assert found == offset or 29 < found < offset, "nobody passes over a message that is as it was written"
        assert len(looked_at) <= 5 * 8


def test_a_damaged_time_deletes_nothing_and_keeps_nothing_for_ever(timed: MessageStore) -> None:
    queue = timed.queue("T", 0)
    starts = [segment.start for segment in timed._log.segments]
    offsets = {(timed.unit(queue, offset) or (-1,))[0]: offset for offset in range(queue.max_offset)}
    settle(timed)
    rotten(timed, offsets[starts[1]])
    assert timed.apply_retention(1_000_500, timed.committed_position) == 0
    assert timed.apply_retention(1_000_000 + 10 * offsets[starts[2]], timed.committed_position) == 0
    assert timed.apply_retention(1_010_001 + 10 * (offsets[starts[1]] + 1), timed.committed_position) == 1
    assert timed.min_position == starts[1]


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[MessageStore]:
    """Messages of one key, each stored 10 ms after the one before it."""
    made = MessageStore.open(tmp_path, small_options(), OsFiles(), clock=SimClock())
    while made.end_position < 3 * 8192:
        append(made, properties=b"KEYS\x01k\x02", at=1_000_000 + 10 * made.queue("T", 0).next_offset)
        flush(made)
    yield made
    made.close()


def test_a_message_with_a_damaged_time_is_not_left_out_of_what_a_key_finds(keyed: MessageStore) -> None:
    """Whoever reads it then meets the damage."""
    queue = keyed.queue("T", 0)
    positions = [(keyed.unit(queue, offset) or (-1,))[0] for offset in range(10)]
    rotten(keyed, 4)
    wanted = {"max_count": 64, "begin": 1_000_020, "end": 1_000_060}
    assert keyed.query_index("T", "k", **wanted) == positions[6:1:-1]
    assert keyed.query_index("T", "k", max_count=64, begin=0, end=999_999) == [], "the index knows when it was stored"
    with pytest.raises(StoreDamaged):
        keyed.record_at(positions[4])


@pytest.mark.parametrize(
    "unit", [bytes(20), struct.pack(">qiq", -1, 200, 0), struct.pack(">qiq", -(1 << 63), 200, 0)],
    ids=["never written", "-1", "least"],
)  # fmt: skip
def test_units_that_name_no_place_are_met_and_not_passed_over_where_retention_has_moved_the_begin(
    tmp_path: Path, unit: bytes
) -> None:
    options = small_options(derived={"tail_units_max": 0}, retention={"bytes_max": 1})
    store = MessageStore.open(tmp_path, options, OsFiles(), clock=SimClock())
    queue = store.queue("T", 0)
    while store.end_position < 2 * 8192:
        append(store)
        flush(store)
    settle(store)
    first = next(offset for offset in range(queue.max_offset) if store._derived.table.unit(queue, offset)[0] >= 8192)
    path = tmp_path / "consumequeue" / "T" / "0" / f"{first // 16 * 320:020d}"
    with path.open("r+b") as file:
        file.seek(first % 16 * 20)
        file.write(unit)
    assert store.apply_retention(0, store._log.segments[1].start)
    assert queue.min_offset == first
    with pytest.raises(StoreDamaged, match=f"the unit of message {first} is wrong"):
        store.read(queue, first, messages_max=1, bytes_max=1)
    store.close()
