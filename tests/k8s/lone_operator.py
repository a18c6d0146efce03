"""`python -m k8s.lone_operator ADDRESS`: the whole operator as a process of its own, so that its memory is its own."""

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

import aiohttp
from kubernetes.aio.client import Configuration

from k8s.driving import OPTIONS
from k8s.kubelet import NAMESPACE
from logherd_operator.clients.api import Reply
from logherd_operator.clients.lease import LeasePlace
from logherd_operator.handlers.process import RunOptions, work


class Tunnel:
    """`Admins` through the emulated API server's address."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session = session
        self._address = address

    async def ask(self, host: str, path: str) -> Reply | None:
        return await self._send("GET", host, path, None, "")

    async def tell(self, host: str, path: str, body: Mapping[str, Any], token: str) -> Reply | None:
        return await self._send("POST", host, path, dict(body), token)

    async def _send(self, method: str, host: str, path: str, body: Any, token: str) -> Reply | None:
        headers = {"Authorization": f"Bearer {token}"}
        url = f"{self._address}/admin/{host}{path}"
        async with self._session.request(method, url, json=body, headers=headers) as answer:
            return None if answer.status == 502 else Reply(answer.status, await answer.json())


async def main(address: str) -> None:
    lease = LeasePlace(namespace=NAMESPACE, name="logherd-operator", identity="lone")
    run = RunOptions(options=OPTIONS, lease=lease, namespaces=(NAMESPACE,), health_port=0)
    async with aiohttp.ClientSession() as session:
        await work(run, Configuration(host=address), Tunnel(session, address), asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
