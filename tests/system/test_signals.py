"""Pauses, orderly stops and kills in the middle of a start: what was acknowledged stays, and nobody is left hanging."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from checkers.history import Outcome
from checkers.log_checks import check_log
from system.blocking import BlockingClient, NoAnswerError
from system.load import TOPIC, Load, drained_history
from system.processes import BrokerProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

STORE = {"segmentSize": "1MiB", "messageSizeMax": "64KiB", "reservedPercent": 0}


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def ask_for_ever(client: BlockingClient) -> None:
    while True:
        client.offset(30, TOPIC, 0)


def test_a_paused_broker_goes_on_where_it_was(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, store=STORE)
    broker.start()
    try:
        with Load(broker) as load:
            load.wait_for(Outcome.OK, 200)
            os.kill(broker.pid, signal.SIGSTOP)
            time.sleep(1)  # what was answered before is read by then
            assert state_of(broker.pid) == "T"
            before = load.count(Outcome.OK)
            time.sleep(3)  # the length of the pause is the fault
            assert load.count(Outcome.OK) == before
            os.kill(broker.pid, signal.SIGCONT)
            load.wait_for(Outcome.OK, 200)
        verdict = check_log(drained_history(broker, load), ok_sends_min=400)
        assert verdict.name == "valid", verdict
    finally:
        broker.kill()


def test_sigterm_under_load_loses_nothing_and_leaves_nobody_waiting(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, store=STORE)
    broker.start()
    try:
        with Load(broker) as load:
            for _ in range(3):
                load.wait_for(Outcome.OK, 200)
                idle = BlockingClient(broker.port, timeout_seconds=30)
                assert idle.offset(30, TOPIC, 0) > 0
                began = time.monotonic()
                assert broker.process is not None
                os.kill(broker.pid, signal.SIGTERM)
                with pytest.raises(NoAnswerError, match=r"closed|reset|[Bb]roken"):
                    ask_for_ever(idle)
                idle.close()
                assert broker.process.wait(60) == 0
                assert time.monotonic() - began < 10
                broker.start()
        verdict = check_log(drained_history(broker, load), ok_sends_min=600)
        assert verdict.name == "valid", verdict
    finally:
        broker.kill()


@pytest.mark.slow
def test_kill_9_in_the_middle_of_starts_loses_nothing(tmp_path: Path) -> None:
    """Small segments, so that kills also hit while the log moves to its next file."""
    broker = BrokerProcess(tmp_path, store=STORE)
    broker.start()
    draw = random.Random(3)
    command = [sys.executable, "-m", "logherd", "broker", "--config", str(tmp_path / "broker.json")]
    interrupted = 0
    try:
        with Load(broker) as load:
            for _ in range(5):
                load.wait_for(Outcome.OK, 150)
                broker.kill()
                for _ in range(3):
                    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as starting:
                        time.sleep(draw.uniform(0.15, 0.5))  # the moment of the kill is the random part
                        interrupted += starting.poll() is None
                        starting.kill()
                broker.start()
        assert interrupted == 15
        assert len(list((tmp_path / "data" / "commitlog").iterdir())) > 2
        verdict = check_log(drained_history(broker, load), ok_sends_min=500)
        assert verdict.name == "valid", verdict
    finally:
        broker.kill()


def test_a_broker_that_is_killed_resets_its_clients_and_so_does_one_that_stops(tmp_path: Path) -> None:
    """With FIN the Java client may wait three seconds for what was on its way (`net.parting`)."""
    broker = BrokerProcess(tmp_path, store=STORE)
    broker.start()
    try:
        with socket.create_connection(("127.0.0.1", broker.port), timeout=60) as made:
            BlockingClient(broker.port, made=made).send(TOPIC, 0, "x")
            os.kill(broker.pid, signal.SIGKILL)
            with pytest.raises(ConnectionResetError):
                made.recv(1)
        broker.kill()
        broker.start()
        with socket.create_connection(("127.0.0.1", broker.port), timeout=60) as made:
            BlockingClient(broker.port, made=made).send(TOPIC, 0, "x")
            os.kill(broker.pid, signal.SIGTERM)
            with pytest.raises(ConnectionResetError):
                made.recv(1)
    finally:
        broker.kill()
