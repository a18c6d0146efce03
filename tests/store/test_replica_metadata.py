"""Metadata of two replicas on real files, whoever leads: see sim/metadata_pair.py for what is compared all the time."""

from collections import Counter
from pathlib import Path

import pytest

from logherd.service.metadata import barriers
from sim.metadata_pair import MetadataPair, MetadataReplica, state_of
from store.test_two_replicas import check_equal

SEEN = Counter[str]()


def check_same(pair: MetadataPair, left: MetadataReplica, right: MetadataReplica) -> None:
    check_equal(left.store, right.store)
    kept = max(left.store.min_position, right.store.min_position)
    assert state_of(left.metadata, kept) == state_of(right.metadata, kept)
    assert left.ends() == right.ends() == pair.ends


@pytest.mark.parametrize("seed", range(16))
def test_a_replica_has_what_the_leader_had_when_it_wrote_what_is_committed(tmp_path: Path, seed: int) -> None:
    pair = MetadataPair(tmp_path, seed)
    for _ in range(200):
        pair.step()
    pair.settle()
    check_same(pair, pair.leader, pair.follower)
    for replica in (pair.leader, pair.follower):
        for _ in range(3):
            replica.store.tick()
            while replica.store.background_work():
                pass
    left, right = pair.leader.crashed(900), pair.follower.crashed(901)
    check_same(pair, left, right)
    assert state_of(left.metadata, left.store.min_position) == state_of(pair.leader.metadata, left.store.min_position)
    assert barriers(left.records())[-1] == pair.leader.metadata.epochs[-1]
    print(sorted(pair.seen.items()))
