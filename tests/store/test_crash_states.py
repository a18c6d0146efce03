"""Crash states: random histories, cut at random calls, recovered, cut again while recovering."""

import os
from collections import Counter

import pytest

from sim.disk import SimulatedCrash
from sim.lives import run_history

STATES = int(os.environ.get("LOGHERD_CRASH_STATES", "5000")) * 8 // 10  # others: test_replica_crash_states.py
MARKS = (
    "crashed while recovering", "a flush failed while recovering", "refused rot", "stopped by a failed flush",
    "refused for want of space",
    "some of the log was deleted", "derived files equal those derived anew", "store: new", "store: checkpoint lost",
    "store: ours", "tail: end", "tail: torn", "tail: torn, head lost", "derived: whole", "derived: files damaged",
)  # fmt: skip


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
