"""A founding step on a disk that may stop at any call: the end is the same, and nothing is half a member."""

from collections.abc import Iterator
from itertools import count
from random import Random

import pytest

from logherd.kit.errors import InvariantError
from logherd.peers.errors import IdentityError
from logherd.peers.founding import Found, Founding, Join
from logherd.peers.identity import Identity, open_identity
from logherd.peers.prepare import prepare_log
from logherd.raft.core import RaftCore
from logherd.raft.members import Configuration
from logherd.raft.options import RaftOptions
from logherd.raft.store import HardState
from logherd.raftlog import RaftLog, RaftLogOptions
from logherd.replication.messages import ClusterId
from sim.disk import SimDisk, SimulatedCrash
from unit.peers.fakes import CLUSTER, replica

ROOT, LOG = "/data", "/data/raft"
OPTIONS = RaftLogOptions(
    segment_bytes=4096, record_bytes_max=1024, window_bytes=4096, spare_segments=0, reserve_bytes=0
)


def new_disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory(ROOT)
    disk.sync_dir("/")
    return disk


def opened(disk: SimDisk) -> tuple[Identity, RaftLog]:
    log = RaftLog.open(disk, LOG, OPTIONS)
    empty = log.hard_state() is None
    return open_identity(disk, ROOT, cluster=CLUSTER.name, name="a", log_empty=empty), log


def found_alone(disk: SimDisk) -> Identity:
    """What a process does at its start if it is alone."""
    identity, log = opened(disk)
    step = Founding(identity, ("a",)).start()
    if step is None:
        return identity
    assert isinstance(step, Found)
    return prepare_log(disk, ROOT, identity, log, step)


def crashes(run: int) -> Iterator[tuple[SimDisk, int, bool]]:
    """A new disk that stops at its first call, its second, ...; after each with the power on and off."""
    for at in count(1):
        for power in (False, True):
            disk = new_disk()
            disk.crash_after(at)
            yield disk, run + at, power
            if disk._crash_after:
                return


def test_wherever_a_founding_stops_the_next_start_ends_it() -> None:
    stops = 0
    for disk, seed, power in crashes(0):
        done = None
        try:
            done = found_alone(disk)
        except SimulatedCrash:
            stops += 1
        disk = disk.crash(Random(seed), power=power)
        identity = found_alone(disk)
        assert identity.founded
        assert identity.founders == (identity.replica,)
        assert done in (None, identity)
        again, log = opened(disk.crash(Random(seed), power=True))
        assert again == identity
        assert log.hard_state() == HardState(CLUSTER, identity.replica)
        image = log.image()
        assert image is not None
        assert Configuration.decode(image.note) == Configuration((identity.replica,))
    assert stops > 20


def test_an_interrupted_step_is_never_taken_again_with_other_founders() -> None:
    disk = new_disk()
    identity, log = opened(disk)
    founders = (identity.replica, replica("b"))
    disk.crash_after(1, at=f"rename {ROOT}/identity.json")
    prepared = None
    for _ in range(2):
        try:
            prepared = prepare_log(disk, ROOT, identity, log, Found(founders))
        except SimulatedCrash:
            break
        disk.crash_after(1, at=f"rename {ROOT}/identity.json")
    assert prepared is None
    disk.crash_after(None)
    found, log = opened(disk.crash(Random(1), power=False))
    assert found.founders in (None, founders)


def test_a_stranger_begins_with_a_hard_state_of_the_rebuilt_cluster_and_no_vote() -> None:
    disk = new_disk()
    identity, log = opened(disk)
    rebuilt = ClusterId(CLUSTER.name, 4)
    founders = (replica("b"), replica("c"))
    prepared = prepare_log(disk, ROOT, identity, log, Join(founders, rebuilt))
    assert prepared.stranger
    assert prepared.reset == 4
    again, log = opened(disk.crash(Random(1), power=True))
    assert again == prepared
    assert log.hard_state() == HardState(rebuilt, identity.replica)
    hard = log.hard_state()
    assert hard is not None
    core = RaftCore(log, RaftOptions(), hard=hard, seed=1, now=0)
    assert core.ground.members.current == Configuration()


def test_a_member_whose_log_directory_is_deleted_does_not_start_again() -> None:
    disk = new_disk()
    found_alone(disk)
    disk = disk.crash(Random(1), power=False)
    disk.remove_directory(LOG)
    with pytest.raises(IdentityError, match="what it promised is lost"):
        opened(disk)


def test_a_step_into_another_cluster_is_a_mistake_of_ours() -> None:
    disk = new_disk()
    identity, log = opened(disk)
    with pytest.raises(InvariantError):
        prepare_log(disk, ROOT, identity, log, Join((replica("b"),), ClusterId("other")))
