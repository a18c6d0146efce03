"""unflushed.json: whether what was acknowledged before it was flushed can have been lost."""

import errno
import os
from pathlib import Path

import pytest

from logherd.app.group.replica_file import ReplicaFileError
from logherd.app.group.unflushed import Unflushed
from logherd.store.files_os import OsFiles
from sim.disk import SimDisk
from unit.store.helpers import ROOT

CACHE, OTHER = "boot-1 27", "boot-2 27"


def opened(directory: Path, *, flush: str = "async", cache: str | None = CACHE) -> Unflushed:
    return Unflushed.open(OsFiles(), str(directory), flush=flush, cache=cache)


def there(directory: Path) -> bool:
    return (directory / "unflushed.json").exists()


def test_a_new_store_is_trusted_and_with_flush_async_marked_before_it_serves(tmp_path: Path) -> None:
    assert opened(tmp_path).trusted
    assert there(tmp_path)


def test_a_store_that_always_flushes_leaves_no_mark(tmp_path: Path) -> None:
    assert opened(tmp_path, flush="sync").trusted
    assert not there(tmp_path)


def test_a_process_that_crashed_has_lost_nothing_while_the_machine_runs(tmp_path: Path) -> None:
    opened(tmp_path)
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(b"written, perhaps not flushed")
    assert opened(tmp_path).trusted
    assert opened(tmp_path, flush="sync").trusted
    assert not there(tmp_path)


@pytest.mark.parametrize("cache", [CACHE, OTHER])
@pytest.mark.parametrize("flush", ["async", "sync"])
def test_what_a_crashed_process_left_in_the_cache_is_flushed_before_it_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flush: str, cache: str
) -> None:
    opened(tmp_path)
    (tmp_path / "commitlog").mkdir()
    segments = [f"{number:020d}" for number in (0, 4096)]
    for name in (*segments, "not of the log"):
        (tmp_path / "commitlog" / name).touch()
    flushed: list[str] = []

    def note(descriptor: int) -> None:
        assert there(tmp_path)
        flushed.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)

    monkeypatch.setattr(os, "fdatasync", note)
    opened(tmp_path, flush=flush, cache=cache)
    assert flushed == segments


def test_a_process_that_follows_a_crashed_one_needs_no_free_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path)

    def full(descriptor: int, at: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "simulated")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert opened(tmp_path).trusted
    assert there(tmp_path)


def test_a_process_that_follows_an_orderly_stop_needs_no_free_block() -> None:
    disk = SimDisk()
    disk.make_directory(str(ROOT))

    def process() -> Unflushed:
        return Unflushed.open(disk, str(ROOT), flush="async", cache=CACHE)

    process().end(accounted=True)
    disk.capacity = disk.used()
    for _ in range(3):
        found = process()
        assert found.trusted
        assert disk.size(f"{ROOT}/unflushed.json") is not None
        found.end(accounted=True)
        assert disk.size(f"{ROOT}/unflushed.json") is None


@pytest.mark.parametrize("flush", ["async", "sync"])
@pytest.mark.parametrize("cache", [OTHER, "boot-1 31", ""])
def test_after_the_machine_was_down_it_is_not_trusted_until_it_was_let_in_anew(
    tmp_path: Path, cache: str, flush: str
) -> None:
    opened(tmp_path)
    for _ in range(2):
        assert not opened(tmp_path, cache=cache, flush=flush).trusted
    found = opened(tmp_path, cache=cache, flush=flush)
    found.end(accounted=False)
    found = opened(tmp_path, cache=cache, flush=flush)
    assert not found.trusted
    found.end(accounted=True)
    assert opened(tmp_path, cache=cache, flush=flush).trusted


@pytest.mark.parametrize("later", ["async", "sync"])
@pytest.mark.parametrize("flush", ["async", "sync"])
def test_once_it_is_known_what_it_lost_only_the_next_time_matters_that_the_machine_is_down(
    tmp_path: Path, flush: str, later: str
) -> None:
    opened(tmp_path)
    opened(tmp_path, cache=OTHER, flush=flush).account()
    assert there(tmp_path) == (flush == "async")
    assert opened(tmp_path, cache=CACHE, flush=later).trusted == (flush == "sync")


@pytest.mark.parametrize("later", ["async", "sync"])
def test_a_process_that_crashes_after_it_is_known_what_its_store_lost_has_lost_nothing_more(
    tmp_path: Path, later: str
) -> None:
    opened(tmp_path)
    opened(tmp_path, cache=OTHER).account()
    assert opened(tmp_path, cache=OTHER, flush=later).trusted


def test_until_it_is_known_what_it_lost_a_process_that_crashes_says_so_again(tmp_path: Path) -> None:
    opened(tmp_path)
    for _ in range(2):
        assert not opened(tmp_path, cache=OTHER).trusted
    opened(tmp_path, cache=OTHER).account()
    assert opened(tmp_path, cache=OTHER).trusted


def test_after_an_orderly_stop_it_is_trusted_wherever_it_starts(tmp_path: Path) -> None:
    opened(tmp_path).end(accounted=False)
    assert not there(tmp_path)
    assert opened(tmp_path, cache=OTHER).trusted


def test_where_the_machine_does_not_say_who_it_is_a_crash_is_not_trusted(tmp_path: Path) -> None:
    assert opened(tmp_path, cache="").trusted
    assert not opened(tmp_path, cache="").trusted


def test_this_machine_says_who_it_is_and_says_the_same_again(tmp_path: Path) -> None:
    assert opened(tmp_path, cache=None).trusted
    assert opened(tmp_path, cache=None).trusted


@pytest.mark.parametrize("text", ["", "{", '{"format":9,"cache":"a"}', '{"format":1}', "\xff"])
def test_a_damaged_mark_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "unflushed.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ReplicaFileError, match=r"unflushed\.json is"):
        opened(tmp_path)
