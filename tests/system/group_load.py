"""Clients of a group that is being hurt: senders and readers that keep every attempt with its outcome.

Each talks to any of the brokers, because whoever does not lead must pass requests on; after an unknown outcome
it goes to another broker. Every attempt is a value of its own; a send counts only if it was answered with success.
"""

import random
import threading
import time
from collections.abc import Callable, Sequence

from checkers.history import History, Outcome, Read, Send
from logherd.wire.codes import RequestCode
from system.blocking import BlockingClient, NoAnswerError, drain_queue
from system.broker_groups import BROKER_PORT, BROKERS
from system.controllers import CLIENTS
from system.netns import Network

__all__ = ["QUEUES", "TOPIC", "GroupClient", "GroupLoad", "drained"]

TOPIC = "Chaos"
QUEUES = 4
_PATIENCE_SECONDS = 3.5
"""A little longer than stock clients wait, so that what a broker holds is answered."""
_PACE_SECONDS = 0.02


class GroupClient:
    """One connection at a time, to one of the brokers. Not thread-safe."""

    def __init__(self, network: Network, draw: random.Random, *, seconds: float = _PATIENCE_SECONDS) -> None:
        self._network = network
        self._draw = draw
        self._seconds = seconds
        self._made: BlockingClient | None = None
        self.target = draw.choice(BROKERS)

    def connection(self) -> BlockingClient:
        """Raises OSError, after which another broker is the target."""
        if self._made is None:
            door = self._network.doorway(CLIENTS)
            try:
                made = door.connect(self._network.address(self.target), BROKER_PORT, seconds=self._seconds)
            except OSError:
                self.turn()
                raise
            self._made = BlockingClient(BROKER_PORT, made=made)
        return self._made

    def turn(self) -> None:
        """Leave this broker for another one."""
        self.close()
        self.target = self._draw.choice([name for name in BROKERS if name != self.target])

    def close(self) -> None:
        if self._made is not None:
            self._made.close()
            self._made = None


class _Worker(threading.Thread):
    """Works until told to stop; what it raises is raised by whoever stops it."""

    def __init__(self, network: Network, name: str, number: int) -> None:
        super().__init__(name=f"{name}-{number}", daemon=True)
        self.number = number
        self.draw = random.Random(f"{name} {number}")
        self.client = GroupClient(network, self.draw)
        self.stopping = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                try:
                    client = self.client.connection()
                except OSError:
                    self.stopping.wait(_PACE_SECONDS)  # nobody listens there: the pace of tries
                    continue
                self.work(client)
                self.stopping.wait(self.draw.uniform(0, 2 * _PACE_SECONDS))  # the load's pace
        except BaseException as error:
            self.error = error
            raise
        finally:
            self.client.close()

    def work(self, client: BlockingClient) -> None:
        raise NotImplementedError


class _Sender(_Worker):
    def __init__(self, network: Network, number: int) -> None:
        super().__init__(network, "sender", number)
        self.sends: list[Send] = []

    def work(self, client: BlockingClient) -> None:
        padding = self.draw.choice((0, 0, 0, 100, 100, 1000, 1000, 20_000))
        send = client.send(TOPIC, self.draw.randrange(QUEUES), f"{self.number}-{len(self.sends)}", padding=padding)
        self.sends.append(send)
        if send.outcome is not Outcome.OK or self.draw.random() < 0.01:
            self.client.turn()


class _Reader(_Worker):
    """Follows every queue, now and then again from somewhere before, and asks for queues' ends."""

    def __init__(self, network: Network, number: int, *, strong: bool) -> None:
        super().__init__(network, "reader", number)
        self._strong = strong
        self.reads: list[Read] = []
        self._next = dict.fromkeys(range(QUEUES), 0)

    def work(self, client: BlockingClient) -> None:
        queue_id = self.draw.randrange(QUEUES)
        start = None if self.draw.random() < 0.2 else self._next[queue_id]
        invoked = time.monotonic_ns()
        try:
            if start is None:
                end: int | None = client.offset(RequestCode.GET_MAX_OFFSET, TOPIC, queue_id)
                entries: list[tuple[int, str]] = []
            else:
                entries, end = client.look(TOPIC, queue_id, start)
                end = end if self._strong else None
        except NoAnswerError:
            self.client.turn()
            return
        self.reads.append(Read((TOPIC, queue_id), tuple(entries), invoked, time.monotonic_ns(), end, start))
        if entries:
            self._next[queue_id] = entries[-1][0] + 1
        elif start is not None and self.draw.random() < 0.1:
            self._skip_deleted(client, queue_id)
        if self.draw.random() < 0.01:
            self._next[queue_id] = self.draw.randrange(self._next[queue_id] + 1)
            self.client.turn()

    def _skip_deleted(self, client: BlockingClient, queue_id: int) -> None:
        """Nothing came: retention may have taken it."""
        try:
            first = client.offset(RequestCode.GET_MIN_OFFSET, TOPIC, queue_id)
        except NoAnswerError:
            self.client.turn()
            return
        self._next[queue_id] = max(first, self._next[queue_id])


class GroupLoad:
    """Senders and readers at once. Use as a context manager: on leaving, all of them have stopped.

    `strong`: the end that a pull tells is the group's; a follower that answers pulls tells its own.
    """

    def __init__(self, network: Network, *, senders: int = 6, readers: int = 2, strong: bool = True) -> None:
        self._senders = [_Sender(network, number) for number in range(senders)]
        self._readers = [_Reader(network, number, strong=strong) for number in range(readers)]

    @property
    def _workers(self) -> Sequence[_Worker]:
        return [*self._senders, *self._readers]

    def __enter__(self) -> "GroupLoad":
        for worker in self._workers:
            worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stopping.set()
        for worker in self._workers:
            worker.join(30)
        for worker in self._workers:
            if worker.error is not None:
                raise worker.error

    @property
    def sends(self) -> list[Send]:
        return [send for sender in self._senders for send in list(sender.sends)]

    @property
    def reads(self) -> list[Read]:
        return [read for reader in self._readers for read in list(reader.reads)]

    def marks(self) -> list[int]:
        """How many sends each sender has ended by now; for `since`."""
        return [len(sender.sends) for sender in self._senders]

    def since(self, marks: Sequence[int]) -> list[list[Send]]:
        """By sender, its sends after these marks were taken."""
        return [sender.sends[mark:] for sender, mark in zip(self._senders, marks, strict=True)]

    def count(self, outcome: Outcome) -> int:
        return sum(send.outcome is outcome for send in self.sends)

    def wait_for(
        self, outcome: Outcome, more: int, *, seconds: float = 180.0, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        """Wait until `more` further sends ended so. Raises AssertionError when they do not.

        `meanwhile` is called every second and may take a while.
        """
        target = self.count(outcome) + more
        deadline = time.monotonic() + seconds
        looked = time.monotonic()
        while (count := self.count(outcome)) < target:
            assert time.monotonic() < deadline, f"{count} {outcome.value} sends, {target} are due"
            time.sleep(0.05)
            if time.monotonic() > looked + 1.0:
                meanwhile()
                looked = time.monotonic()

    def wait_for_queues(self, *, seconds: float = 180.0) -> None:
        """Wait until in every queue a send that begins from now on was acknowledged, and a read answered (H13)."""
        since, deadline = time.monotonic_ns(), time.monotonic() + seconds
        while True:
            sends = {send.queue for send in self.sends if send.outcome is Outcome.OK and send.invoked >= since}
            reads = {read.queue for read in self.reads if read.max_offset is not None and read.invoked >= since}
            if len(sends & reads) == QUEUES:
                return
            assert time.monotonic() < deadline, f"of {QUEUES} queues only {sends} take messages, only {reads} give any"
            time.sleep(0.05)

    def history(self) -> History:
        """Everything but the final content."""
        return History(self.sends, self.reads)


def drained(network: Network, history: History, *, seconds: float = 180.0) -> History:
    """The history with the final content of all queues, read through any of the brokers."""
    client = GroupClient(network, random.Random(0), seconds=10)
    deadline = time.monotonic() + seconds
    for queue_id in range(QUEUES):
        while (TOPIC, queue_id) not in history.final:
            try:
                history.final[(TOPIC, queue_id)] = drain_queue(client.connection(), TOPIC, queue_id)
            except (OSError, NoAnswerError):
                client.turn()
                if time.monotonic() > deadline:
                    return history
    client.close()
    history.drained = True
    return history
