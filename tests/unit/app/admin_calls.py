"""An admin port with some actions, and raw requests to it over a real socket."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from logherd.app.admin_http import ActionLimits, AdminHttp
from logherd.app.admin_routes import Routes

SECRET = "a-secret-of-some-length"


@dataclass
class Calls:
    """What the actions of the port were called with; `release` lets the action `/slow` end."""

    seen: list[tuple[str, dict[str, Any], dict[str, str]]] = field(default_factory=list)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def elect(self, body: dict[str, Any], parts: Mapping[str, str]) -> tuple[int, object]:
        self.seen.append(("elect", body, dict(parts)))
        return 200, {"epoch": 8}

    async def put(self, body: dict[str, Any], parts: Mapping[str, str]) -> tuple[int, object]:
        self.seen.append(("put", body, dict(parts)))
        return 400, {"error": "gatherMs should be a number", "field": "gatherMs"}

    async def slow(self, body: dict[str, Any], parts: Mapping[str, str]) -> tuple[int, object]:
        self.begun.set()
        await self.release.wait()
        return 200, {}


def page() -> tuple[int, object]:
    return 200, {"values": {}}


async def group(query: Mapping[str, str], parts: Mapping[str, str]) -> tuple[int, object]:
    if "forever" in query:
        await asyncio.get_running_loop().create_future()
    return 200, {"query": dict(query), "parts": dict(parts)}


@asynccontextmanager
async def port_with(calls: Calls, token_file: Path | None, limits: ActionLimits | None = None) -> AsyncIterator[int]:
    site = Routes(
        {"/status": page, "/config": page},
        views={"/groups/{cluster}/{name}": group},
        actions={"/groups/{cluster}/{name}/elect": calls.elect, "/config": calls.put, "/slow": calls.slow},
    )
    http = AdminHttp(site, token_file=token_file, limits=limits)
    port = await http.start("127.0.0.1", 0)
    try:
        yield port
    finally:
        http.close()


async def exchange(port: int, raw: bytes) -> bytes:
    """Everything that comes back until the port closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(raw)
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


def post(path: str, body: object = None, *, secret: str | None = SECRET, **headers: str | None) -> bytes:
    """A POST with the usual headers; one that is given as None is left out. `_` in a name stands for `-`."""
    data = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
    lines: dict[str, str | None] = {
        "host": "x",
        "authorization": None if secret is None else f"Bearer {secret}",
        "content-type": "application/json",
        "content-length": str(len(data)),
    }
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + data


def parsed(answer: bytes) -> tuple[int, dict[str, str], Any]:
    """Status, headers, document."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return int(status.split()[1]), dict(line.lower().split(": ", 1) for line in lines), json.loads(body)
