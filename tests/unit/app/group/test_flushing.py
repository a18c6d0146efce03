"""What must be durable before what is sent: promises first, then the log, then whatever was held for them."""

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import pytest

from logherd.app.group.flushing import Flushing
from logherd.app.group.replica_file import ReplicaFile
from logherd.group.output import Output, Promise
from logherd.model.names import Epoch
from logherd.replica import ReplicaStore
from logherd.replication.messages import ClusterId, Envelope, ReplicaId, Stale
from logherd.store import StoreFull

A, B = ReplicaId("1.0000000000000001"), ReplicaId("2.0000000000000001")


def message(epoch: int) -> Envelope:
    return Envelope(ClusterId("C/g"), A, B, Epoch(epoch), Stale())


@dataclass
class Disk:
    """Everything in the order in which it happened; writes wait until they may."""

    happened: list[str] = field(default_factory=list)
    may_write: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)
    error: OSError | None = None
    refusals: list[Exception] = field(default_factory=list)
    """What the next promises are refused with."""
    brief: bool = True

    def did(self, what: str) -> None:
        self.asked.set()
        self.may_write.wait(10)
        if self.error is not None:
            raise self.error
        self.happened.append(what)


class Piece:
    def __init__(self, disk: Disk, number: int) -> None:
        self.disk, self.number = disk, number
        self.start, self.end = number, number + 1

    def write_and_flush(self) -> None:
        self.disk.did(f"log {self.number}")

    def write_if_brief(self) -> bool:
        if self.disk.brief:
            self.disk.did(f"log {self.number} here")
        return self.disk.brief

    def note(self) -> None:
        self.disk.did(f"noted {self.number}")


class FakeLog:
    """As `ReplicaStore`: a token is given back with the piece that was taken after it was noted."""

    class store:  # noqa: N801 -- stands for an object
        @staticmethod
        def background_work() -> bool:
            return False

    def __init__(self, disk: Disk) -> None:
        self.disk, self.appended, self.taken, self.token = disk, 0, 0, 0
        self.tokens: dict[int, int] = {}

    def note(self, token: int) -> bool:
        assert token > self.token, "tokens rise"
        self.token = token
        return self.appended == self.taken and not self.tokens

    @property
    def untaken(self) -> bool:
        return self.taken != self.appended

    def take_batch(self) -> Piece | None:
        if self.taken == self.appended:
            return None
        self.taken = self.appended
        self.tokens[self.taken] = self.token
        return Piece(self.disk, self.taken)

    def flushed(self, piece: Piece) -> int | None:
        return self.tokens.pop(piece.number) or None


class FakeFile:
    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    def keep(self, promise: Promise) -> None:
        if self.disk.refusals:
            raise self.disk.refusals.pop()
        self.disk.did(f"promise {promise.epoch}")


@dataclass
class Bench:
    disk: Disk
    log: FakeLog
    flushing: Flushing
    failures: list[BaseException]
    holds: bool = False

    def append(self, token: int, promise: Promise | None = None) -> None:
        """A record more, which `token` covers."""
        self.log.appended += 1
        self.flushing.want(Output(flush=token, keep=promise))

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds():
                await asyncio.sleep(0)


@asynccontextmanager
async def running() -> AsyncIterator[Bench]:
    disk = Disk()
    log, failures = FakeLog(disk), list[BaseException]()

    def send(envelope: Envelope) -> bool:
        disk.happened.append(f"sent {envelope.epoch}")
        return True

    flushing = Flushing(
        cast("ReplicaStore", log), cast("ReplicaFile", FakeFile(disk)), hold=lambda: bench.holds, send=send,
        on_flushed=lambda token: disk.happened.append(f"token {token}"), on_failure=failures.append,
    )  # fmt: skip
    flushing.start()
    bench = Bench(disk, log, flushing, failures)
    yield bench
    disk.may_write.set()
    assert await flushing.stop(10)


async def test_an_acknowledgement_leaves_after_the_flush_of_what_it_acknowledges() -> None:
    async with running() as bench:
        bench.log.appended = 1
        bench.flushing.want(Output(flush=1, held=(message(1),)))
        bench.flushing.submit()
        await bench.until(bench.disk.asked.is_set)
        assert bench.disk.happened == []
        bench.disk.may_write.set()
        await bench.until(lambda: "token 1" in bench.disk.happened)
        assert bench.disk.happened == ["log 1", "sent 1", "token 1"]


async def test_a_promise_is_kept_before_the_log_and_before_anything_is_said_in_its_epoch() -> None:
    async with running() as bench:
        bench.disk.may_write.set()
        bench.log.appended = 1
        bench.flushing.want(Output(flush=1, keep=Promise(Epoch(2)), held=(message(2),)))
        bench.flushing.submit()
        await bench.until(lambda: "token 1" in bench.disk.happened)
        assert bench.disk.happened == ["promise 2", "log 1", "sent 2", "token 1"]


async def test_a_promise_that_comes_while_a_batch_is_on_its_way_waits_for_the_next() -> None:
    async with running() as bench:
        bench.log.appended = 1
        bench.flushing.want(Output(flush=1, held=(message(1),)))
        bench.flushing.submit()
        bench.flushing.want(Output(flush=2, keep=Promise(Epoch(3)), held=(message(3),)))
        bench.log.tokens[1] = 2  # all that was noted is in the batch that is on its way
        bench.disk.may_write.set()
        await bench.until(lambda: "token 2" in bench.disk.happened)
        assert bench.disk.happened == ["log 1", "sent 1", "token 1", "promise 3", "sent 3", "token 2"]


async def test_nothing_is_said_in_an_epoch_whose_promise_was_overtaken_before_a_later_one_is_kept() -> None:
    """The disk is at the promise of the first while two more are made; the second is never written."""
    async with running() as bench:
        for epoch in (1, 2, 3):
            bench.flushing.want(Output(flush=epoch, keep=Promise(Epoch(epoch)), held=(message(epoch),)))
            bench.flushing.submit()
        bench.disk.may_write.set()
        await bench.until(lambda: "token 3" in bench.disk.happened)
        assert bench.disk.happened == ["promise 1", "promise 3", "sent 1", "sent 2", "sent 3", "token 3"]


async def test_before_a_promise_is_kept_no_more_is_told_than_is_on_the_disk() -> None:
    """Nor what was wanted before the promise, and is written together with it."""
    async with running() as bench:
        bench.log.appended = 1
        bench.flushing.want(Output(flush=1, held=(message(1),)))
        bench.flushing.want(Output(flush=2, keep=Promise(Epoch(2)), held=(message(2),)))
        bench.flushing.submit()
        assert bench.disk.happened == []
        bench.disk.may_write.set()
        await bench.until(lambda: "token 2" in bench.disk.happened)
        assert bench.disk.happened == ["promise 2", "log 1", "sent 1", "sent 2", "token 2"]


async def test_a_step_that_changes_nothing_waits_for_the_token_of_an_earlier_one_or_for_none() -> None:
    async with running() as bench:
        bench.append(1)
        bench.flushing.want(Output())
        for number in (1, 2):
            bench.flushing.want(Output(flush=1, held=(message(number),)))
        bench.flushing.submit()
        bench.disk.may_write.set()
        await bench.until(lambda: "token 1" in bench.disk.happened)
        assert bench.disk.happened == ["log 1", "sent 1", "sent 2", "token 1"]


async def test_what_holds_nothing_takes_no_place_of_an_answer_that_waits() -> None:
    async with running() as bench:
        bench.append(1)
        bench.flushing.want(Output(flush=1, held=(message(1),)))
        for _ in range(2_000):
            bench.flushing.want(Output(flush=1))
        bench.flushing.submit()
        bench.disk.may_write.set()
        await bench.until(lambda: "token 1" in bench.disk.happened)
        assert bench.disk.happened == ["log 1", "sent 1", "token 1"]


async def test_a_promise_alone_needs_no_batch_of_the_log() -> None:
    async with running() as bench:
        bench.disk.may_write.set()
        bench.flushing.want(Output(flush=1, keep=Promise(Epoch(4)), held=(message(4),)))
        bench.flushing.submit()
        await bench.until(lambda: "token 1" in bench.disk.happened)
        assert bench.disk.happened == ["promise 4", "sent 4", "token 1"]


@pytest.mark.parametrize("refusal", [OSError(errno.EMFILE, "Too many open files"), StoreFull("no space")])
async def test_a_promise_for_which_there_is_no_descriptor_or_no_space_is_tried_again(refusal: Exception) -> None:
    async with running() as bench:
        bench.disk.may_write.set()
        bench.disk.refusals = [refusal, refusal]
        bench.log.appended = 1
        bench.flushing.want(Output(flush=1, keep=Promise(Epoch(2)), held=(message(2),)))
        bench.flushing.submit()
        await bench.until(lambda: not bench.disk.refusals)
        bench.flushing.want(Output(flush=2, held=(message(3),)))
        bench.flushing.submit()
        bench.log.tokens[1] = 2
        await bench.until(lambda: "token 2" in bench.disk.happened)
        assert bench.disk.happened == ["promise 2", "log 1", "sent 2", "sent 3", "token 2"]
        assert bench.failures == []


async def test_a_promise_that_the_disk_fails_to_keep_is_final() -> None:
    async with running() as bench:
        bench.disk.refusals = [OSError(errno.EIO, "the disk is gone")]
        bench.disk.may_write.set()
        bench.append(1, Promise(Epoch(2)))
        bench.flushing.submit()
        await bench.until(lambda: bool(bench.failures))
        assert bench.flushing.failure is bench.failures[0]
        assert bench.disk.happened == []


async def test_behind_a_promise_that_cannot_be_kept_only_the_newest_answers_wait() -> None:
    async with running() as bench:
        bench.flushing.want(Output(flush=1, keep=Promise(Epoch(2)), held=(message(0),)))
        bench.flushing.submit()
        await bench.until(bench.disk.asked.is_set)
        for number in range(1, 100_001):
            bench.flushing.want(Output(flush=1, held=(message(number),)))
        bench.disk.may_write.set()
        await bench.until(lambda: "token 1" in bench.disk.happened)
        sent = [each for each in bench.disk.happened if each.startswith("sent")]
        assert len(sent) <= 1_024
        assert sent[-1] == "sent 100000"


async def test_what_is_held_follows_no_batch_before_it_is_submitted() -> None:
    async with running() as bench:
        bench.holds = True
        bench.append(1)
        bench.flushing.submit()
        bench.append(2)
        bench.disk.may_write.set()
        await bench.until(lambda: "token 1" in bench.disk.happened)
        assert bench.disk.happened == ["log 1", "token 1"]
        assert bench.log.untaken
        bench.flushing.submit()
        await bench.until(lambda: "token 2" in bench.disk.happened)
        assert bench.disk.happened == ["log 1", "token 1", "log 2", "token 2"]


async def test_what_came_while_a_batch_was_on_its_way_follows_it() -> None:
    async with running() as bench:
        assert not bench.flushing.busy
        bench.append(1)
        assert bench.flushing.busy
        bench.flushing.submit()
        bench.append(2)
        bench.disk.may_write.set()
        await bench.until(lambda: "token 2" in bench.disk.happened)
        assert bench.disk.happened == ["log 1", "token 1", "log 2", "token 2"]


async def test_a_promise_takes_what_is_held_along() -> None:
    async with running() as bench:
        bench.holds = True
        bench.append(1)
        bench.flushing.submit()
        bench.append(2, Promise(Epoch(3)))
        bench.disk.may_write.set()
        await bench.until(lambda: "token 2" in bench.disk.happened)
        assert bench.disk.happened == ["log 1", "token 1", "promise 3", "log 2", "token 2"]


async def test_after_a_failed_write_nothing_is_sent() -> None:
    async with running() as bench:
        bench.disk.error = OSError(5, "Input/output error")
        bench.disk.may_write.set()
        bench.log.appended = 1
        bench.flushing.want(Output(flush=1, held=(message(1),)))
        bench.flushing.submit()
        await bench.until(lambda: bool(bench.failures))
        bench.append(2)
        bench.flushing.submit()
        assert bench.disk.happened == []
        assert bench.flushing.failure is not None


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any disk counts as quick."""
    monkeypatch.setattr("logherd.app.writer.QUICK_SECONDS", 60.0)


async def test_after_the_end_nothing_is_sent_or_told_of_the_batch_that_was_on_its_way() -> None:
    """Something broke that a log has to keep: what the disk has by now is nothing to acknowledge any more."""
    async with running() as bench:
        bench.log.appended = 1
        bench.flushing.want(Output(flush=1, held=(message(1),)))
        bench.flushing.submit()
        await bench.until(bench.disk.asked.is_set)
        bench.flushing.end()
        bench.disk.may_write.set()
        await bench.until(lambda: not bench.flushing.busy)
        assert (bench.disk.happened, bench.failures) == (["log 1"], [])
        bench.append(2)
        bench.flushing.submit()
        assert bench.log.untaken


async def test_a_stop_waits_for_the_batch_on_its_way_and_tells_nothing_of_it() -> None:
    async with running() as bench:
        bench.log.appended = 1
        bench.flushing.want(Output(flush=1, held=(message(1),)))
        bench.flushing.submit()
        await bench.until(bench.disk.asked.is_set)
        stopping = asyncio.ensure_future(bench.flushing.stop(10))
        await asyncio.sleep(0)
        bench.disk.may_write.set()
        assert await stopping
        await bench.until(lambda: not bench.flushing.busy)
        assert bench.disk.happened == ["log 1"]


async def test_what_is_on_the_disk_already_is_told_without_a_batch() -> None:
    async with running() as bench:
        bench.flushing.want(Output(flush=1, held=(message(1),)))
        bench.flushing.submit()
        assert not bench.flushing.busy
        assert bench.disk.happened == ["sent 1", "token 1"]


@pytest.mark.usefixtures("quick")
async def test_the_loop_waits_for_no_disk_unless_it_is_asked_to() -> None:
    async with running() as bench:
        bench.append(1)
        bench.flushing.submit()
        bench.disk.may_write.set()
        await bench.until(lambda: "token 1" in bench.disk.happened)
        assert bench.disk.happened == ["log 1", "token 1"]


@pytest.mark.usefixtures("quick")
async def test_what_is_done_here_is_told_and_acknowledged_before_submit_returns() -> None:
    async with running() as bench:
        bench.disk.may_write.set()
        bench.log.appended = 1
        bench.flushing.want(Output(flush=1, held=(message(1),)))
        bench.flushing.submit(here=True)
        assert bench.disk.happened == ["log 1 here", "sent 1", "token 1", "noted 1"]


@pytest.mark.usefixtures("quick")
async def test_a_promise_is_kept_by_the_thread_and_what_is_not_brief_is_written_by_it() -> None:
    async with running() as bench:
        bench.disk.may_write.set()
        bench.log.appended = 1
        bench.flushing.want(Output(flush=1, keep=Promise(Epoch(2)), held=(message(2),)))
        bench.flushing.submit(here=True)
        await bench.until(lambda: "token 1" in bench.disk.happened)
        bench.disk.brief = False
        bench.log.appended = 2
        bench.flushing.want(Output(flush=2))
        bench.flushing.submit(here=True)
        await bench.until(lambda: "token 2" in bench.disk.happened)
        assert bench.disk.happened == ["promise 2", "log 1", "sent 2", "token 1", "log 2", "token 2"]


@pytest.mark.usefixtures("quick")
async def test_after_a_failed_write_here_nothing_is_sent() -> None:
    async with running() as bench:
        bench.disk.error = OSError(5, "Input/output error")
        bench.disk.may_write.set()
        bench.flushing.want(Output(flush=1, held=(message(0),)))  # of what is on the disk already
        bench.log.appended = 1
        bench.flushing.want(Output(flush=2, held=(message(1),)))
        bench.flushing.submit(here=True)
        assert len(bench.failures) == 1
        assert bench.disk.happened == []
        assert bench.flushing.failure is not None
