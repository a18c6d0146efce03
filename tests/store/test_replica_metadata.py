"""Metadata of two replicas on real files, whoever leads: see sim/metadata_pair.py for what is compared all the time."""

from itertools import count
from pathlib import Path
from random import Random

import pytest

from logherd.service.metadata import barriers
from sim.metadata_pair import MetadataPair, MetadataReplica, state_of
from store.test_two_replicas import check_equal


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
    assert pair.seen["deposed"] + pair.seen["leader crashed"]


@pytest.mark.parametrize("seed", [3, 4, 6])
def test_a_follower_whose_log_begins_again_has_everything_once_a_snapshot_arrived(tmp_path: Path, seed: int) -> None:
    pair = MetadataPair(tmp_path, seed)
    pair.settle()
    behind = pair.follower.crashed(500)
    rounds = count()
    while pair.leader.store.min_position <= behind.store.end_position:
        pair.random = Random(f"{seed} {next(rounds)}")
        for _ in range(20):
            pair.change()
            pair.note()
        pair.leader.metadata.end_pass()
        pair.note()
        pair.settle()
        pair.random = Random(f"{seed} {next(rounds)}")
        pair.background()
    pair.follower = behind
    pair.leader.metadata.demote()  # elected once more
    pair.begin_epoch()
    pair.settle()
    assert pair.seen["began again"] == 1
    assert pair.seen["not whole"]
    assert pair.follower.metadata.is_whole
    check_same(pair, pair.leader, pair.follower)
    pair.random = Random(seed)
    for _ in range(60):
        pair.step()
    pair.settle()
    check_same(pair, pair.leader, pair.follower)
