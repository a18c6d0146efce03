"""The admin port of a controller: HTTP calls become steps of `service.controllers.pages`, steps become documents."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from logherd.app.admin_routes import (
    METRICS_PATH,
    Answer,
    Performing,
    Scrape,
    Scraping,
    Viewing,
    Wanted,
    wrong_method,
)
from logherd.app.clock import boot_ms
from logherd.app.controllers.board import Asker, Board
from logherd.app.live_settings import LiveSettings
from logherd.service.controllers.documents import Document
from logherd.service.controllers.pages import ask
from logherd.service.controllers.place import Place
from logherd.settings.options import ControllerOptions

__all__ = ["PROCESS_PATH", "ControllerSite"]

PROCESS_PATH = "/config/process"
"""Settings of this process, beside `/config`, which is about all controllers."""


class ControllerSite:
    """A `Site` whose pages and actions may have to wait for the quorum."""

    def __init__(
        self, board: Board, place: Place, *, scrape: Scrape, settings: LiveSettings[ControllerOptions]
    ) -> None:
        self._board = board
        self._place = place
        self._scrape = scrape
        self._settings = settings

    def find(self, method: bytes, target: bytes) -> Wanted:
        """Every path is looked up by `ask`, which also says what is wrong with it."""
        text = target.decode("ascii", "replace")
        if text.partition("?")[0] == METRICS_PATH:
            return Scraping(self._scrape) if method in (b"GET", b"HEAD") else wrong_method(method, ["GET", "HEAD"])
        if text == PROCESS_PATH and method in (b"GET", b"HEAD"):
            return self._settings.page
        if text == PROCESS_PATH and method == b"POST":
            return Performing(text, self._settings.action, {})
        if method in (b"GET", b"HEAD"):
            return Viewing(partial(self._view, text), {}, {})
        if method == b"POST":
            path = text.partition("?")[0]
            return Performing(path, partial(self._act, text), {}, often=path.endswith("/endpoint"))
        error = f"method {method.decode('ascii', 'replace')} is not supported, use GET or POST"
        return Answer(405, {"error": error, "reason": "WRONG_METHOD"}, (("allow", "GET, HEAD, POST"),))

    async def _view(self, target: str, _query: Mapping[str, str], _parts: Mapping[str, str]) -> tuple[int, object]:
        return await self._carry_out("GET", target, b"")

    async def _act(self, target: str, document: dict[str, Any], _parts: Mapping[str, str]) -> tuple[int, object]:
        return await self._carry_out("POST", target, msgspec.json.encode(document))

    async def _carry_out(self, method: str, target: str, body: bytes) -> tuple[int, object]:
        asked = ask(method, target, body, self._place, boot_ms())
        told: asyncio.Future[Document] = asyncio.get_running_loop().create_future()
        self._board.carry_out(asked.step, Asker(partial(_tell, told), _nothing, asked.endings))
        document = await told
        return document.status, document.body


def _tell(told: "asyncio.Future[Document]", document: Document) -> None:
    if not told.done():  # the caller may have left at its deadline
        told.set_result(document)


def _nothing() -> None:
    """An HTTP call waits by itself."""
