"""A member whose process has no descriptor left takes no records for that time, and votes as before."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from logherd.model.names import Epoch, Position
from logherd.raft.record import Kind
from logherd.raft.store import HardState
from logherd.raftlog import RaftLog, RaftLogOptions
from logherd.replication.epochs import Point
from logherd.replication.log import Image
from logherd.replication.messages import ClusterId, ReplicaId
from logherd.store.errors import StoreFull
from logherd.store.files_os import OsFiles
from unit.store.helpers import none_left

OPTIONS = RaftLogOptions(segment_bytes=1024, record_bytes_max=512, window_bytes=512, spare_segments=1, reserve_bytes=0)
HARD = HardState(ClusterId("c"), ReplicaId("a.1"), Epoch(4), ReplicaId("b.1"))
STATE = b"state"


def opened(root: Path) -> RaftLog:
    return RaftLog.open(OsFiles(), str(root), OPTIONS)


def append(log: RaftLog, count: int, epoch: int = 4) -> None:
    for _ in range(count):
        log.append(Kind.DATA, Epoch(epoch), bytes(100))


def image_at(log: RaftLog) -> Image:
    return Image("own", log.epochs.point_at(log.end), log.seal_at(log.end), crc32(STATE), len(STATE), b"members")


@pytest.fixture
def log(tmp_path: Path) -> RaftLog:
    log = opened(tmp_path)
    log.keep_hard_state(HARD)
    append(log, 3)
    log.take_batch(1).write_and_flush()
    return log


def test_records_that_need_a_segment_wait_for_a_descriptor(
    log: RaftLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(log, 40)
    batch = log.take_batch(2)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", none_left)
        for _ in range(3):
            with pytest.raises(StoreFull):
                batch.write_and_flush()
            while log.tend():
                pass
            assert log.full
            assert "Too many open files" in log.lack
    batch.write_and_flush()
    log.tend()
    assert not log.full
    log.close()
    again = opened(tmp_path)
    assert again.end == log.end
    again.close()


def test_votes_go_on_without_a_descriptor(log: RaftLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", none_left)
        while not log.full:  # the spare segment is begun, and no other can be made
            append(log, 1)
            log.take_batch(2).write_and_flush()
        log.keep_image(image_at(log), STATE)
        log.keep_hard_state(HardState(HARD.cluster, HARD.owner, Epoch(9)))
        log.take_batch(3).write_and_flush()
    log.close()
    again = opened(tmp_path)
    assert (again.end, (again.hard_state() or HARD).term) == (log.end, 9)
    again.close()


def test_an_own_image_that_finds_no_room_even_for_its_name_is_left_out(
    log: RaftLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """XFS makes room for new files a chunk at a time: on a full disk the open itself fails."""
    really = os.open

    def no_space_for(path: str, flags: int, *more: int) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return really(path, flags, *more)

    image = image_at(log)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", no_space_for)
        log.keep_image(image, STATE)
        log.keep_hard_state(HardState(HARD.cluster, HARD.owner, Epoch(9)))
        log.take_batch(2).write_and_flush()
    log.close()
    again = opened(tmp_path)
    assert (again.image(), (again.hard_state() or HARD).term) == (None, 9)
    again.close()


class OpensFail:
    """Every call of os.open from the n-th to the one after it finds no descriptor."""

    def __init__(self, number: int) -> None:
        self._left = number
        self._open: Callable[..., int] = os.open
        self.failed = False

    def __call__(self, *arguments: object, **more: object) -> int:
        self._left -= 1
        if self._left in (0, -1):
            self.failed = True
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return self._open(*arguments, **more)


def write_all(log: RaftLog) -> None:
    batch = log.take_batch(2)
    for _ in range(5):
        try:
            batch.write_and_flush()
        except StoreFull:
            log.tend()
        else:
            return


def live(log: RaftLog) -> None:
    """Every kind of change."""
    append(log, 30)
    write_all(log)
    log.truncate(Position(log.records(Position(0), log.end)[-5].start))
    append(log, 2)
    write_all(log)
    log.keep_image(image_at(log), STATE)
    log.compact(log.end)
    append(log, 10)
    write_all(log)
    image = Image("theirs", Point(Epoch(5), Position(9000)), 7, crc32(STATE), len(STATE), b"members")
    log.stage(image, 0, STATE)
    log.install(image)
    append(log, 3, epoch=5)
    write_all(log)
    log.tend()


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_wherever_descriptors_are_lacking_the_log_goes_on(
    tmp_path: Path, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(first + 1, first + 11):
        root = tmp_path / str(number)
        log = opened(root)
        log.keep_hard_state(HARD)
        log.take_batch(1).write_and_flush()
        with monkeypatch.context() as patch:
            opens = OpensFail(number)
            patch.setattr(os, "open", opens)
            live(log)
        log.close()
        again = opened(root)
        found = again.image()
        assert found is not None
        assert found.identity == "theirs"
        assert (again.end, again.epochs.base.position) == (log.end, 9000)
        assert len(os.listdir(root / "log")) <= 3
        again.close()
    if first == 0:
        assert opens.failed
