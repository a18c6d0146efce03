"""Raft mode without a majority: an operator makes the survivors the group, over message stores."""

import pytest

from logherd.group.inputs import Health, Rebuild
from logherd.group.output import SetChanged, Strange
from logherd.group.seat import cluster_of
from logherd.model.names import Epoch, Position
from logherd.replica import NotedStore
from logherd.store import StoreFull
from unit.group.ring import KEY, Replica
from unit.group.test_voting_over_stores import StoreReplica, StoreRing, stored


def five_of_which_two_survive() -> tuple[StoreRing, StoreReplica, StoreReplica]:
    """The survivors, the one with the longer log first; nobody can be elected."""
    ring = StoreRing(5)
    leader = ring.until_served()
    for _ in range(10):
        leader.append(b"x" * 300)
    ring.run(500)
    longer, shorter, *lost = (node for node in ring.nodes.values() if node is not leader)
    ring.isolate(shorter)
    leader.append(b"what one survivor has" * 10)
    ring.run(200)
    for node in (leader, *lost):
        ring.kill(node)
    ring.heal()
    ring.run(3_000)
    assert ring.leader is None
    assert longer.log.end > shorter.log.end
    return ring, stored(longer), stored(shorter)


def order(*survivors: StoreReplica, reset: int = 1) -> Rebuild:
    epoch = Epoch(max(node.core.epoch for node in survivors) + 1)
    return Rebuild(reset, epoch, tuple((node.core.identity, node.core.raft.ground.last) for node in survivors))


def give(rebuild: Rebuild, *survivors: Replica) -> None:
    for node in survivors:
        node.feed(rebuild)


def test_survivors_go_on_with_the_longest_of_their_logs() -> None:
    ring, longer, shorter = five_of_which_two_survive()
    end = longer.log.end
    give(order(longer, shorter), longer, shorter)
    new = ring.until_served()
    assert new is longer, "only whoever has most may lead"
    assert new.append(b"after") > end
    ring.run(500)
    assert longer.log.end == shorter.log.end == longer.committed == shorter.committed
    assert longer.log.epochs == shorter.log.epochs
    assert {tuple(event.members) for event in new.heard(SetChanged)} == {(longer.id, shorter.id)}
    assert longer.kept.reset == shorter.kept.reset == 1


def test_what_was_decided_outlives_a_restart_of_everybody() -> None:
    ring, longer, shorter = five_of_which_two_survive()
    give(order(longer, shorter), longer, shorter)
    ring.until_served()
    ring.run(500)
    for node in (longer, shorter):
        node.reopen()
        ring.restart(node)
    new = ring.until_served()
    assert stored(new).core.cluster == cluster_of(KEY, 1)
    assert set(stored(new).core.raft.ground.members.current.voters) == {longer.core.identity, shorter.core.identity}
    new.append(b"after")
    ring.run(500)
    assert longer.committed == shorter.committed == new.log.end


def test_those_that_were_given_up_are_not_listened_to() -> None:
    ring, longer, shorter = five_of_which_two_survive()
    give(order(longer, shorter), longer, shorter)
    ring.until_served()
    old = next(node for node in ring.nodes.values() if not node.alive)
    ring.restart(old)
    before = len(longer.heard(Strange))
    ring.run(3_000)
    assert len(longer.heard(Strange)) > before
    assert stored(old).core.leads is None
    assert ring.leader in (longer, shorter)


def test_an_order_that_reached_one_survivor_only_is_followed_by_another() -> None:
    ring, longer, shorter = five_of_which_two_survive()
    give(order(longer, shorter), shorter)
    ring.run(3_000)
    assert ring.leader is None
    give(order(longer, shorter, reset=2), longer, shorter)
    assert ring.until_served() is longer
    ring.run(500)
    assert shorter.committed == longer.log.end


def test_an_order_for_another_end_of_the_log_or_against_a_leader_does_nothing() -> None:
    _, longer, shorter = five_of_which_two_survive()
    stale = Rebuild(1, Epoch(longer.core.epoch + 1), ((longer.core.identity, shorter.core.raft.ground.last),))
    give(stale, longer)
    assert longer.core.cluster == cluster_of(KEY)
    working = StoreRing()
    leader = stored(working.until_served())
    working.run(500)
    follower = stored(next(node for node in working.nodes.values() if node is not leader))
    give(order(follower), follower)
    give(order(leader), leader)
    assert leader.core.cluster == follower.core.cluster == cluster_of(KEY)
    assert working.leader is leader


def test_a_survivor_whose_disk_takes_no_records_refuses_and_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    ring, longer, shorter = five_of_which_two_survive()

    def full(epoch: Epoch, note: bytes) -> Position:
        raise StoreFull(f"no further segment for {note!r} of {epoch}")

    longer.feed(Health(space=False, room=False))
    rebuild = order(longer, shorter)
    with monkeypatch.context() as patch:
        patch.setattr(NotedStore, "append_note", staticmethod(full))
        longer.feed(rebuild)
    assert longer.core.cluster == cluster_of(KEY)
    longer.feed(Health(space=False))
    give(rebuild, longer, shorter)
    assert ring.until_served() is longer
