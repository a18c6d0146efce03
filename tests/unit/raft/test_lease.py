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
LEASE_MS = 100


def quorum_sent_at(current: Configuration, heard: dict[ReplicaId, int], doubted: set[ReplicaId], now: int) -> int:
    """The largest time such that, in each half, more than half of the voters have answered a round as young."""

    def at(voter: ReplicaId) -> int:
        return now if voter == OWN else -1 if voter in doubted else heard.get(voter, -1)

    halves = [half for half in (current.voters, current.outgoing) if half]
    times = sorted({at(voter) for half in halves for voter in half}, reverse=True)
    return next(
        time for time in times if all(2 * sum(at(voter) >= time for voter in half) > len(half) for half in halves)
    )


@pytest.mark.parametrize("seed", range(200))
def test_the_lease_rests_on_the_newest_answers_of_a_quorum(seed: int) -> None:
    random = Random(seed)
    members, position = MembersLog(Configuration(tuple(NAMES[: random.randint(1, 4)])), Position(0)), 0
    ground = SimpleNamespace(
        clock=SimpleNamespace(now=1000), identity=OWN, members=members, options=SimpleNamespace(lease_ms=LEASE_MS)
    )
    rounds, doubted, heard = Rounds(), set[ReplicaId](), dict[ReplicaId, int]()
    sent: dict[int, int] = {}
    lease = Lease(cast("Ground", ground), rounds, doubted)
    moved = 0
    before = None
    for _ in range(400):
        match random.randrange(7):
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
            case _:
                pass
        now = ground.clock.now
        at = quorum_sent_at(members.current, heard, doubted, now)
        until = at + LEASE_MS if rounds.last and at >= 1000 else 0
        assert lease.until() == lease.until() == until
        assert lease.valid_at(now) == (now < until)
        moved += until != before
        before = until
    assert moved > 3, "the same lease throughout proves nothing"
