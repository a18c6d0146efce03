"""Sectors of derived files that a disk has lost: the log has all that was in them, so no message waits for a person."""

from contextlib import suppress
from pathlib import Path

import pytest

from logherd.store import MessageStore, StoreDamaged, StoreStopped
from logherd.store.consume_queue import UNIT_SIZE
from logherd.store.options import DerivedOptions, LogOptions, RetentionOptions, StoreOptions
from logherd.store.tools import verify
from unit.store.bad_disk import BLOCK, BadFiles, survives
from unit.store.helpers import SimClock, append, bodies, flush, settle, small_options

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


def found_by_key(store: MessageStore, number: int) -> int:
    return len(store.query_index("T", f"k{number}", max_count=9, begin=0, end=1 << 40))


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


@pytest.mark.parametrize(("lost", "kept"), [((), 4), ((0,), 4), ((0, 1, 2), 4), ((3,), 4), ((4,), 4), ((3, 4), 3)])
def test_files_of_units_that_are_lost_go_with_those_behind_them(
    tmp_path: Path, lost: tuple[int, ...], kept: int
) -> None:
    """Nobody reads such old units, so the next process finds the files as long as they should be."""
    files, options = BadFiles(), small_options(retention={"bytes_max": 1}, derived={"queue_file_units": 16})
    store = MessageStore.open(tmp_path, options, files, clock=SimClock())
    while store.end_position < 6 * 8192:
        append(store)
        flush(store)
    settle(store)
    queue = tmp_path / "consumequeue/T/0"
    names = sorted(path.name for path in queue.iterdir())
    for number in lost:
        files.lose(f"{queue}/{names[number]}", 0)
    store.apply_retention(0, 2 * 8192)
    settle(store)
    assert min(path.name for path in queue.iterdir()) == names[kept]
    store.close()
    store = MessageStore.open(tmp_path, options, files, clock=SimClock())
    assert store.recovery.derived == "whole"
    store.advance(store.end_position)
    store.apply_retention(0, 5 * 8192)
    settle(store)
    assert min(path.name for path in queue.iterdir()) > names[4]
    assert len(bodies(store)) > 0
    store.close()
    assert verify(tmp_path, files).whole


def index_file(root: Path) -> str:
    (path,) = (root / "index").iterdir()
    return str(path)


@pytest.mark.parametrize(
    ("block", "killed"), [*((block, True) for block in range(5)), *((block, False) for block in (0, 1, 2, 4))]
)
def test_slots_and_entries_that_are_lost_while_the_index_is_written_end_no_process(
    tmp_path: Path, block: int, killed: bool
) -> None:
    """Header and slots, slots, slots and entries, entries, and the block into which the next ones go. `killed`: slots
    name entries that the checkpoint does not know of."""

    def run() -> None:
        files = BadFiles()
        store = open_store(tmp_path, files)
        add(store, 0, 100)
        checkpoint = (tmp_path / "checkpoint").read_bytes()
        add(store, 100, 250)
        store.close()
        if killed:
            (tmp_path / "checkpoint").write_bytes(checkpoint)
        files.lose(index_file(tmp_path), block * BLOCK)
        store = open_store(tmp_path, files)
        add(store, 350, 100)
        for number in range(450):
            with suppress(StoreDamaged):
                assert found_by_key(store, number) == 1
        store.close()
        store = open_store(tmp_path, files)
        assert all(found_by_key(store, number) == 1 for number in range(450))
        store.close()
        assert verify(tmp_path, files).whole

    survives(run)
