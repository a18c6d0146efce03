"""Failover as a stock Java producer sees it: default settings, four threads, 200 messages a second.

Nothing acknowledged is lost, nothing foreign appears, and only sends that were on their way to a process that was hurt
fail. How long the gaps are is printed here, and judged by `make failover` on a quiet machine (docs/benchmarks.md).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.driver import Driver
from compat.toolchain import JAVA_DIRECTORY, MissingTool, compile_java
from system.controllers import CLIENTS
from system.failover import SHAPES, Rounds, run_rounds
from system.leader_address import LEADER_ADDRESS, LeaderAddress
from system.netns import Network, why_unavailable
from system.replicas import ReplicatedGroup, network_of_group
from system.steady import SteadyProducer, compare

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(why_unavailable()), reason=why_unavailable() or "everything is there"),
]

TOPIC, QUEUES = "Orders", 4
PLAN = [
    ("leader killed", 3), ("follower paused", 1), ("planned switch", 2), ("follower cut off", 1), ("leader paused", 2),
    ("rolling restart", 1), ("leader cut off", 1),
]  # fmt: skip


@pytest.fixture(scope="module")
def java_classes() -> str:
    try:
        return compile_java(JAVA_DIRECTORY / "src" / "main" / "java")
    except MissingTool as missing:
        pytest.skip(str(missing))


@pytest.fixture
def network() -> Iterator[Network]:
    with network_of_group() as made:
        yield made


def rounds_of(group: ReplicatedGroup, java_classes: str, plan: list[tuple[str, int]]) -> Rounds:
    """The rounds under load, compared with what is stored in the end."""
    client = Driver(java_classes, group.directory / "client", under=group.network.enter(CLIENTS))
    with client as driver:
        with SteadyProducer(driver, group.name_servers, TOPIC) as producer:
            rounds = run_rounds(group, producer, plan)
        rounds.sends = producer.sends
        rounds.difference = compare(TOPIC, producer.sends, group.stored(TOPIC, QUEUES))
    for shape, _ in plan:
        print(rounds.report(shape))
    return rounds


def judge(rounds: Rounds) -> None:
    difference = rounds.difference
    assert difference is not None
    assert (difference.lost, difference.foreign) == ((), ())
    for each in rounds.rounds:
        assert rounds.late(each) == [], each


def test_the_plan_has_every_shape() -> None:
    assert {shape for shape, _ in PLAN} == set(SHAPES)


def test_a_stock_producer_loses_nothing_and_fails_no_more_than_what_was_on_its_way(
    network: Network, tmp_path: Path, java_classes: str
) -> None:
    with ReplicatedGroup(network, tmp_path) as group:
        judge(rounds_of(group, java_classes, PLAN))


def test_a_leader_cut_off_behind_an_address_that_follows_the_leader_loses_nothing(
    network: Network, tmp_path: Path, java_classes: str
) -> None:
    with ReplicatedGroup(network, tmp_path, leader_address=LEADER_ADDRESS) as group, LeaderAddress(group):
        judge(rounds_of(group, java_classes, [("leader cut off", 3)]))
