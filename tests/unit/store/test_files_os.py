"""The Files protocol on a real disk."""

import errno
import os

import pytest

from logherd.store.files_os import OsFiles


@pytest.fixture
def files():
    return OsFiles()


def test_parts_are_written_one_after_the_other_however_many(files, tmp_path):
    file = files.open(f"{tmp_path}/f", create=True)
    parts = [b"%d," % n for n in range(3000)]
    file.write(5, parts)
    assert file.read(5, 1 << 20) == b"".join(parts)
    assert file.size() == 5 + len(b"".join(parts))
    file.close()


def test_a_short_write_is_continued_to_its_end(files, tmp_path, monkeypatch):
    file = files.open(f"{tmp_path}/f", create=True)
    writev, write = os.pwritev, os.pwrite
    monkeypatch.setattr(os, "pwritev", lambda fd, parts, at: writev(fd, [b"".join(parts)[:3]], at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: write(fd, data[:2], at))
    file.write(0, [b"abcd", b"efgh", b"ij"])
    assert file.read(0, 99) == b"abcdefghij"


def test_two_files_change_names(files, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    files.exchange(f"{tmp_path}/a", f"{tmp_path}/b")
    assert [(tmp_path / name).read_text() for name in ("a", "b")] == ["b", "a"]
    with pytest.raises(FileNotFoundError):
        files.exchange(f"{tmp_path}/a", f"{tmp_path}/none")


def test_a_write_that_writes_nothing_is_an_error(files, tmp_path, monkeypatch):
    file = files.open(f"{tmp_path}/f", create=True)
    monkeypatch.setattr(os, "pwritev", lambda *_: 0)
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    with pytest.raises(OSError, match="no byte") as failed:
        file.write(0, [b"abcd"])
    assert failed.value.errno == errno.EIO


class Calls:
    """What is asked of the system: (call, bytes or flags); `pwritev` takes at most `most` bytes of a call."""

    def __init__(self, monkeypatch, *, most=1 << 30, refuse=None):
        self.made = []
        pwritev, fdatasync = os.pwritev, os.fdatasync

        def write(descriptor, parts, at, flags=0):
            if flags and refuse is not None:
                raise OSError(refuse, "simulated")
            data = b"".join(parts)[:most]
            self.made.append(("write", len(data), flags))
            return pwritev(descriptor, (data,), at, flags)

        def flush(descriptor):
            self.made.append(("flush",))
            fdatasync(descriptor)

        monkeypatch.setattr(os, "pwritev", write)
        monkeypatch.setattr(os, "fdatasync", flush)


def written_through(files, path, parts):
    file = files.open(f"{path}/f", create=True)
    for at in (0, 5):
        file.write_through(at, parts)
    content = file.read(0, 1 << 20)
    assert content[5:] == b"".join(parts)


def test_what_is_written_through_takes_one_call(files, tmp_path, monkeypatch):
    calls = Calls(monkeypatch)
    written_through(files, tmp_path, [b"abcde", b"fgh"])
    assert calls.made == [("write", 8, os.RWF_DSYNC)] * 2


def test_the_rest_of_a_short_write_is_flushed_too(files, tmp_path, monkeypatch):
    calls = Calls(monkeypatch, most=6)
    written_through(files, tmp_path, [b"abcde", b"fgh"])
    assert calls.made == [("write", 6, os.RWF_DSYNC), ("write", 2, 0), ("flush",)] * 2


def test_where_there_is_no_such_call_and_for_very_many_parts_it_is_two(files, tmp_path, monkeypatch):
    calls = Calls(monkeypatch, refuse=errno.EOPNOTSUPP)
    written_through(files, tmp_path, [b"abcde", b"fgh"])
    assert calls.made == [("write", 8, 0), ("flush",)] * 2
    calls = Calls(monkeypatch)
    written_through(files, tmp_path, [b"x"] * 600)
    assert calls.made[-1] == ("flush",)
    assert sum(size for call, size, *_ in (each for each in calls.made if each[0] == "write")) == 1200


def test_a_write_through_that_fails_is_not_tried_in_another_way(files, tmp_path, monkeypatch):
    calls = Calls(monkeypatch, refuse=errno.EIO)
    with pytest.raises(OSError, match="simulated"):
        written_through(files, tmp_path, [b"abcde"])
    assert calls.made == []


def test_allocated_bytes_are_zero_and_on_the_disk(files, tmp_path):
    file = files.open(f"{tmp_path}/f", create=True)
    file.allocate(1 << 20)
    assert file.read(0, 1 << 20) == bytes(1 << 20)
    assert os.stat(f"{tmp_path}/f").st_blocks * 512 >= 1 << 20


def test_views_follow_writes_and_outlive_close_and_unlink(files, tmp_path):
    file = files.open(f"{tmp_path}/f", create=True)
    file.allocate(8192)
    view = file.map(8192)
    file.write(100, [b"later"])
    assert bytes(view[100:105]) == b"later"
    assert view.readonly
    file.close()
    files.unlink(f"{tmp_path}/f")
    assert bytes(view[100:105]) == b"later"


def test_writable_views_reach_the_file(files, tmp_path):
    file = files.open(f"{tmp_path}/f", create=True)
    file.allocate(8192)
    view = file.map_writable(8192)
    view[5000:5003] = b"abc"
    file.flush(4096, 4096)
    file.flush()
    assert file.read(5000, 3) == b"abc"


def test_only_written_ranges_are_named(files, tmp_path):
    file = files.open(f"{tmp_path}/f", create=True)
    file.allocate(1 << 22)
    file.write(1 << 21, [b"x"])
    file.flush()
    ranges = list(file.written_ranges(0))
    assert any(start <= 1 << 21 < end for start, end in ranges)
    assert sum(end - start for start, end in ranges) <= 1 << 22
    assert list(file.written_ranges(1 << 22)) == []


def test_a_lock_is_held_once_until_released(files, tmp_path):
    lock = files.lock(f"{tmp_path}/lock")
    assert lock is not None
    assert files.lock(f"{tmp_path}/lock") is None
    lock.release()
    again = files.lock(f"{tmp_path}/lock")
    assert again is not None
    again.release()


def test_names_are_listed_renamed_and_removed(files, tmp_path):
    root = str(tmp_path)
    files.make_directory(f"{root}/d/e")
    for name in ("b", "a"):
        files.open(f"{root}/d/{name}", create=True).close()
    assert files.list(f"{root}/d") == ["a", "b", "e"]
    files.rename(f"{root}/d/a", f"{root}/d/b")
    assert files.list(f"{root}/d") == ["b", "e"]
    files.sync_dir(f"{root}/d")
    assert files.list(f"{root}/none") == []
    assert files.size(f"{root}/none") is None
    files.unlink(f"{root}/none")
    files.remove_directory(f"{root}/none")
    files.remove_directory(f"{root}/d")
    assert files.list(root) == []
    assert files.free_bytes(root) > 0
    with pytest.raises(FileNotFoundError):
        files.open(f"{root}/none")


def test_a_lock_that_is_released_twice_closes_nothing_of_others(files, tmp_path):
    lock = files.lock(f"{tmp_path}/lock")
    assert lock is not None
    lock.release()
    with (tmp_path / "other").open("wb") as other:  # has the number that is free now
        lock.release()
        other.write(b"x")
    assert (tmp_path / "other").read_bytes() == b"x"
