"""A record that fits neither the active segment nor the last one that can be made is refused, and nothing is changed.

A blank record belongs to the one behind it (see `replica.log`): none may be the last of a log.
"""

import pytest

from logherd.model.names import Epoch
from logherd.replica import ReplicaStore
from logherd.store import LogOptions, MessageStore, StoreFull, StoreOptions
from logherd.store.segment import Segment
from unit.store.helpers import HOST, ROOT, SimClock, SimDisk, append, bodies, flush, none_left, open_store

SEGMENT = 8192
RESERVE = 100_000
LARGE = b"L" * 3500
MIB = 1 << 20


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


def before_last_segment(disk: SimDisk, *, left: int = 3000) -> MessageStore:
    """The last segment that leaves the reserve whole is made, and `left` bytes of the one before are free."""
    store = open_store(disk, log={"record_bytes_max": SEGMENT // 2, "batch_bytes_max": 4096, "reserve_bytes": RESERVE})
    while SEGMENT - store.end_position > left + 400:
        append(store)
        flush(store)
    append(store, body=b"x" * (SEGMENT - store.end_position - left - 150))
    assert store._log.upcoming is not None
    disk.capacity = disk.used() + RESERVE + SEGMENT // 2
    store.background_work()
    return store


@pytest.mark.parametrize("flushed", [False, True])
def test_a_refused_message_leaves_no_blank_behind(disk: SimDisk, flushed: bool) -> None:
    store = before_last_segment(disk)
    if flushed:
        flush(store)
    end = store.end_position
    assert store.disk.refusal == ""
    for _ in range(3):
        with pytest.raises(StoreFull, match="the log needs a further segment"):
            append(store, body=LARGE)
        assert store.end_position == end
        assert store._log.upcoming is not None
    append(store, body=b"small")
    append(store, body=b"s" * 2900)
    assert store.end_position > SEGMENT, "what finds room in the last segment is taken"
    flush(store)
    assert bodies(store)[-2:] == [b"small", b"s" * 2900]
    store.close()
    assert bodies(open_store(disk))[-2:] == [b"small", b"s" * 2900]


def test_metadata_that_follows_a_refused_message_is_stored_in_its_place(disk: SimDisk) -> None:
    store = before_last_segment(disk)
    end = store.end_position
    with pytest.raises(StoreFull):
        append(store, body=LARGE)
    assert append(store, "M", body=b"m", reserve=True)[1] == end
    assert append(store, "M", body=LARGE, reserve=True)[1] == SEGMENT


def test_a_segment_that_cannot_be_made_for_want_of_a_descriptor_leaves_no_blank_either(
    disk: SimDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = before_last_segment(disk)
    disk.capacity += 10 * SEGMENT
    store.background_work()
    end = store.end_position
    with monkeypatch.context() as patch:
        patch.setattr(Segment, "create", none_left)
        with pytest.raises(StoreFull):
            append(store, body=LARGE)
    assert store.end_position == end
    while not store.disk.accepts_messages:
        store.background_work()
    assert append(store, body=LARGE)[1] == SEGMENT


@pytest.mark.parametrize("left", [3000, 3700])
def test_a_batch_leaves_of_the_last_segment_what_a_message_leaves(disk: SimDisk, left: int) -> None:
    store = before_last_segment(disk, left=left)
    end, kept = store.end_position, store._log._kept_bytes
    more = {"born_timestamp": 1, "born_host": HOST, "store_timestamp": 1}
    try:
        store.append_all(store.queue("T", 0), [(0, LARGE, b"")], **more)
    except StoreFull:
        assert store.end_position == end
    assert store._log.segments[-1].end - store.end_position >= kept
    assert (store.end_position > end) == (left > len(LARGE))


def test_a_batch_that_the_last_segment_has_room_for_is_taken_however_little_is_left_of_the_one_before(
    disk: SimDisk,
) -> None:
    store = before_last_segment(disk, left=300)
    more = {"born_timestamp": 1, "born_host": HOST, "store_timestamp": 1}
    store.append_all(store.queue("T", 0), [(0, b"s" * 2900, b"")], **more)
    assert store.end_position > SEGMENT
    with pytest.raises(StoreFull):
        store.append_all(store.queue("T", 0), [(0, LARGE, b"")], **more)


def test_a_replicas_log_of_real_length_ends_after_a_refusal_as_before(disk: SimDisk) -> None:
    """Segments of 8 MiB, a message of 3.5, and half a segment of space above the reserve."""
    log = LogOptions(segment_bytes=8 * MIB, reserve_bytes=100 * MIB)
    options = StoreOptions(log=log, replicated=True, free_space_check_ms=0)
    replica = ReplicaStore(MessageStore.open(ROOT, options, disk, clock=SimClock()), [])
    store = replica.store
    replica.begin_epoch(Epoch(1))
    for _ in range(5):
        append(store, body=b"x" * MIB)
        store.background_work()
    disk.capacity = disk.used() + 104 * MIB
    store.background_work()
    append(store)
    end = replica.end
    for _ in range(2):
        with pytest.raises(StoreFull):
            append(store, body=b"L" * (7 * MIB // 2))
        assert replica.end == end
    append(store, body=b"m" * MIB, reserve=True)
    assert replica.read(end, 2 * MIB).end == replica.end
