"""The admin port: a few JSON documents over HTTP/1.1, for probes, `logherd status` and the operator.

A thin asyncio shell around h11. Reads only; each answer closes the connection. Limits: 8 KiB of request head, no
request body, five seconds from accept to answer, 64 connections at once; beyond a limit the connection is closed.
"""

import asyncio
from collections.abc import Callable, Mapping

import h11
import msgspec

__all__ = ["AdminHttp", "Page"]

Page = Callable[[], tuple[int, object]]
"""Gives an HTTP status and a document that msgspec can encode. Runs on the loop; must not block."""

_HEAD_BYTES_MAX = 8192
_READ_BYTES = 1024  # small, because h11 judges the limit only while a head is incomplete
_SECONDS_MAX = 5.0
_CONNECTIONS_MAX = 64


class AdminHttp:
    """Serves `pages` (path to page) on one address. Unknown paths get 404, other methods than GET and HEAD get 405."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._open = 0

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port (useful with 0). Raises OSError if the address cannot be taken."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=_HEAD_BYTES_MAX)
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Stop listening; answers in progress end by their own deadline."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= _CONNECTIONS_MAX:
                async with asyncio.timeout(_SECONDS_MAX):
                    await self._exchange(reader, writer)
        except (TimeoutError, OSError, h11.ProtocolError):
            pass  # a probe that hangs, leaves or speaks something else; the connection just ends
        finally:
            self._open -= 1
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        document: object
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES_MAX)
        head_only = False
        try:
            while (event := connection.next_event()) is h11.NEED_DATA:
                connection.receive_data(await reader.read(_READ_BYTES))
        except h11.RemoteProtocolError as error:
            status, document = error.error_status_hint, {"error": str(error)}
        else:
            if not isinstance(event, h11.Request):
                return
            status, document = self._answer(event)
            head_only = event.method == b"HEAD"
        body = msgspec.json.encode(document) + b"\n"
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        if connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            writer.write(connection.send(h11.Response(status_code=status, headers=headers)) or b"")
            writer.write(b"" if head_only else body)
            await writer.drain()

    def _answer(self, request: h11.Request) -> tuple[int, object]:
        path = request.target.decode("ascii", "replace").partition("?")[0]
        if request.method not in (b"GET", b"HEAD"):
            return 405, {"error": f"method {request.method.decode()} is not supported, use GET"}
        page = self._pages.get(path)
        if page is None:
            return 404, {"error": f"no page {path!r}", "pages": sorted(self._pages)}
        return page()
