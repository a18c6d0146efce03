"""Connections by address, opened when first needed and again after they were lost."""

import asyncio

from logherd.client.errors import Refused
from logherd.net.connection import Connection, OnRequest, connect
from logherd.net.errors import ConnectFailed, RequestTimeout
from logherd.wire.codes import ResponseCode
from logherd.wire.frame import Frame

__all__ = ["Peers", "parse_address"]

REQUEST_SECONDS = 3.0
RETIRED_SECONDS = 30.0
"""So long what is open on a connection that is used no more may still be answered, as a pull that waits."""
_PORT_DIGITS = 5


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`. Raises: ValueError naming what is wrong and what is right."""
    named, separator, port = address.rpartition(":")
    host = named.strip("[]")
    digits = port.isascii() and port.isdigit() and len(port) <= _PORT_DIGITS
    if not separator:
        wrong = ""
    elif not host:
        wrong = "; it names no host"
    elif not digits or not 0 < int(port) < 65536:
        wrong = "; a port is a number from 1 to 65535"
    else:
        return host, int(port)
    raise ValueError(f"an address is host:port, not {address!r}{wrong}")


class Peers:
    """One connection per address, shared by everything that one client does, as stock clients share theirs."""

    def __init__(self, *, on_request: OnRequest | None = None) -> None:
        self._on_request = on_request
        self._open: dict[str, Connection] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._retired: dict[Connection, asyncio.TimerHandle] = {}
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

    def retire(self, address: str, connection: Connection) -> None:
        """Connect anew for what is asked next: this one gave no answer in time, as where the host behind it is gone,
        which the system takes half a minute to notice. What is open on it may still be answered."""
        if self._open.get(address) is connection:
            del self._open[address]
            loop = asyncio.get_running_loop()
            self._retired[connection] = loop.call_later(RETIRED_SECONDS, self._end, connection)

    def _end(self, connection: Connection) -> None:
        self._retired.pop(connection).cancel()
        connection.abort()

    def _check_open(self, address: str) -> None:
        if self._closed:
            raise ConnectFailed(f"the client is closed; {address} was not connected", address)

    async def call(self, address: str, connection: Connection, request: Frame, *, seconds: float) -> Frame:
        """Send a request on the connection to host:port; its answer, whatever its code. Raises as `Connection.call`."""
        try:
            return await connection.call(request, seconds=seconds)
        except RequestTimeout:
            self.retire(address, connection)
            raise

    async def ask(self, address: str, request: Frame, *, seconds: float = REQUEST_SECONDS) -> Frame:
        """Send a request to host:port and return its successful answer.

        Raises: Refused for any code but 0; NetError (ConnectFailed, ConnectionLost, RequestTimeout).
        """
        answer = await self.call(address, await self.get(address), request, seconds=seconds)
        if answer.code != ResponseCode.SUCCESS:
            raise Refused(answer.code, answer.remark, address)
        return answer

    async def close(self) -> None:
        """Close all connections; open requests end in ConnectionLost. Idempotent."""
        self._closed = True
        for connection in tuple(self._retired):
            self._end(connection)
        connections, self._open = list(self._open.values()), {}
        for connection in connections:
            await connection.close()
