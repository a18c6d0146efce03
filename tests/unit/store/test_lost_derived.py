"""Sectors of derived files that a disk has lost: the log has all that was in them, so no message waits for a person."""

from pathlib import Path

import pytest

from logherd.store import MessageStore, StoreStopped
from logherd.store.consume_queue import UNIT_SIZE
from logherd.store.options import DerivedOptions, LogOptions, RetentionOptions, StoreOptions
from logherd.store.tools import verify
from unit.store.bad_disk import BadFiles
from unit.store.helpers import SimClock, append, bodies, flush, settle

OPTIONS = StoreOptions(
    log=LogOptions(segment_bytes=1 << 20, record_bytes_max=9000, batch_bytes_max=1 << 16, reserve_bytes=0,
                   zero_ahead_bytes=0),
    derived=DerivedOptions(queue_file_units=1000, index_slots=2500, index_entries=1000, interval_ms=0,
                           tail_units_max=0, index_write_entries=1),
    retention=RetentionOptions(age_ms=None),
)  # fmt: skip


def open_store(root: Path, files: BadFiles) -> MessageStore:
    return MessageStore.open(root, OPTIONS, files, clock=SimClock())


def add(store: MessageStore, first: int, count: int) -> None:
    for number in range(first, first + count):
        append(store, body=b"%d" % number, properties=b"KEYS\x01k%d\x02" % number, at=1000 + number)
    flush(store)
    settle(store)


def test_units_that_are_lost_where_the_next_ones_go_are_derived_again_at_the_next_start(tmp_path: Path) -> None:
    files = BadFiles()
    store = open_store(tmp_path, files)
    add(store, 0, 250)
    store.close()
    files.lose(f"{tmp_path}/consumequeue/T/0/{0:020d}", 250 * UNIT_SIZE)
    store = open_store(tmp_path, files)
    assert store.recovery.derived == "whole"
    with pytest.raises(StoreStopped, match="Input/output error"):
        add(store, 250, 30)
    store.close()
    store = open_store(tmp_path, files)
    assert store.recovery.derived == "files damaged"
    assert any("byte 4096 cannot be read" in note for note in store.recovery.notes)
    add(store, 280, 30)
    assert len(bodies(store)) == 310
    store.close()
    assert verify(tmp_path, files).whole
