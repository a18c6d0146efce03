"""A group is founded once: every order of hellos, crashes between all writes, lost disks of founder and followers."""

from random import Random

import pytest

from logherd.kit.errors import InvariantError
from logherd.peers.founding import Found, Founding, Join, Lost
from logherd.peers.identity import Identity
from logherd.replication.messages import ClusterId
from unit.peers.fakes import CLUSTER, hello_of, replica
from unit.peers.founding_world import World, explore

ABC = ("a", "b", "c")
FOUNDERS = (replica("a"), replica("b"), replica("c"))


def founding(name: str, nodes: tuple[str, ...] = ABC, **changes: object) -> Founding:
    return Founding(Identity(cluster=CLUSTER.name, replica=replica(name), **changes), nodes)  # type: ignore[arg-type]


def check_settled(world: World) -> None:
    """Once all are up they are one group, and those have a vote that have lost nothing since they were named."""
    world.check()
    end = world.settled()
    end.check()
    members = list(end.members.values())
    lists = {member.founding.founded for member in members if member.founding is not None}
    assert len(lists) == 1
    (founders,) = lists
    assert founders is not None, "somebody waits for ever"
    for member in members:
        assert member.identity.founded
        assert member.prepared == (founders if member.identity.replica in founders else ())


@pytest.mark.parametrize(("names", "crashes", "wipes"), [("ab", 2, 1), ("abc", 1, 0)])
def test_all_orders_of_hellos_and_crashes_lead_to_one_group(names: str, crashes: int, wipes: int) -> None:
    worlds = explore(World.begin(names, crashes=crashes, wipes=wipes), 10_000)
    assert len(worlds) > 1_000
    for world in worlds:
        check_settled(world)


def test_a_last_hello_of_a_dead_founder_makes_no_second_group_of_two() -> None:
    worlds = explore(World.begin("ab", crashes=2, wipes=1, stale=True), 10_000)
    assert any(world.late for world in worlds)
    for world in worlds:
        world.check()


@pytest.mark.parametrize("stale", [False, True])
def test_three_nodes_of_which_one_loses_its_disk_never_found_two_groups(stale: bool) -> None:
    marks = set()
    for seed in range(400):
        draw = Random(seed)
        world = World.begin("abc", crashes=2, wipes=1, stale=stale)
        for _ in range(draw.randrange(60)):
            event = draw.choice(list(world.events()))
            marks.add(event[0])
            world = world.after(event)
        world.check()
        if not stale:
            check_settled(world)
    assert marks >= {"start", "write", "hello", "crash", "wipe"} | ({"late"} if stale else set())


def test_a_second_founder_would_be_noticed() -> None:
    """The judge of the walks above, tried on a group in which everybody founds as soon as it has heard two others."""
    world = World.begin("abc", crashes=0, wipes=0)
    for name, founders in (("a", FOUNDERS[:1]), ("b", FOUNDERS[1:2])):
        world = world.after(("start", name))
        world.members[name].step = Found(founders)
        world.members[name].founding._step = Found(founders)  # type: ignore[union-attr]
        for _ in range(3):
            world = world.after(("write", name))
    with pytest.raises(AssertionError, match="two groups"):
        world.check()


def test_one_node_alone_founds_at_once() -> None:
    alone = founding("a", ("a",))
    assert alone.start() == Found((replica("a"),))
    assert alone.founded is None
    alone.kept()
    assert alone.founded == (replica("a"),)


def test_the_first_configured_node_founds_when_all_have_said_hello() -> None:
    first = founding("a")
    assert first.start() is None
    assert first.heard(hello_of("b")) is None
    assert first.missing == ("c",)
    assert first.heard(hello_of("c")) == Found(FOUNDERS)
    assert first.missing == ()


def test_another_node_never_founds_by_itself() -> None:
    second = founding("b")
    assert second.start() is None
    assert second.heard(hello_of("a")) is None
    assert second.heard(hello_of("c")) is None
    assert second.heard(hello_of("a", founded=FOUNDERS)) == Found(FOUNDERS)


def test_the_newest_incarnation_of_a_node_is_the_one_that_founds() -> None:
    first = founding("a")
    first.heard(hello_of("b"))
    first.heard(hello_of("b", incarnation=2))
    assert first.heard(hello_of("c")) == Found((replica("a"), replica("b", 2), replica("c")))


def test_a_node_that_is_not_configured_is_not_counted() -> None:
    first = founding("a")
    first.heard(hello_of("b"))
    assert first.heard(hello_of("d")) is None
    assert first.missing == ("c",)


def test_a_wiped_founder_that_hears_of_its_group_joins_it_as_a_stranger() -> None:
    founders = (replica("a", 9), replica("b"), replica("c"))
    wiped = founding("a")
    assert wiped.heard(hello_of("b", founded=founders)) == Join(founders, CLUSTER)


def test_a_wiped_follower_is_a_stranger() -> None:
    wiped = founding("b")
    founders = (replica("a"), replica("b", 9), replica("c"))
    assert wiped.heard(hello_of("c", founded=founders)) == Join(founders, CLUSTER)


def test_a_founder_whose_own_founding_is_gone_must_not_start() -> None:
    assert isinstance(founding("a").heard(hello_of("b", founded=FOUNDERS)), Lost)


def test_whoever_comes_after_a_rebuilt_quorum_has_no_vote() -> None:
    rebuilt = ClusterId(CLUSTER.name, 2)
    late = founding("b")
    assert late.heard(hello_of("a", cluster=rebuilt, founded=FOUNDERS)) == Join(FOUNDERS, rebuilt)


def test_an_interrupted_step_is_the_same_after_a_restart() -> None:
    again = founding("b", founders=FOUNDERS)
    assert again.start() == Found(FOUNDERS)
    assert again.heard(hello_of("a", founded=(replica("a"), replica("c")))) is None
    stranger = founding("b", founders=FOUNDERS[::2], reset=3)
    assert stranger.start() == Join(FOUNDERS[::2], ClusterId(CLUSTER.name, 3))


def test_a_founded_node_has_nothing_to_do_and_says_who_founded() -> None:
    member = founding("b", founders=FOUNDERS, founded=True)
    assert member.start() is None
    assert member.founded == FOUNDERS
    assert member.heard(hello_of("a", founded=FOUNDERS)) is None


def test_a_node_outside_its_own_configuration_is_a_mistake_of_ours() -> None:
    with pytest.raises(InvariantError):
        founding("d")


def test_nothing_is_kept_that_was_not_decided() -> None:
    with pytest.raises(InvariantError):
        founding("b").kept()
