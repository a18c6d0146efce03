"""A group in raft mode, as real processes without controllers of its own: who leads is decided by its brokers alone."""

from pathlib import Path

import pytest

from checkers.history import Outcome
from checkers.log_checks import check_log
from system.guarded_group import GuardedGroup
from system.load import Load, drained_history

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(240)]

RAFT = {"mode": "raft", "controllers": []}
STORE = {"segmentSize": "4MiB", "messageSizeMax": "64KiB", "reservedPercent": 0}
SECONDS = 60.0


def test_a_killed_leader_is_followed_by_another_and_nothing_is_lost(tmp_path: Path) -> None:
    with GuardedGroup(tmp_path, replication=RAFT, guarded=False, store=STORE) as group:
        leader, epoch = group.leader()
        witness = next(each for each in group.brokers if each is not leader)
        with Load(witness, senders=4) as load:
            load.wait_for(Outcome.OK, 200, seconds=SECONDS)
            leader.kill()
            another, later = group.leader(after=epoch)
            assert another is not leader
            load.wait_for(Outcome.OK, 200, seconds=SECONDS)
            leader.start()
            load.wait_for(Outcome.OK, 100, seconds=SECONDS)
        group.agree()
        history = drained_history(leader, load)
    assert later > epoch
    verdict = check_log(history, ok_sends_min=500)
    assert verdict.name == "valid", verdict
