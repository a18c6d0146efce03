"""Every task has an owner that knows how it ended."""

import asyncio

import pytest

from logherd.aiokit.tasks import TaskEnded, TaskGuard, TasksStuck


async def forever() -> None:
    await asyncio.Event().wait()


async def test_an_eternal_task_that_returns_is_reported_once() -> None:
    ended: list[TaskEnded] = []
    guard = TaskGuard(ended.append)

    async def returns() -> None:
        return

    await asyncio.wait([guard.start("heart", returns())])
    await asyncio.sleep(0)
    assert ended == [TaskEnded("heart", None)]
    assert len(guard) == 0


async def test_an_eternal_task_that_raises_is_reported_with_its_error() -> None:
    ended: list[TaskEnded] = []
    guard = TaskGuard(ended.append)
    error = ValueError("no")

    async def raises() -> None:
        raise error

    await asyncio.wait([guard.start("heart", raises())])
    assert ended == [TaskEnded("heart", error)]


async def test_a_mortal_task_may_return_but_its_error_is_reported() -> None:
    ended: list[TaskEnded] = []
    guard = TaskGuard(ended.append)

    async def work(*, fails: bool) -> None:
        if fails:
            raise ValueError("no")

    tasks = [guard.start(name, work(fails=name == "bad"), eternal=False) for name in ("good", "bad")]
    await asyncio.wait(tasks)
    assert [end.name for end in ended] == ["bad"]


async def test_a_stop_waits_for_all_and_reports_none() -> None:
    ended: list[TaskEnded] = []
    guard = TaskGuard(ended.append)
    cleaned: list[str] = []

    async def cleans_up() -> None:
        try:
            await forever()
        finally:
            cleaned.append("yes")

    tasks = [guard.start(f"task {n}", cleans_up()) for n in range(3)]
    await asyncio.sleep(0)
    await guard.stop(5)
    assert all(task.cancelled() for task in tasks)
    assert cleaned == ["yes"] * 3
    assert ended == []


async def test_a_stop_names_the_stuck() -> None:
    guard = TaskGuard()
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    task = guard.start("stubborn", stubborn())
    guard.start("willing", forever())
    await asyncio.sleep(0)
    with pytest.raises(TasksStuck, match="stubborn") as caught:
        await guard.stop(0.01)
    assert caught.value.names == ("stubborn",)
    release.set()
    await asyncio.wait([task])


async def test_nothing_starts_after_the_stop() -> None:
    guard = TaskGuard()
    await guard.stop(1)
    with pytest.raises(RuntimeError, match="late"):
        guard.start("late", forever())
