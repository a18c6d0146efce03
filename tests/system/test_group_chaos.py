"""Broker groups under faults of processes, networks and disks: nothing acknowledged is lost, whatever is hurt.

Every kind of fault once, in an order and at targets that are drawn. `make chaos` goes on for as long as one likes.
"""

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from system.group_chaos import SHAPES, chapter
from system.group_cuts import CUT_SHAPES
from system.group_disks import DISK_SHAPES
from system.group_pressure import PRESSURE_SHAPES, why_no_pressure
from system.group_processes import PROCESS_SHAPES
from system.group_storms import STORM_SHAPES
from system.netns import why_unavailable

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(why_unavailable()), reason=why_unavailable() or "everything is there"),
]

SEED = 5
CHAPTERS = {
    "processes": PROCESS_SHAPES, "network": CUT_SHAPES, "disks": {**DISK_SHAPES, **STORM_SHAPES},
    "pressure": PRESSURE_SHAPES,
}  # fmt: skip


def test_the_chapters_have_every_kind_of_fault() -> None:
    assert {shape for shapes in CHAPTERS.values() for shape in shapes} == set(SHAPES)


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.skipif(bool(why_no_pressure()), reason=why_no_pressure() or "all is there")])
    if name == "pressure" else name
    for name in CHAPTERS
])  # fmt: skip
def test_faults_lose_and_invent_nothing(tmp_path: Path, name: str) -> None:
    chapter(tmp_path, _drawn(CHAPTERS[name]), seed=SEED)


def _drawn(shapes: Iterable[str]) -> list[str]:
    plan = list(shapes)
    random.Random(SEED).shuffle(plan)
    return plan
