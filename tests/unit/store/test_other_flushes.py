"""How often other files than the log are flushed: each such flush is one that some sender waits for."""

from collections import Counter

from logherd.store import DerivedOptions, LogOptions, MessageStore, StoreOptions
from unit.store.helpers import ROOT, SimClock, SimDisk, append, flush

QUEUES = 8


def flushes(*, seconds: int, gap_ms: int, **options: int) -> Counter[str]:
    """Flushes by file, after the first second, of a store with the usual times to which a message comes every gap."""
    disk, clock = SimDisk(), SimClock()
    small = StoreOptions(
        log=LogOptions(segment_bytes=1 << 19, record_bytes_max=1000, zero_ahead_bytes=0, reserve_bytes=0),
        derived=DerivedOptions(queue_file_units=1000, index_slots=32, index_entries=1000), **options,
    )  # fmt: skip
    store = MessageStore.open(ROOT, small, disk, clock=clock)
    for number in range((seconds + 1) * 1000 // gap_ms):
        if number == 1000 // gap_ms:
            disk.trace.clear()
        append(store, queue_id=number % QUEUES, body=b"x" * 100)
        flush(store)
        store.tick()
        while store.background_work():
            pass
        clock.now += gap_ms
    found = Counter[str]()
    for kind, path in disk.trace:
        if kind == "flush" and "commitlog" not in path:
            found["checkpoint" if path.endswith("checkpoint") else "derived"] += 1
    return found


def test_few_flushes_come_between_those_of_a_lone_sender():
    found = flushes(seconds=10, gap_ms=20)
    assert 9 <= found["checkpoint"] <= 11
    assert 0 < found["derived"] <= 2 * (QUEUES + 4)


def test_where_much_is_written_the_disk_is_told_more_often_how_far_it_is_flushed():
    found = flushes(seconds=2, gap_ms=10, checkpoint_sync_bytes=1000)
    assert 18 <= found["checkpoint"] <= 21
