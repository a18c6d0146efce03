"""The desk: what has changed is looked at soon, also while the look before it was failing."""

import asyncio
import time

from logherd_operator.handlers.desk import Desk, DeskPace
from logherd_operator.handlers.known import Key
from logherd_operator.spec.errors import OperatorError

KEY = Key("shop", "orders")


async def test_what_changes_during_a_look_that_fails_is_not_left_to_its_back_off() -> None:
    """As a spec that is corrected while the look at the wrong one still waits for an answer."""
    looks, corrected = list[Key](), asyncio.Event()

    async def work(key: Key) -> None:
        looks.append(key)
        if len(looks) > 1:
            corrected.set()
            return
        desk.wake(key)
        raise OperatorError("the spec is wrong")

    desk = Desk(work, time.monotonic, DeskPace(rest=0.01, first=300.0, last=300.0))
    desk.wake(KEY)
    running = asyncio.ensure_future(desk.run())
    try:
        async with asyncio.timeout(10):
            await corrected.wait()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert looks == [KEY, KEY]
