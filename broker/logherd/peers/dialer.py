"""Keeps one peer dialled: connect, wait until the connection is gone, try again after a growing pause."""

import asyncio
from secrets import randbelow

from logherd.aiokit.dialing import dial
from logherd.peers.link import Link, LinkOwner
from logherd.peers.options import LinkOptions
from logherd.telemetry.log import Log

__all__ = ["keep_dialled"]

_PROVEN_SECONDS = 1.0
"""A connection that lasted so long was a good one: the next pause is short again."""


async def keep_dialled(name: str, address: tuple[str, int], owner: LinkOwner, log: Log) -> None:
    """Runs until it is cancelled; the connection that is open then stays with its owner.

    The name is looked up anew each time. A reason is logged when it is not the one of the try before.
    """
    loop, options = asyncio.get_running_loop(), owner.options
    failures, told = 0, ""
    while True:
        began = loop.time()
        reason = await _connect_once(name, address, owner)
        if reason is None:
            told = ""
            failures = 0 if loop.time() - began >= _PROVEN_SECONDS else failures
        elif reason != told:
            told = reason
            log.info("peer not reached", peer=name, address=f"{address[0]}:{address[1]}", reason=reason)
        await asyncio.sleep(_pause_seconds(failures, options))
        failures += 1


async def _connect_once(name: str, address: tuple[str, int], owner: LinkOwner) -> str | None:
    """One connection from its beginning to its end; why there was none."""
    link = Link(owner, dialled=name)
    try:
        async with asyncio.timeout(owner.options.connect_ms / 1000):
            await dial(lambda: link, *address)
    except TimeoutError:
        link.give_up()
        return f"no connection within {owner.options.connect_ms} ms"
    except (OSError, UnicodeError) as error:
        return str(error)
    except asyncio.CancelledError:
        link.give_up()
        raise
    await link.gone.wait()
    return None


def _pause_seconds(failures: int, options: LinkOptions) -> float:
    """Between half and all of what the number of failures asks for, so that restarts do not meet."""
    full = min(options.backoff_ms_min << min(failures, 16), options.backoff_ms_max)
    return (full + randbelow(full + 1)) / 2000
