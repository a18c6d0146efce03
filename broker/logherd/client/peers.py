"""Connections by address, opened when first needed and again after they were lost."""

import asyncio

from logherd.client.errors import Refused
from logherd.net.connection import Connection, OnRequest, connect
from logherd.net.errors import ConnectFailed
from logherd.wire.codes import ResponseCode
from logherd.wire.frame import Frame

__all__ = ["Peers", "parse_address"]

REQUEST_SECONDS = 3.0
_PORT_DIGITS = 5


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`. Raises: ValueError naming what is wrong."""
    host, separator, port = address.rpartition(":")
    digits = port.isascii() and port.isdigit() and len(port) <= _PORT_DIGITS
    if not separator or not host or not digits or not 0 < int(port) < 65536:
        raise ValueError(f"an address is host:port, not {address!r}")
    return host.strip("[]"), int(port)


class Peers:
    """One connection per address, shared by everything that one client does, as stock clients share theirs."""

    def __init__(self, *, on_request: OnRequest | None = None) -> None:
        self._on_request = on_request
        self._open: dict[str, Connection] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._closed = False

    async def get(self, address: str) -> Connection:
        """The open connection to host:port. Raises: ConnectFailed, also after `close` and for what is no address."""
        connection = self._open.get(address)
        if connection is not None and not connection.closed:
            return connection
        try:
            host, port = parse_address(address)
        except ValueError as error:  # as named by a name service, which believes every broker
            raise ConnectFailed(str(error), address) from error
        async with self._locks.setdefault(address, asyncio.Lock()):
            connection = self._open.get(address)
            if connection is None or connection.closed:
                self._check_open(address)
                connection = await connect(host, port, on_request=self._on_request)
                if self._closed:  # meanwhile
                    await connection.close()
                    self._check_open(address)
                self._open[address] = connection
            return connection

    def _check_open(self, address: str) -> None:
        if self._closed:
            raise ConnectFailed(f"the client is closed; {address} was not connected", address)

    async def ask(self, address: str, request: Frame, *, seconds: float = REQUEST_SECONDS) -> Frame:
        """Send a request to host:port and return its successful answer.

        Raises: Refused for any code but 0; NetError (ConnectFailed, ConnectionLost, RequestTimeout).
        """
        connection = await self.get(address)
        answer = await connection.call(request, seconds=seconds)
        if answer.code != ResponseCode.SUCCESS:
            raise Refused(answer.code, answer.remark, address)
        return answer

    async def close(self) -> None:
        """Close all connections; open requests end in ConnectionLost. Idempotent."""
        self._closed = True
        connections, self._open = list(self._open.values()), {}
        for connection in connections:
            await connection.close()
