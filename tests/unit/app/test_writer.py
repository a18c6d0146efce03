"""The writer thread: one batch at a time, in order, and nothing after a failure."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from logherd.app.writer import QUICK_SECONDS, NotYet, Writer, WriterFailed


class FakeBatch:
    def __init__(self, action: Callable[[], None] = lambda: None) -> None:
        self.action = action
        self.thread = ""

    def write_and_flush(self) -> None:
        self.thread = threading.current_thread().name
        self.action()


async def run(batches: list[FakeBatch]) -> list[tuple[FakeBatch | None, BaseException | None]]:
    done: asyncio.Queue[tuple[FakeBatch | None, BaseException | None]] = asyncio.Queue()
    writer: Writer[FakeBatch] = Writer(
        asyncio.get_running_loop(),
        on_done=lambda b, e: done.put_nowait((b, e)),
        background=lambda: False,
        idle_seconds=1,
    )
    writer.start()
    outcomes = []
    for batch in batches:
        writer.submit(batch)
        with pytest.raises(WriterFailed):
            writer.submit(batch)
        outcomes.append(await asyncio.wait_for(done.get(), 5))
        if outcomes[-1][1]:
            with pytest.raises(WriterFailed):
                writer.submit(batch)
    assert await asyncio.to_thread(writer.stop, 5)
    return outcomes


def test_batches_run_in_order_on_the_writer_thread() -> None:
    batches = [FakeBatch(), FakeBatch()]
    outcomes = asyncio.run(run(batches))
    assert outcomes == [(batches[0], None), (batches[1], None)]
    assert {batch.thread for batch in batches} == {"logherd-writer"}


def test_what_cannot_be_written_yet_is_in_flight_until_it_is_written() -> None:
    refusals: list[Exception] = [NotYet(), NotYet()]

    def refuse() -> None:
        if refusals:
            raise refusals.pop()

    batch = FakeBatch(refuse)
    assert asyncio.run(run([batch])) == [(batch, None)]
    assert refusals == []


def test_a_failed_flush_ends_writing_for_good() -> None:
    failure = OSError(5, "Input/output error")

    def fail() -> None:
        raise failure

    batch = FakeBatch(fail)
    assert asyncio.run(run([batch])) == [(batch, failure)]


def test_background_work_runs_while_idle_until_nothing_is_left() -> None:
    async def scenario() -> int:
        left, finished = [3], asyncio.Event()
        loop = asyncio.get_running_loop()

        def background() -> bool:
            left[0] -= 1
            if left[0] == 0:
                loop.call_soon_threadsafe(finished.set)
            return left[0] > 0

        writer: Writer[FakeBatch] = Writer(loop, on_done=lambda _b, _e: None, background=background, idle_seconds=60)
        writer.start()
        await asyncio.wait_for(finished.wait(), 5)
        assert await asyncio.to_thread(writer.stop, 5)
        return left[0]

    assert asyncio.run(scenario()) == 0


def test_failed_background_work_is_reported_once_and_ends_writing() -> None:
    async def scenario() -> tuple[FakeBatch | None, BaseException | None, int]:
        done: asyncio.Queue[tuple[FakeBatch | None, BaseException | None]] = asyncio.Queue()
        failure, calls = OSError(28, "No space left on device"), [0]

        def background() -> bool:
            calls[0] += 1
            raise failure

        writer: Writer[FakeBatch] = Writer(
            asyncio.get_running_loop(),
            on_done=lambda b, e: done.put_nowait((b, e)),
            background=background,
            idle_seconds=0.001,
        )
        writer.start()
        batch, error = await asyncio.wait_for(done.get(), 5)
        with pytest.raises(WriterFailed):
            writer.submit(FakeBatch())
        assert await asyncio.to_thread(writer.stop, 5)
        assert done.empty()
        assert error is failure
        return batch, error, calls[0]

    batch, _, calls = asyncio.run(scenario())
    assert batch is None
    assert calls == 1


def test_background_work_gets_its_turn_while_batches_never_stop() -> None:
    async def drive() -> tuple[int, int]:
        done = asyncio.Event()
        steps = batches = 0

        def background() -> bool:
            nonlocal steps
            steps += 1
            return steps % 2 == 0

        writer: Writer[FakeBatch] = Writer(
            asyncio.get_running_loop(), on_done=lambda _b, _e: done.set(), background=background, idle_seconds=0.001
        )
        writer.start()
        async with asyncio.timeout(10):
            while steps < 20:
                writer.submit(FakeBatch())
                await done.wait()
                done.clear()
                batches += 1
        assert await asyncio.to_thread(writer.stop, 5)
        return steps, batches

    steps, batches = asyncio.run(drive())
    assert steps >= 20
    assert batches >= 1


@dataclass
class Quick:
    """A writer whose disk takes as long as `now` passes during a batch, on a clock that the test moves."""

    now: float = 0.0
    batch_seconds: float = QUICK_SECONDS / 10
    done: list[tuple[FakeBatch | None, BaseException | None]] = field(default_factory=list)
    in_background: threading.Event = field(default_factory=threading.Event)
    leave_background: threading.Event = field(default_factory=threading.Event)
    backgrounds: int = 0

    def monotonic(self) -> float:
        return self.now

    def background(self) -> bool:
        self.backgrounds += 1
        self.in_background.set()
        self.leave_background.wait(10)
        return False

    def batch(self) -> FakeBatch:
        def pass_time() -> None:
            self.now += self.batch_seconds

        return FakeBatch(pass_time)

    async def put(self, writer: Writer[FakeBatch], batch: FakeBatch, *, here: bool = True) -> bool:
        """Have it done; whether that was before `submit` returned."""

        def do() -> bool:
            batch.write_and_flush()
            return True

        count = len(self.done)
        writer.submit(batch, here=do if here else None)
        at_once = len(self.done) > count
        async with asyncio.timeout(10):
            while len(self.done) == count:
                await asyncio.sleep(0)
        assert self.done[-1] == (batch, None)
        return at_once


@asynccontextmanager
async def quick_writer(
    monkeypatch: pytest.MonkeyPatch, *, warm: bool = True, idle_seconds: float = 60.0
) -> AsyncIterator[tuple[Quick, Writer[FakeBatch]]]:
    """After as many batches as it takes to count as quick. Background work comes after a batch of the thread, if the
    test lets so much time pass."""
    quick = Quick()
    quick.leave_background.set()
    monkeypatch.setattr("logherd.app.writer.monotonic", quick.monotonic)
    writer: Writer[FakeBatch] = Writer(
        asyncio.get_running_loop(), on_done=lambda b, e: quick.done.append((b, e)), background=quick.background,
        idle_seconds=idle_seconds,
    )  # fmt: skip
    writer.start()
    for _ in range(200 if warm else 0):
        await quick.put(writer, quick.batch(), here=False)
    yield quick, writer
    quick.leave_background.set()
    assert await asyncio.to_thread(writer.stop, 5)


async def test_on_a_quick_disk_a_batch_is_done_before_submit_returns_in_the_callers_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with quick_writer(monkeypatch) as (quick, writer):
        batch = quick.batch()
        assert await quick.put(writer, batch)
        assert batch.thread == threading.current_thread().name
        assert not writer.busy


async def test_a_disk_that_is_not_known_to_be_quick_or_is_so_no_more_is_left_to_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with quick_writer(monkeypatch, warm=False) as (quick, writer):
        assert not await quick.put(writer, quick.batch())
    async with quick_writer(monkeypatch) as (quick, writer):
        quick.batch_seconds = 1.0
        assert await quick.put(writer, quick.batch())
        quick.batch_seconds = 0.0
        batch = quick.batch()
        assert not await quick.put(writer, batch)
        assert batch.thread == "logherd-writer"


async def test_a_batch_that_is_not_brief_is_left_to_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    async with quick_writer(monkeypatch) as (quick, writer):
        batch, count = quick.batch(), len(quick.done)
        writer.submit(batch, here=lambda: False)
        assert len(quick.done) == count
        async with asyncio.timeout(10):
            while len(quick.done) == count:
                await asyncio.sleep(0)
        assert batch.thread == "logherd-writer"


async def test_nothing_is_done_in_the_callers_thread_while_background_work_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with quick_writer(monkeypatch) as (quick, writer):
        quick.leave_background.clear()
        quick.in_background.clear()
        quick.now += 1000.0
        await quick.put(writer, quick.batch(), here=False)
        async with asyncio.timeout(10):
            while not quick.in_background.is_set():
                await asyncio.sleep(0)
        batch, count = quick.batch(), len(quick.done)
        writer.submit(batch, here=lambda: pytest.fail("at the same time"))
        quick.leave_background.set()
        async with asyncio.timeout(10):
            while len(quick.done) == count:
                await asyncio.sleep(0)
        assert quick.done[-1] == (batch, None)
        assert batch.thread == "logherd-writer"


async def test_a_failure_in_the_callers_thread_ends_writing_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    async with quick_writer(monkeypatch) as (quick, writer):
        failure = OSError(5, "Input/output error")

        def fail() -> bool:
            raise failure

        batch = quick.batch()
        writer.submit(batch, here=fail)
        assert quick.done[-1] == (batch, failure)
        with pytest.raises(WriterFailed):
            writer.submit(quick.batch(), here=lambda: True)
        assert writer.failure is failure


async def test_what_nobody_waits_for_comes_behind_the_batchs_end_and_before_any_background_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with quick_writer(monkeypatch) as (quick, writer):
        count, seen = len(quick.done), list[tuple[int, bool]]()

        def behind() -> None:
            seen.append((len(quick.done) - count, writer._at_work.locked()))

        writer.submit(quick.batch(), here=lambda: True, behind=behind)
        assert seen == [(1, True)]
        assert not writer._at_work.locked()
        await quick.put(writer, quick.batch(), here=False)
        writer.submit(quick.batch(), here=lambda: False, behind=behind)  # the thread does that itself
        async with asyncio.timeout(10):
            while writer.busy:
                await asyncio.sleep(0)
        assert len(seen) == 1


async def test_nothing_is_done_behind_a_batch_that_is_followed_by_one_of_the_thread_or_that_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with quick_writer(monkeypatch) as (quick, writer):
        next_one = quick.batch()
        monkeypatch.setattr(writer, "_on_done", lambda b, e: (quick.done.append((b, e)), follow(e)))

        def follow(error: BaseException | None) -> None:
            if error is None and quick.done[-1][0] is not next_one:
                writer.submit(next_one)

        writer.submit(quick.batch(), here=lambda: True, behind=lambda: pytest.fail("at the same time as the thread"))
        async with asyncio.timeout(10):
            while writer.busy:
                await asyncio.sleep(0)
        assert quick.done[-1] == (next_one, None)

        def fail() -> bool:
            raise OSError(5, "Input/output error")

        writer.submit(quick.batch(), here=fail, behind=lambda: pytest.fail("after a failure"))
        assert writer.failure is not None


async def test_what_fails_behind_a_batch_ends_writing_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    async with quick_writer(monkeypatch) as (quick, writer):
        batch, failure = quick.batch(), OSError(5, "Input/output error")

        def fail() -> None:
            raise failure

        writer.submit(batch, here=lambda: True, behind=fail)
        assert quick.done[-2:] == [(batch, None), (None, failure)]
        with pytest.raises(WriterFailed):
            writer.submit(quick.batch())


async def test_background_work_gets_its_turn_while_the_caller_never_stops_to_do_batches_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with quick_writer(monkeypatch, idle_seconds=0.001) as (quick, writer):
        begun = quick.backgrounds
        async with asyncio.timeout(10):
            while quick.backgrounds < begun + 5:
                await quick.put(writer, quick.batch())
                quick.now += 1.0
