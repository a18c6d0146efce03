"""A follower whose disk lets no further segment be made, whatever the system says of free space, waits for it."""

import errno
import os
from dataclasses import replace
from random import Random

import pytest

from logherd.model.names import Epoch
from logherd.replica import ReplicaStore
from logherd.store import MessageStore
from logherd.store.segment import Segment
from sim.disk import SimDisk, SimFile
from unit.store.helpers import ROOT, SimClock, append, none_left, small_options

SEGMENT = 8192
OPTIONS = replace(small_options(), replicated=True)


def open_log(disk: SimDisk) -> ReplicaStore:
    return ReplicaStore(MessageStore.open(ROOT, OPTIONS, disk, clock=SimClock()), [])


def flush(log: ReplicaStore) -> None:
    while (batch := log.take_batch()) is not None:
        batch.write_and_flush()
        log.flushed(batch)


@pytest.fixture
def leader() -> ReplicaStore:
    log = open_log(SimDisk())
    log.begin_epoch(Epoch(1))
    while log.end < 2 * SEGMENT:
        append(log.store, body=b"x" * 200)
        flush(log)
    return log


def follow(follower: ReplicaStore, leader: ReplicaStore, looks: int) -> None:
    """Take what the leader has, waiting for room as long as these looks at the disk take."""
    while follower.end < leader.end and looks:
        if follower.full:
            follower.store.background_work()
            looks -= 1
        else:
            follower.write(leader.read(follower.end, 300), follower.end)
            flush(follower)


@pytest.mark.parametrize("lacks", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE])
def test_without_inodes_quota_or_descriptors_it_is_full_in_each_of_its_lives(
    leader: ReplicaStore, monkeypatch: pytest.MonkeyPatch, lacks: int
) -> None:
    disk = SimDisk()
    follower = open_log(disk)
    with monkeypatch.context() as patch:
        opened = SimDisk.open

        def refused(disk: SimDisk, path: str, *, create: bool = False) -> SimFile:
            if create and "/commitlog/" in path and path not in disk.names:
                raise OSError(lacks, os.strerror(lacks))
            return opened(disk, path, create=create)

        patch.setattr(SimDisk, "open", refused)
        follow(follower, leader, 40)
        end = follower.end
        assert SEGMENT * 3 // 4 < end < SEGMENT
        follower = open_log(disk.crash(Random(1), power=False))
        assert follower.tight
        assert follower.full
        follow(follower, leader, 40)
        assert follower.end == end
    follow(follower, leader, 40)
    assert follower.end == leader.end


def test_a_disk_that_somebody_else_has_filled_since_the_last_look_is_full(leader: ReplicaStore) -> None:
    disk = SimDisk()
    follower = open_log(disk)
    disk.capacity = disk.used() + 100
    follow(follower, leader, 4)
    assert follower.full
    for _ in range(12):
        disk.capacity = 1 << 30
        while follower.store._writer.free_bytes < SEGMENT:
            follower.store.background_work()
        disk.capacity = disk.used() + 100
        follow(follower, leader, 1)
        assert follower.full
    disk.capacity = 1 << 30
    follow(follower, leader, 40)
    assert follower.end == leader.end


def test_a_full_disk_is_asked_for_a_segment_once_for_each_look(
    leader: ReplicaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tick asks for room, and each message does."""
    asked = list[None]()
    follower = open_log(SimDisk())
    monkeypatch.setattr(Segment, "create", lambda *_: asked.append(None) or none_left())
    follow(follower, leader, 1)
    before = len(asked)
    for _ in range(100):
        assert follower.full
    assert len(asked) <= before + 1


def test_what_the_writer_will_fail_at_is_no_room(leader: ReplicaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk()
    follower = open_log(disk)
    disk.capacity = disk.used() + 100
    follow(follower, leader, 4)
    disk.capacity = 1 << 30
    follower.store.background_work()
    follower.store._log.active.created = False

    def failed(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Segment, "make_durable_for_next", failed)
    assert follower.full
