"""Answers leave only after the flush that covers them, and one flush serves all requests of a pass."""

import asyncio
from collections.abc import Callable

import pytest

from logherd.app.pipeline import CommitPipeline
from logherd.app.writer import Writer


class MemoryBatch:
    def __init__(self, end: int, failure: BaseException | None) -> None:
        self.end = end
        self.failure = failure

    def write_and_flush(self) -> None:
        if self.failure is not None:
            raise self.failure


class MemoryLog:
    def __init__(self) -> None:
        self.end_position = 0
        self.taken = 0
        self.committed_position = 0
        self.batches = 0
        self.failure: BaseException | None = None

    def append(self, size: int) -> int:
        self.end_position += size
        return self.end_position

    def take_batch(self) -> MemoryBatch | None:
        if self.taken == self.end_position:
            return None
        self.taken = self.end_position
        self.batches += 1
        return MemoryBatch(self.taken, self.failure)

    def flushed(self, batch: MemoryBatch) -> None:
        assert batch.end > self.committed_position

    def advance(self, position: int) -> list[str]:
        self.committed_position = position
        return ["queue"]


class Harness:
    def __init__(
        self, before_batch_appends: int = 0, brief: Callable[[MemoryBatch], bool] | None = None
    ) -> None:  # fmt: skip
        self.log = MemoryLog()
        self.held = False
        self.commits: list[int] = []
        self.failures: list[BaseException] = []
        self._left = before_batch_appends
        self.writer: Writer[MemoryBatch] = Writer(
            asyncio.get_running_loop(), on_done=lambda b, e: self.pipeline.done(b, e), background=lambda: False
        )
        self.pipeline: CommitPipeline[MemoryBatch, list[str]] = CommitPipeline(
            self.log,
            self.writer,
            hold=lambda: self.held,
            before_batch=self._before_batch,
            on_commit=lambda _touched, position: self.commits.append(position),
            on_failure=self.failures.append,
            brief=brief,
        )
        self.writer.start()

    def _before_batch(self) -> None:
        if self._left:
            self._left -= 1
            self.log.append(5)


def test_one_batch_serves_a_whole_pass_and_commits_follow_flushes() -> None:
    async def scenario() -> None:
        harness = Harness()
        for _ in range(10):
            harness.log.append(7)
            harness.pipeline.schedule()
        assert harness.commits == []
        await asyncio.wait_for(harness.pipeline.drained(), 5)
        assert harness.commits == [70]
        assert harness.log.batches == 1
        harness.log.append(1)
        await asyncio.wait_for(harness.pipeline.drained(), 5)
        assert harness.commits == [70, 71]
        assert harness.writer.stop(5)

    asyncio.run(scenario())


def test_coalesced_appends_join_the_batch_of_their_pass() -> None:
    async def scenario() -> None:
        harness = Harness(before_batch_appends=1)
        harness.log.append(7)
        await asyncio.wait_for(harness.pipeline.drained(), 5)
        assert harness.commits == [12]
        assert harness.writer.stop(5)

    asyncio.run(scenario())


def test_after_a_failed_flush_nothing_is_committed_and_nobody_waits_for_ever() -> None:
    async def scenario() -> None:
        harness = Harness()
        harness.log.failure = OSError(5, "Input/output error")
        harness.log.append(7)
        await asyncio.wait_for(harness.pipeline.drained(), 5)
        assert harness.failures == [harness.log.failure]
        assert harness.commits == []
        harness.log.append(7)
        harness.pipeline.schedule()
        await asyncio.wait_for(harness.pipeline.drained(), 5)
        assert harness.log.batches == 1
        assert harness.writer.stop(5)

    asyncio.run(scenario())


def test_what_is_brief_is_committed_when_its_pass_ends_and_what_is_left_goes_to_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("logherd.app.writer.QUICK_SECONDS", 60.0)

    async def scenario() -> None:
        here: list[int] = []

        def brief(batch: MemoryBatch) -> bool:
            here.append(batch.end)
            if len(here) == 1:
                harness.log.append(3)  # as if the pass had appended more than one batch may hold
            return True

        harness = Harness(brief=brief)
        harness.log.append(7)
        harness.pipeline.schedule()
        await asyncio.sleep(0)
        assert harness.commits == [7]
        await asyncio.wait_for(harness.pipeline.drained(), 5)
        assert harness.commits == [7, 10]
        assert here == [7]
        assert harness.writer.stop(5)

    asyncio.run(scenario())


def test_what_is_held_is_not_written_until_it_is_let_go_and_joins_what_came_meanwhile() -> None:
    async def scenario() -> None:
        harness = Harness()
        harness.held = True
        harness.log.append(7)
        harness.pipeline.schedule()
        await asyncio.sleep(0)
        assert (harness.log.batches, harness.commits) == (0, [])
        harness.log.append(5)
        harness.held = False
        harness.pipeline.schedule()
        await asyncio.wait_for(harness.pipeline.drained(), 5)
        assert (harness.log.batches, harness.commits) == (1, [12])
        assert harness.writer.stop(5)

    asyncio.run(scenario())


def test_what_was_appended_behind_a_batch_may_be_held_too() -> None:
    async def scenario() -> None:
        harness = Harness()
        harness.log.append(7)
        harness.pipeline.schedule()
        await asyncio.sleep(0)  # the batch is on its way
        harness.log.append(5)
        harness.pipeline.schedule()
        harness.held = True
        async with asyncio.timeout(5):
            while not harness.commits:
                await asyncio.sleep(0)
        assert (harness.log.batches, harness.commits) == (1, [7])
        harness.held = False
        await asyncio.wait_for(harness.pipeline.drained(), 5)
        assert harness.commits == [7, 12]
        assert harness.writer.stop(5)

    asyncio.run(scenario())


def test_nothing_is_held_from_whoever_waits_for_everything_to_be_committed() -> None:
    async def scenario() -> None:
        harness = Harness()
        harness.held = True
        harness.log.append(7)
        await asyncio.wait_for(harness.pipeline.drained(), 5)
        assert harness.commits == [7]
        assert harness.writer.stop(5)

    asyncio.run(scenario())
