"""Connections that a coroutine serves, each in a task that asyncio makes."""

import asyncio
from collections.abc import Awaitable, Callable

__all__ = ["Serve", "served"]

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def served(serve: Serve) -> Serve:
    """For `asyncio.start_server`: as `serve`, but a task that is cancelled, as all are when a process ends, just ends.

    Before Python 3.12 asyncio asks a cancelled one for its exception, and tells that as an unhandled error.
    """

    async def serve_until_cancelled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except asyncio.CancelledError:
            writer.close()

    return serve_until_cancelled
