"""The relay port: where guardians of peers bring clients that their own child cannot serve just now (H15).

Each connection is greeted, which proves that this process lives; then it must say whose it is, and becomes an ordinary
connection of the server that it names, with the client's address. Before that it is nobody's: so only few may wait, for
a short time, with a few hundred bytes each. Who can connect here can claim any address: it is for the group's own
network, never for clients.
"""

import asyncio
import socket
import time
from collections.abc import Mapping
from typing import cast

from logherd.app.binding import bind
from logherd.app.guarded.preamble import PreambleError, read_preamble
from logherd.net.server import Server
from logherd.settings.options import Endpoint, GuardianOptions
from logherd.telemetry.log import Log
from logherd.telemetry.sparing import SparingLog
from logherd_guardian.child import GREETING

__all__ = ["WAITING_MAX", "RelayPort", "open_relay"]

WAITING_MAX = 32
"""Connections that have not said whose they are. A guardian in need holds 4 for each of its sockets, over its peers."""
_PREAMBLE_SECONDS = 5.0
"""A guardian gives up a connection that it has no client for after 1 s."""

_log = Log("logherd.relay")


class RelayPort:
    """Belongs to the loop on which `open` ran. The servers close it when they stop."""

    def __init__(
        self, servers: Mapping[str, Server], *, waiting_max: int = WAITING_MAX, seconds: float = _PREAMBLE_SECONDS
    ) -> None:
        """`servers` by the names of the sockets that their clients connect to."""
        self._servers = servers
        self._waiting_max = waiting_max
        self._seconds = seconds
        self._waiting: set[_Reception] = set()
        self._listener: asyncio.Server | None = None
        self.complaints = SparingLog(_log, time.monotonic)

    async def open(self, listening: socket.socket) -> Endpoint:
        """Accept on a socket that was bound, and take it over."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: _Reception(self), sock=listening)
        for server in self._servers.values():
            server.close_with(self)
        host, port = self._listener.sockets[0].getsockname()[:2]
        return Endpoint(host=host, port=port)

    def close(self) -> None:
        """Accept nobody, and let go of those that wait. Idempotent."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for each in tuple(self._waiting):
            each.end()
        self.complaints.tell(ending=True)

    # ---- called by receptions

    def came(self, reception: "_Reception") -> float | None:
        """Room for one more? Then the seconds that it has."""
        if self._listener is None or len(self._waiting) >= self._waiting_max:
            return None
        self._waiting.add(reception)
        return self._seconds

    def left(self, reception: "_Reception") -> None:
        """It is gone, or a server's."""
        self._waiting.discard(reception)

    def find(self, name: str) -> Server | None:
        """The server whose clients connect to the socket `name`."""
        return self._servers.get(name)


async def open_relay(options: GuardianOptions, servers: Mapping[str, Server]) -> dict[str, str]:
    """Open the relay port if the settings want one. The result is what was bound: `relay`. Raises: CannotListen."""
    if options.relay_listen is None:
        return {}
    bound = await RelayPort(servers).open(bind(options.relay_listen, "guardian.relayListen"))
    return {"relay": str(bound)}


class _Reception(asyncio.Protocol):
    """One connection until it has said whose it is."""

    def __init__(self, port: RelayPort) -> None:
        self._port = port
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._heard = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = wire = cast("asyncio.Transport", transport)
        seconds = self._port.came(self)
        if seconds is None:
            self._refuse("too many wait to say whose they are")
            return
        self._timer = asyncio.get_running_loop().call_later(seconds, self._refuse, "no PROXY header in time")
        wire.write(GREETING)

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        if transport is None:
            return
        self._heard += data
        try:
            preamble = read_preamble(self._heard)
        except PreambleError as error:
            self._refuse(str(error))
            return
        if preamble is None:
            return
        server = self._port.find(preamble.name)
        if server is None:
            self._refuse("nobody here serves that socket", name=preamble.name)
            return
        client = preamble.client or _peer(transport)
        received = self._heard[preamble.size :]
        self._forget()
        server.adopt(transport, client, received)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- the protocol's signature
        self._forget()

    def end(self) -> None:
        """Close it; nobody has been promised anything on it."""
        transport = self._transport
        self._forget()
        if transport is not None:
            transport.abort()

    def _refuse(self, reason: str, **detail: str) -> None:
        if self._transport is not None:
            host, port = _peer(self._transport)
            self._port.complaints.warning(
                "relayed connection refused", remote=f"{host}:{port}", reason=reason, **detail
            )
        self.end()

    def _forget(self) -> None:
        self._port.left(self)
        self._transport = None
        self._heard = b""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _peer(transport: asyncio.Transport) -> tuple[str, int]:
    host, port = (transport.get_extra_info("peername") or ("0.0.0.0", 0))[:2]  # noqa: S104 - it left before we looked
    return host, port
