"""A process that has no descriptor left can still store what it has a segment for."""

import errno
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logherd.store import MessageStore, RetentionOptions, StoreDamaged, StoreFull
from logherd.store.files_os import OsFiles
from logherd.store.index_set import INDEX_FILES_OPEN_MAX
from logherd.store.key_index import PENDING
from logherd.store.queue_files import UnitWriter
from unit.store.helpers import SimClock, append, bodies, flush, none_left, settle, small_options


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    made = MessageStore.open(tmp_path, small_options(), OsFiles(), clock=SimClock())
    append(made)
    flush(made)
    yield made
    made.close()


def held(directory: Path) -> int:
    """Descriptors of files in a directory. Other tests' stores may keep some of their own until they are collected."""
    inside = f"{directory.resolve()}/"
    return sum(str(each.resolve()).startswith(inside) for each in Path("/proc/self/fd").iterdir())


def fill(store: MessageStore) -> None:
    while True:
        append(store)
        flush(store)


def test_a_batch_that_begins_a_segment_opens_no_file(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    while store._log.upcoming is None:
        append(store)
    upcoming = store._log.upcoming
    assert not upcoming.created
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", none_left)
        while store.end_position < upcoming.start + 1000:
            append(store)
            flush(store)
    assert upcoming.created
    assert store.flushed_position > upcoming.start


def test_what_begins_a_segment_is_read_without_a_descriptor(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    while store._log.upcoming is None:
        append(store)
    upcoming = store._log.upcoming
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", none_left)
        patch.setattr(mmap, "mmap", none_left)
        while store.end_position < upcoming.start + 1000:
            append(store)
            flush(store)
        assert len(store.read_raw(upcoming.start, 1)[0]) > 0


def test_a_segment_for_which_there_is_no_descriptor_is_made_later(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", none_left)
        with pytest.raises(StoreFull, match="MiB free, or no inode or descriptor for a further file, and messages"):
            fill(store)
        assert "or no inode or descriptor" in store.disk.refusal
        assert store._log.upcoming is None
    assert len(list((tmp_path / "commitlog").iterdir())) == 1
    while not store._writer.free_bytes:
        store.background_work()
    append(store)
    assert store._log.upcoming is not None


def test_that_a_disk_has_space_is_believed_ever_later_while_no_segment_can_be_made(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time the group hears that there is space and then that there is none, and who leads hands over."""

    def looks_until_it_has_space() -> int:
        looks = 0
        while not store._writer.free_bytes:
            store.background_work()
            looks += 1
        return looks

    waited = list[int]()
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", none_left)
        with pytest.raises(StoreFull):
            fill(store)
        looks_until_it_has_space()
        for _ in range(6):
            assert not store._log.prepare_roll()
            waited.append(looks_until_it_has_space())
    assert waited == sorted(waited)
    assert waited[-2:] == [16, 16]
    assert store._log.prepare_roll()


def test_so_it_is_where_no_other_file_can_be_made_on_a_disk_with_space(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inodes are lacking. Of a disk that is full each look tells the truth."""
    write = UnitWriter.write
    for free, most in ((1 << 30, 8), (100, 40)):
        looks, lacking = list[int](), [True]

        def counted(*_: object, free: int = free, looks: list[int] = looks) -> int:
            looks.append(free)
            return free

        def written(*arguments: Any, lacking: list[bool] = lacking) -> Any:
            if lacking[0]:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(OsFiles, "free_bytes", counted)
            patch.setattr(UnitWriter, "write", written)
            append(store)
            flush(store)
            store.tick()
            for _ in range(40):
                store.background_work()
            assert most // 2 < len(looks) <= most + 2
            assert not store._writer.free_bytes
            lacking[0] = False
            for _ in range(3):
                store.background_work()
            assert store._writer.free_bytes == free, "a file that can be made shows that there is space"
            settle(store)


def test_whoever_makes_a_segment_durable_first_no_descriptor_stays_open(store: MessageStore, tmp_path: Path) -> None:
    before = held(tmp_path)
    for first in ("owner", "writer"):
        while store._log.upcoming is None or store._log.upcoming.created:
            append(store)
            flush(store)
        upcoming, folder = store._log.upcoming, str(Path(store._log.active.path).parent)
        directory = OsFiles().open_directory(folder)
        if first == "owner":
            upcoming.make_durable_for_next(directory)
        upcoming.make_durable(folder)
        upcoming.make_durable_for_next(directory)
        directory.close()
        assert upcoming.created
    segments = len(list(Path(folder).iterdir()))
    assert held(tmp_path) - before < 2 * segments, "a file and its mapping"


def test_an_index_file_that_waits_for_space_keeps_no_descriptor(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    append(store, properties=b"KEYS\x01k\x02")
    flush(store)
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", no_space)
        settle(store)
        before = held(tmp_path)
        for _ in range(20):
            store.background_work()
        assert held(tmp_path) == before
    settle(store)
    assert store.query_index("T", "k", max_count=1, begin=0, end=2000)


def test_however_many_files_the_key_index_has_few_of_them_are_open(tmp_path: Path) -> None:
    options, index = small_options(derived={"index_entries": 3}), tmp_path / "index"
    made = MessageStore.open(tmp_path, options, OsFiles(), clock=SimClock())
    keys = [f"k{number}" for number in range(60)]
    for key in keys:
        append(made, properties=f"KEYS\x01{key}\x02".encode())
        flush(made)
        settle(made)
    assert len(list(index.iterdir())) > 20
    assert held(index) == 2, "the newest file and its mapping"
    for _ in range(2):
        for key in keys:
            assert made.query_index("T", key, max_count=1, begin=0, end=2000)
        assert held(index) <= 2 * INDEX_FILES_OPEN_MAX
    made.close()
    made = MessageStore.open(tmp_path, options, OsFiles(), clock=SimClock())
    assert made.recovery.derived == "whole"
    assert held(index) == 2
    assert made.query_index("T", keys[0], max_count=1, begin=0, end=2000)
    made.retention = RetentionOptions(age_ms=1)
    assert made.apply_retention(1 << 40, 1 << 62)
    settle(made)
    assert len(list(index.iterdir())) < 20
    assert made.query_index("T", keys[-1], max_count=1, begin=0, end=2000)
    assert held(index) <= 2 * INDEX_FILES_OPEN_MAX
    made.close()
    assert held(tmp_path) == 0


def test_a_file_of_the_key_index_that_was_looked_in_before_its_first_entry_tells_times_rightly(tmp_path: Path) -> None:
    store = MessageStore.open(tmp_path, small_options(), OsFiles(), clock=SimClock())
    index = store._derived.index
    looked = 0
    for _ in index.add(PENDING.pack(7, 660, 60_500)):
        looked += len(index.files)
        assert not any(index.find(8, 60_000, 61_000))
    assert looked > 1
    assert list(index.find(7, 60_000, 61_000)) == [660]
    store.close()


def no_more(patch: pytest.MonkeyPatch) -> None:
    for name in ("open", "listdir", "scandir"):
        patch.setattr(os, name, none_left)


def test_a_deleted_topics_files_go_once_there_is_a_descriptor(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    append(store, "deleted")
    flush(store)
    settle(store)
    store.delete_topic("deleted")
    with monkeypatch.context() as patch:
        no_more(patch)
        settle(store)
        append(store)
        flush(store)
    assert (tmp_path / "consumequeue/deleted").exists()
    settle(store)
    assert not (tmp_path / "consumequeue/deleted").exists()


def test_files_of_a_queue_that_begins_anew_are_shortened_once_there_is_a_descriptor(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for _ in range(40):
        append(store)
    flush(store)
    settle(store)
    files = tmp_path / "consumequeue/T/0"
    assert len(list(files.iterdir())) == 3
    store.forget_deleted({"T": store.end_position})
    with monkeypatch.context() as patch:
        no_more(patch)
        settle(store)
    settle(store)
    assert not list(files.iterdir())
    append(store)
    flush(store)
    assert store.queue("T", 0).max_offset == 1


def test_retention_looks_at_queues_and_shortens_them_once_there_is_a_descriptor(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    while store.end_position < 3 * 8192:
        append(store, at=1000)
        flush(store)
    settle(store)
    first = tmp_path / "consumequeue/T/0" / ("0" * 20)
    store.retention = RetentionOptions(age_ms=1)
    assert store.apply_retention(1 << 40, 1 << 62)
    while store._writer.tasks._deletions:  # of segments; what was derived from them comes next
        store.background_work()
    with monkeypatch.context() as patch:
        no_more(patch)
        patch.setattr(store._derived._units.cache, "_open", {})
        settle(store)
    assert first.exists()
    settle(store)
    assert not first.exists()


@pytest.mark.parametrize(
    "lack", [("open", errno.EMFILE), ("open", errno.ENFILE), ("mmap", errno.EMFILE), ("mmap", errno.ENOMEM)]
)
def test_retention_looks_at_segments_once_there_is_a_descriptor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lack: tuple[str, int]
) -> None:
    """The loop looks every two seconds, and whatever is raised there ends the broker."""
    made = MessageStore.open(tmp_path, small_options(), OsFiles(), clock=SimClock())
    while made.end_position < 3 * 8192:
        append(made, at=1000)
        flush(made)
    made.close()
    again = MessageStore.open(tmp_path, small_options(retention={"age_ms": 1}), OsFiles(), clock=SimClock())

    def lacking(*_: object, **__: object) -> int:
        raise OSError(lack[1], os.strerror(lack[1]))

    with monkeypatch.context() as patch:
        patch.setattr(*((os, "open") if lack[0] == "open" else (mmap, "mmap")), lacking)
        assert not again.apply_retention(1 << 40, 1 << 62)
    assert again.apply_retention(1 << 40, 1 << 62)
    again.close()


def test_a_store_without_a_descriptor_is_closed_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = MessageStore.open(tmp_path, small_options(), OsFiles(), clock=SimClock())
    append(made)
    flush(made)
    settle(made)
    with monkeypatch.context() as patch:
        no_more(patch)
        made.close()
    again = MessageStore.open(tmp_path, small_options(), OsFiles(), clock=SimClock())
    assert (bodies(again), again.recovery.derived_records) == ([b"x" * 100], 0)
    again.close()


@pytest.mark.parametrize("damage", ["an index file's header", "a queue's file", "the list of queues"])
def test_what_was_opened_of_derived_files_that_are_not_whole_is_closed(tmp_path: Path, damage: str) -> None:
    def reopened() -> MessageStore:
        return MessageStore.open(tmp_path, small_options(), OsFiles(), clock=SimClock())

    store = reopened()
    for number in range(50):
        append(store, queue_id=number % 5, properties=b"KEYS\x01k%d\x02" % number)
    flush(store)
    settle(store)
    store.close()
    store = reopened()
    usual = held(tmp_path)
    store.close()
    if damage.startswith("an index"):
        with max((tmp_path / "index").iterdir()).open("r+b") as index:
            index.write(bytes(40))
    elif damage.startswith("a queue"):
        next((tmp_path / "consumequeue" / "T" / "0").iterdir()).unlink()
    else:
        (tmp_path / "queues").write_bytes(b"what is this")
    store = reopened()
    assert store.recovery.derived == "files damaged"
    assert held(tmp_path) <= usual
    store.close()
    assert not held(tmp_path)


@pytest.mark.parametrize("lost", ["checkpoint", "queues"])
def test_a_store_that_is_refused_keeps_nothing_open(tmp_path: Path, lost: str) -> None:
    """Damage is met when the log's end is looked for, or when all is derived anew."""
    store = MessageStore.open(tmp_path, small_options(), OsFiles(), clock=SimClock())
    while store.end_position < 3 * 8192:
        append(store)
        flush(store)
    store.close()
    (tmp_path / lost).unlink()
    with (tmp_path / "commitlog" / f"{8192:020d}").open("r+b") as log:
        log.write(bytes(20))
    with pytest.raises(StoreDamaged):
        MessageStore.open(tmp_path, small_options(), OsFiles(), clock=SimClock())
    assert not held(tmp_path)


def test_files_of_queues_that_retention_has_deleted_take_no_space_after_the_next_time(
    store: MessageStore, tmp_path: Path
) -> None:
    def deleted() -> set[str]:
        inside = f"{tmp_path.resolve()}/consumequeue/"
        names = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
        return {name for name in names if name.startswith(inside) and name.endswith("(deleted)")}

    queue = store.queue("T", 0)
    store.retention = RetentionOptions(bytes_max=1)
    before = set[str]()
    for _ in range(4):
        while len(store._log.segments) < 4:
            append(store)
            flush(store)
        settle(store)
        low = queue.min_offset
        for offset in range(low, queue.max_offset):
            store.read(queue, offset, messages_max=1, bytes_max=1)
        assert store.apply_retention(0, 1 << 62)
        settle(store)
        assert low < queue.min_offset
        assert not deleted() & before
        before = deleted()
        assert before
    assert store.read(queue, queue.min_offset, messages_max=1, bytes_max=1).count == 1
