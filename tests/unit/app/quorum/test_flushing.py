"""What waits for a member's disk, when that does not answer for long."""

import asyncio
import threading
import time
from typing import Any

from logherd.app.quorum.flushing import Flushing
from logherd.model.names import Epoch
from logherd.replication.messages import ClusterId, Envelope, ReplicaId, Stale


class HangingLog:
    """As `RaftLog`: one batch after the other, each written once it may be."""

    def __init__(self) -> None:
        self.begun, self.may_write = threading.Event(), threading.Event()
        self.token = 0

    def take_batch(self, token: int) -> "HangingLog":
        self.token = token
        return self

    def write_and_flush(self) -> None:
        self.begun.set()
        self.may_write.wait(10)

    def tend(self) -> bool:
        return False


def answer(number: int) -> Envelope:
    return Envelope(ClusterId("c"), ReplicaId("1"), ReplicaId("2"), Epoch(number), Stale())


async def test_behind_a_flush_that_hangs_only_the_newest_answers_wait() -> None:
    log, sent, told = HangingLog(), list[int](), list[int]()

    def send(envelope: Envelope) -> bool:
        sent.append(envelope.epoch)
        return True

    given: Any = log
    flushing = Flushing(given, send=send, on_flushed=told.append, on_failure=lambda _: None)
    flushing.start()
    flushing.want(1, (answer(0),))
    flushing.submit()
    for number in range(1, 100_001):
        flushing.want(1, (answer(number),))
    log.may_write.set()
    async with asyncio.timeout(20):
        while not told:
            await asyncio.sleep(0)
    assert len(sent) <= 1_024
    assert sent[-1] == 100_000
    assert await flushing.stop(10)


class FailingLog(HangingLog):
    """Its work ahead fails, and nothing of it can be written after that."""

    def tend(self) -> bool:
        self.begun.set()
        raise OSError(5, "Input/output error")


async def test_a_failure_between_two_batches_is_told_as_what_it_was() -> None:
    log, failures = FailingLog(), list[BaseException]()
    given: Any = log
    flushing = Flushing(given, send=lambda _: True, on_flushed=lambda _: None, on_failure=failures.append)
    flushing.start()
    assert log.begun.wait(10)
    deadline = time.monotonic() + 10
    while not flushing.failed and time.monotonic() < deadline:
        pass  # the loop is not to hear of it yet
    flushing.want(1, ())
    flushing.submit()
    async with asyncio.timeout(20):
        while not failures:
            await asyncio.sleep(0)
    assert [str(each) for each in failures] == ["[Errno 5] Input/output error"]
    assert await flushing.stop(10)
