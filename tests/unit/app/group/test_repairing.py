"""A replica that is repaired by hand does not come back as the one that had acknowledged what it lost."""

from pathlib import Path

import pytest

from logherd.app.group.repairing import repair_store
from unit.app.group.stand import OPTIONS
from unit.app.group.test_healing import filled, identity, open_store, spoil


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    root = filled(tmp_path / "damaged")
    store = open_store(root)
    position = store.unit(store.queue("A", 0), 60)
    store.close()
    assert position is not None
    spoil(root, position[0] + 100)
    return root


def test_a_replica_that_loses_records_is_another_store(damaged: Path) -> None:
    before = identity(damaged)
    assert repair_store(damaged, apply=False).dropped_records
    assert identity(damaged).store_id == before.store_id
    assert repair_store(damaged, apply=True).applied
    assert identity(damaged).store_id != before.store_id
    assert identity(damaged).promise == before.promise


def test_a_replica_whose_queues_are_derived_again_stays_what_it_is(tmp_path: Path) -> None:
    root = filled(tmp_path / "damaged")
    (root / "consumequeue" / "A" / "0" / ("0" * 20)).unlink()
    before = identity(root).store_id
    assert repair_store(root, apply=True).applied
    assert identity(root).store_id == before


def test_the_store_of_a_broker_alone_is_repaired_all_the_same(damaged: Path) -> None:
    (damaged / "replica.json").unlink()
    assert repair_store(damaged, apply=True).applied
    assert not (damaged / "replica.json").exists()


@pytest.mark.parametrize("left", [2, 0])
def test_a_replica_whose_last_files_are_gone_is_another_store(tmp_path: Path, left: int) -> None:
    root = filled(tmp_path / "damaged")
    for path in sorted((root / "commitlog").iterdir())[left:]:
        path.unlink()
    before = identity(root).store_id
    assert repair_store(root, apply=True).applied
    assert identity(root).store_id != before


@pytest.mark.parametrize("number", [1, -2])
def test_a_replica_that_is_repaired_has_files_as_long_as_the_others(tmp_path: Path, number: int) -> None:
    """Else it would roll elsewhere, and refuse whatever its leader ships from there on."""
    root, whole = filled(tmp_path / "damaged"), open_store(filled(tmp_path / "whole"))
    path = sorted((root / "commitlog").iterdir())[number]
    path.write_bytes(path.read_bytes()[:3000])
    assert repair_store(root, apply=True).applied
    store = open_store(root)
    while store.end_position < whole.end_position:
        data, end = whole.read_raw(store.end_position, 1 << 20)
        store.append_raw(bytes(data), store.end_position, end=end)
    assert [each.stat().st_size for each in (root / "commitlog").iterdir()].count(OPTIONS.log.segment_bytes) == len(
        list((root / "commitlog").iterdir())
    )
    store.close()
    whole.close()
