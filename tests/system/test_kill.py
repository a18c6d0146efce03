"""kill -9 under load: every acknowledged message is where the answer said, and only what was sent is there."""

import itertools
import random
import threading
import time
from pathlib import Path

import pytest

from checkers.history import History, Outcome, Send
from checkers.log_checks import check_log
from system.blocking import BlockingClient, NoAnswerError, drain_queue
from system.processes import BrokerProcess

ROUNDS = 20
SENDERS = 8
TOPIC = "Kill"
QUEUES = 4
STORE = {"store": {"segmentSize": "16MiB", "reservedPercent": 0}}


class Sender(threading.Thread):
    """Sends until told to stop, reconnecting for ever; keeps every attempt with its outcome."""

    def __init__(self, number: int, broker: BrokerProcess) -> None:
        super().__init__(name=f"sender-{number}", daemon=True)
        self._number = number
        self._broker = broker
        self.stopping = threading.Event()
        self.sends: list[Send] = []

    def run(self) -> None:
        client: BlockingClient | None = None
        draw = random.Random(self._number)
        while not self.stopping.is_set():
            try:
                client = client or BlockingClient(self._broker.port)
            except OSError:
                time.sleep(0.01)  # the broker is down: this is the load's pace, not a wait for an outcome
                continue
            value = f"{self._number}-{len(self.sends)}"
            padding = draw.choice((0, 0, 100, 1000, 20_000))
            send = client.send(TOPIC, draw.randrange(QUEUES), value, padding=padding)
            self.sends.append(send)
            if send.outcome is Outcome.UNKNOWN:
                client.close()
                client = None
        if client is not None:
            client.close()


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kill_9_under_load_loses_and_invents_nothing(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, **STORE)
    broker.start()
    senders = [Sender(number, broker) for number in range(SENDERS)]
    draw = random.Random(9)
    acknowledged: list[int] = []
    try:
        for sender in senders:
            sender.start()
        for _ in range(ROUNDS):
            before = sum(len(sender.sends) for sender in senders)
            deadline = time.monotonic() + 20
            while sum(len(sender.sends) for sender in senders) - before < 200:
                assert time.monotonic() < deadline, "the load does not flow"
                time.sleep(0.01)
            time.sleep(draw.uniform(0, 0.2))  # the moment of the kill is the random part
            broker.kill()
            acknowledged.append(sum(send.outcome is Outcome.OK for sender in senders for send in list(sender.sends)))
            broker.start()
        for sender in senders:
            sender.stopping.set()
        for sender in senders:
            sender.join(20)
        history = drained_history(broker, senders)
    finally:
        broker.kill()
    verdict = check_log(history, ok_sends_min=ROUNDS * 100)
    assert verdict.name == "valid", verdict
    # Each kill hit a broker that had acknowledged something since the last one.
    assert all(later > earlier for earlier, later in itertools.pairwise(acknowledged)), acknowledged
    assert any(send.outcome is Outcome.UNKNOWN for send in history.sends), "no kill hit a send in flight"


def drained_history(broker: BrokerProcess, senders: list[Sender]) -> History:
    client = BlockingClient(broker.port)
    history = History([send for sender in senders for send in sender.sends])
    try:
        for queue_id in range(QUEUES):
            history.final[(TOPIC, queue_id)] = drain_queue(client, TOPIC, queue_id)
        history.drained = True
    except NoAnswerError:
        history.drained = False
    finally:
        client.close()
    return history
