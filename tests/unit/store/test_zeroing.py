"""Blocks that will be written soon hold zeros already; how much that costs beside the messages."""

from unit.store.helpers import SimDisk, append, flush, open_store, settle

AHEAD = {"segment_bytes": 1 << 20, "zero_ahead_bytes": 1 << 17, "zero_step_bytes": 1 << 14, "batch_bytes_max": 1 << 16}


def flushes_of_segments(disk) -> int:
    return sum(kind == "flush" and "commitlog" in path for kind, path in disk.trace)


def zeroed(store) -> int:
    """How far ahead of the end the first segment is prepared."""
    writer = store._writer
    return writer._active.zeroed - (writer._written - writer._active.start)


def test_a_lone_sender_waits_for_one_flush_a_message_and_a_further_one_each_step():
    disk = SimDisk()
    store = open_store(disk, log=AHEAD)
    settle(store)
    disk.trace.clear()
    for _ in range(200):
        append(store, body=b"x" * 900)
        flush(store)
        settle(store)
    appended = store.end_position
    assert appended > 12 * AHEAD["zero_step_bytes"]
    assert 200 <= flushes_of_segments(disk) <= 200 + appended // AHEAD["zero_step_bytes"] + 1


def test_what_is_prepared_never_falls_a_step_below_what_was_asked_for():
    store = open_store(SimDisk(), log=AHEAD)
    settle(store)
    for _ in range(200):
        assert AHEAD["zero_ahead_bytes"] - AHEAD["zero_step_bytes"] < zeroed(store) <= AHEAD["zero_ahead_bytes"]
        append(store, body=b"x" * 900)
        flush(store)
        settle(store)


def test_large_flushes_go_into_blocks_without_zeros_until_small_ones_come_again():
    ahead = {**AHEAD, "segment_bytes": 8 << 20, "batch_bytes_max": 1 << 20}
    disk = SimDisk()
    store = open_store(disk, log=ahead)
    settle(store)
    while store.end_position < 4 << 20:
        for _ in range(100):
            append(store, body=b"x" * 900)
        flush(store)
        settle(store)
    prepared = store._writer._active.zeroed
    assert prepared < store.end_position
    appended = store.end_position
    for _ in range(100):
        append(store, body=b"x" * 900)
        flush(store)
        settle(store)
    assert zeroed(store) > AHEAD["zero_ahead_bytes"] - AHEAD["zero_step_bytes"]
    assert store._writer._active.zeroed > appended
