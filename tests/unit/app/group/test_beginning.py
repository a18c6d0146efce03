"""A replica that begins anew at its leader's base: it is another store, unless it votes and keeps its name and vote."""

import pytest

from logherd.app.group.beginning import MustStartAgain, begin_anew, renew_if_lost
from logherd.app.group.replica_file import ReplicaFile
from logherd.group.output import Promise
from logherd.model.names import Epoch, Position
from logherd.replication.epochs import Point
from logherd.replication.messages import ReplicaId
from logherd.store import MessageStore
from sim.disk import SimDisk
from unit.app.group.stand import OPTIONS, Stand
from unit.store.helpers import ROOT, SimClock

BASE = Point(Epoch(3), Position(4 * OPTIONS.log.segment_bytes))
WHY = MustStartAgain("the start is gone", BASE)
KEPT = Promise(Epoch(5), ReplicaId("1.0000000000000001"))


def closed(mode: str) -> Stand:
    stand = Stand(mode)
    stand.file.keep(KEPT)
    stand.store.close()
    return stand


def reopened(stand: Stand) -> ReplicaFile:
    return stand.opened(log_empty=False)


def test_who_votes_keeps_its_name_and_its_promise() -> None:
    stand = closed("raft")
    before = stand.file.store_id
    begin_anew(stand.disk, stand.file, WHY)
    again = reopened(stand)
    assert (again.store_id, again.promise) == (before, KEPT)


@pytest.mark.parametrize("mode", ["controller", "static"])
def test_anybody_else_is_another_store(mode: str) -> None:
    stand = closed(mode)
    before = stand.file.store_id
    begin_anew(stand.disk, stand.file, WHY)
    again = reopened(stand)
    assert again.store_id != before
    assert again.promise == KEPT


def test_a_voter_whose_files_are_half_replaced_is_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    stand = closed("raft")

    def crash(*_: object) -> None:
        raise OSError("the power is gone")

    monkeypatch.setattr(SimDisk, "list", crash)
    with pytest.raises(OSError, match="power"):
        begin_anew(stand.disk, stand.file, WHY)
    assert reopened(stand).promise.doubtful


def test_one_that_was_in_doubt_before_stays_so() -> None:
    stand = closed("raft")
    stand.file.doubt(doubtful=True)
    begin_anew(stand.disk, stand.file, WHY)
    assert reopened(stand).promise.doubtful


@pytest.mark.parametrize("mode", ["controller", "raft", "static"])
@pytest.mark.parametrize("lost", [("checkpoint",), ("checkpoint", "store.json")])
def test_one_whose_log_is_gone_with_its_checkpoint_is_another_store(mode: str, lost: tuple[str, ...]) -> None:
    stand = closed(mode)
    before = stand.file.store_id
    renew_if_lost(stand.disk, str(ROOT))
    assert reopened(stand).store_id == before
    stand.disk.remove_directory(f"{ROOT}/commitlog")
    for name in lost:
        stand.disk.unlink(f"{ROOT}/{name}")
    renew_if_lost(stand.disk, str(ROOT))
    again = reopened(stand)
    assert again.store_id != before
    assert again.promise == KEPT, "it voted, and others may count on that"
    MessageStore.open(ROOT, OPTIONS, stand.disk, clock=SimClock()).close()
    renew_if_lost(stand.disk, str(ROOT))
    assert reopened(stand).store_id == again.store_id


def test_where_no_replica_was_nothing_is_renewed() -> None:
    disk = SimDisk()
    renew_if_lost(disk, str(ROOT))
    assert not disk.names
