"""Crash states: random histories, cut at random calls, recovered, cut again while recovering."""

import os
from collections import Counter
from random import Random

import pytest

from logherd.store.errors import StoreDamaged
from sim.disk import SimulatedCrash
from sim.history import History

STATES = int(os.environ.get("LOGHERD_CRASH_STATES", "5000"))
_LIVES = 5
MARKS = (
    "crashed while recovering", "refused rot", "store: new", "store: checkpoint lost", "store: ours", "tail: end",
    "tail: torn", "tail: torn, head lost", "derived: whole", "derived: files damaged",
)  # fmt: skip


def run_history(seed: int) -> Counter[str]:
    """One history of several lives; counts crash states, and rows of recovery taken."""
    history, random, seen = History(seed), Random(seed ^ 0x5EED), Counter[str]()
    for _ in range(_LIVES):
        _refuse_rot(history, random, seen)
        while True:  # open, perhaps crashing on the way, again and again
            history.disk.crash_after(random.choice([None, random.randrange(1, 40)]))
            seen["states"] += 1
            try:
                recovery = history.open().recovery
            except SimulatedCrash:
                seen["crashed while recovering"] += 1
                history.crash(power=random.random() < 0.8)
                continue
            break
        history.disk.crash_after(None)
        seen.update((f"store: {recovery.store}", f"tail: {recovery.tail}", f"derived: {recovery.derived}"))
        history.check()
        if random.random() < 0.5:
            history.disk.crash_after(random.randrange(1, 30), at="write /data/commitlog")
        else:
            history.disk.crash_after(random.randrange(1, 120))
        history.run(random.randrange(3, 40))
        history.crash(power=random.random() < 0.8)
    return seen


def _refuse_rot(history: History, random: Random, seen: Counter[str]) -> None:
    """Now and then a byte of a flushed record flips: opening must refuse, and name the file, and change nothing."""
    if random.random() < 0.2 and (place := history.rot()) is not None:
        with pytest.raises(StoreDamaged) as refused:
            history.open()
        assert refused.value.path == place[0]
        history.disk.locks.clear()
        history.flip(*place)
        seen["refused rot"] += 1


@pytest.mark.parametrize("part", range(4))
def test_every_crash_state_recovers_to_what_was_answered(part):
    seed = int(os.environ.get("LOGHERD_SEED", "20240601")) + part * 1_000_000
    seen = Counter[str]()
    while seen["states"] < STATES // 4:
        try:
            seen += run_history(seed)
        except (Exception, SimulatedCrash) as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
        seed += 1
    missed = [mark for mark in MARKS if not seen[mark]]
    assert not missed, f"never reached: {missed}; reached: {seen}"
