"""replica.json: who this directory is, and what it has promised."""

import errno
from functools import partial
from pathlib import Path
from random import Random

import pytest

from logherd.app.group.replica_file import ReplicaFile, ReplicaFileError
from logherd.controller.values import GroupKey
from logherd.group.output import Promise
from logherd.model.names import Epoch
from logherd.replication.messages import ReplicaId
from logherd.store.errors import StoreFull
from logherd.store.files_os import OsFiles
from sim.disk import SimDisk, SimulatedCrash

GROUP = GroupKey("C", "orders")


def open_file(directory: Path, *, broker_id: int = 1, group: GroupKey = GROUP, empty: bool = False) -> ReplicaFile:
    return ReplicaFile.open(OsFiles(), str(directory), group, broker_id, log_empty=empty)


def test_what_was_promised_is_there_after_a_restart(tmp_path: Path) -> None:
    made = open_file(tmp_path, empty=True)
    made.keep(Promise(Epoch(7), ReplicaId("2.00000000000000aa"), doubtful=True))
    found = open_file(tmp_path)
    assert found.promise == Promise(Epoch(7), ReplicaId("2.00000000000000aa"), doubtful=True)
    assert found.store_id == made.store_id


def test_another_store_is_another_name_and_keeps_the_promise(tmp_path: Path) -> None:
    made = open_file(tmp_path, empty=True)
    made.keep(Promise(Epoch(3)))
    before = made.store_id
    made.renew()
    found = open_file(tmp_path)
    assert found.store_id == made.store_id != before
    assert found.promise.epoch == 3


@pytest.mark.parametrize(
    ("broker_id", "group", "what"),
    [
        (2, GROUP, "belongs to the broker 1, not to 2"),
        (1, GroupKey("C", "bills"), "belongs to the group C/orders, not to C/bills"),
    ],
)
def test_another_replicas_directory_is_refused_by_name(
    tmp_path: Path, broker_id: int, group: GroupKey, what: str
) -> None:
    open_file(tmp_path, empty=True)
    with pytest.raises(ReplicaFileError, match=what):
        open_file(tmp_path, broker_id=broker_id, group=group)


def test_a_log_without_its_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReplicaFileError, match="is not there, but the log beside it has records"):
        open_file(tmp_path)


def refuse_to_exchange(_: object, one: str, other: str) -> None:
    raise OSError(errno.EINVAL, "simulated", one, None, other)


@pytest.mark.parametrize("full", [False, True])
def test_what_a_start_has_read_is_there_for_good(monkeypatch: pytest.MonkeyPatch, *, full: bool) -> None:
    """A process died before the new file's name was on disk; the next one goes by it, and so must all others: also
    where the disk has no room for another spare since."""
    found_at = partial(ReplicaFile.open, directory="/d", group=GROUP, broker_id=1, log_empty=True)
    disk = SimDisk()
    disk.make_directory("/d")
    disk.sync_dir("/")
    made = found_at(disk)
    if full:
        monkeypatch.setattr(SimDisk, "exchange", refuse_to_exchange)
    disk.crash_after(1, at="rename" if full else "exchange")
    with pytest.raises(SimulatedCrash):
        made.keep(Promise(Epoch(7)))
    disk = disk.crash(Random(0), power=False)
    if full:
        disk.capacity = disk.used()
    assert found_at(disk).promise.epoch == 7
    for seed in range(20):
        assert found_at(disk.crash(Random(seed), power=True)).promise.epoch == 7


def on_a_disk(disk: SimDisk) -> ReplicaFile:
    return ReplicaFile.open(disk, "/d", GROUP, 1, log_empty=True)


def disk_with_a_file(*, spare: bool = True) -> SimDisk:
    disk = SimDisk()
    disk.make_directory("/d")
    disk.sync_dir("/")
    on_a_disk(disk)
    if not spare:  # as an earlier release left it
        disk.unlink("/d/replica.json.spare")
    return disk


def test_a_start_is_counted_and_an_epoch_kept_where_the_disk_has_no_block_left() -> None:
    disk = disk_with_a_file()
    disk.capacity = disk.used()
    found = on_a_disk(disk)
    assert [found.count_start(7), found.count_start(7)] == [7, 8]
    for epoch in (3, 4, 5):
        found.keep(Promise(Epoch(epoch)))
        assert on_a_disk(disk.crash(Random(0), power=True)).promise.epoch == epoch
    assert disk.used() <= disk.capacity


def test_a_file_of_an_earlier_release_gets_its_spare_as_soon_as_there_is_room() -> None:
    disk = disk_with_a_file(spare=False)
    disk.capacity, room = disk.used(), disk.capacity
    with pytest.raises(StoreFull):
        on_a_disk(disk).count_start(7)
    disk.capacity = room
    on_a_disk(disk)
    disk.capacity = disk.used()
    assert on_a_disk(disk).count_start(8) == 8


def test_a_file_system_that_exchanges_no_names_keeps_what_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OsFiles, "exchange", refuse_to_exchange)
    made = open_file(tmp_path, empty=True)
    for epoch in (3, 4):
        made.keep(Promise(Epoch(epoch)))
        assert open_file(tmp_path).promise.epoch == epoch
    assert sorted(path.name for path in tmp_path.iterdir()) == ["replica.json", "replica.json.spare"]


def test_a_power_loss_at_any_call_leaves_the_promise_before_or_the_one_being_kept() -> None:
    """Twice, so that the spare of one write is what the write before had replaced."""
    for calls in range(1, 40):
        for seed in range(8):
            disk = disk_with_a_file(spare=seed % 2 == 0)
            made, kept = on_a_disk(disk), 0
            disk.crash_after(calls)
            try:
                for epoch in (3, 4, 5):
                    made.keep(Promise(Epoch(epoch)))
                    kept = epoch
            except SimulatedCrash:
                pass
            disk.crash_after(None)
            disk = disk.crash(Random(seed), power=seed % 4 < 2)
            found = on_a_disk(disk).promise.epoch
            assert found in (kept, max(kept + 1, 3))
            for again in range(4):
                assert on_a_disk(disk.crash(Random(again), power=True)).promise.epoch == found


def test_who_joins_a_rebuilt_group_knows_how_often_it_was_rebuilt_and_keeps_its_promise(tmp_path: Path) -> None:
    made, founders = open_file(tmp_path, empty=True), (ReplicaId("2.00000000000000aa"),)
    made.keep(Promise(Epoch(3)))
    made.found(founders, 2)
    found = open_file(tmp_path)
    assert found.promise == made.promise == Promise(Epoch(3), reset=2)
    assert found.founders == founders


def test_how_long_others_may_count_on_this_replica_is_there_after_a_restart(tmp_path: Path) -> None:
    made = open_file(tmp_path, empty=True)
    assert made.count_on(3_000) == 3_000
    found = open_file(tmp_path)
    assert found.count_on(1_000) == 3_000, "what was told before is owed still"
    assert open_file(tmp_path).count_on(0) == 3_000, "also by the process after that"
    found.wait_less(1_000)
    found.keep(Promise(Epoch(2)))
    found = open_file(tmp_path)
    assert found.count_on(500) == 1_000
    assert found.count_on(2_000) == 2_000
    assert open_file(tmp_path).count_on(1_000) == 2_000


def test_a_start_has_a_number_above_those_of_a_store_that_was_lost(tmp_path: Path) -> None:
    """They were times, too, before this one."""
    made = open_file(tmp_path, empty=True)
    assert made.count_start(70) == 70
    assert open_file(tmp_path).count_start(60) == 71
    assert open_file(tmp_path).count_start(80) == 80


def test_a_file_of_a_later_release_is_refused_by_its_format(tmp_path: Path) -> None:
    open_file(tmp_path, empty=True)
    path = tmp_path / "replica.json"
    path.write_text(path.read_text().replace('"format":1', '"format":2'))
    with pytest.raises(ReplicaFileError, match="is of format 2; this release knows 1"):
        open_file(tmp_path)


def test_what_a_later_release_adds_is_refused_by_name(tmp_path: Path) -> None:
    """It would be gone with the next write."""
    open_file(tmp_path, empty=True)
    path = tmp_path / "replica.json"
    path.write_text(path.read_text().replace('"format":1', '"format":1,"promised":7'))
    before = path.read_text()
    for touch in (lambda: open_file(tmp_path), lambda: ReplicaFile.renew_at(OsFiles(), str(tmp_path))):
        with pytest.raises(ReplicaFileError, match="unknown field `promised`"):
            touch()
    assert path.read_text() == before


@pytest.mark.parametrize("text", ["", "{", '{"format":1}', '{"format":9,"group":"C/orders"}', "[]", "\xff"])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "replica.json").write_text(text, encoding="latin-1")
    with pytest.raises(ReplicaFileError):
        open_file(tmp_path)
