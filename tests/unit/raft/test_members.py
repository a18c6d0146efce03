"""Configurations: majorities, the steps of a change, and what holds while a log grows and is cut."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd.kit.errors import InvariantError
from logherd.model.names import Position
from logherd.raft.members import Configuration, Goal, MembersLog, next_configuration
from logherd.replication.messages import ReplicaId

NAMES = tuple(ReplicaId(name) for name in "abcdef")
some = st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True).map(tuple)


def quorums(configuration: Configuration) -> list[frozenset[ReplicaId]]:
    """Every set of members that decides."""
    members = configuration.members
    sets = [frozenset(chosen) for size in range(len(members) + 1) for chosen in combinations(members, size)]
    return [chosen for chosen in sets if configuration.won({peer: peer in chosen for peer in members})]


@given(some, some, st.booleans())
def test_no_step_of_a_change_allows_two_disjoint_quorums(
    voters: tuple[ReplicaId, ...], wanted: tuple[ReplicaId, ...], single: bool
) -> None:
    """C6, for every pair of configurations that can hold at the same time, interrupted at every step."""
    current, goal, steps = Configuration(voters), Goal(wanted, single=single), 0
    while (following := next_configuration(current, goal, lambda peer: True)) is not None:
        for before in quorums(current):
            assert all(before & after for after in quorums(following))
        current, steps = following, steps + 1
        assert steps <= 4
    assert goal.reached(current)


@given(some, some)
def test_a_change_begun_by_another_leader_is_finished_from_any_point(
    voters: tuple[ReplicaId, ...], wanted: tuple[ReplicaId, ...]
) -> None:
    current, goal = Configuration(voters), Goal(wanted)
    while (following := next_configuration(current, goal, lambda peer: True)) is not None:
        current = following
        left = next_configuration(current, None, lambda peer: True)
        assert (left is None) == (not current.joint)
        if left is not None:
            assert not left.joint
            assert left.voters == current.voters


def test_a_newcomer_is_a_learner_until_it_has_caught_up() -> None:
    goal = Goal(NAMES[:4])
    current = Configuration(NAMES[:3])
    following = next_configuration(current, goal, lambda peer: False)
    assert following == Configuration(NAMES[:3], (), NAMES[3:4])
    assert next_configuration(following, goal, lambda peer: False) is None


def test_a_newcomer_takes_the_place_of_one_that_is_no_longer_wanted() -> None:
    """A broker whose store is lost at each of its starts comes with another one each time, and none catches up."""
    current = Configuration(NAMES[:2], (), (NAMES[4],))
    for lost in NAMES[2:4]:
        following = next_configuration(current, Goal((*NAMES[:2], lost), (NAMES[4],)), lambda peer: False)
        assert following == Configuration(NAMES[:2], (), (NAMES[4], lost))
        current = following


def test_learners_alone_need_no_joint_step() -> None:
    goal = Goal(NAMES[:3], NAMES[3:5])
    assert next_configuration(Configuration(NAMES[:3]), goal, lambda peer: True) == Configuration(
        NAMES[:3], (), NAMES[3:5]
    )


def test_a_single_step_is_taken_only_for_one_voter() -> None:
    caught_up = Configuration(NAMES[:3], (), NAMES[3:5])
    one = next_configuration(caught_up, Goal(NAMES[:4], NAMES[4:5], single=True), lambda peer: True)
    two = next_configuration(caught_up, Goal(NAMES[:5], single=True), lambda peer: True)
    assert one is not None
    assert two is not None
    assert not one.joint
    assert two.joint


@pytest.mark.parametrize(("voters", "reached"), [(1, 9), (2, 5), (3, 5), (4, 3), (5, 3)])
def test_a_majority_has_reached_the_middle(voters: int, reached: int) -> None:
    values = dict(zip(NAMES, (9, 5, 3, 7, 1), strict=False))
    configuration = Configuration(NAMES[:voters])
    assert configuration.agreed(values.__getitem__) == sorted(values[p] for p in NAMES[:voters])[(voters - 1) // 2]
    assert reached in values.values()


def test_a_joint_group_needs_both_halves_and_learners_never_count() -> None:
    joint = Configuration(NAMES[:3], NAMES[2:5], NAMES[5:])
    assert not joint.won(dict.fromkeys(NAMES[:3], True))
    assert joint.won(dict.fromkeys(NAMES[1:4], True))
    assert not joint.won({NAMES[0]: True, NAMES[5]: True, NAMES[2]: True})
    assert joint.lost({NAMES[2]: False, NAMES[3]: False})


def test_an_empty_configuration_wins_nothing() -> None:
    assert not Configuration().won({NAMES[0]: True})
    assert Configuration().lost({})


def test_a_configuration_is_the_same_after_its_record() -> None:
    joint = Configuration(NAMES[:3], NAMES[2:5], NAMES[5:])
    assert Configuration.decode(joint.encode()) == joint


def test_nobody_is_voter_and_learner() -> None:
    with pytest.raises(InvariantError):
        Configuration(NAMES[:2], (), NAMES[1:3])


def test_a_cut_takes_a_configuration_back() -> None:
    log = MembersLog(Configuration(NAMES[:1]), Position(0))
    log.add(Position(10), Configuration(NAMES[:2]))
    log.add(Position(20), Configuration(NAMES[:3]))
    assert log.cut(Position(15))
    assert (log.current, log.since) == (Configuration(NAMES[:2]), 10)
    assert not log.cut(Position(15))
    assert log.at(Position(9)) == Configuration(NAMES[:1])


def test_a_member_left_out_may_lead_until_that_is_committed() -> None:
    """Raft dissertation 4.2.2."""
    log = MembersLog(Configuration(NAMES[:3]), Position(0))
    log.add(Position(10), Configuration(NAMES[:2]))
    assert log.counts(NAMES[2], Position(9))
    assert not log.counts(NAMES[2], Position(10))


def test_of_configurations_those_are_open_that_may_still_hold() -> None:
    log = MembersLog(Configuration(NAMES[:3]), Position(0))
    log.add(Position(10), Configuration(NAMES[:2]))
    log.add(Position(20), Configuration(NAMES[:1]))
    for commit, sizes in ((9, [3, 2, 1]), (10, [2, 1]), (19, [2, 1]), (20, [1]), (99, [1])):
        assert [len(each.voters) for each in log.open(Position(commit))] == sizes
