"""The admin ports of controllers and brokers. A page that does not come within two seconds, an order without an answer
within ten, means unknown, never down (OP-13)."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

import aiohttp

from logherd_operator.clients.api import Reply

__all__ = ["AdminPort", "Admins", "opened_admins"]

_TIMEOUT = aiohttp.ClientTimeout(total=2)
_ORDER_TIMEOUT = aiohttp.ClientTimeout(total=10)
"""As long as an admin port gives an action: one that changes settings has them checked by another process."""
_BYTES_MAX = 1 << 20


class Admins(Protocol):
    """Asks and tells admin ports, by host name."""

    async def ask(self, host: str, path: str) -> Reply | None:
        """A page, or None: nobody answered sensibly in time. Raises: nothing."""

    async def tell(self, host: str, path: str, body: Mapping[str, Any], token: str) -> Reply | None:
        """An order, and its answer, or None: the outcome is unknown. Raises: nothing."""


class AdminPort:
    """`Admins` over HTTP, all at one port number."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session = session
        self._port = port

    async def ask(self, host: str, path: str) -> Reply | None:
        """See `Admins`."""
        return await self._send("GET", host, path, None, {})

    async def tell(self, host: str, path: str, body: Mapping[str, Any], token: str) -> Reply | None:
        """See `Admins`."""
        return await self._send("POST", host, path, body, {"Authorization": f"Bearer {token}"})

    async def _send(
        self, method: str, host: str, path: str, body: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> Reply | None:
        url = f"http://{host}:{self._port}{path}"
        timeout = _TIMEOUT if method == "GET" else _ORDER_TIMEOUT
        try:
            async with self._session.request(method, url, json=body, headers=headers, timeout=timeout) as answer:
                document = json.loads(await _body(answer.content))
                return Reply(answer.status, document) if isinstance(document, dict) else None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, RecursionError):
            return None


async def _body(content: aiohttp.StreamReader) -> bytes:
    """All of it, up to the limit: one reading gives what has come so far, which may end anywhere."""
    found = bytearray()
    while len(found) < _BYTES_MAX and (piece := await content.read(_BYTES_MAX - len(found))):
        found += piece
    return bytes(found)


@asynccontextmanager
async def opened_admins(port: int) -> AsyncIterator[AdminPort]:
    """Connections to admin ports. Names are asked anew after five seconds, because pods move (OP-34)."""
    connector = aiohttp.TCPConnector(limit=64, ttl_dns_cache=5, keepalive_timeout=5)
    async with aiohttp.ClientSession(connector=connector, trust_env=False) as session:
        yield AdminPort(session, port)
