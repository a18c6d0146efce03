"""A bounded queue neither overflows nor loses anything."""

import asyncio

import pytest

from logherd.aiokit.queue import BoundedQueue, QueueClosed


async def test_items_leave_in_order() -> None:
    queue: BoundedQueue[int] = BoundedQueue(10)
    for number in range(3):
        await queue.put(number)
    assert [await queue.take(), await queue.take(), queue.try_take(), queue.try_take()] == [0, 1, 2, None]


@pytest.mark.parametrize(("weight", "fits"), [(4, True), (5, True), (6, False)])
async def test_the_weight_is_bounded(weight: int, fits: bool) -> None:
    queue: BoundedQueue[str] = BoundedQueue(10)
    assert queue.try_put("first", 5)
    assert queue.try_put("second", weight) is fits
    assert queue.weight == 5 + weight * fits


async def test_an_item_heavier_than_the_queue_passes_alone() -> None:
    queue: BoundedQueue[str] = BoundedQueue(10)
    assert queue.try_put("huge", 100)
    assert not queue.try_put("next", 1)
    assert await queue.take() == "huge"
    assert queue.try_put("next", 1)


async def test_a_full_queue_makes_its_writer_wait() -> None:
    queue: BoundedQueue[int] = BoundedQueue(1)
    await queue.put(1)
    writer = asyncio.create_task(queue.put(2), name="writer")
    await asyncio.sleep(0)
    assert not writer.done()
    assert await queue.take() == 1
    await writer
    assert await queue.take() == 2


async def test_a_cancelled_waiter_takes_nothing_with_it() -> None:
    queue: BoundedQueue[int] = BoundedQueue(1)
    waiting = [asyncio.create_task(queue.take(), name=f"taker {n}") for n in range(2)]
    await asyncio.sleep(0)
    queue.try_put(7)
    waiting[0].cancel()
    assert await asyncio.wait_for(waiting[1], 1) == 7
    assert len(queue) == 0


async def test_close_wakes_everybody_and_loses_nothing() -> None:
    queue: BoundedQueue[int] = BoundedQueue(1)
    await queue.put(1)
    writer = asyncio.create_task(queue.put(2), name="writer")
    await asyncio.sleep(0)
    queue.close()
    with pytest.raises(QueueClosed):
        await writer
    with pytest.raises(QueueClosed):
        queue.try_put(3)
    assert await queue.take() == 1
    with pytest.raises(QueueClosed):
        await queue.take()
