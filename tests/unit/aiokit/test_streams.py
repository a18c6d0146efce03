"""Connections that are still served when a process ends."""

import asyncio
from typing import Any

import pytest

from logherd.aiokit.streams import Serve, served


async def wait_for_more(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello")
    await reader.read(1)


async def end_while_serving(serve: Serve) -> list[dict[str, Any]]:
    """What the loop calls unhandled when everything is cancelled, and whether the client sees the end."""
    told: list[dict[str, Any]] = []
    loop, mine = asyncio.get_running_loop(), asyncio.current_task()
    loop.set_exception_handler(lambda _, context: told.append(context))
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
    assert await reader.readexactly(5) == b"hello"
    others = [each for each in asyncio.all_tasks() if each is not mine]
    assert others, "somebody serves"
    for each in others:
        each.cancel()
    async with asyncio.timeout(30):
        await asyncio.wait(others)
        assert await reader.read() == b""
    writer.close()
    server.close()
    await asyncio.sleep(0)
    return told


async def test_a_connection_that_is_served_when_all_ends_is_closed_and_is_no_error() -> None:
    assert await end_while_serving(served(wait_for_more)) == []


async def test_errors_are_told_as_ever() -> None:
    async def fail(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        await served(fail)(asyncio.StreamReader(), _Closed())  # type: ignore[arg-type]


class _Closed:
    def close(self) -> None:
        pass
