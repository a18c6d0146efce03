"""Brokers that say what a test wants: on the remoting port the runtime figures, on the admin port their status."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec

from logherd.app.admin_http import AdminHttp
from logherd.app.admin_routes import Routes
from logherd.net.server import Server
from logherd.net.session import NetSession
from logherd.service.admin.runtime import REPLICATION_KEY
from logherd.service.ports import Reply, Request
from logherd.service.replica_view import ReplicationView
from logherd.wire.bodies import encode_body
from logherd.wire.bodies.routes import KVTable
from logherd.wire.frame import Frame

__all__ = ["serving_broker"]


class _Answers:
    """A `FrameHandler` that answers everything as request 28."""

    def __init__(self, view: ReplicationView | None) -> None:
        table = {} if view is None else {REPLICATION_KEY: msgspec.json.encode(view).decode()}
        self._body = encode_body(KVTable(table={"brokerActive": "true", **table}))

    def on_open(self, session: NetSession) -> None: ...

    def on_close(self, session: NetSession) -> None: ...

    def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
        for frame in frames:
            session.reply(Request(frame, None, 0), Reply(body=self._body))


@contextmanager
def serving_broker(
    view: ReplicationView | None = None, status: Mapping[str, Any] | None = None, **pages: object
) -> Iterator[str]:  # fmt: skip
    """The address: the admin port if there is a `status`, else the remoting port. `pages` stand below /replica."""
    loop = asyncio.new_event_loop()
    address, stop = loop.run_until_complete(_start(view, status, pages))
    thread = threading.Thread(target=loop.run_forever, name="broker")
    thread.start()
    try:
        yield address
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _start(
    view: ReplicationView | None, status: Mapping[str, Any] | None, pages: Mapping[str, object]
) -> tuple[str, Any]:  # fmt: skip
    if status is None:
        server = Server(_Answers(view))
        host, port = await server.listen("127.0.0.1", 0)
        return f"{host}:{port}", lambda: server.stop(0)
    shown: dict[str, object] = {"/status": status, **{f"/replica/{name}": page for name, page in pages.items()}}
    admin = AdminHttp(Routes({path: partial(lambda page: (200, page), page) for path, page in shown.items()}))
    port = await admin.start("127.0.0.1", 0)

    async def stop() -> None:
        admin.close()
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))

    return f"127.0.0.1:{port}", stop
