"""Clients cannot take the descriptors that the store needs: the broker refuses connections and goes on storing."""

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from system.blocking import BlockingClient, drain_queue
from system.processes import BrokerProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

LIMIT = 64
TOPICS = 60


def test_with_64_descriptors_and_100_clients_every_topic_is_stored(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, store={"segmentSize": "1MiB", "messageSizeMax": "64KiB", "reservedPercent": 0})
    broker.under = ("prlimit", f"--nofile=32:{LIMIT}")
    broker.start()
    crowd: list[socket.socket] = []
    try:
        limits = Path(f"/proc/{broker.pid}/limits").read_text()
        assert next(line for line in limits.splitlines() if "open files" in line).split()[3:5] == [str(LIMIT)] * 2
        client = BlockingClient(broker.port)
        os.kill(broker.pid, signal.SIGSTOP)  # so that all of them are accepted in one pass
        crowd = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(100)]
        os.kill(broker.pid, signal.SIGCONT)
        for number in range(3 * TOPICS):
            sent = client.send(f"topic-{number % TOPICS}", 0, f"value-{number}", padding=20_000)
            assert sent.offset == number // TOPICS, broker.log_path.read_text()[-2000:]
        deadline = time.monotonic() + 60
        queues = tmp_path / "data" / "consumequeue"
        while len(list(queues.glob("topic-*/0/*"))) < TOPICS:  # their files are written in spite of the crowd
            assert time.monotonic() < deadline, broker.log_path.read_text()[-2000:]
            time.sleep(0.05)
        for number in range(TOPICS):
            first, entries = drain_queue(client, f"topic-{number}", 0)
            assert (first, len(entries)) == (0, 3)
        client.close()
        broker.wait_for_line("connections are open")
        assert broker.stop() == 0
    finally:
        for each in crowd:
            each.close()
        broker.kill()


def test_too_few_descriptors_for_the_store_are_refused_by_name(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.under = ("prlimit", "--nofile=40:40")
    with pytest.raises(RuntimeError, match=r"may open 40 descriptors.*needs \d+: raise the limit"):
        broker.start()
    assert broker.process is not None
    assert broker.process.poll() == 3
