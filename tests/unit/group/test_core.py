"""The whole part of a replica, under real controllers: serving, committing, failing over, handing over."""

from logherd.group.output import Closed, Fenced, Following, Installed, Leading, Serving
from logherd.model.names import Epoch
from logherd.raft.memory import MemoryLog
from unit.group.bases import drop_before
from unit.group.stage import Node, Stage


def test_a_new_group_serves_and_commits_on_all() -> None:
    stage = Stage()
    leader = stage.run_until_served()
    assert leader.serves == Epoch(1)
    assert [type(event) for event in leader.heard(Leading, Serving)] == [Leading, Serving]
    end = leader.append()
    assert leader.committed < end
    stage.run(5)
    assert leader.committed == end
    stage.run(200)
    assert {node.committed for node in stage.nodes.values()} == {end}
    others = [node for node in stage.nodes.values() if node is not leader]
    assert all(node.heard(Following) for node in others)
    assert all(node.core.closed(stage.now) is Closed.NOT_SERVING for node in others)


def test_nobody_serves_before_the_barrier_is_committed() -> None:
    stage = Stage()
    stage.no_barrier = True
    stage.run(5_000)
    assert stage.leader is None
    assert any(node.heard(Leading) for node in stage.nodes.values())


def test_a_killed_leader_is_replaced_and_nothing_committed_is_lost() -> None:
    stage = Stage()
    first = stage.run_until_served()
    ends = [first.append() for _ in range(10)]
    stage.run(10)
    assert first.committed == ends[-1]
    stage.kill(first)
    second = stage.run_until_served()
    assert second is not first
    assert second.committed > ends[-1]
    assert second.log.epochs.last_epoch == Epoch(2)
    end = second.append()
    stage.run(2_500)
    assert second.committed == end
    assert first.id not in stage.desk.group.sync.members


def test_an_isolated_leader_is_fenced_before_another_serves() -> None:
    stage = Stage()
    first = stage.run_until_served()
    stage.isolate(first)
    first.append()
    while stage.leader is first:
        stage.run(1)
    assert first.heard(Fenced)
    second = stage.run_until_served()
    assert second is not first
    assert first.core.leading is not None
    stage.heal()
    stage.run(3_000)
    assert first.core.leading is None
    assert first.log.end == second.log.end
    assert first.log.epochs == second.log.epochs


def test_a_replica_alone_commits_what_it_has_flushed() -> None:
    stage = Stage(1, min_in_sync=1)
    leader = stage.run_until_served()
    leader.slow = True
    end = leader.append()
    stage.run(50)
    assert leader.committed < end
    leader.flush()
    assert leader.committed == end


def test_whoever_is_too_far_behind_begins_where_the_leaders_log_begins() -> None:
    """R16: what it lacks is not kept any more."""
    stage = Stage()
    leader = stage.run_until_served()
    stage.run(500)
    behind = next(node for node in stage.nodes.values() if node is not leader)
    stage.isolate(behind)
    stage.run(2_000)
    ends = [leader.append() for _ in range(20)]
    stage.run(300)
    point = drop_before(leader.log, ends[9])
    stage.heal()
    stage.run(3_000)
    assert [event.image.point for event in behind.heard(Installed) if isinstance(event, Installed)] == [point]
    assert behind.log.epochs.base == point
    assert behind.committed == leader.committed == ends[-1]
    assert behind.id in stage.desk.group.sync.members


def test_a_learner_is_shipped_to_and_never_counts() -> None:
    stage = Stage()
    leader = stage.run_until_served()
    stage.nodes[4] = learner = Node(stage, 4, MemoryLog(), learner=True)
    stage.run(3_000)
    assert learner.log.end == leader.log.end
    assert learner.id not in stage.desk.group.sync.members
    learner.slow = True
    end = leader.append()
    stage.run(10)
    assert leader.committed == end
