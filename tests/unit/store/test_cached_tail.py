"""What a follower gives back of the system's file cache: what is flushed and old, each byte once, and nothing else."""

import ctypes
import errno
import mmap
import os
from itertools import pairwise
from pathlib import Path

import pytest

from logherd.store import StoreDamaged
from logherd.store.cached_tail import UNCACHED_AT_ONCE
from logherd.store.files_os import OsFiles
from unit.store.helpers import SimDisk, append, flush, open_store

PIECE = UNCACHED_AT_ONCE
KEPT = 3 * PIECE + 1000
LOG = {
    "segment_bytes": 4 * PIECE + 4096, "batch_bytes_max": 1 << 20, "record_bytes_max": 1 << 20,
    "follower_cached_bytes": KEPT,
}  # fmt: skip


def replicate(leader, follower, size):
    """Grow the leader's log by `size` bytes and more, in runs, each of which the follower takes and flushes."""
    goal = leader.end_position + size
    while leader.end_position < goal:
        append(leader, body=b"x" * 100_000)
        flush(leader)
        ship(leader, follower)


def ship(leader, follower):
    while follower.end_position < leader.end_position:
        data, end = leader.read_raw(follower.end_position, 1 << 20)
        follower.append_raw(bytes(data), follower.end_position, end=end)
        flush(follower)


def uncached(disk):
    """[first, end) positions that were given back, in order; the pieces lie one after the other."""
    pieces = [(int(path.rpartition("/")[2]) + at, size) for path, at, size in disk.uncached]
    for (start, size), (following, _) in pairwise(pieces):
        assert start + size == following
    return (pieces[0][0], sum(pieces[-1])) if pieces else (0, 0)


def test_a_follower_keeps_the_newest_part_of_its_log_cached_and_gives_the_rest_back_across_segments():
    disk, others = SimDisk(), SimDisk()
    leader, follower = open_store(others, log=LOG), open_store(disk, log=LOG)
    replicate(leader, follower, KEPT)
    assert disk.uncached == []
    replicate(leader, follower, 10 * PIECE)
    first, end = uncached(disk)
    assert first == 0
    assert follower.flushed_position - KEPT - 2 * PIECE < end <= follower.flushed_position - KEPT
    assert len({path for path, _, _ in disk.uncached}) > 1
    assert all(at % PIECE == 0 for _, at, _ in disk.uncached)


def test_a_leader_gives_nothing_back():
    disk = SimDisk()
    store = open_store(disk, log=LOG)
    while store.end_position < 10 * PIECE:
        append(store, body=b"x" * 100_000)
        flush(store)
    assert disk.uncached == []


def test_what_is_not_flushed_is_not_given_back():
    disk = SimDisk()
    leader, follower = open_store(SimDisk(), log=LOG), open_store(disk, log=LOG)
    while leader.end_position < KEPT + 4 * PIECE:
        append(leader, body=b"x" * 100_000)
        flush(leader)
        data, end = leader.read_raw(follower.end_position, 1 << 20)
        follower.append_raw(bytes(data), follower.end_position, end=end)
    assert disk.uncached == []


def test_a_follower_may_be_told_to_leave_it_to_the_system():
    disk, log = SimDisk(), {**LOG, "follower_cached_bytes": None}
    leader, follower = open_store(SimDisk(), log=log), open_store(disk, log=log)
    replicate(leader, follower, 10 * PIECE)
    assert disk.uncached == []


def test_who_led_for_a_while_gives_back_what_was_appended_then_as_well():
    """It is caught up with although no more is appended than before."""
    disk = SimDisk()
    once, again = open_store(disk, log=LOG), open_store(SimDisk(), log=LOG)
    while once.end_position < 8 * PIECE:
        append(once, body=b"x" * 100_000)
        flush(once)
    ship(once, again)
    replicate(again, once, 2 * PIECE)
    first, end = uncached(disk)
    assert first == 0
    assert end > once.flushed_position - KEPT - 2 * PIECE


def test_what_was_given_back_is_compared_when_it_is_read_and_what_stayed_is_not():
    disk = SimDisk()
    log = {**LOG, "segment_bytes": 7 * PIECE}
    leader, follower = open_store(SimDisk(), log=log), open_store(disk, log=log)
    replicate(leader, follower, 5 * PIECE)
    _, end = uncached(disk)
    assert 0 < end < follower.end_position < 7 * PIECE
    queue = follower.find_queue("T", 0)
    places = [follower.unit(queue, offset)[0] for offset in range(queue.max_offset)]
    old = max(offset for offset, position in enumerate(places) if position + 100_000 < end)
    fresh = min(offset for offset, position in enumerate(places) if position > end)
    file = disk.open("/data/commitlog/" + "0" * 20)
    for offset in (old, fresh):
        file.write(places[offset] + 500, [b"y"])
    with pytest.raises(StoreDamaged, match="checksum"):
        follower.read(queue, old, messages_max=1, bytes_max=1 << 20)
    assert follower.read(queue, fresh, messages_max=1, bytes_max=1 << 20).count == 1


def test_a_file_system_that_takes_no_advice_is_no_matter(monkeypatch):
    leader, follower = open_store(SimDisk(), log=LOG), open_store(SimDisk(), log=LOG)

    def refuse(*_):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr("sim.disk.SimFile.uncache", refuse)
    replicate(leader, follower, 6 * PIECE)
    assert follower.end_position == leader.end_position


def resident_pages(path, size):
    """How many pages of the file are in memory, by mincore(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        at = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
        pages = (ctypes.c_ubyte * (size // mmap.PAGESIZE))()
        assert libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(size), pages) == 0, ctypes.get_errno()
        libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(size))
    finally:
        os.close(descriptor)
    return sum(page & 1 for page in pages)


def on_memory(path):
    """Whether these files have no disk behind them: what is in memory then is all there is."""
    longest = ("", "")
    for line in Path("/proc/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if str(path).startswith(where) and len(where) > len(longest[0]):
            longest = (where, kind)
    return longest[1] in {"tmpfs", "ramfs"}


def test_bytes_of_which_the_cache_was_relieved_are_read_as_they_were(tmp_path):
    file = OsFiles().open(f"{tmp_path}/f", create=True)
    data = os.urandom(PIECE)
    file.write(0, [data, data])
    file.flush()
    before = resident_pages(tmp_path / "f", 2 * PIECE)
    file.uncache(0, PIECE)
    after = resident_pages(tmp_path / "f", 2 * PIECE)
    assert before == 2 * PIECE // mmap.PAGESIZE
    assert after == (before if on_memory(tmp_path) else before // 2)
    assert file.read(0, 2 * PIECE) == data + data
    file.close()
