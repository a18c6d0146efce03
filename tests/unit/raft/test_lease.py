"""The lease is what the newest answers of a quorum make it, however often and whenever it is asked."""

from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from logherd.model.names import Position
from logherd.raft.ground import Ground
from logherd.raft.lease import Lease
from logherd.raft.members import Configuration, MembersLog
from logherd.replication.messages import ReplicaId
from logherd.replication.rounds import Rounds

NAMES = [ReplicaId(name) for name in "abcde"]
OWN = NAMES[0]
ELECTION_MS, LEASE_MS = 200, 150


def quorum_waits_until(
    current: Configuration, heard: dict[ReplicaId, int], doubted: set[ReplicaId], now: int, hasty: dict[ReplicaId, int]
) -> int:
    """The last moment before which, in each half, more than half of the voters elect nobody."""

    def until(voter: ReplicaId) -> int:
        heard_at = now if voter == OWN else -1 if voter in doubted else heard.get(voter, -1)
        return heard_at + hasty.get(voter, ELECTION_MS) * 3 // 4 if heard_at >= 1000 else 0

    halves = [half for half in (current.voters, current.outgoing) if half]
    times = sorted({until(voter) for half in halves for voter in half}, reverse=True)
    return next(
        time for time in times if all(2 * sum(until(voter) >= time for voter in half) > len(half) for half in halves)
    )


@pytest.mark.parametrize("seed", range(200))
def test_the_lease_rests_on_the_newest_answers_of_a_quorum_and_on_how_long_each_of_them_waits(seed: int) -> None:
    random = Random(seed)
    members, position = MembersLog(Configuration(tuple(NAMES[: random.randint(1, 4)])), Position(0)), 0
    ground = SimpleNamespace(
        clock=SimpleNamespace(now=1000, hasty={}), identity=OWN, members=members,
        options=SimpleNamespace(lease_ms=LEASE_MS, election_ms=ELECTION_MS),
    )  # fmt: skip
    rounds, doubted, heard = Rounds(), set[ReplicaId](), dict[ReplicaId, int]()
    sent: dict[int, int] = {}
    lease = Lease(cast("Ground", ground), rounds, doubted)
    moved = 0
    before = None
    for _ in range(400):
        match random.randrange(8):
            case 0:
                ground.clock.now += random.randint(0, 60)
            case 1:
                sent[rounds.begin(ground.clock.now)] = ground.clock.now
            case 2 | 3 if sent:
                peer, number = random.choice(NAMES[1:]), random.choice(list(sent)[-4:])
                if rounds.answer(peer, number):
                    heard[peer] = sent[number]
            case 4:
                doubted.symmetric_difference_update({random.choice(NAMES[1:])})
            case 5 if random.random() < 0.3:
                position += 1
                voters = tuple(random.sample(NAMES, random.randint(1, 4)))
                joint = members.current.voters if random.random() < 0.5 else ()
                members.add(Position(position), Configuration(voters, joint))
            case 6 if random.random() < 0.3:
                peer = random.choice(NAMES[1:])
                rounds.forget(peer)
                heard.pop(peer, None)
            case 7 if random.random() < 0.5:
                hasty = random.sample(NAMES[1:], random.randint(0, 3))
                ground.clock.hasty = {peer: random.randrange(ELECTION_MS) for peer in hasty}
            case _:
                pass
        now = ground.clock.now
        until = quorum_waits_until(members.current, heard, doubted, now, ground.clock.hasty) if rounds.last else 0
        assert lease.until() == lease.until() == until
        assert lease.valid_at(now) == (now < until)
        moved += until != before
        before = until
    assert moved > 3, "the same lease throughout proves nothing"
