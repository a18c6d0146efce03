"""Raft mode: disks that are full, fail or do not answer."""

from dataclasses import replace

import pytest

from logherd.controller.values import BrokerId
from logherd.group.inputs import Drain, HandOver, Health, Input, MembersWanted
from logherd.group.output import Closed, Fenced, Following, Leading, StorageStalled
from logherd.group.seat import voter_of
from logherd.model.names import Epoch, Position
from logherd.store import StoreFull
from unit.group.ring import NotedMemory, VotingReplica, VotingRing, others, voting


def test_a_broken_store_lets_go_at_once_and_stands_no_more() -> None:
    ring = VotingRing()
    old = ring.until_served()
    ring.run(500)
    old.feed(Health(healthy=False))
    assert old.serves is None
    assert old.heard(Fenced) == [Fenced(old.core.epoch, "the store does not work")]
    new = ring.until_served(500)
    assert new is not old


@pytest.mark.parametrize("why", [Health(healthy=False), HandOver(), Drain()], ids=["broken", "ordered", "stops"])
def test_who_gives_leadership_away_gives_it_to_who_is_there(why: Input) -> None:
    """At rest, whoever died a moment ago has everything, too."""
    ring = VotingRing()
    old = ring.until_served()
    ring.run(500)
    dead, heir = others(ring, old)
    ring.kill(dead)
    ring.run(1_000)
    old.feed(why)
    assert ring.until_served(500, by=heir.id)


def test_where_all_disks_are_full_writes_are_refused_and_the_leadership_stays() -> None:
    ring = VotingRing()
    leader = ring.until_served()
    for node in ring.nodes.values():
        node.feed(Health(space=False))
    ring.run(3_000)
    assert ring.leader is leader
    assert leader.core.closed(ring.now) is Closed.NO_SPACE


@pytest.mark.parametrize("dies", range(3))
def test_where_all_disks_are_full_another_leads_after_the_leaders_death_and_takes_offsets(dies: int) -> None:
    ring = VotingRing()
    leader = ring.until_served()
    for node in ring.nodes.values():
        node.feed(Health(space=False))
    ring.run(500)
    for node in others(ring, leader)[:dies]:
        ring.restart(node)
        node.feed(Health(space=False))
    ring.kill(leader)
    again = ring.until_served(8_000)
    assert again is not leader
    assert again.core.closed(ring.now) is Closed.NO_SPACE
    end = again.append(b"an offset, for which the reserve is kept")
    ring.run(500)
    assert again.committed >= end


def test_a_leader_with_a_full_disk_hands_over_to_who_has_space() -> None:
    ring = VotingRing()
    leader = ring.until_served()
    first, *others = [node for node in ring.nodes.values() if node is not leader]
    first.feed(Health(space=False))
    leader.feed(Health(space=False))
    ring.run(3_000)
    assert ring.leader in others
    assert ring.leader is not None
    assert ring.leader.core.closed(ring.now) is None


def test_a_leader_whose_log_fills_its_disk_hands_over_and_takes_until_then_what_finds_room() -> None:
    """The reserve is whole, and would not be with a further segment. What its store takes is the store's matter."""
    ring = VotingRing()
    leader = ring.until_served()
    ring.run(500)
    leader.feed(Health(messages=False))
    assert leader.core.closed(ring.now) is None
    ring.run(3_000)
    assert ring.leader not in (None, leader)


def test_members_whose_space_comes_and_goes_do_not_pass_leadership_around_for_ever() -> None:
    """Each time that somebody leads, its disk is full for 4 s, and the other ones' have space."""
    ring = VotingRing()
    first = ring.until_served()
    changed: list[int] = []
    for half in range(60):
        leader = ring.until_served()
        for node in ring.nodes.values():
            node.feed(Health(space=node is not leader or half % 2 == 1))
        ring.run(4_000)
        if ring.leader is not leader:
            changed.append(half)
    assert 1 <= len(changed) <= len(ring.nodes), (first.id, changed)


def test_a_leader_short_of_space_for_a_moment_leads_on() -> None:
    """Members that share a disk do not look at it at the same moment."""
    ring = VotingRing()
    leader = ring.until_served()
    for _ in range(5):
        leader.feed(Health(space=False))
        ring.run(1_500)
        leader.feed(Health())
        ring.run(100)
    assert ring.leader is leader


def test_a_change_that_waits_for_a_new_voter_keeps_no_leader_without_space() -> None:
    """Its store may be lost for good, and until somebody says so every message would be refused."""
    ring = VotingRing()
    leader = ring.until_served()
    wanted = MembersWanted((*ring.founders, voter_of(BrokerId(4), "lost")))
    for node in ring.nodes.values():
        node.feed(wanted)
    ring.run(2_000)
    leader.feed(Health(space=False))
    ring.run(6_000)
    new = ring.leader
    assert new is not None
    assert new is not leader
    assert new.core.closed(ring.now) is None
    assert new.core.raft.leading.goal is not None, "it waits, too"  # type: ignore[attr-defined]


@pytest.mark.parametrize("place", range(2))
def test_who_has_no_space_stands_after_all_who_have(place: int) -> None:
    ring = VotingRing()
    leader = ring.until_served()
    others = [node for node in ring.nodes.values() if node is not leader]
    short = others.pop(place)
    short.feed(Health(space=False))
    ring.run(500)
    ring.kill(leader)
    ring.run(6_000)
    assert [ring.leader] == others
    assert not short.heard(Leading)


def test_a_leader_whose_disk_does_not_answer_is_replaced() -> None:
    ring = VotingRing()
    old = ring.until_served()
    ring.run(500)
    old.slow = True
    old.append()
    ring.run(6_000)
    assert old.heard(StorageStalled)
    assert ring.leader not in (None, old)


class TightMemory(NotedMemory):
    """A log that ends with its segment, for which the disk has no other while `full`."""

    full = False

    def append_note(self, epoch: Epoch, note: bytes) -> Position:
        if self.full:
            raise StoreFull("no further segment")
        return super().append_note(epoch, note)


def tight(ring: VotingRing) -> tuple[VotingReplica, TightMemory]:
    """A leader that may run out of room; it has nobody to hand over to."""
    for node in ring.nodes.values():
        node.log = TightMemory()
        node.start()
    leader = voting(ring, ring.until_served().id)
    ring.run(500)
    for node in ring.nodes.values():
        node.feed(Health(space=False))
    ring.run(500)
    assert isinstance(leader.log, TightMemory)
    return leader, leader.log


def test_a_doubt_waits_while_the_leaders_disk_takes_no_records() -> None:
    ring = VotingRing()
    leader, log = tight(ring)
    log.full = True
    leader.feed(Health(space=False, room=False))
    doubtful = voting(ring, others(ring, leader)[0].id)
    doubtful.kept = replace(doubtful.kept, doubtful=True)
    ring.restart(doubtful)
    ring.run(1_000)
    assert ring.leader is leader
    assert doubtful.core.raft.ground.doubtful
    log.full = False
    leader.feed(Health(space=False))
    ring.run(1_000)
    assert not doubtful.core.raft.ground.doubtful


def test_a_change_of_members_goes_on_once_the_leaders_disk_has_room_again() -> None:
    ring = VotingRing()
    leader, log = tight(ring)
    wanted = MembersWanted(ring.founders[:2], ring.founders[2:])
    for node in ring.nodes.values():
        node.feed(wanted)
    while not leader.core.raft.ground.members.current.joint:
        ring.run(1)
    log.full = True
    leader.feed(Health(space=False, room=False))
    ring.run(300)
    assert leader.core.raft.ground.members.current.joint
    log.full = False
    leader.feed(Health(space=False))
    ring.run(300)
    assert leader.core.raft.ground.members.current.voters == wanted.voters
    assert not leader.core.raft.ground.members.current.joint


def test_a_leader_whose_barrier_found_no_room_gives_way_at_once() -> None:
    ring = VotingRing()
    leader = ring.until_served()
    ring.run(500)
    for node in others(ring, leader):
        node.cramped = True
    ring.kill(leader)
    while not (elected := [node for node in others(ring, leader) if node.heard(Leading)]):
        ring.run(1)
    ring.run(20)
    assert elected[0].core.leads is None
    told = elected[0].heard(Leading, Fenced, Following)
    began = next(number for number, event in enumerate(told) if isinstance(event, Leading))
    epoch = told[began].epoch  # type: ignore[attr-defined]
    ended = [Fenced(epoch, "its first record was not appended"), Following(epoch, None, "")]
    assert told[began + 1 : began + 3] == ended
    for node in others(ring, leader):
        node.cramped = False
    ring.until_served()


@pytest.mark.parametrize("place", range(2))
def test_who_has_no_room_for_a_barrier_is_not_elected(place: int) -> None:
    ring = VotingRing()
    leader = ring.until_served()
    ring.run(500)
    able = others(ring, leader)
    barred = able.pop(place)
    barred.feed(Health(barrier=False))
    ring.kill(leader)
    ring.until_served(6_000, by=able[0].id)
    assert not barred.heard(Leading)


def test_nobody_stands_without_room_for_a_barrier_until_there_is() -> None:
    ring = VotingRing()
    leader = ring.until_served()
    ring.run(500)
    left = others(ring, leader)
    for node in left:
        node.feed(Health(barrier=False))
    ring.kill(leader)
    ring.run(20_000)
    assert {node.core.epoch for node in left} == {leader.core.epoch}, "no terms are used up"
    left[1].feed(Health())
    ring.until_served(6_000, by=left[1].id)


def test_a_leader_that_has_no_room_for_another_barrier_leads_on_and_hands_over_to_who_has() -> None:
    ring = VotingRing()
    leader = ring.until_served()
    ring.run(500)
    barred, heir = others(ring, leader)
    for node in (leader, barred):
        node.feed(Health(barrier=False))
    ring.run(5_000)
    assert ring.leader is leader
    assert leader.core.closed(ring.now) is None
    leader.feed(HandOver())
    ring.until_served(500, by=heir.id)


@pytest.mark.parametrize("place", range(4))
def test_a_candidate_whose_vote_does_not_become_durable_leaves_the_election_to_the_others(place: int) -> None:
    ring = VotingRing(5)
    leader = ring.until_served()
    ring.run(500)
    hanging = others(ring, leader)[place]
    hanging.slow = True
    ring.kill(leader)
    assert ring.until_served(4_000) is not hanging
    assert hanging.core.epoch - leader.core.epoch <= 2
