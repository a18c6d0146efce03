"""Broker groups under faults of processes, networks and disks: nothing acknowledged is lost, whatever is hurt.

Every kind of fault once, in an order and at targets that are drawn. `make chaos` goes on for as long as one likes.
"""

import random
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from checkers.history import Outcome
from system.broker_groups import group_bench
from system.chaos import INTERRUPTED, exit_code
from system.group_chaos import FOLLOWER_READS, SHAPES, chapter
from system.group_clocks import CLOCK_SHAPES
from system.group_cuts import CUT_SHAPES
from system.group_disks import DISK_SHAPES
from system.group_load import GroupLoad, drained
from system.group_modes import MODES, PROMOTING, RAFT, STATIC, GroupMode
from system.group_pressure import PRESSURE_SHAPES, why_no_pressure
from system.group_processes import PROCESS_SHAPES
from system.group_rot import ROT_SHAPES
from system.group_rounds import GOES_ON, run_group_rounds
from system.group_storms import STORM_SHAPES
from system.netns import why_unavailable

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(why_unavailable()), reason=why_unavailable() or "everything is there"),
]

SEED = 5
_UNFLUSHED_SECONDS_MAX = 2.0
"""With `flush: async` and its default, nothing stays in memory only for as long as this."""
CHAPTERS = {
    "processes": {**PROCESS_SHAPES, **CLOCK_SHAPES}, "network": CUT_SHAPES, "disks": {**DISK_SHAPES, **STORM_SHAPES},
    "pressure": PRESSURE_SHAPES, "rot": ROT_SHAPES,
}  # fmt: skip


def test_chaos_without_a_chapter_is_red() -> None:
    assert exit_code(3, failed=0, interrupted=False) == 0
    assert exit_code(0, failed=0, interrupted=False) == 1
    assert exit_code(3, failed=1, interrupted=True) == 1
    assert exit_code(3, failed=0, interrupted=True) == INTERRUPTED


def test_the_chapters_have_every_kind_of_fault() -> None:
    assert {shape for shapes in CHAPTERS.values() for shape in shapes} == set(SHAPES)


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.skipif(bool(why_no_pressure()), reason=why_no_pressure() or "all is there")])
    if name == "pressure" else name
    for name in CHAPTERS
])  # fmt: skip
def test_faults_lose_and_invent_nothing(tmp_path: Path, name: str) -> None:
    chapter(tmp_path, _drawn(CHAPTERS[name]), seed=SEED)


@pytest.mark.parametrize(("mode", "plan"), [
    (RAFT, ("kill leader", "wipe follower", "power moves the group")),
    (STATIC, ("kill leader, who comes back", "kill leader", "pause follower", "cut leader from followers")),
], ids=lambda each: getattr(each, "name", ""))  # fmt: skip
def test_a_group_that_no_controllers_lead_loses_and_invents_nothing(
    tmp_path: Path, mode: GroupMode, plan: Sequence[str]
) -> None:
    """Mode static by an operator's hand, as `logherd replica promote` has it."""
    chapter(tmp_path, plan, seed=SEED, mode=mode)


def test_what_a_mode_does_not_stand_is_a_fault_that_there_is() -> None:
    assert {shape for mode in MODES.values() for shape in mode.without} <= set(SHAPES)
    assert set(PROMOTING) <= set(SHAPES)


def _drawn(shapes: Iterable[str]) -> list[str]:
    plan = list(shapes)
    random.Random(SEED).shuffle(plan)
    return plan


READ_BY_FOLLOWERS = (
    "leader sleeps and wakes up alone", "cut leader from one follower", "wipe follower", "kill leader",
    "cut follower from everybody", "power cut of all brokers",
)  # fmt: skip


def test_what_followers_let_read_was_committed_and_stays(tmp_path: Path) -> None:
    chapter(tmp_path, READ_BY_FOLLOWERS, seed=SEED, settings=FOLLOWER_READS)


UNFLUSHED = (
    "kill all brokers", "power cut of the leader", "rolling restart", "kill everything", "power cut of a follower",
    "pause leader until another leads",
)  # fmt: skip


def test_with_answers_before_the_flush_nothing_is_lost_while_somebody_in_sync_stays_up(tmp_path: Path) -> None:
    chapter(tmp_path, UNFLUSHED, seed=SEED, settings={"flush": "async"})


def test_a_group_that_answers_before_the_flush_leads_again_after_all_its_machines_went_down(tmp_path: Path) -> None:
    """What was answered in the last moments may be gone; nothing older, and nobody has to be asked."""
    with group_bench(tmp_path, seed=SEED, settings={"flush": "async"}) as bench:
        with GroupLoad(bench.network) as load:
            load.wait_for(Outcome.OK, GOES_ON)
            old = {send.value for send in load.history().sends if send.outcome is Outcome.OK}
            time.sleep(_UNFLUSHED_SECONDS_MAX)
            run_group_rounds(bench, load, SHAPES, ["power cut of all brokers"])
        history = drained(bench.network, load.history())
        said = "".join(node.log_text() for node in bench.controllers.nodes.values())
    assert "loss accepted" in said
    assert old <= {value for _, entries in history.final.values() for _, value in entries}
