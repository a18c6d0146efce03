"""Opening a member's log on a disk that does not give some block of it: that is damage like any other (store.readable),
refused by name where it may have taken what was promised, and made good where it has not."""

from pathlib import Path
from zlib import crc32

import pytest

from logherd.model.names import Epoch, Position
from logherd.raft.record import Kind
from logherd.raft.store import HardState
from logherd.raftlog import RaftLog, RaftLogOptions
from logherd.raftlog.image_file import image_name
from logherd.replication.epochs import ORIGIN
from logherd.replication.log import Image
from logherd.replication.messages import ClusterId, ReplicaId
from logherd.store.errors import ReplicaDamaged
from unit.store.bad_disk import BLOCK, BadFiles

OPTIONS = RaftLogOptions(
    segment_bytes=16 * BLOCK, record_bytes_max=BLOCK, window_bytes=BLOCK, spare_segments=1, reserve_bytes=0,
    mark_bytes=1 << 20,
)  # fmt: skip
HARD = HardState(ClusterId("c"), ReplicaId("a.1"), Epoch(4), ReplicaId("b.1"))
FOUNDING = Image("founding", ORIGIN, 0, 0, 0, b"members")
FIRST = "log/00000000000000000000"


def flush(log: RaftLog) -> None:
    log.take_batch(1).write_and_flush()


def fill(log: RaftLog, end: int) -> None:
    """Records up to about there, flushed in small pieces, as they come."""
    while log.end < end:
        log.append(Kind.DATA, Epoch(4), bytes(range(200)))
        flush(log)


def made(root: Path, files: "Files", *, marked: int, end: int) -> RaftLog:
    """A log whose mark is at about the one position, and which ends at the other; as a killed process leaves it."""
    log = RaftLog.open(files, str(root), OPTIONS)
    log.keep_hard_state(HARD)
    log.keep_image(FOUNDING, b"")
    flush(log)
    fill(log, marked)
    log.close()
    log = RaftLog.open(files, str(root), OPTIONS)
    fill(log, end)
    return log


class Files(BadFiles):
    """Locks are of the process here, and a killed one is played by this one."""

    def lock(self, path: str):
        return _Lock()


class _Lock:
    def release(self) -> None:
        pass


def test_a_block_that_holds_nothing_yet_costs_nothing(tmp_path: Path) -> None:
    files = Files()
    before = made(tmp_path, files, marked=BLOCK, end=2 * BLOCK)
    assert OPTIONS.torn_bytes_max + before.end < 12 * BLOCK
    files.lose(f"{tmp_path}/{FIRST}", 12 * BLOCK)
    files.lose(f"{tmp_path}/log/{16 * BLOCK:020d}", 3 * BLOCK)
    log = RaftLog.open(files, str(tmp_path), OPTIONS)
    assert (log.end, log.recovered.rows[-1], log.recovered.doubtful) == (before.end, "end", False)
    log.close()


def test_a_block_behind_the_end_may_have_held_what_was_acknowledged_and_is_written_again(tmp_path: Path) -> None:
    files = Files()
    before = made(tmp_path, files, marked=BLOCK, end=3 * BLOCK + 500)
    records = before.records(Position(0), before.end)
    files.lose(f"{tmp_path}/{FIRST}", 3 * BLOCK)
    log = RaftLog.open(files, str(tmp_path), OPTIONS)
    assert log.end == max(record.end for record in records if record.end <= 3 * BLOCK)
    assert log.recovered.doubtful, "a member that may have forgotten what it acknowledged has no vote"
    assert not files.lost
    fill(log, 5 * BLOCK)
    log.close()
    again = RaftLog.open(files, str(tmp_path), OPTIONS)
    assert (again.end, again.recovered.doubtful) == (log.end, True)
    again.close()


def test_a_block_of_what_was_written_over_a_cut_part_leaves_a_doubt(tmp_path: Path) -> None:
    """The promises still tell of the cut, which may have left anything there; what was acknowledged since, too."""
    files = Files()
    log = made(tmp_path, files, marked=BLOCK, end=6 * BLOCK)
    log.truncate(max(record.end for record in log.records(Position(0), log.end) if record.end <= 2 * BLOCK))
    flush(log)
    fill(log, 4 * BLOCK)
    files.lose(f"{tmp_path}/{FIRST}", 3 * BLOCK)
    again = RaftLog.open(files, str(tmp_path), OPTIONS)
    assert 2 * BLOCK < again.end <= 3 * BLOCK
    assert again.recovered.doubtful
    again.close()


def test_a_block_below_the_mark_is_refused_by_file_and_byte(tmp_path: Path) -> None:
    files = Files()
    made(tmp_path, files, marked=3 * BLOCK, end=3 * BLOCK)
    files.lose(f"{tmp_path}/{FIRST}", BLOCK)
    with pytest.raises(ReplicaDamaged, match=rf"{FIRST} at byte \d+: below the promise"):
        RaftLog.open(files, str(tmp_path), OPTIONS)
    assert files.lost, "nothing was changed"


def test_a_block_above_the_mark_with_records_far_behind_is_refused(tmp_path: Path) -> None:
    files = Files()
    made(tmp_path, files, marked=BLOCK, end=9 * BLOCK)
    files.lose(f"{tmp_path}/{FIRST}", 2 * BLOCK)
    with pytest.raises(ReplicaDamaged, match=rf"{FIRST} at byte \d+: beyond"):
        RaftLog.open(files, str(tmp_path), OPTIONS)
    assert files.lost, "nothing was changed"


def test_of_images_the_one_before_is_used(tmp_path: Path) -> None:
    files = Files()
    log = made(tmp_path, files, marked=BLOCK, end=2 * BLOCK)
    ends = [record.end for record in log.records(Position(0), log.end)]
    images = []
    for at in (ends[2], ends[9]):
        images.append(Image(f"at {at}", log.epochs.point_at(at), log.seal_at(at), crc32(b"state"), 5, b"n"))
        log.keep_image(images[-1], b"state")
    log.compact(ends[2])
    flush(log)
    log.close()
    newest = f"{tmp_path}/images/{image_name(images[1].point)}"
    files.lose(newest, 0)
    again = RaftLog.open(files, str(tmp_path), OPTIONS)
    assert (again.image(), again.recovered.rows[1]) == (images[0], "image: older")
    assert not Path(newest).exists()
    again.close()
    files.lose(f"{tmp_path}/images/{image_name(images[0].point)}", 0)
    with pytest.raises(ReplicaDamaged, match=f"images/{image_name(images[0].point)} at byte 0: image damaged"):
        RaftLog.open(files, str(tmp_path), OPTIONS)


def test_a_format_file_that_the_disk_does_not_give_is_refused_by_name(tmp_path: Path) -> None:
    files = Files()
    made(tmp_path, files, marked=BLOCK, end=BLOCK)
    files.lose(f"{tmp_path}/raftlog.json", 0)
    with pytest.raises(ReplicaDamaged, match=r"raftlog\.json at byte 0: not a log"):
        RaftLog.open(files, str(tmp_path), OPTIONS)
