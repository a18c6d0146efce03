"""Load on a broker that is being hurt: senders that keep every attempt with its outcome."""

import random
import threading
import time

from checkers.history import History, Outcome, Send
from system.blocking import BlockingClient, NoAnswerError, drain_queue
from system.processes import BrokerProcess

__all__ = ["QUEUES", "TOPIC", "Load", "drained_history"]

TOPIC = "System"
QUEUES = 4


class _Sender(threading.Thread):
    """Sends until told to stop, reconnecting for ever."""

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
                client = client or BlockingClient(self._broker.port, host=self._broker.host)
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


class Load:
    """Several senders at once. Use as a context manager: on leaving, all of them have stopped."""

    def __init__(self, broker: BrokerProcess, *, senders: int = 8, first: int = 0) -> None:
        """`first`: the number of the first sender, by which it names what it sends."""
        self._senders = [_Sender(first + number, broker) for number in range(senders)]

    def __enter__(self) -> "Load":
        for sender in self._senders:
            sender.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        for sender in self._senders:
            sender.stopping.set()
        for sender in self._senders:
            sender.join(20)

    @property
    def sends(self) -> list[Send]:
        return [send for sender in self._senders for send in list(sender.sends)]

    def count(self, outcome: Outcome) -> int:
        return sum(send.outcome is outcome for send in self.sends)

    def wait_for(self, outcome: Outcome, more: int, *, seconds: float = 60.0) -> None:
        """Wait until `more` further sends ended so. Raises AssertionError when they do not."""
        target = self.count(outcome) + more
        deadline = time.monotonic() + seconds
        while self.count(outcome) < target:
            assert time.monotonic() < deadline, f"{self.count(outcome)} {outcome.value} sends, {target} are due"
            time.sleep(0.01)


def drained_history(broker: BrokerProcess, *loads: Load) -> History:
    """The history of loads with the final content of its queues, read from the broker."""
    client = BlockingClient(broker.port, host=broker.host)
    history = History([send for load in loads for send in load.sends])
    try:
        for queue_id in range(QUEUES):
            history.final[(TOPIC, queue_id)] = drain_queue(client, TOPIC, queue_id)
        history.drained = True
    except NoAnswerError:
        history.drained = False
    finally:
        client.close()
    return history
