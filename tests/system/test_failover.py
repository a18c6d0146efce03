"""Failover as a stock Java producer sees it: default settings, four threads, 200 messages a second.

Nothing acknowledged is lost, nothing foreign appears, and only sends that were on their way to a process that was hurt
fail. How long the gaps are is printed here, and judged by `make failover` on a quiet machine (docs/benchmarks.md).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.driver import Driver
from system.controllers import CLIENTS
from system.failover import SHAPES, run_rounds
from system.leader_address import LEADER_ADDRESS, LeaderAddress
from system.netns import Network, why_unavailable
from system.replicas import ReplicatedGroup, network_of_group
from system.steady import stranded, unexcused

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(why_unavailable()), reason=why_unavailable() or "everything is there"),
]

TOPIC = "Orders"
PLAN = [
    ("leader killed", 3), ("follower paused", 1), ("planned switch", 2), ("follower cut off", 1), ("leader paused", 2),
    ("rolling restart", 1), ("leader cut off", 1),
]  # fmt: skip


@pytest.fixture
def network() -> Iterator[Network]:
    with network_of_group() as made:
        yield made


def judge_rounds(
    group: ReplicatedGroup, java_classes: str, plan: list[tuple[str, int]], *, stale: bool = False
) -> None:
    with Driver(java_classes, group.directory / "client", under=group.network.enter(CLIENTS)) as driver:
        rounds = run_rounds(group, driver, TOPIC, plan, stale=stale)
    for shape, _ in plan:
        print(rounds.report(shape))
    difference = rounds.difference
    assert difference is not None
    assert (difference.lost, difference.foreign) == ((), ())
    late = [send for each in rounds.rounds for send in rounds.late(each)]
    assert unexcused(late, stranded(driver)) == []


def test_the_plan_has_every_shape() -> None:
    assert {shape for shape, _ in PLAN} == set(SHAPES)


def test_only_what_was_on_its_way_to_what_was_hurt_fails(network: Network, tmp_path: Path, java_classes: str) -> None:
    with ReplicatedGroup(network, tmp_path) as group:
        judge_rounds(group, java_classes, PLAN)


def test_a_producer_that_knows_a_former_leader_notices_no_more(
    network: Network, tmp_path: Path, java_classes: str
) -> None:
    with ReplicatedGroup(network, tmp_path) as group:
        judge_rounds(group, java_classes, [("leader killed", 3), ("planned switch", 2)], stale=True)


def test_a_leader_cut_off_behind_an_address_that_follows_the_leader(
    network: Network, tmp_path: Path, java_classes: str
) -> None:
    with ReplicatedGroup(network, tmp_path, leader_address=LEADER_ADDRESS) as group, LeaderAddress(group):
        judge_rounds(group, java_classes, [("leader cut off", 3)])
