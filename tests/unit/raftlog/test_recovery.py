"""Opening a member's log: the tables are complete, damage is refused by name, formats stay as they are."""

import contextlib
import errno
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import pytest

from logherd.kit.errors import InvariantError
from logherd.model.names import Epoch, Position
from logherd.raft.record import Kind
from logherd.raft.store import HardState
from logherd.raftlog import RaftLog, RaftLogOptions
from logherd.raftlog.image_file import decode_image, encode_image_head, image_name, image_place
from logherd.raftlog.kept import Kept, decode_kept, encode_kept
from logherd.raftlog.rows import DIRECTORY_ROWS, IMAGE_ROWS, TAIL_ROWS, Behind, Newest, Promise
from logherd.replication.epochs import ORIGIN, Point
from logherd.replication.log import Image, Span, SpanDamagedError
from logherd.replication.messages import ClusterId, ReplicaId
from logherd.store.errors import ReplicaDamaged, StoreError, StoreFull, StoreInUse, StoreStopped, StoreVersionError
from logherd.store.files_os import OsFiles
from logherd.store.format_file import FormatState
from logherd.store.recovery_rows import choose
from logherd.store.slots import SLOT_BYTES, encode_value_slot
from sim.disk import SimDisk, SimulatedCrash
from unit.store.bad_disk import BadFiles

ROOT = "/raft"
OPTIONS = RaftLogOptions(segment_bytes=1024, record_bytes_max=512, window_bytes=512, spare_segments=1, reserve_bytes=0)
HARD = HardState(ClusterId("c"), ReplicaId("a.1"), Epoch(4), ReplicaId("b.1"))
FOUNDING = Image("founding", ORIGIN, 0, 0, 0, b"members")


def flush(log: RaftLog) -> None:
    log.take_batch(1).write_and_flush()


def made(disk: SimDisk, records: int = 40) -> RaftLog:
    log = RaftLog.open(disk, ROOT, OPTIONS)
    log.keep_hard_state(HARD)
    log.keep_image(FOUNDING, b"")
    for number in range(records):
        log.append(Kind.DATA, Epoch(4), b"record %d" % number)
    flush(log)
    return log


def damage(disk: SimDisk, path: str, at: int, data: bytes | None = None) -> None:
    file = disk.open(f"{ROOT}/{path}")
    old = file.read(at, 1 if data is None else len(data))
    file.write(at, (bytes([old[0] ^ 0xFF]) if data is None else data,))
    file.flush()


def refused(disk: SimDisk, error: type[StoreError] = ReplicaDamaged) -> str:
    before = {name: disk.open(name).read(0, 1 << 20) for name in disk.names}
    with pytest.raises(error) as caught:
        RaftLog.open(disk, ROOT, OPTIONS)
    after = {name: disk.open(name).read(0, 1 << 20) for name in disk.names}
    assert {name: data for name, data in after.items() if before.get(name) != data} == {}
    return str(caught.value)


@pytest.mark.parametrize(
    ("rows", "facts"),
    [
        (DIRECTORY_ROWS, {"format": list(FormatState), "content": [False, True], "promise": list(Promise)}),
        (IMAGE_ROWS, {"newest": list(Newest), "older": [False, True], "based": [False, True]}),
        (TAIL_ROWS, {"promised": [False, True], "behind": list(Behind)}),
    ],
)
def test_every_combination_of_facts_has_one_row(rows: Sequence[Any], facts: dict[str, list[Any]]) -> None:
    chosen = {choose(rows, dict(zip(facts, values, strict=True))).label for values in product(*facts.values())}
    assert chosen == {row.label for row in rows}


def test_a_log_is_found_as_it_was_closed() -> None:
    disk = SimDisk()
    log = made(disk)
    log.close()
    again = RaftLog.open(disk, ROOT, OPTIONS)
    assert again.recovered.rows == ("ours", "image: whole", "end")
    assert (again.end, again.hard_state(), again.image()) == (log.end, HARD, FOUNDING)
    assert again.records(Position(0), again.end) == log.records(Position(0), log.end)


def test_a_real_disk_keeps_it_as_the_simulated_one_does(tmp_path: Any) -> None:
    log = RaftLog.open(OsFiles(), str(tmp_path / "raft"), OPTIONS)
    log.keep_hard_state(HARD)
    log.keep_image(FOUNDING, b"")
    ends = [log.append(Kind.DATA, Epoch(4), bytes(100)) for _ in range(40)]
    flush(log)
    log.truncate(ends[30])
    image = Image("own", log.epochs.point_at(ends[20]), log.seal_at(ends[20]), crc32(b"state"), 5, b"n")
    log.keep_image(image, b"state")
    log.compact(ends[20])
    log.append(Kind.DATA, Epoch(5), b"new")
    while log.tend():
        pass
    flush(log)
    log.close()
    again = RaftLog.open(OsFiles(), str(tmp_path / "raft"), OPTIONS)
    assert (again.end, again.epochs, again.image()) == (log.end, log.epochs, image)
    assert again.image_chunk(image, 0, 5) == b"state"
    again.close()


def test_a_second_opener_is_turned_away_and_the_lock_goes_with_the_first() -> None:
    disk = SimDisk()
    log = made(disk)
    with pytest.raises(StoreInUse):
        RaftLog.open(disk, ROOT, OPTIONS)
    log.close()
    RaftLog.open(disk, ROOT, OPTIONS).close()


def test_damage_below_the_mark_is_refused_by_file_and_offset() -> None:
    disk = SimDisk()
    made(disk).close()
    damage(disk, "log/00000000000000000000", 300)
    message = refused(disk)
    assert "/raft/log/00000000000000000000 at byte 288" in message
    assert "rejoin as a new member" in message


def test_a_missing_segment_is_refused() -> None:
    disk = SimDisk()
    made(disk).close()
    disk.unlink(f"{ROOT}/log/00000000000000000000")
    assert "below the promise" in refused(disk)


def test_damage_above_the_mark_with_records_far_behind_is_refused() -> None:
    disk = SimDisk()
    log = made(disk, 1)
    for _ in range(80):
        log.append(Kind.DATA, Epoch(4), bytes(60))
        flush(log)
    disk = disk.crash(None, power=False)  # type: ignore[arg-type]
    damage(disk, "log/00000000000000000000", 200)
    assert "beyond" in refused(disk)


def test_a_torn_tail_is_cut_and_reported() -> None:
    disk = SimDisk()
    log = made(disk, 3)
    end = log.end
    for body in (b"one", b"two"):
        log.append(Kind.DATA, Epoch(4), body)
    flush(log)
    disk = disk.crash(None, power=False)  # type: ignore[arg-type]
    damage(disk, "log/00000000000000000000", end + 5)
    again = RaftLog.open(disk, ROOT, OPTIONS)
    assert (again.end, again.recovered.rows[-1]) == (end, "torn")
    assert again.recovered.doubtful  # "two" is whole: torn, or damage to what was flushed; nobody here can know
    again.close()
    once_more = RaftLog.open(disk, ROOT, OPTIONS)
    assert once_more.recovered.rows[-1] == "end"
    assert once_more.recovered.doubtful  # nothing is left to see, so it was kept
    kept = once_more.hard_state()
    assert kept is not None
    once_more.keep_hard_state(replace(kept, doubtful=False))
    flush(once_more)
    once_more.close()
    assert not RaftLog.open(disk, ROOT, OPTIONS).recovered.doubtful


@pytest.mark.parametrize("seed", range(20))
def test_what_was_found_after_a_kill_outlasts_the_machine(seed: int) -> None:
    """The segment's name was in the cache only: the process that made it died before it could sync the directory."""
    disk = SimDisk()
    log = made(disk, 0)
    log.append(Kind.DATA, Epoch(4), b"first")
    for _ in range(6):
        log.append(Kind.DATA, Epoch(4), bytes(400))
    disk.crash_after(1, at=f"write {ROOT}/log/00000000000000002048")
    with pytest.raises(SimulatedCrash):
        flush(log)
    disk = disk.crash(Random(seed), power=False)
    again = RaftLog.open(disk, ROOT, OPTIONS)
    found = again.end
    assert found > 2048
    disk = disk.crash(Random(seed), power=True)
    assert RaftLog.open(disk, ROOT, OPTIONS).end == found


def test_what_was_found_after_a_failed_flush_outlasts_the_machine() -> None:
    """The cache calls those bytes clean, so that a further flush alone would write nothing."""
    disk, options = SimDisk(), replace(OPTIONS, segment_bytes=1 << 16, record_bytes_max=1 << 14, window_bytes=1 << 15)
    log = RaftLog.open(disk, ROOT, options)
    log.keep_hard_state(HARD)
    log.keep_image(FOUNDING, b"")
    flush(log)
    for _ in range(3):
        log.append(Kind.DATA, Epoch(4), bytes(range(1, 101)) * 100)
    disk.failing_flush, disk.failing_path = 0, "/log/"
    with pytest.raises(StoreStopped):
        flush(log)
    disk = disk.crash(Random(1), power=False)
    found = RaftLog.open(disk, ROOT, options).end
    assert found == log.end, "it may be acknowledged from here on"
    assert RaftLog.open(disk.crash(Random(2), power=True), ROOT, options).end == found


def test_beginning_at_a_copy_may_be_interrupted_however_long_the_old_log_was() -> None:
    disk = SimDisk()
    log = made(disk, records=400)
    copy = Image("copy", Point(Epoch(5), Position(60)), 7, crc32(b"state"), 5, b"members")
    log.stage(copy, 0, b"state")
    log.install(copy)
    for step in ("rename /raft/images", "unlink /raft/log"):
        disk.crash_after(1, at=step)
        with pytest.raises(SimulatedCrash):
            flush(log) if step.startswith("rename") else RaftLog.open(disk, ROOT, OPTIONS)
        disk = disk.crash(Random(1), power=False)
    log = RaftLog.open(disk, ROOT, OPTIONS)
    assert (log.epochs.base, log.end) == (copy.point, copy.point.position)


def test_a_cut_that_is_done_hides_no_damage_to_what_is_written_later() -> None:
    disk = SimDisk()
    log = made(disk)
    log.truncate(log.records(Position(0), log.end)[2].end)
    flush(log)
    log.keep_hard_state(replace(HARD, term=Epoch(5)))
    flush(log)
    at = log.end
    for _ in range(3):
        log.append(Kind.DATA, Epoch(5), b"acknowledged")
    flush(log)
    damage(disk, f"log/{at - at % 1024:020d}", at % 1024 + 30)
    again = RaftLog.open(disk.crash(Random(1), power=False), ROOT, OPTIONS)
    assert (again.end, again.recovered.doubtful) == (at, True)


def test_one_bad_slot_costs_nothing_that_was_promised_and_two_refuse_the_start() -> None:
    disk = SimDisk()
    log = made(disk)
    log.keep_hard_state(HardState(HARD.cluster, HARD.owner, Epoch(5)))
    flush(log)
    log.close()
    newest = max((0, SLOT_BYTES), key=lambda at: int.from_bytes(disk.open(f"{ROOT}/promises").read(at + 12, 8)))
    damage(disk, "promises", SLOT_BYTES - newest + 30)
    found = RaftLog.open(disk, ROOT, OPTIONS)
    assert (found.hard_state() or HARD).term == 5
    assert found.recovered.doubtful  # the older slot here; that it was not the newest one nobody can see
    disk.locks.clear()
    for at in (0, SLOT_BYTES):
        damage(disk, "promises", at, b"\xff" * 64)
    assert "/raft/promises" in refused(disk)
    disk.unlink(f"{ROOT}/promises")
    assert "/raft/promises" in refused(disk)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENODATA, errno.EILSEQ])
def test_a_slot_that_the_disk_has_lost_is_one_bad_slot_and_is_written_again(tmp_path: Path, error: int) -> None:
    """Whatever error its file system makes of that, as everywhere else (`store.readable`)."""
    files, root = BadFiles(error), str(tmp_path)
    log = RaftLog.open(files, root, OPTIONS)
    log.keep_hard_state(HARD)
    log.keep_image(FOUNDING, b"")
    flush(log)
    log.close()
    data = (tmp_path / "promises").read_bytes()
    newest = max((0, SLOT_BYTES), key=lambda at: int.from_bytes(data[at + 12 : at + 20]))
    files.lose(f"{root}/promises", SLOT_BYTES - newest)
    found = RaftLog.open(files, root, OPTIONS)
    assert found.hard_state() == replace(HARD, doubtful=True)
    assert found.recovered.doubtful
    found.keep_hard_state(replace(HARD, term=Epoch(5), doubtful=True))
    flush(found)
    found.close()
    assert not files.lost
    found = RaftLog.open(files, root, OPTIONS)
    assert (found.hard_state() or HARD).term == 5
    found.close()
    for at in (0, SLOT_BYTES):
        files.lose(f"{root}/promises", at)
    with pytest.raises(ReplicaDamaged, match="/promises"):
        RaftLog.open(files, root, OPTIONS)


def test_a_promise_that_may_be_in_the_cache_only_is_made_durable_before_the_one_before_it_is_given_up() -> None:
    terms = set()
    for calls, seed in product(range(1, 12), range(8)):
        disk = SimDisk()
        log = made(disk)
        log.keep_hard_state(replace(HARD, term=Epoch(5)))
        flush(log)
        log.keep_hard_state(replace(HARD, term=Epoch(6)))
        disk.failing_flush, disk.failing_path = 0, "/promises"
        with pytest.raises(StoreStopped):
            flush(log)
        disk = disk.crash(Random(seed), power=False)
        disk.crash_after(calls, at="/promises")
        with contextlib.suppress(SimulatedCrash):
            RaftLog.open(disk, ROOT, OPTIONS)
        disk = disk.crash(Random(seed), power=True, fine=(f"{ROOT}/promises",))
        hard = RaftLog.open(disk, ROOT, OPTIONS).hard_state()
        assert hard is not None
        terms.add(hard.term)
    assert terms == {5, 6}


def test_a_format_file_that_is_gone_or_of_somebody_else_is_refused() -> None:
    disk = SimDisk()
    made(disk).close()
    damage(disk, "raftlog.json", 0, b'{"product":"logherd-rafu"')
    assert "not a log" in refused(disk)
    damage(disk, "raftlog.json", 0, b'{"product":"logherd-raft","format":2')
    assert "later release" in refused(disk, StoreVersionError)
    disk.unlink(f"{ROOT}/raftlog.json")
    assert "format lost" in refused(disk)


def imaged(disk: SimDisk) -> tuple[Image, Image]:
    log = made(disk)
    ends = [record.end for record in log.records(Position(0), log.end)]
    images = []
    for at in (ends[9], ends[19]):
        image = Image(f"at {at}", log.epochs.point_at(at), log.seal_at(at), crc32(b"state"), 5, b"n")
        log.keep_image(image, b"state")
        images.append(image)
    log.compact(ends[9])
    flush(log)
    log.close()
    return images[0], images[1]


def test_the_image_before_is_used_when_the_newest_is_damaged_and_never_nothing() -> None:
    disk = SimDisk()
    first, second = imaged(disk)
    assert disk.list(f"{ROOT}/images") == [image_name(first.point), image_name(second.point)]
    damage(disk, f"images/{image_name(second.point)}", 100)
    log = RaftLog.open(disk, ROOT, OPTIONS)
    assert (log.image(), log.recovered.rows[1]) == (first, "image: older")
    assert disk.list(f"{ROOT}/images") == [image_name(first.point)]
    log.close()
    damage(disk, f"images/{image_name(first.point)}", 100)
    assert f"images/{image_name(first.point)}" in refused(disk)
    disk.unlink(f"{ROOT}/images/{image_name(first.point)}")
    assert "missing" in refused(disk)


def test_a_full_disk_is_told_early_the_reserve_still_takes_records_and_votes_and_it_ends_by_itself() -> None:
    disk = SimDisk()
    log = made(disk, 5)
    assert not log.full
    disk.capacity = disk.used()
    while not log.full:
        log.append(Kind.DATA, Epoch(4), bytes(100))
        flush(log)
    log.append(Kind.DATA, Epoch(4), bytes(100))
    log.keep_hard_state(HardState(HARD.cluster, HARD.owner, Epoch(9)))
    flush(log)
    for _ in range(20):
        log.append(Kind.DATA, Epoch(4), bytes(100))
    batch = log.take_batch(7)
    with pytest.raises(StoreFull):
        batch.write_and_flush()
    disk.capacity = 1 << 30
    batch.write_and_flush()
    assert not log.full
    log.close()
    again = RaftLog.open(disk, ROOT, OPTIONS)
    assert (again.end, (again.hard_state() or HARD).term) == (log.end, 9)


def test_little_free_space_counts_as_full() -> None:
    disk = SimDisk(capacity=1 << 20)
    log = RaftLog.open(disk, ROOT, RaftLogOptions(segment_bytes=1024, reserve_bytes=1 << 20))
    flush(log)
    assert log.full


def test_nothing_is_durable_after_a_failed_flush() -> None:
    disk = SimDisk()
    log = made(disk)
    log.append(Kind.DATA, Epoch(4), b"lost")
    disk.failing_flush = 0
    batch = log.take_batch(1)
    with pytest.raises(StoreStopped):
        batch.write_and_flush()
    for again in (batch.write_and_flush, log.take_batch(2).write_and_flush, log.tend):
        with pytest.raises(StoreStopped):
            again()
    log.close()
    RaftLog.open(disk, ROOT, OPTIONS).close()


def test_the_records_of_a_leader_with_other_segments_are_refused() -> None:
    theirs = RaftLog.open(SimDisk(), ROOT, RaftLogOptions(segment_bytes=128, reserve_bytes=0))
    for _ in range(3):
        theirs.append(Kind.DATA, Epoch(4), bytes(60))
    with pytest.raises(SpanDamagedError, match="segments"):
        made(SimDisk(), 0).write(theirs.read(Position(0), 10_000), Position(0))


def test_what_a_founding_left_behind_is_dropped_when_nothing_was_promised() -> None:
    disk = SimDisk()
    log = RaftLog.open(disk, ROOT, OPTIONS)
    log.keep_image(FOUNDING, b"")
    log.append(Kind.DATA, Epoch(1), b"early")
    flush(log)
    log.close()
    again = RaftLog.open(disk, ROOT, OPTIONS)
    assert (again.recovered.rows[0], again.end, again.image()) == ("founding interrupted", 0, None)


def test_wherever_a_rebuilding_of_the_quorum_ends_its_record_is_in_no_log_of_the_cluster_before() -> None:
    """The members that are given up are of that one, and such a member would answer them."""
    anew = HardState(ClusterId("c", 1), HARD.owner, Epoch(7), HARD.owner)
    seen = set()
    for calls, seed in product(range(1, 20), range(5)):
        disk = SimDisk()
        log = made(disk)
        log.append(Kind.DATA, Epoch(4), b"not flushed yet")
        log.keep_hard_state(anew)
        log.append(Kind.RESET, Epoch(7), b"survivors")
        disk.crash_after(calls)
        with contextlib.suppress(SimulatedCrash):
            flush(log)
        again = RaftLog.open(disk.crash(Random(seed), power=True), ROOT, OPTIONS)
        found = again.hard_state()
        assert found is not None
        noted = again.epochs.last_epoch == 7
        assert not noted or found == anew
        seen.add((noted, found == anew))
    assert seen == {(False, False), (False, True), (True, True)}


def test_the_formats_stay_as_they_are() -> None:
    """Golden bytes: an old directory stays readable."""
    kept = Kept(cluster="c", reset=1, owner="a.1", term=4, vote="b.1", base_epoch=1, base_position=56, base_seal=7,
                mark_position=128, mark_seal=9, loose=200)  # fmt: skip
    text = (
        b'{"cluster":"c","reset":1,"owner":"a.1","term":4,"vote":"b.1","baseEpoch":1,"basePosition":56,"baseSeal":7,'
        b'"markPosition":128,"markSeal":9,"loose":200,"doubtful":false}'
    )
    assert encode_kept(kept) == text
    assert decode_kept(text) == decode_kept(text.replace(b',"doubtful":false', b"")) == kept
    assert encode_value_slot(3, b"value").hex() == "4c48534c4f5400000001000500000000000000037859ba7976616c7565"
    image = Image("i", Point(Epoch(3), Position(50)), 9, crc32(b"state"), 5, b"\0note")
    file = encode_image_head(image) + b"state"
    assert file.hex() == (
        "4c48494d4147450000010000000000626f0382cf7b226964656e74697479223a2269222c2265706f6368223a332c22706f73"
        "6974696f6e223a35302c227365616c223a392c22636865636b73756d223a323734343337343031312c2273697a65223a352c"
        "226e6f7465223a22414735766447553d227d7374617465"
    )
    assert decode_image(file, "i") == (image, b"state")
    assert decode_image(file[:-1], "i") is None
    assert image_name(image.point) == "00000000000000000050-00000000000000000003"
    assert image_place(image_name(image.point)) == 50


def test_an_image_or_slot_of_a_later_release_is_refused_by_name() -> None:
    image = Image("i", Point(Epoch(3), Position(50)), 9, 0, 0, b"")
    file = bytearray(encode_image_head(image))
    file[9] = 2
    with pytest.raises(StoreVersionError, match="version 2"):
        decode_image(bytes(file), "i")


def test_promises_of_a_later_release_are_refused_by_name() -> None:
    with pytest.raises(StoreVersionError):
        decode_kept(encode_kept(Kept(owner="a.1"))[:-1] + b',"witness":true}')


def test_a_batch_is_not_taken_before_the_one_before_is_written() -> None:
    log = made(SimDisk(), 1)
    log.take_batch(1)
    with pytest.raises(InvariantError):
        log.take_batch(2)


def test_an_empty_span_changes_nothing() -> None:
    log = made(SimDisk(), 2)
    end = log.end
    with pytest.raises(SpanDamagedError):
        log.write(Span(log.epochs.point_at(end), end, (), b""), end)
    assert log.end == end
