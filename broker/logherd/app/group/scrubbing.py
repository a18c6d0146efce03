"""A replica reads its whole log through, slowly, once a day: damage is found while others still have what it lacks."""

import asyncio
import time

from logherd.app.group.damages import Damages
from logherd.store import MessageStore, StoreDamaged
from logherd.store.files import Files
from logherd.store.scrub import Scrub
from logherd.telemetry.log import Log

__all__ = ["scrub_forever"]

_log = Log("logherd.group")

_STEP_BYTES = 64 << 10
_SHARE = 0.03
"""Of one processor, and of the disk's time."""
_PAUSE_SECONDS = 24 * 3600.0


async def scrub_forever(files: Files, root: str, store: MessageStore, damages: Damages) -> None:
    """Runs until it is cancelled."""
    while True:
        await _scrub_once(files, root, store, damages)
        await asyncio.sleep(_PAUSE_SECONDS)


async def _scrub_once(files: Files, root: str, store: MessageStore, damages: Damages) -> None:
    scrub, goal, found = Scrub(files, root), store.committed_position, 0
    scrub.position = store.min_position
    try:
        while scrub.position < goal:
            began = time.monotonic()
            damage = await asyncio.to_thread(scrub.step, store.min_position, goal, _STEP_BYTES)
            if damage is not None:
                found += 1
                damages.found(damage)
            await asyncio.sleep((time.monotonic() - began) / _SHARE)
    except (StoreDamaged, OSError) as error:
        _log.warning("the log cannot be read through", position=scrub.position, reason=error)
        return
    finally:
        scrub.close()
    _log.info("the log was read through", up_to=goal, damaged_segments=found)
