"""A replicated group under guardians: the death of its leader, seen by clients that know only the leader's address."""

from pathlib import Path

import pytest

from checkers.history import Outcome
from checkers.log_checks import check_log
from system.guarded import knocking
from system.guarded_group import GuardedGroup
from system.load import Load, drained_history

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(240)]

ROUNDS = 3
STORE = {"segmentSize": "4MiB", "messageSizeMax": "64KiB", "reservedPercent": 0}
KNOWN = "logherd-guardian: the controllers know of the exit"


def test_clients_of_a_killed_leader_are_served_on_at_its_own_address(tmp_path: Path) -> None:
    """The exits are reported, another broker leads, and the address goes on: by a peer, then by the next process."""
    with GuardedGroup(tmp_path, store=STORE) as group:
        first, epoch = group.leader()
        with Load(first, senders=4) as load, knocking(first) as outcomes:
            for _ in range(ROUNDS):
                leader, epoch = group.leader(after=epoch - 1)
                load.wait_for(Outcome.OK, 100, seconds=60)
                child = leader.kill_child()
                group.leader(after=epoch)
                load.wait_for(Outcome.OK, 100, seconds=60)
                leader.wait_for_another(child)
        history = drained_history(first, load)
        logs = [broker.log() for broker in group.brokers]
    verdict = check_log(history, ok_sends_min=2 * ROUNDS * 100)
    assert verdict.name == "valid", verdict
    assert [each for each in outcomes if each.startswith("not connected")] == []
    assert sum(log.count(KNOWN) for log in logs) > 0
    assert outcomes.count("answered") > ROUNDS
