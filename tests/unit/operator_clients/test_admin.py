"""The admin ports over HTTP: a page is one however many pieces it comes in, and what is none is no answer."""

import asyncio
import json

import pytest
from aiohttp import web

from logherd_operator.clients.admin import opened_admins
from logherd_operator.clients.api import Reply

PAGE = {"why": "w" * 300_000}


async def asked(*pieces: bytes) -> Reply | None:
    """What the client makes of a page that comes in these pieces; each has left before the next one does."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = sum(map(len, pieces))
        await response.prepare(request)
        for each in pieces:
            await response.write(each)
            for _ in range(20):
                await asyncio.sleep(0)
        return response

    app = web.Application()
    app.router.add_get("/status", answer)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with opened_admins(runner.addresses[0][1]) as admins:
            return await admins.ask("127.0.0.1", "/status")
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("first", [1, 1400, 200_000])
async def test_a_page_that_comes_in_pieces_is_whole(first: int) -> None:
    page = json.dumps(PAGE).encode()
    assert await asked(page[:first], page[first:]) == Reply(200, PAGE)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"no JSON", b'{"a": 1', b'{"a": "' + b"w" * (1 << 20) + b'"}', b'{"a":' * 100_000]
)
async def test_what_is_no_page_is_no_answer(body: bytes) -> None:
    assert await asked(body) is None
