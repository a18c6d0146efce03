"""MessageStore on a real directory: append, commit, read, reopen."""

from logherd.store.files_os import OsFiles
from logherd.store.options import LogOptions, StoreOptions
from logherd.store.read import ReadStatus
from logherd.store.store import MessageStore

HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"


class FixedClock:
    def now_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic_ms(self) -> int:
        return 0


def open_store(directory, **log):
    options = StoreOptions(log=LogOptions(segment_bytes=1 << 16, reserve_bytes=0, **log))
    return MessageStore.open(directory, options, OsFiles(), clock=FixedClock())


def append(store, queue, body, properties=b"", at=1000):
    return store.append(queue, body, properties, born_timestamp=1, born_host=HOST, store_timestamp=at)


def flush(store):
    while (batch := store.take_batch()) is not None:
        batch.write_and_flush()
        store.commit(batch)


def test_committed_messages_are_read_in_order_also_after_reopening(tmp_path):
    store = open_store(tmp_path)
    queue = store.queue("T", 3)
    given = [append(store, queue, b"%05d" % n * 50) for n in range(2000)]
    assert [offset for offset, _ in given] == list(range(2000))
    assert store.read(queue, 0, messages_max=32, bytes_max=1 << 20).status is ReadStatus.QUEUE_EMPTY
    flush(store)
    store.close()
    store = open_store(tmp_path)
    queue = store.find_queue("T", 3)
    assert queue is not None
    assert queue.max_offset == 2000
    for offset, position in given:
        record = store.record_at(position)
        assert b"%05d" % offset * 50 in bytes(record)
        assert store.unit(queue, offset)[:2] == (position, len(record))
    store.close()
