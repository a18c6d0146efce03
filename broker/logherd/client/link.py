"""What producer, consumer and admin share: connections, routes, and the heartbeat that makes a client known."""

import asyncio
import time
from collections.abc import Callable, Sequence

from logherd.aiokit.tasks import TaskGuard
from logherd.client.errors import Refused
from logherd.client.peers import Peers
from logherd.client.routes import NameService, Routes
from logherd.client.unique import new_client_id
from logherd.net.connection import OnRequest
from logherd.net.errors import NetError
from logherd.telemetry.log import Log
from logherd.wire.bodies import encode_body
from logherd.wire.bodies.clients import Heartbeat
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Frame

__all__ = ["Link"]

_log = Log("logherd.client")
HEARTBEAT_SECONDS = 30.0
STOP_SECONDS = 2.0


class Link:
    """One client's way to its cluster. `heartbeat` builds its heartbeat from the client id; None sends none."""

    def __init__(
        self, name_servers: Sequence[str], heartbeat: Callable[[str], Heartbeat] | None, *,
        on_request: OnRequest | None = None,
    ) -> None:  # fmt: skip
        self.client_id = new_client_id()
        self.peers = Peers(on_request=on_request)
        self.names = NameService(self.peers, name_servers)
        self.routes = Routes(self.names)
        self.guard = TaskGuard()
        self._build_heartbeat = heartbeat
        self._brokers: set[str] = set()

    def now_ms(self) -> int:
        """Wall time in ms, for born timestamps."""
        return time.time_ns() // 1_000_000

    def seen(self, address: str) -> None:
        """A broker that this client uses: it gets a heartbeat now and every 30 s, as long as a route names it."""
        if self._build_heartbeat is not None and address not in self._brokers:
            self._brokers.add(address)
            self.guard.start(f"heartbeat {address}", self._beat(address, self._build_heartbeat), eternal=False)

    async def beat_once(self, address: str) -> None:
        """Send a heartbeat and wait for its answer, for a broker that must know the client first.

        Raises: Refused, NetError.
        """
        if self._build_heartbeat is not None:
            body = encode_body(self._build_heartbeat(self.client_id))
            await self.peers.ask(address, Frame(RequestCode.HEART_BEAT, 0, body=body))

    async def close(self) -> None:
        """Stop the tasks, then the connections: brokers see the client leave. Idempotent."""
        await self.guard.stop(STOP_SECONDS)
        await self.peers.close()

    async def _beat(self, address: str, build: Callable[[str], Heartbeat]) -> None:
        named = True
        while named:
            try:
                request = Frame(RequestCode.HEART_BEAT, 0, body=encode_body(build(self.client_id)))
                await self.peers.ask(address, request)
            except (NetError, Refused) as error:
                _log.warning("heartbeat failed", broker=address, error=error)
            await asyncio.sleep(HEARTBEAT_SECONDS)
            named = self.routes.name(address)
        self._brokers.discard(address)
