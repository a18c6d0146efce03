"""R6, R9, H5, H6: whose copy counts, who leaves and who joins the in-sync set, and when nothing is committed."""

import pytest

from logherd.controller.commands import AlterSyncSet, Register
from logherd.controller.reports import Report
from logherd.group.inputs import Health, Heard, SetAnswered
from logherd.group.output import Closed, SetChanged
from logherd.group.seat import process_of
from logherd.replication.messages import ReplicaId
from unit.group.stage import Node, Stage


def settled(replicas: int = 3, *, min_in_sync: int = 2) -> tuple[Stage, Node, list[Node]]:
    stage = Stage(replicas, min_in_sync=min_in_sync)
    leader = stage.run_until_served()
    stage.run(1_000)
    return stage, leader, [node for node in stage.nodes.values() if node is not leader]


def proposals(node: Node) -> list[AlterSyncSet]:
    return [ask for ask in node.asks if isinstance(ask, AlterSyncSet)]


def members(command: AlterSyncSet) -> list[int]:
    return [int(member.broker_id) for member in command.members]


def test_a_silent_member_costs_latency_within_h6_and_no_write() -> None:
    stage, leader, (silent, other) = settled()
    stage.isolate(silent)
    end, since = leader.append(), stage.now
    while leader.committed < end:
        stage.run(1)
    assert 1_000 < stage.now - since <= 1_600
    assert stage.desk.group.sync.members == (min(leader.id, other.id), max(leader.id, other.id))
    assert leader.serves is not None


def test_r9_who_catches_up_unheard_by_the_controllers_does_not_keep_a_dead_member_in_the_set() -> None:
    """It reaches the leader, and not the controllers: it may not join, and the dead one is proposed out together with
    that."""
    stage = Stage(replicas=4)
    leader = stage.run_until_served()
    stage.run(1_000)
    unheard, dead, _ = (node for node in stage.nodes.values() if node is not leader)
    stage.isolate(unheard)
    stage.run(4_000)
    assert unheard.id not in stage.desk.group.sync.members
    stage.cut.clear()
    stage.run(1_000)
    assert unheard.log.end == leader.log.end
    stage.kill(dead)
    end, since = leader.append(), stage.now
    while leader.committed < end:
        stage.run(1)
        assert stage.now - since < 3_000
    assert {dead.id, unheard.id}.isdisjoint(stage.desk.group.sync.members)
    version = stage.desk.group.sync.version
    stage.run(2_000)
    assert stage.desk.group.sync.version == version
    stage.heal()
    stage.run(1_000)
    assert unheard.id in stage.desk.group.sync.members


def test_r9_who_catches_up_unheard_by_the_controllers_takes_the_place_of_a_dead_member_if_nobody_else_can() -> None:
    """It reaches the leader, and maybe another controller than the one that leads."""
    stage, leader, (unheard, dead) = settled()
    stage.isolate(unheard)
    stage.run(4_000)
    assert unheard.id not in stage.desk.group.sync.members
    stage.cut.clear()
    stage.run(1_000)
    stage.kill(dead)
    end, since = leader.append(), stage.now
    while leader.committed < end:
        stage.run(1)
        assert stage.now - since < 3_000
    assert stage.desk.group.sync.members == (min(leader.id, unheard.id), max(leader.id, unheard.id))


def test_until_a_removal_is_accepted_the_member_counts() -> None:
    stage, leader, (silent, _) = settled()
    stage.isolate(silent)
    stage.run(1_300)
    stage.desk.deaf |= {1, 2, 3}
    end = leader.append()
    stage.run(800)
    assert proposals(leader)
    assert leader.serves is not None
    assert leader.committed < end
    command = proposals(leader)[-1]
    leader.feed(SetAnswered(command.request, tuple(m.broker_id for m in command.members), command.version + 1))
    assert leader.committed == end
    assert leader.heard(SetChanged)


def test_r6_a_view_that_was_overtaken_by_an_accepted_proposal_puts_no_former_set_in_force() -> None:
    """Who has joined may be the next leader from then on, so nothing counts without it."""
    stage, leader, (one, other) = settled()
    stage.isolate(one)
    stage.run(2_500)
    assert one.id not in stage.desk.group.sync.members
    report = [ask for ask in leader.asks if isinstance(ask, Report)][-1]
    overtaken = stage.desk.answer(report, stage.now)
    stage.heal()
    leading = leader.core.leading
    assert leading is not None
    while one.id not in leading.insync.members:
        stage.run(1)
    assert isinstance(overtaken, Heard)
    leader.feed(overtaken)
    stage.isolate(one)
    end = leader.append()
    stage.run(100)
    assert (other.log.end, leader.serves is not None) == (end, True)
    assert leader.committed < end


def test_a_member_that_is_proposed_counts_before_it_is_one() -> None:
    stage, leader, (one, other) = settled()
    stage.isolate(one)
    stage.run(2_500)
    assert one.id not in stage.desk.group.sync.members
    # The proposal gets through, its answer does not: it may be in force.
    stage.desk.deaf |= {1, 2, 3}
    stage.cut.clear()
    stage.run(700)
    assert one.id in members(proposals(leader)[-1])
    stage.isolate(one)
    end = leader.append()
    stage.run(100)
    assert other.log.end == end
    assert leader.serves is not None
    assert leader.committed < end


def test_a_proposal_is_withdrawn_by_a_new_version_of_the_present_set() -> None:
    stage, leader, (one, _) = settled()
    stage.isolate(one)
    stage.run(2_500)
    present = stage.desk.group.sync.members
    stage.desk.deaf |= {1, 2, 3}
    stage.cut.clear()
    stage.run(500)
    stage.isolate(one)
    stage.run(1_900)
    assert members(proposals(leader)[-1]) == [int(each) for each in present]
    assert len({command.request for command in proposals(leader)}) > 2


def test_who_returns_joins_after_it_has_everything() -> None:
    stage, leader, (one, _) = settled()
    stage.isolate(one)
    stage.run(2_000)
    for _ in range(50):
        leader.append()
    stage.run(1_000)
    stage.heal()
    stage.run(1_500)
    assert one.id in stage.desk.group.sync.members
    joining = next(m for m in proposals(leader)[-1].members if m.broker_id == one.id)
    assert joining.end.position >= leader.committed
    assert one.committed == leader.committed == leader.log.end


def returned_from_afar() -> tuple[Stage, Node, Node]:
    """A follower that is further away than the other one is back, while its leader is sent messages all the time."""
    stage, leader, (far, _) = settled()
    stage.far[far.id] = 30
    stage.isolate(far)
    under_load(stage, leader, 4_000)
    assert far.id not in stage.desk.group.sync.members
    stage.heal()
    return stage, leader, far


def under_load(stage: Stage, leader: Node, ms: int) -> int:
    """Messages for so long; the longest time that one took."""
    slowest, since, ends = 0, {leader.log.end: stage.now}, [leader.log.end]
    for _ in range(ms // 5):
        ends.append(leader.append())
        since[ends[-1]] = stage.now
        stage.run(5)
        while ends and leader.committed >= ends[0]:
            slowest = max(slowest, stage.now - since[ends.pop(0)])
    return slowest


def test_h6_who_is_further_away_than_the_members_joins_while_messages_flow() -> None:
    stage, leader, far = returned_from_afar()
    assert under_load(stage, leader, 8 * stage.options.lag_ms) <= 100
    assert far.id in stage.desk.group.sync.members


def test_h6_who_falls_silent_while_it_is_awaited_costs_a_moment_only() -> None:
    stage, leader, far = returned_from_afar()
    while not leader.core.leading.insync.awaited:
        under_load(stage, leader, 5)
    stage.kill(far)
    assert under_load(stage, leader, 3_000) <= 400
    assert far.id not in stage.desk.group.sync.members
    assert not leader.core.leading.insync.awaited


def test_h6_nobody_waits_for_a_slow_follower_to_join() -> None:
    stage, leader, far = returned_from_afar()
    stage.far[far.id] = 180
    assert under_load(stage, leader, 12 * stage.options.lag_ms) <= 20
    assert far.id not in stage.desk.group.sync.members


def test_a_set_is_never_proposed_below_the_minimum() -> None:
    stage, leader, others = settled()
    for node in others:
        stage.isolate(node, from_controllers=False)
    end = leader.append()
    stage.run(3_000)
    assert all(len(command.members) >= 2 for command in proposals(leader))
    assert leader.committed < end
    stage.heal()
    stage.run(300)
    assert leader.committed == end


def test_nothing_is_taken_or_committed_by_too_few() -> None:
    stage, leader, others = settled()
    for node in others:
        stage.kill(node)
    # Both come back with empty disks, so the controllers take them out of the set.
    for node in others:
        group = stage.desk.group
        stage.desk.submit(
            Register(
                group=group.key, broker_id=node.core.ground.me.broker_id, store_id=f"new{node.id}", incarnation="x",
                address="x", replaces=f"s{node.id}",
            ),
            stage.now,
        )  # fmt: skip
    end = leader.append()
    stage.run(800)
    assert stage.desk.group.sync.members == (leader.id,)
    assert leader.core.closed(stage.now) is Closed.TOO_FEW
    assert leader.committed < end


def test_a_sleep_of_the_leader_is_not_held_against_the_members() -> None:
    stage, leader, _ = settled()
    stage.now += 2_000
    stage.run(300)
    assert leader.core.leading is not None
    assert not proposals(leader)


def test_a_full_follower_leaves_the_set_and_returns() -> None:
    stage, leader, (full, _) = settled()
    full.feed(Health(space=False, room=False))
    end = leader.append()
    stage.run(2_000)
    assert leader.committed == end
    assert full.id not in stage.desk.group.sync.members
    stage.run(2_000)
    assert full.id not in stage.desk.group.sync.members
    full.feed(Health())
    stage.run(1_500)
    assert full.id in stage.desk.group.sync.members


def test_a_follower_whose_reserve_is_touched_goes_on() -> None:
    stage, leader, others = settled()
    for node in (leader, *others):
        node.feed(Health(space=False, room=True))
    assert leader.core.closed(stage.now) is Closed.NO_SPACE
    end = leader.append(b"an offset, for which the reserve is kept")
    stage.run(10)
    assert leader.committed == end
    stage.run(2_500)
    assert leader.serves is not None
    assert len(stage.desk.group.sync.members) == 3


@pytest.mark.parametrize("name", ["", "1", "x.0000000000000001", "1.1", "01.0000000000000001", "1.000000000000000G"])
def test_names_of_nobody_are_refused(name: str) -> None:
    assert process_of(ReplicaId(name)) is None


def test_an_acceptance_that_comes_late_or_of_nobodys_proposal_changes_nothing() -> None:
    stage, leader, (silent, _) = settled()
    stage.isolate(silent)
    stage.desk.deaf |= {1, 2, 3}
    stage.run(1_500)
    assert leader.core.leading is not None
    command, before = proposals(leader)[-1], leader.core.leading.insync.members
    accepted = tuple(member.broker_id for member in command.members)
    end = leader.append()
    for late in (
        SetAnswered("somebody else's", accepted, command.version + 1),
        SetAnswered(command.request, accepted, command.version),
    ):
        leader.feed(late)
        assert leader.core.leading.insync.members == before
        assert leader.committed < end


def test_a_sleep_of_a_leader_that_may_commit_alone_is_not_held_against_the_members() -> None:
    stage, leader, _ = settled(min_in_sync=1)
    stage.now += 2_000
    stage.run(300)
    assert leader.core.leading is not None
    assert not proposals(leader)
