"""One request and its answer on one connection of the admin port: a thin asyncio shell around h11."""

import asyncio

import h11
import msgspec

from logherd.app.admin_routes import Answer, Text

__all__ = ["HEAD_BYTES_MAX", "Exchange", "encoded"]

HEAD_BYTES_MAX = 8192
_READ_BYTES = 1024  # small, because h11 judges the limit only while a head is incomplete
_LINGER_BYTES_MAX = 1 << 20


class Exchange:
    """Read the head, then perhaps the body, then answer; each once and in this order.

    All of it waits for the peer, so the caller sets the deadline. Raises OSError if the connection breaks, and
    h11.RemoteProtocolError for what is no HTTP, which can still be answered.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._head_only = False

    async def head(self) -> h11.Request | None:
        """The request without its body; None if the peer left without one."""
        event = await self._next()
        if not isinstance(event, h11.Request):
            return None
        self._head_only = event.method == b"HEAD"
        return event

    async def body(self) -> bytes:
        """The whole body, as long as its content-length said; the caller has judged that."""
        if self._http.they_are_waiting_for_100_continue:
            self._writer.write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
        parts = []
        while isinstance(event := await self._next(), h11.Data):
            parts.append(bytes(event.data))
        return b"".join(parts)

    async def answer(self, answer: Answer) -> None:
        """Send it and wait until the peer has it, as far as that can be seen. Nothing if the peer left."""
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        body, media_type = encoded(answer.document)
        headers = [("content-type", media_type), ("content-length", str(len(body))), ("connection", "close")]
        response = h11.Response(status_code=answer.status, headers=[*headers, *answer.headers])
        self._writer.write(self._http.send(response) or b"")
        self._writer.write(b"" if self._head_only else body)
        await self._writer.drain()
        if self._http.their_state is h11.SEND_BODY:
            await self._linger()

    async def _linger(self) -> None:
        """Read on for a while: closing on top of an unread body would reset the connection, and the answer with it."""
        while isinstance(event := self._http.next_event(), h11.Data):
            pass
        if event is not h11.NEED_DATA:  # there was no body, or it is here
            return
        self._writer.write_eof()
        left = _LINGER_BYTES_MAX
        while left > 0 and (data := await self._reader.read(HEAD_BYTES_MAX)):
            left -= len(data)

    async def _next(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(_READ_BYTES))
        return event


def encoded(document: object) -> Text:
    """A document as it is sent; one that is already stays as it is."""
    if isinstance(document, Text):
        return document
    return Text(msgspec.json.encode(document) + b"\n", "application/json")
