"""S1 over the store that controllers use: the cores' promises hold on disks that tear, lose and forget."""

from collections import Counter

import pytest

from logherd.store.slots import SlotPair, _place, _Slot, encode_value_slot
from sim.consensus.run import Result, run_seed

GROUPS = 4
SEEDS_EACH = 20
MARKS = ("tail-lost", "vote-lost", "tail-cut", "cut-across-segments", "image-installed")

_results: dict[int, Result] = {}


def result_of(seed: int) -> Result:
    if seed not in _results:
        _results[seed] = run_seed(seed, keep=50, files=True)
    return _results[seed]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("group", range(GROUPS))
def test_fixed_seeds_are_clean(group: int) -> None:
    failures = [
        f"seed {result.seed:#x}: {result.failure}"
        for result in map(result_of, range(1000 + group * SEEDS_EACH, 1000 + (group + 1) * SEEDS_EACH))
        if result.failure
    ]
    assert failures == []


@pytest.mark.timeout(120)
def test_seeds_reach_what_only_a_disk_can_do() -> None:
    hits: Counter[str] = Counter()
    for seed in range(1000, 1000 + GROUPS * SEEDS_EACH):
        hits.update(result_of(seed).marks)
    assert [mark for mark in MARKS if not hits[mark]] == []


def test_a_run_depends_on_its_seed_alone() -> None:
    assert [run_seed(seed, keep=1, files=True).digest for seed in (1000, 1001, 1000, 1001)] == 2 * [
        result_of(1000).digest,
        result_of(1001).digest,
    ]


def test_a_vote_that_is_written_and_not_flushed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(self: SlotPair, slot: _Slot) -> None:
        self._file.write(_place(slot.counter), (encode_value_slot(slot.counter, slot.value),))
        if slot.counter < FIRST_UNFLUSHED:
            self._file.flush()

    assert run_seed(CATCHES, keep=1, files=True).failure is None
    monkeypatch.setattr(SlotPair, "_write", write)
    assert str(run_seed(CATCHES, keep=1, files=True).failure).startswith("Violation: C2: the promise went back")


CATCHES = 0
FIRST_UNFLUSHED = 5
