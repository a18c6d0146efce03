"""The admin port: JSON over HTTP/1.1, for probes, `logherd status`, operators and the operator; metrics as text.

Reads are open. Actions (POST with a JSON object) need the secret of a token file and answer errors as JSON with
`error` and, where one field is wrong, `field`. Each answer closes the connection. Limits: 8 KiB of request head, 64 KiB
of body, 64 connections at once, five seconds from accept to answer, to which a view or an action adds its own deadline;
beyond a limit of the connection it is just closed.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h11
import msgspec

from logherd.aiokit.streams import served
from logherd.app.admin_exchange import HEAD_BYTES_MAX, Exchange, encoded
from logherd.app.admin_routes import Answer, Page, Performing, Scraping, Site, Viewing
from logherd.app.admin_token import TokenFile
from logherd.kit.errors import InvariantError
from logherd.telemetry.log import Log

__all__ = ["ActionLimits", "AdminHttp"]

_BODY_BYTES_MAX = 64 << 10
_NESTING_MAX = 16
"""No order has more than three levels. What the decoder just takes, whoever encodes it again may not."""
_SECONDS_MAX = 5.0
_CONNECTIONS_MAX = 64
_REFUSED_LOG_SECONDS = 10.0
_UNKNOWN = "nothing was decided within {seconds:g} s: outcome unknown, it may still happen; look before repeating"

_LATE = "no answer within {seconds:g} s"

_log = Log("logherd.app.admin")


@dataclass(frozen=True, slots=True)
class ActionLimits:
    """How long a view or an action may take before its caller is told that it did not end, and how many actions run at
    once."""

    seconds: float = 10.0
    at_once: int = 8


class AdminHttp:
    """Serves a site on one address.

    Without a token file all actions are refused. What an action raises is not caught here, but for an OSError. A read
    changes nothing: a defect of ours in one costs whoever asked the answer, and nobody else anything.
    """

    def __init__(self, site: Site, *, token_file: Path | None = None, limits: ActionLimits | None = None) -> None:
        self._site = site
        self._token = TokenFile(token_file)
        self._limits = limits or ActionLimits()
        self._server: asyncio.Server | None = None
        self._open = 0
        self._acting = 0
        self._refusal_logged_at = float("-inf")
        self._defect_logged_at = float("-inf")

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port (useful with 0). Raises OSError if the address cannot be taken."""
        self._token.check()
        self._server = await asyncio.start_server(served(self._serve), host, port, limit=HEAD_BYTES_MAX)
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Stop listening; answers in progress end by their own deadline."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= _CONNECTIONS_MAX:
                writer.transport.set_write_buffer_limits(0)  # who has been answered has nothing left here
                async with asyncio.timeout(_SECONDS_MAX) as deadline:
                    await self._converse(Exchange(reader, writer), deadline)
        except (TimeoutError, OSError, h11.ProtocolError):
            # A probe that hangs, leaves or speaks something else. Closing waits for who does not read, for ever.
            writer.transport.abort()
        finally:
            self._open -= 1
            writer.close()

    async def _converse(self, exchange: Exchange, deadline: asyncio.Timeout) -> None:
        try:
            answer = await self._answer(exchange, deadline)
        except h11.RemoteProtocolError as error:
            answer = Answer(error.error_status_hint, {"error": str(error)})
        if answer is not None:
            await exchange.answer(answer)

    async def _answer(self, exchange: Exchange, deadline: asyncio.Timeout) -> Answer | None:
        request = await exchange.head()
        if request is None:
            return None
        wanted = self._site.find(request.method, request.target)
        if isinstance(wanted, Answer):
            return wanted
        if isinstance(wanted, Performing):
            return await self._act(exchange, request.headers, wanted, deadline)
        try:
            answer = await self._read(request, wanted, deadline)
            return answer._replace(document=encoded(answer.document))
        except (InvariantError, TimeoutError, OSError):
            raise
        except Exception as error:
            self._note_defect(request.target, error)
            return Answer(500, {"error": f"internal error ({type(error).__name__}), see the log"})

    async def _read(
        self, request: h11.Request, wanted: Page | Viewing | Scraping, deadline: asyncio.Timeout
    ) -> Answer:  # fmt: skip
        if isinstance(wanted, Viewing):
            return await self._within(wanted.view(wanted.query, wanted.parts), deadline, _LATE)
        if isinstance(wanted, Scraping):
            accept = b",".join(value for name, value in request.headers if name == b"accept").decode("ascii", "replace")
            return await self._within(wanted.scrape(accept), deadline, _LATE)
        return Answer(*wanted())

    async def _act(
        self, exchange: Exchange, headers: Iterable[tuple[bytes, bytes]], wanted: Performing, deadline: asyncio.Timeout
    ) -> Answer:
        refusal = self._token.judge([value for name, value in headers if name == b"authorization"])
        if refusal is not None:
            self._note_refusal(wanted.path, refusal)
            return refusal
        unfit = _unfit(dict(headers))
        if unfit is not None:
            return unfit
        document = _document(await exchange.body())
        if isinstance(document, Answer):
            return document
        if self._acting >= self._limits.at_once:
            error = f"{self._acting} actions are in work, which is the most; nothing was done"
            return Answer(503, {"error": error}, (("retry-after", "1"),))
        self._acting += 1
        try:
            answer = await self._within(wanted.action(document, wanted.parts), deadline, _UNKNOWN)
        finally:
            self._acting -= 1
        (_log.debug if wanted.often else _log.info)(
            "an action was asked for", path=wanted.path, parts=" ".join(wanted.parts.values()), status=answer.status
        )
        return answer

    async def _within(self, work: Awaitable[tuple[int, object]], deadline: asyncio.Timeout, sentence: str) -> Answer:
        seconds = self._limits.seconds
        deadline.reschedule(asyncio.get_running_loop().time() + seconds + _SECONDS_MAX)
        try:
            async with asyncio.timeout(seconds):
                return Answer(*await work)
        except TimeoutError:
            return Answer(504, {"error": sentence.format(seconds=seconds)})

    def _note_refusal(self, path: str, refusal: Answer) -> None:
        """Not more often than now and then, because anybody can cause it."""
        now = asyncio.get_running_loop().time()
        if now >= self._refusal_logged_at + _REFUSED_LOG_SECONDS:
            self._refusal_logged_at = now
            _log.warning("an action was refused", path=path, status=refusal.status)

    def _note_defect(self, target: bytes, error: Exception) -> None:
        """As rarely, for the same reason."""
        now = asyncio.get_running_loop().time()
        if now >= self._defect_logged_at + _REFUSED_LOG_SECONDS:
            self._defect_logged_at = now
            _log.error("a page failed by a defect", cause=error, page=target.decode("ascii", "replace"))


def _unfit(headers: Mapping[bytes, bytes]) -> Answer | None:
    """Why a body of this kind is not read."""
    if b"transfer-encoding" in headers or b"content-length" not in headers:
        return Answer(411, {"error": "the body needs a content-length, and no transfer-encoding"})
    length = int(headers[b"content-length"])  # h11 lets only digits pass
    if length > _BODY_BYTES_MAX:
        return Answer(413, {"error": f"the body has {length} bytes, at most {_BODY_BYTES_MAX} are read"})
    media = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media != b"application/json":
        shown = media.decode("ascii", "replace") or "not given"
        return Answer(415, {"error": f"the content-type is {shown}, it should be application/json"})
    return None


def _document(body: bytes) -> dict[str, Any] | Answer:
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return Answer(400, {"error": f"the body is not JSON: {error}"})
    if not isinstance(document, dict):
        return Answer(400, {"error": "the body should be a JSON object"})
    if _is_nested(document):
        return Answer(400, {"error": f"the body is nested deeper than {_NESTING_MAX}"})
    return document


def _is_nested(document: dict[str, Any]) -> bool:
    level: list[Any] = [document]
    for _ in range(_NESTING_MAX):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return any(isinstance(each, dict | list) for each in level)
