"""Crash states of a follower: records, cuts and commits, stopped at random calls, recovered, and stopped again."""

import os
from collections import Counter

import pytest

from sim.disk import SimulatedCrash
from sim.replica_lives import run_replica_history

STATES = int(os.environ.get("LOGHERD_CRASH_STATES", "5000")) * 3 // 10
MARKS = (
    "crashed while recovering", "a flush failed while recovering", "crashed in a cut", "cut", "committed",
    "deletion committed",
    "refused damage on the way", "shipped with an outline",
    "opened with an uncommitted end", "stopped by a failed flush", "refused for want of space", "tail: new",
    "tail: end", "tail: torn", "tail: torn, head lost", "derived: whole", "derived: files damaged",
)  # fmt: skip


@pytest.mark.parametrize("part", range(2))
def test_every_crash_state_of_a_follower_recovers_to_what_it_had_acknowledged(part: int) -> None:
    seed = int(os.environ.get("LOGHERD_SEED", "20240601")) + part * 1_000_000
    seen = Counter[str]()
    while seen["states"] < STATES // 2:
        try:
            seen += run_replica_history(seed)
        except (Exception, SimulatedCrash) as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
        seed += 1
    missed = [mark for mark in MARKS if not seen[mark]]
    assert not missed, f"never reached: {missed}; reached: {seen}"
