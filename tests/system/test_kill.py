"""kill -9 under load: every acknowledged message is where the answer said, and only what was sent is there."""

import itertools
import random
import time
from pathlib import Path

import pytest

from checkers.history import Outcome
from checkers.log_checks import check_log
from system.load import Load, drained_history
from system.processes import BrokerProcess

ROUNDS = 20


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kill_9_under_load_loses_and_invents_nothing(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, store={"segmentSize": "16MiB", "reservedPercent": 0})
    broker.start()
    draw = random.Random(9)
    acknowledged: list[int] = []
    try:
        with Load(broker) as load:
            for _ in range(ROUNDS):
                load.wait_for(Outcome.OK, 200)
                time.sleep(draw.uniform(0, 0.2))  # the moment of the kill is the random part
                broker.kill()
                acknowledged.append(load.count(Outcome.OK))
                broker.start()
        history = drained_history(broker, load)
    finally:
        broker.kill()
    verdict = check_log(history, ok_sends_min=ROUNDS * 100)
    assert verdict.name == "valid", verdict
    # Each kill hit a broker that had acknowledged something since the last one.
    assert all(later > earlier for earlier, later in itertools.pairwise(acknowledged)), acknowledged
    assert any(send.outcome is Outcome.UNKNOWN for send in history.sends), "no kill hit a send in flight"
