"""The operator's own pages: does it work, may it be asked, what has it done."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from logherd_operator.clients.api import Api
from logherd_operator.handlers.desk import Desk
from logherd_operator.handlers.metrics import API_REQUESTS, IS_LEADER, QUEUE_DEPTH, QUEUE_OLDEST, exposed

__all__ = ["Pages", "serving"]

_LATE_SECONDS = 600.0


class Pages:
    """`/healthz` fails when a group has been due for ten minutes; `/readyz` does not ask who leads (OP-95)."""

    def __init__(self, desk: Desk, api: Api, leads: Callable[[], bool]) -> None:
        self._desk = desk
        self._api = api
        self._leads = leads

    async def health(self, _request: web.Request) -> web.Response:
        """Is the oldest group that is due young enough?"""
        oldest = self._desk.oldest
        body = {"healthy": oldest < _LATE_SECONDS, "oldestSeconds": round(oldest, 1)}
        return web.json_response(body, status=200 if body["healthy"] else 503)

    async def ready(self, _request: web.Request) -> web.Response:
        """The process is up; whether it leads is information."""
        return web.json_response({"ready": True, "leads": self._leads()})

    async def metrics(self, _request: web.Request) -> web.Response:
        """Counters in Prometheus' text format."""
        return web.Response(text=_metrics(self._desk, self._api.sent, leads=self._leads()))


def _metrics(desk: Desk, sent: Mapping[tuple[str, str, int], int], *, leads: bool) -> str:
    counts = [((method, resource, str(code)), float(count)) for (method, resource, code), count in sorted(sent.items())]
    lines = [
        *exposed(IS_LEADER, ((), float(leads))), *exposed(QUEUE_DEPTH, ((), float(desk.waiting))),
        *exposed(QUEUE_OLDEST, ((), round(desk.oldest, 3))), *exposed(API_REQUESTS, *counts),
    ]  # fmt: skip
    return "\n".join([*lines, ""])


@asynccontextmanager
async def serving(pages: Pages, port: int) -> AsyncIterator[int]:
    """The port on which they are served; 0 takes a free one. Raises: OSError if it is taken."""
    app = web.Application()
    app.router.add_get("/healthz", pages.health)
    app.router.add_get("/readyz", pages.ready)
    app.router.add_get("/metrics", pages.metrics)
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "0.0.0.0", port)  # noqa: S104 -- the kubelet asks from outside the pod
        await site.start()
        addresses: list[Any] = list(runner.addresses)
        yield int(addresses[0][1])
    finally:
        await runner.cleanup()
