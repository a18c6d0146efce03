"""Raft mode: when no write is taken, and what must be kept of who belongs to the group."""

from logherd.controller.values import BrokerId
from logherd.group.inputs import Drain, HandOver, MembersWanted, ReadWanted
from logherd.group.output import Closed, Strange
from unit.group.ring import VotingReplica, VotingRing


def test_a_leader_whose_lease_is_over_takes_no_writes_though_it_still_leads() -> None:
    ring = VotingRing()
    leader = ring.until_served()
    ring.run(500)
    ring.isolate(leader)
    until = ring.now + 8_000
    while leader.serves is not None:
        assert leader.core.closed(ring.now) is None
        assert ring.now < until
        ring.run(1)
    assert leader.core.leads is not None
    assert leader.core.closed(ring.now) is Closed.NOT_SERVING


def test_the_only_voter_takes_no_writes_while_it_stops() -> None:
    ring = VotingRing(1)
    leader = ring.until_served()
    assert leader.core.closed(ring.now) is None
    leader.slow = True
    leader.append()
    leader.feed(Drain())
    assert leader.core.closed(ring.now) is Closed.DRAINING


def test_the_record_of_the_members_is_kept_until_the_next_one_is_committed_and_flushed_here() -> None:
    ring = VotingRing()
    leader = ring.until_served()
    ring.run(500)
    learner = ring.add(4)
    learner.start()
    slow = next(node for node in ring.nodes.values() if node not in (leader, learner))
    assert isinstance(slow, VotingReplica)
    before = slow.core.pinned
    slow.slow = True
    for node in ring.nodes.values():
        node.feed(MembersWanted(ring.founders, (learner.core.identity,)))
    ring.run(1_000)
    ground = slow.core.raft.ground
    assert ground.progress.commit >= ground.members.since > ground.durable.position
    assert slow.core.pinned == before
    slow.flush()
    ring.run(500)
    assert before < slow.core.pinned < ground.members.since


def test_an_order_that_names_nobody_with_a_vote_moves_no_leadership() -> None:
    ring = VotingRing()
    leader = ring.until_served()
    ring.run(500)
    epoch = leader.serves
    leader.feed(HandOver(BrokerId(9)))
    assert "broker 9 has no vote" in leader.heard(Strange)[-1].reason  # type: ignore[attr-defined]
    assert leader.core.closed(ring.now) is None
    ring.run(2_000)
    assert leader.serves == epoch


def test_what_came_with_a_commit_that_a_read_waits_for_is_flushed_all_the_same() -> None:
    ring = VotingRing()
    leader = ring.until_served()
    ring.run(500)
    follower = next(node for node in ring.nodes.values() if node is not leader)
    assert isinstance(follower, VotingReplica)
    ring.cut.add((follower.id, leader.id))  # so that its question stays without an answer
    follower.feed(ReadWanted())
    for _ in range(2):
        leader.append()
        ring.run(5)
    assert follower.committed == follower.core.raft.ground.progress.commit < follower.log.end
    assert follower.core.raft.ground.durable.position == follower.log.end
