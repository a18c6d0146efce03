"""Verify, repair and export of closed stores."""

import errno
import json
import os
import shutil
from dataclasses import replace
from random import Random

import pytest

from logherd.model.record import CHECKSUM_SIZE
from logherd.store import (
    DerivedOptions,
    LogOptions,
    MessageStore,
    StoreDamaged,
    StoreInUse,
    StoreOptions,
    StoreVersionError,
)
from logherd.store.checkpoint import SLOT_OFFSETS
from logherd.store.errors import StoreError
from logherd.store.files_os import OsFiles
from logherd.store.index_file import IndexFile
from logherd.store.tools import export_rocketmq, options_of, repair, verify
from sim.disk import SimulatedCrash
from unit.store.helpers import (
    ROOT,
    SimClock,
    SimDisk,
    append,
    bodies,
    disk_of,
    flush,
    kept_copies,
    open_store,
    small_options,
)

LOG = "/data/commitlog/00000000000000000000"
KEYS = b"UNIQ_KEY\x01u\x02"


@pytest.fixture
def disk():
    disk = SimDisk()
    store = open_store(disk)
    for number in range(60):
        append(store, "AB"[number % 2], body=b"%05d" % number * 20, properties=KEYS)
    flush(store)
    store.close()
    return disk


def rows(report, kind):
    return [row for row in report.rows if row.kind == kind]


def problems(report):
    return [problem for row in report.rows for problem in row.problems]


def test_a_whole_store_is_verified_with_its_numbers(disk):
    report = verify(ROOT, disk)
    assert report.whole, problems(report)
    assert sum(row.records for row in rows(report, "segment")) == 60
    assert [row.records for row in rows(report, "queue")] == [30, 30]
    assert sum(row.records for row in rows(report, "index")) == 60
    assert rows(report, "segment")[0].first == 0
    assert report.end_position == open_store(disk).end_position


def test_verify_tells_how_far_it_has_read(disk):
    told = []
    report = verify(ROOT, disk, seen=lambda done, of: told.append((done, of)))
    assert len(told) == sum(row.records for row in rows(report, "segment"))
    assert told == sorted(told)
    assert told[-1][0] == report.end_position <= told[-1][1]


def test_verify_changes_nothing(disk):
    before = {path: inode.content() for path, inode in disk.names.items()}
    verify(ROOT, disk)
    assert {path: inode.content() for path, inode in disk.names.items()} == before


def test_verify_finds_a_flipped_byte_and_what_follows_it(disk):
    disk.names[LOG].base[500] ^= 1
    report = verify(ROOT, disk)
    assert sum(row.records for row in rows(report, "segment")) == 59
    (problem,) = rows(report, "segment")[0].problems
    assert "whole records follow" in problem


@pytest.mark.parametrize("kept", [0, 1, 5])
def test_verify_finds_zeros_at_the_end_of_a_file_that_others_follow(disk, kept):
    """As of blocks that a file system gives back empty after a crash, or of a copy with holes."""
    store = open_store(disk)
    for number in range(60):
        append(store, "B", body=b"%05d" % number * 20, properties=KEYS)
    flush(store)
    store.close()
    for path in sorted(path for path in disk.names if "/commitlog/" in path)[:2]:
        content, at = disk.names[path].base, 0
        for _ in range(kept):
            at += int.from_bytes(content[at : at + 4])
        content[at:] = bytes(len(content) - at)
    report = verify(ROOT, disk)
    found = [row.problems for row in rows(report, "segment")]
    told = [f"byte {at}: zeros where a record should be; whole records follow in a later file"]
    assert found == [told, told, *[[]] * (len(found) - 2)]
    assert not report.whole


def test_verify_finds_a_missing_first_file_and_what_is_no_format_file(disk):
    disk.unlink(LOG)
    (problem,) = problems(verify(ROOT, disk))
    assert "the log should begin at position 0" in problem
    disk.names["/data/store.json"].base[:] = b""
    assert [row.problems for row in rows(verify(ROOT, disk), "format")] == [["no store wrote this"]]


def test_verify_reads_no_entries_that_an_index_file_cannot_hold(disk, monkeypatch):
    """One flipped bit, and there are two milliards of them."""
    path = min(path for path in disk.names if "/index/" in path)
    disk.names[path].base[36] ^= 0x40
    entry = IndexFile.entry

    def inside(file, number):
        assert number < 10_000
        return entry(file, number)

    monkeypatch.setattr(IndexFile, "entry", inside)
    (problem,) = rows(verify(ROOT, disk), "index")[0].problems
    assert "bytes are too few" in problem


@pytest.mark.parametrize("count", [0, 5, 40])
def test_a_topic_that_was_deleted_and_began_anew_is_whole(disk, count):
    store = open_store(disk)
    store.delete_topic("A")
    for number in range(count):
        append(store, "A", body=b"new%05d" % number)
    flush(store)
    store.close()
    report = verify(ROOT, disk)
    assert report.whole, problems(report)
    assert repair(ROOT, apply=False, files=disk).steps == ()


@pytest.mark.parametrize("place", [3, 9])
def test_repair_derives_again_what_is_derived_and_wrong(disk, place):
    path = "/data/consumequeue/A/0/00000000000000000000"
    disk.names[path].base[place] ^= 1
    plan = repair(ROOT, apply=False, files=disk)
    assert [(step.path, step.records, step.bytes) for step in plan.steps] == [("/data/queues", 0, 0)]
    assert not plan.changes_log
    assert not verify(ROOT, disk).whole
    assert repair(ROOT, apply=True, files=disk).applied
    store = open_store(disk)
    assert bodies(store, "A") == [b"%05d" % number * 20 for number in range(0, 60, 2)]
    store.close()
    assert verify(ROOT, disk).whole


def test_verify_finds_a_wrong_unit_and_a_missing_queue_file(disk):
    disk.names["/data/consumequeue/A/0/00000000000000000000"].base[7] ^= 1
    disk.unlink("/data/consumequeue/B/0/00000000000000000320")
    found = problems(verify(ROOT, disk))
    assert "unit 0 does not name the record at position 0" in found
    assert "the file of unit 16 is missing" in found


def test_verify_finds_a_promise_that_the_log_does_not_keep(disk):
    for path in sorted(path for path in disk.names if "/commitlog/" in path)[1:]:
        disk.unlink(path)
    assert any("flushed up to" in problem for problem in problems(verify(ROOT, disk)))


def test_verify_and_repair_leave_a_running_store_alone(disk):
    open_store(disk)
    with pytest.raises(StoreInUse):
        verify(ROOT, disk)
    with pytest.raises(StoreInUse):
        repair(ROOT, apply=True, files=disk)


@pytest.mark.parametrize("is_locked", [True, False])
def test_a_store_that_may_only_be_read_is_verified_and_looked_at_all_the_same(tmp_path, monkeypatch, is_locked):
    store = open_store(OsFiles(), tmp_path)
    append(store, "A", properties=KEYS)
    flush(store)
    if is_locked:
        with pytest.raises(StoreInUse):
            verify(tmp_path)
    store.close()
    if not is_locked:
        (tmp_path / "lock").unlink()
    open_file, before = os.open, {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    def read_only(path, flags, *more):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return open_file(path, flags, *more)

    monkeypatch.setattr(os, "open", read_only)
    assert verify(tmp_path).whole
    assert not repair(tmp_path, apply=False).steps
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_verify_of_something_else_says_so():
    with pytest.raises(StoreError, match="no commit log"):
        verify(ROOT, SimDisk())


def test_a_whole_store_needs_no_repair(disk):
    plan = repair(ROOT, apply=True, files=disk)
    assert (plan.steps, plan.applied) == ((), False)


@pytest.fixture
def damaged(disk):
    store = open_store(disk, derived={"interval_ms": 10**9, "bytes_max": 1 << 40})
    for number in range(20):
        append(store, "A", body=b"late%d" % number, properties=KEYS)
        flush(store)
    disk.locks.clear()
    start = store.record_at(store.unit(store.find_queue("A", 0), 40)[0])
    position = int.from_bytes(start[28:36])
    disk.names["/data/commitlog/00000000000000008192"].base[position - 8192 + 90] ^= 1
    with pytest.raises(StoreDamaged):
        open_store(disk)
    return disk, position


def test_repair_says_what_it_would_drop_and_changes_nothing(damaged):
    disk, position = damaged
    before = {path: inode.content() for path, inode in disk.names.items()}
    plan = repair(ROOT, apply=False, files=disk)
    assert (plan.end_position, plan.applied, plan.dropped_records) == (position, False, 9)
    assert {path: inode.content() for path, inode in disk.names.items()} == before


def test_repair_cuts_before_the_damage_and_keeps_a_copy(damaged):
    disk, position = damaged
    segment = disk.names["/data/commitlog/00000000000000008192"].content()
    plan = repair(ROOT, apply=True, files=disk)
    assert plan.applied
    copy = disk.names[f"/data/dropped/{position:020d}"].content()
    assert copy.rstrip(b"\0") == segment[position - 8192 :].rstrip(b"\0")
    assert not any(disk.names["/data/commitlog/00000000000000008192"].content()[position - 8192 :])
    store = open_store(disk)
    assert store.end_position == position
    assert len(bodies(store, "A")) == 40
    assert len(bodies(store, "B")) == 30
    append(store, "A", body=b"again")
    flush(store)
    assert bodies(store, "A")[-1] == b"again"
    store.close()
    assert verify(ROOT, disk).whole


@pytest.mark.parametrize("power", [False, True])
def test_a_repair_that_is_repeated_after_a_crash_leaves_what_the_first_one_kept(damaged, power):
    original, position = damaged
    content = {path: original.names[path].content() for path in original.names}
    dropped = content["/data/commitlog/00000000000000008192"][position - 8192 :].rstrip(b"\0")
    for calls in range(1, 100):
        disk = disk_of(content)
        disk.crash_after(calls)
        try:
            repair(ROOT, apply=True, files=disk)
        except SimulatedCrash:
            disk = disk.crash(Random(calls), power=power)
            repair(ROOT, apply=True, files=disk)
            copies = [copy.rstrip(b"\0") for path, copy in kept_copies(disk).items() if not path.endswith(".part")]
            assert dropped in copies, calls
            assert open_store(disk).end_position == position
        else:
            break
    assert calls > 10


def test_a_later_repair_at_the_same_place_keeps_its_copy_beside_the_earlier_one(damaged):
    disk, position = damaged
    repair(ROOT, apply=True, files=disk)
    (earlier,) = kept_copies(disk).items()
    store = open_store(disk)
    for number in range(3):
        append(store, "A", body=b"new%d" % number, properties=KEYS)
        flush(store)
    store.close()
    segment = disk.names["/data/commitlog/00000000000000008192"]
    segment.base[position - 8192 + 90] ^= 1
    second = segment.content()[position - 8192 :].rstrip(b"\0")
    plan = repair(ROOT, apply=True, files=disk)
    copies = kept_copies(disk)
    assert copies.pop(earlier[0]) == earlier[1]
    (later,) = copies
    assert copies[later].rstrip(b"\0") == second
    assert later in [step.copy for step in plan.steps]


def test_repair_moves_files_behind_a_gap_away(disk):
    store = open_store(disk)
    for _ in range(40):
        append(store, "A", body=b"y" * 200)
    flush(store)
    store.close()
    first, middle, last, *_ = sorted(path for path in disk.names if "/commitlog/" in path)
    content = disk.names[last].content()
    disk.unlink(middle)
    with pytest.raises(StoreDamaged):
        open_store(disk)
    disk.locks.clear()
    plan = repair(ROOT, apply=True, files=disk)
    assert next(step.path for step in plan.steps if step.records) == last
    assert disk.names["/data/dropped/00000000000000016384"].content().rstrip(b"\0") == content.rstrip(b"\0")
    store = open_store(disk)
    assert store.end_position == 8192
    assert first in disk.names


def test_repair_of_a_later_format_is_refused(disk):
    inode = disk.names["/data/store.json"]
    inode.base[:] = inode.base.replace(b'"format":1', b'"format":8')
    with pytest.raises(StoreVersionError):
        repair(ROOT, apply=True, files=disk)


def test_repair_of_a_checkpoint_of_a_later_release_is_refused(disk):
    page = disk.names["/data/checkpoint"].base
    for at in SLOT_OFFSETS:
        page[at + 8 : at + 12] = (9).to_bytes(4)
    with pytest.raises(StoreVersionError):
        repair(ROOT, apply=True, files=disk)


def test_repair_finds_damage_in_the_middle_whatever_the_checkpoint_says(damaged):
    disk, position = damaged
    page = disk.names["/data/checkpoint"].base
    for at in SLOT_OFFSETS:
        page[at] ^= 1  # no slot of ours: nothing was promised
    assert repair(ROOT, apply=False, files=disk).end_position == position


def test_repair_believes_no_record_of_ours_without_its_checksum_though_no_slot_is_whole(disk):
    store = open_store(disk)
    position, size, _ = store.unit(store.find_queue("A", 0), 10)
    store.close()
    page = disk.names["/data/checkpoint"].base
    for at in SLOT_OFFSETS:
        page[at + 92] ^= 1
    disk.names[LOG].base[position + size - CHECKSUM_SIZE : position + size] = b"PGNAME\x01%b\x02" % (b"x" * 12)
    assert repair(ROOT, apply=True, files=disk).end_position == position
    assert open_store(disk).end_position == position


def test_repair_takes_no_cut_that_a_crash_interrupted_for_damage():
    options = replace(small_options(), replicated=True)
    disk = SimDisk()
    store = MessageStore.open(ROOT, options, disk, clock=SimClock())
    for _ in range(30):
        append(store)
    while (batch := store.take_batch()) is not None:
        batch.write_and_flush()
        store.flushed(batch)
    store.truncate(0)
    disk.crash_after(1, at="flush /data/commitlog")
    with pytest.raises(SimulatedCrash):
        store.take_batch().write_and_flush()
    disk = disk.crash(Random(1), power=True)
    assert repair(ROOT, apply=False, files=disk).steps == ()
    assert MessageStore.open(ROOT, options, disk, clock=SimClock()).end_position == 0


def test_repair_moves_a_file_away_that_stands_far_behind_the_log(disk):
    stray = disk.open("/data/commitlog/00000000000000081920", create=True)
    stray.write(0, (b"what is this",))
    with pytest.raises(StoreDamaged):
        open_store(disk)
    disk.locks.clear()
    repair(ROOT, apply=True, files=disk)
    assert disk.names["/data/dropped/00000000000000081920"].content() == b"what is this"
    assert len(bodies(open_store(disk), "A")) == 30


def test_repair_replaces_what_is_no_format_file(disk):
    inode = disk.names["/data/store.json"]
    inode.base[:] = b"what is this"
    repair(ROOT, apply=True, files=disk)
    assert disk.names["/data/dropped/store.json"].content() == b"what is this"
    assert len(bodies(open_store(disk), "A")) == 30
    disk.locks.clear()
    disk.names["/data/store.json"].base[:] = b"and this"
    repair(ROOT, apply=True, files=disk)
    assert disk.names["/data/dropped/store.json"].content() == b"what is this"
    assert disk.names["/data/dropped/store.json.2"].content() == b"and this"


# ---- export, on a real disk


@pytest.fixture
def written(tmp_path):
    store = open_store(
        OsFiles(),
        tmp_path / "store",
        log={"segment_bytes": 65536},
        derived={"queue_file_units": 300_000, "index_slots": 5_000_000, "index_entries": 20_000_000},
    )
    for number in range(500):
        append(store, "T", number % 2, body=b"%05d" % number * 40, properties=KEYS, at=1_700_000_000_000 + number)
    flush(store)
    store.close()
    return tmp_path / "store"


def test_export_completes_a_copy_that_rocketmq_opens(written, tmp_path):
    before = {path: path.stat().st_size for path in written.rglob("*") if path.is_file()}
    config = {"topics.json": json.dumps({"topicConfigTable": {}}).encode()}
    report = export_rocketmq(written, tmp_path / "out", config, clock=SimClock())
    assert (report.queues, report.index_files, report.segment_bytes) == (2, 1, 65536)
    assert any("mappedFileSizeCommitLog=65536" in note for note in report.notes)
    for path in (tmp_path / "out" / "consumequeue").rglob("0*"):
        if path.is_file():
            assert path.stat().st_size == 6_000_000
    (index,) = (tmp_path / "out" / "index").iterdir()
    assert index.stat().st_size == 40 + 5_000_000 * 4 + 20_000_000 * 20
    assert index.stat().st_blocks * 512 < 1 << 26
    assert {path.stat().st_size for path in (tmp_path / "out" / "commitlog").iterdir()} == {65536}
    assert (tmp_path / "out" / "config" / "topics.json").read_bytes() == config["topics.json"]
    checkpoint = (tmp_path / "out" / "checkpoint").read_bytes()
    assert int.from_bytes(checkpoint[:8]) == 1_700_000_000_499
    assert not any(checkpoint[40:])
    assert not (tmp_path / "out" / "abort").exists()
    assert not (tmp_path / "out" / "store.json").exists()
    assert {path: path.stat().st_size for path in before} == before


def test_a_replica_of_which_a_copy_was_exported_is_the_one_that_it_was(tmp_path):
    root = tmp_path / "replica"
    derived = DerivedOptions(index_slots=32, index_entries=20)
    options = StoreOptions(log=LogOptions(segment_bytes=65536, reserve_bytes=0), derived=derived, replicated=True)
    store = MessageStore.open(root, options, OsFiles(), clock=SimClock())
    append(store, body=b"committed")
    flush(store)
    committed = store.committed_position
    append(store, body=b"not yet")
    batch = store.take_batch()
    batch.write_and_flush()
    store.flushed(batch)
    store.close()
    export_rocketmq(root, tmp_path / "out", {}, clock=SimClock())
    store = MessageStore.open(root, options, OsFiles(), clock=SimClock())
    assert store.committed_position == committed < store.end_position
    assert bodies(store) == [b"committed"]
    store.truncate(committed)
    store.close()


def test_a_store_is_exported_whose_deleted_topic_was_derived_again(written):
    def opened():
        derived = {"queue_file_units": 300_000, "index_slots": 5_000_000, "index_entries": 20_000_000}
        return open_store(OsFiles(), written, log={"segment_bytes": 65536}, derived=derived)

    store = opened()
    append(store, "deleted")
    flush(store)
    store.delete_topic("deleted")
    store.close()
    shutil.rmtree(written / "consumequeue")
    store = opened()
    assert store.forget_deleted({"deleted": store.end_position}) == ["deleted"]
    store.close()
    assert export_rocketmq(written, None, {}, clock=SimClock()).queues == 2
    assert [path.name for path in (written / "consumequeue").iterdir()] == ["T"]


def test_a_store_exported_in_place_is_rocketmqs_and_is_adopted_again(written):
    export_rocketmq(written, None, {}, clock=SimClock())
    store = open_store(OsFiles(), written, log={"segment_bytes": 65536})
    assert store.recovery.store == "RocketMQ's"
    assert len(bodies(store, "T", 0)) == 250
    store.close()


def test_a_replica_that_was_exported_in_place_is_none_any_more(written):
    """What RocketMQ appends in the epoch of the log's end nothing could tell from what the group has there."""
    replicas = ("replica.json", "replica.json.spare", "roles.json", "roles.json.spare", "roster.json")
    ours = (*replicas, "unflushed.json", "damage.json")
    for name in ours:
        (written / name).write_bytes(b"{}")
    export_rocketmq(written, written.parent / "out", {}, clock=SimClock())
    assert all((written / name).exists() for name in ours)
    export_rocketmq(written, None, {}, clock=SimClock())
    assert not any((written / name).exists() for name in ours)


def test_export_touches_nothing_where_no_store_of_ours_is(written, tmp_path):
    """As in the folder above the right one, or a second time: config/ is RocketMQ's by then."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "topics.json").write_text("{}")
    with pytest.raises(StoreError, match="holds no store"):
        export_rocketmq(tmp_path, None, {"topics.json": b"nothing"}, clock=SimClock())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config", "store"]
    export_rocketmq(written, None, {"topics.json": b"ours"}, clock=SimClock())
    with pytest.raises(StoreError, match="a store of RocketMQ's"):
        export_rocketmq(written, None, {"topics.json": b"ours"}, clock=SimClock())
    assert not (written / "store.json").exists()


def test_export_refuses_what_rocketmq_would_not_open(tmp_path):
    store = open_store(OsFiles(), tmp_path / "store")
    append(store)
    flush(store)
    store.close()
    with pytest.raises(StoreError, match="queue files of 16 units"):
        export_rocketmq(tmp_path / "store", None, {}, clock=SimClock())
    assert options_of(tmp_path / "store").derived.queue_file_units == 16


def test_export_does_not_write_into_a_used_directory(written, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x").write_text("")
    with pytest.raises(StoreError, match="not empty"):
        export_rocketmq(written, tmp_path / "out", {}, clock=SimClock())
