"""Raft mode: when no write is taken, what a start goes by, and what must be kept of who belongs to the group."""

import pytest

from logherd.controller.values import BrokerId
from logherd.group.inputs import Drain, HandOver, MembersWanted, ReadWanted, Received
from logherd.group.output import Closed, Drained, Fenced, Promise, Strange
from logherd.group.seat import voter_of
from logherd.group.voting_core import VotingCore
from logherd.kit.errors import InvariantError
from logherd.model.names import Epoch, Position
from logherd.raft.messages import VoteAnswer, VoteRequest
from logherd.replication.epochs import ORIGIN
from logherd.replication.messages import Envelope, ReplicaId
from unit.group.ring import NotedMemory, VotingReplica, VotingRing, others, voting


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
    ring.run(20)
    epoch = leader.core.leads
    assert epoch is not None
    assert leader.heard(Fenced) == [Fenced(epoch, "the lease is over")]


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


# ---- what a start goes by ------------------------------------------------------------------------------------------


def asked(core: VotingCore, sender: ReplicaId, request: VoteRequest, now: int) -> list[object]:
    """What a replica answers, in its own term, to who asks for its vote."""
    out = core.step(Received(Envelope(core.cluster, sender, core.identity, core.epoch, request)), now)
    return [envelope.body for envelope in (*out.messages, *out.held) if envelope.to == sender]


def test_who_has_voted_gives_nobody_else_its_vote_in_that_term_after_a_restart() -> None:
    ring = VotingRing()
    leader = ring.until_served()
    ring.run(500)
    rest = others(ring, leader)
    voter = voting(ring, next(node for node in rest if node.kept.vote == leader.core.identity).id)
    rival = next(node for node in rest if node is not voter)
    ring.restart(voter)
    request = VoteRequest(voter.core.raft.ground.last, transfer=True)
    assert asked(voter.core, rival.core.identity, request, ring.now) == [VoteAnswer(granted=False)]
    assert asked(voter.core, leader.core.identity, request, ring.now) == [VoteAnswer(granted=True)]


def test_a_vote_leaves_no_earlier_than_it_is_durable() -> None:
    ring = VotingRing()
    voter, candidate = voting(ring, 1).core, ring.founders[1]
    now = ring.now + ring.options.election_ms
    request = Envelope(voter.cluster, candidate, voter.identity, Epoch(1), VoteRequest(ORIGIN))
    out = voter.step(Received(request), now)
    assert [(each.to, each.body) for each in out.held] == [(candidate, VoteAnswer(granted=True))]
    assert out.messages == ()
    assert out.keep == Promise(Epoch(1), candidate)
    assert out.flush is not None


def test_a_start_votes_for_nobody_while_what_an_earlier_life_has_told_may_bind_it() -> None:
    """It waited longer for a leader then, and the leader may count on that."""
    ring = VotingRing()
    node = voting(ring, 1)
    core = VotingCore(
        node.seat, ring.options, NotedMemory(), promise=Promise(Epoch(3)), founders=ring.founders, commit=Position(0),
        seed=1, now=0, owed_ms=3 * ring.options.election_ms,
    )  # fmt: skip
    request = VoteRequest(ORIGIN)
    for now, granted in ((0, False), (2_999, False), (3_000, True)):
        assert asked(core, ring.founders[1], request, now) == [VoteAnswer(granted=granted)]


def test_who_starts_again_reads_what_it_knew_to_be_committed_before_anything_else_is() -> None:
    ring = VotingRing()
    leader = ring.until_served()
    leader.append()
    ring.run(500)
    follower = others(ring, leader)[0]
    assert follower.committed == leader.committed
    ring.restart(follower)
    ring.run(200)
    follower.feed(ReadWanted())
    ring.run(10)
    assert follower.core.readable(ring.now) == leader.committed


def test_a_leader_is_heard_by_itself_as_long_as_it_leads_and_by_others_for_an_election_time_out() -> None:
    """An operator may make survivors the group only where no leader is heard."""
    ring = VotingRing()
    leader = voting(ring, ring.until_served().id)
    ring.run(500)
    assert all(voting(ring, each).core.hears_leader for each in ring.nodes)
    follower = voting(ring, others(ring, leader)[0].id)
    ring.isolate(follower)
    ring.run(ring.options.election_ms - 200)
    assert follower.core.hears_leader
    ring.run(300)
    assert not follower.core.hears_leader
    assert leader.core.hears_leader


# ---- who belongs to the group --------------------------------------------------------------------------------------


def test_the_record_of_the_members_is_kept_while_the_next_one_may_be_cut_again() -> None:
    ring = VotingRing()
    leader = voting(ring, ring.until_served().id)
    ring.run(500)
    before = leader.core.pinned
    ring.isolate(leader)
    leader.feed(MembersWanted(ring.founders, (voter_of(BrokerId(4), "s4.1"),)))
    ring.run(100)
    ground = leader.core.raft.ground
    assert ground.durable.position >= ground.members.since > ground.progress.commit
    assert leader.core.pinned == before


def test_who_is_wanted_now_replaces_a_new_voter_that_never_comes() -> None:
    ring = VotingRing()
    leader = voting(ring, ring.until_served().id)
    fourth = ring.add(4)
    fourth.start()
    for wanted in (voter_of(BrokerId(4), "lost"), fourth.core.identity):
        for node in ring.nodes.values():
            node.feed(MembersWanted((*ring.founders, wanted)))
        ring.run(1_000)
    current = leader.core.raft.ground.members.current
    assert set(current.voters) == {*ring.founders, fourth.core.identity}
    assert not current.joint


def test_nobody_is_wanted_both_with_a_vote_and_without() -> None:
    ring = VotingRing()
    with pytest.raises(InvariantError, match="who are no learners"):
        ring.nodes[1].feed(MembersWanted(ring.founders, ring.founders[:1]))


@pytest.mark.parametrize("replicas", [1, 3])
def test_that_nobody_waits_for_a_process_is_said_once(replicas: int) -> None:
    ring = VotingRing(replicas)
    node = ring.until_served()
    ring.run(500)
    node.feed(Drain())
    ring.run(1_000)
    assert node.heard(Drained) == [Drained()]


def test_a_read_that_nobody_can_answer_is_no_hand_over_that_failed() -> None:
    ring = VotingRing()
    node = voting(ring, 1)
    node.feed(ReadWanted())
    assert not node.heard(Strange)
    assert node.core.readable(ring.now) is None


def test_what_is_meant_for_another_replica_is_told_as_strange() -> None:
    ring = VotingRing()
    node = voting(ring, 1)
    core = node.core
    node.feed(Received(Envelope(core.cluster, ring.founders[1], ring.founders[2], core.epoch, VoteRequest(ORIGIN))))
    assert node.heard(Strange) == [Strange(ring.founders[1], "for another member")]
