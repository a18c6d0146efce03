"""A replica that begins anew at its leader's base: it is another store, unless it votes and keeps its name and vote."""

import pytest

from logherd.app.group.beginning import MustStartAgain, begin_anew
from logherd.app.group.replica_file import ReplicaFile
from logherd.group.output import Promise
from logherd.model.names import Epoch, Position
from logherd.replication.epochs import Point
from logherd.replication.messages import ReplicaId
from sim.disk import SimDisk
from unit.app.group.stand import OPTIONS, Stand

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
