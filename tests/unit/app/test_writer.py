"""The writer thread: one batch at a time, in order, and nothing after a failure."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from logherd.app.writer import Writer, WriterFailed


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
