"""replica.json: who this directory is, and what it has promised."""

from pathlib import Path

import pytest

from logherd.app.group.replica_file import ReplicaFile, ReplicaFileError
from logherd.controller.values import GroupKey
from logherd.group.output import Promise
from logherd.model.names import Epoch
from logherd.replication.messages import ReplicaId
from logherd.store.files_os import OsFiles

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


@pytest.mark.parametrize("text", ["", "{", '{"format":1}', '{"format":9,"group":"C/orders"}', "[]", "\xff"])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "replica.json").write_text(text, encoding="latin-1")
    with pytest.raises(ReplicaFileError):
        open_file(tmp_path)
