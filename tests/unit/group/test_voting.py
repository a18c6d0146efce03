"""Raft mode: replicas vote among themselves over the broker's own log; the services append, the barrier first."""

import pytest

from logherd.controller.values import BrokerId
from logherd.group.inputs import Assigned, Drain, HandOver, Health, MembersWanted, ReadWanted
from logherd.group.output import (
    Closed,
    Cut,
    Drained,
    Draining,
    Fenced,
    Following,
    Leading,
    Promise,
    Resumed,
    Serving,
    SetChanged,
    Strange,
)
from logherd.group.reading import ASK_AGAIN_MS, READ_MS
from logherd.group.seat import voter_of
from logherd.group.table import Table
from logherd.kit.errors import InvariantError
from logherd.model.names import Position
from logherd.raft.options import RaftOptions
from unit.group.ring import NotedMemory, VotingRing, others, voting


def test_one_is_elected_writes_its_barrier_and_serves() -> None:
    ring = VotingRing()
    leader = ring.until_served()
    assert [type(event) for event in leader.heard(Leading, Serving)] == [Leading, Serving]
    first = leader.heard(Leading)[0]
    assert isinstance(first, Leading)
    assert first == Leading(leader.core.epoch, Position(0), votes=first.votes)
    assert (len(first.votes) >= 2, leader.id in first.votes) == (True, True)
    assert leader.log.epochs.last_epoch == leader.core.epoch
    ring.run(400)
    follower = others(ring, leader)[0]
    assert follower.heard(Following)[-1] == Following(leader.core.epoch, BrokerId(leader.id), "")
    assert {node.committed for node in ring.nodes.values()} == {leader.log.end}


def test_a_record_counts_once_a_majority_has_flushed_it() -> None:
    ring = VotingRing()
    leader = ring.until_served()
    first, second = others(ring, leader)
    ring.run(200)
    first.slow = second.slow = True
    end = leader.append()
    ring.run(50)
    assert leader.committed < end
    first.flush()
    ring.run(50)
    assert leader.committed == end


def test_the_leaders_own_flush_is_one_of_those_that_count() -> None:
    ring = VotingRing()
    leader = ring.until_served()
    ring.run(200)
    leader.slow = True
    ring.kill(others(ring, leader)[0])
    end = leader.append()
    ring.run(50)
    assert leader.committed < end
    leader.flush()
    assert leader.committed == end


def test_a_vote_is_kept_with_its_term_before_it_leaves() -> None:
    ring = VotingRing()
    leader = ring.until_served()
    assert leader.kept.vote == leader.core.identity
    assert leader.kept.epoch == leader.core.epoch
    voted = [node.kept for node in others(ring, leader)]
    assert Promise(leader.core.epoch, leader.core.identity) in voted


def test_a_leader_that_is_cut_off_stops_serving_before_another_begins() -> None:
    ring = VotingRing()
    old = ring.until_served()
    ring.run(200)
    ring.isolate(old)
    old.append(b"never committed")
    ring.run(100)
    assert old.serves is not None
    until = ring.now + 8_000
    while ring.leader in (None, old):
        assert ring.now < until
        ring.run(1)
    assert old.serves is None
    assert isinstance(old.heard(Fenced)[0], Fenced)
    new = ring.until_served()
    end = new.append(b"after")
    ring.heal()
    ring.run(2_000)
    assert len(old.heard(Cut)) == 1
    assert {node.log.end for node in ring.nodes.values()} == {end}
    assert {node.committed for node in ring.nodes.values()} == {end}


def test_a_restarted_replica_keeps_what_it_has_promised_and_committed() -> None:
    ring = VotingRing()
    leader = ring.until_served()
    leader.append()
    ring.run(500)
    follower = others(ring, leader)[0]
    ring.restart(follower)
    assert follower.core.epoch == leader.core.epoch
    assert follower.core.commit == follower.committed == leader.committed
    ring.run(500)
    assert ring.leader is leader


def test_leadership_is_handed_to_whom_the_operator_names() -> None:
    ring = VotingRing()
    old = ring.until_served()
    target = others(ring, old)[1]
    ring.run(500)
    end = old.append()
    old.feed(HandOver(BrokerId(target.id)))
    assert old.core.closed(ring.now) is Closed.DRAINING
    assert old.heard(Draining)[-1] == Draining(old.core.epoch, BrokerId(target.id))
    new = ring.until_served(300, by=target.id)
    assert old.committed >= end
    assert new.log.end > end
    fenced = old.heard(Fenced)[0]
    assert isinstance(fenced, Fenced)
    assert fenced.cause == f"leadership is handed over to {target.core.identity}"


def test_who_leads_again_after_it_has_handed_over_takes_no_writes_before_its_barrier_is_committed() -> None:
    """`Resumed` would let them in."""
    ring = VotingRing()
    first = ring.until_served()
    second = others(ring, first)[0]
    ring.run(500)
    for old, new in ((first, second), (second, first)):
        old.feed(HandOver(BrokerId(new.id)))
        assert ring.until_served(300, by=new.id)
        ring.run(500)
    assert [type(event) for event in first.heard(Leading, Draining, Resumed)] == [Leading, Draining, Leading]


def test_a_hand_over_that_nobody_takes_ends_the_leadership() -> None:
    ring = VotingRing()
    old = ring.until_served()
    target = others(ring, old)[0]
    ring.run(500)
    target.feed(Health(healthy=False))
    old.feed(HandOver(BrokerId(target.id)))
    ring.run(100)
    assert ring.leader is None
    ring.run(1_200)
    assert old.heard(Fenced)
    ring.until_served()


def test_a_hand_over_that_never_began_is_taken_back() -> None:
    ring = VotingRing()
    leader = ring.until_served()
    target = others(ring, leader)[0]
    ring.run(500)
    ring.kill(target)
    leader.append()
    leader.feed(HandOver(BrokerId(target.id)))
    ring.run(1_500)
    assert leader.heard(Resumed)
    assert leader.core.closed(ring.now) is None
    assert "not handed over" in leader.heard(Strange)[-1].reason  # type: ignore[attr-defined]


def test_an_orderly_stop_hands_over_first() -> None:
    ring = VotingRing()
    old = ring.until_served()
    ring.run(500)
    end = old.append()
    old.feed(Drain())
    ring.run(300)
    assert old.heard(Drained)
    assert old.committed >= end
    assert ring.until_served() is not old
    ring.run(5_000)
    assert ring.leader is not old


def test_a_follower_may_stop_at_once() -> None:
    ring = VotingRing()
    follower = others(ring, ring.until_served())[0]
    follower.feed(Drain())
    ring.run(50)
    assert follower.heard(Drained)


def test_the_only_voter_serves_alone_and_stops_when_all_is_answered() -> None:
    ring = VotingRing(1)
    leader = ring.until_served()
    leader.slow = True
    leader.append()
    leader.feed(Drain())
    ring.run(50)
    assert not leader.heard(Drained)
    leader.flush()
    ring.run(50)
    assert leader.heard(Drained)


def test_a_replica_with_another_store_votes_only_once_the_group_names_it() -> None:
    ring = VotingRing()
    leader = ring.until_served()
    leader.append()
    ring.run(500)
    wiped = voting(ring, others(ring, leader)[0].id)
    former = wiped.core.identity
    ring.kill(wiped)
    wiped.log, wiped.kept, wiped.committed, wiped.store, wiped.founders = NotedMemory(), Promise(), Position(0), 2, ()
    ring.restart(wiped)
    assert wiped.core.identity == voter_of(BrokerId(wiped.id), f"s{wiped.id}.2") != former
    ring.run(3_000)
    assert wiped.log.end == 0
    wanted = MembersWanted(tuple(wiped.core.identity if each == former else each for each in ring.founders))
    for node in ring.nodes.values():
        node.feed(wanted)
    ring.run(3_000)
    assert wiped.log.end == leader.log.end
    assert wiped.core.raft.ground.members.current.voters == wanted.voters
    assert not wiped.core.raft.ground.members.current.joint
    ring.kill(others(ring, leader)[1])
    end = leader.append()
    ring.run(50)
    assert leader.committed == end


def test_a_learner_follows_and_counts_for_nothing() -> None:
    ring = VotingRing()
    leader = ring.until_served()
    learner = ring.add(4)
    learner.start()
    for node in ring.nodes.values():
        node.feed(MembersWanted(ring.founders, (learner.core.identity,)))
    ring.run(1_000)
    assert learner.log.end == leader.log.end
    assert leader.heard(SetChanged)[-1].members == (1, 2, 3)  # type: ignore[attr-defined]
    for node in others(ring, leader):
        node.alive = node is learner
    end = leader.append()
    ring.run(500)
    assert leader.committed < end


def test_who_belongs_to_the_group_is_known_above_what_is_dropped() -> None:
    ring = VotingRing(options=RaftOptions(restate_ms=2_000))
    leader = ring.until_served()
    assert leader.core.pinned == 0  # type: ignore[attr-defined]
    leader.append()
    ring.run(2_500)
    node = voting(ring, leader.id)
    assert 0 < node.core.pinned < node.committed
    ends = [end for end, _ in node.log.notes(Position(0), node.log.end)]
    assert node.core.pinned == ends[-1] - 1


def test_the_preferred_replica_leads_when_it_can() -> None:
    second = voter_of(BrokerId(2), "s2.1")
    ring = VotingRing(options=RaftOptions(preferred=(second,)))
    ring.run(6_000)
    assert ring.leader is ring.nodes[2]


def test_only_a_leaders_services_append() -> None:
    ring = VotingRing()
    leader = ring.until_served()
    follower = others(ring, leader)[0]
    follower.write(leader.core.epoch, b"stray")
    with pytest.raises(InvariantError, match="only a leader"):
        follower.feed(Health())


def test_an_input_of_another_mode_is_a_mistake_of_the_caller() -> None:
    ring = VotingRing()
    with pytest.raises(InvariantError, match="another mode"):
        ring.nodes[1].feed(Assigned(Table(number=1, leader=BrokerId(1))))
    with pytest.raises(InvariantError, match="has voters"):
        ring.nodes[1].feed(MembersWanted(()))


def test_a_lease_ends_when_it_is_not_prolonged_and_before_anybody_else_is_elected() -> None:
    ring = VotingRing()
    leader = voting(ring, ring.until_served().id)
    ring.run(500)
    first = leader.core.raft.leading.leased_until
    ring.run(500)
    until = leader.core.raft.leading.leased_until
    assert ring.now < until
    assert first < until
    ring.isolate(leader)
    while ring.now < until:
        assert [node.id for node in ring.serving] == [leader.id]
        ring.run(1)
    assert leader.serves is None


@pytest.mark.parametrize("place", range(2))
def test_leadership_is_handed_to_nobody_who_is_about_to_stop(place: int) -> None:
    ring = VotingRing()
    old = ring.until_served()
    rest = others(ring, old)
    rest.pop(place).feed(Drain())
    ring.run(500)
    old.feed(HandOver())
    assert ring.until_served(300, by=rest[0].id) is rest[0]


@pytest.mark.parametrize("order", [Drain(), HandOver()], ids=["stop", "operator"])
def test_a_change_that_waits_for_new_voters_holds_no_hand_over_up(order: Drain | HandOver) -> None:
    ring = VotingRing()
    old = ring.until_served()
    ring.run(500)
    wanted = MembersWanted((*ring.founders, voter_of(BrokerId(4), "s4.1")))
    for node in (old, *others(ring, old)[:2]):
        node.feed(wanted)
    ring.run(500)
    old.feed(order)
    ring.run(300)
    new = ring.until_served()
    assert new is not old
    ring.run(500)
    assert voting(ring, new.id).core.raft.leading is not None
    assert voting(ring, new.id).core.raft.leading.goal is not None


def test_a_follower_that_is_behind_has_few_questions_waiting() -> None:
    ring = VotingRing()
    leader = ring.until_served()
    follower = voting(ring, others(ring, leader)[0].id)
    ring.run(500)
    follower.slow = True
    leader.append()
    for _ in range(10 * READ_MS // 100):
        follower.feed(ReadWanted())
        ring.run(100)
    assert follower.core.raft.ground.progress.granted.count <= READ_MS // ASK_AGAIN_MS
    follower.slow = False
    follower.flush()
    ring.run(200)
    follower.feed(ReadWanted())
    ring.run(20)
    assert follower.core.readable(ring.now) == leader.committed


def test_what_is_said_again_of_the_members_is_forgotten_again() -> None:
    ring = VotingRing(options=RaftOptions(restate_ms=100))
    leader = ring.until_served()
    for _ in range(20):
        leader.append()
        ring.run(150)
    assert ring.leader is leader
    assert all(voting(ring, each).core.raft.ground.members.count <= 2 for each in ring.nodes)
    assert not any(node.heard(SetChanged) for node in ring.nodes.values())
