"""Bits that flip in the log of an open store, in what it wrote itself, are told by whoever reads, and never served."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from logherd.model.record import RecordError, check_record
from logherd.store import MessageStore, StoreDamaged
from logherd.store.files_os import OsFiles
from unit.store.helpers import SimClock, append, flush, small_options

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


def test_what_a_broker_writes_has_a_checksum_of_the_whole_and_without_its_name_it_is_damaged(
    store: MessageStore,
) -> None:
    record = bytearray(store.record_at(0) or b"")
    check_record(memoryview(record), 0, bare=False)
    record[record.index(b"__CRC32#")] ^= 1
    check_record(memoryview(record), 0)  # as a broker without such checksums writes it: the body's is right
    with pytest.raises(RecordError, match="no checksum of the whole"):
        check_record(memoryview(record), 0, bare=False)
