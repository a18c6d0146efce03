"""Registration at name services in other processes, of LogHerd or of RocketMQ."""

import asyncio
from collections.abc import Sequence

from logherd.aiokit.tasks import TaskGuard
from logherd.net.connection import Connection, connect
from logherd.net.errors import NetError
from logherd.net.server import Server
from logherd.service.metadata import TopicChange
from logherd.service.names.registration import OutgoingRequest, Registrar
from logherd.settings.options import Endpoint
from logherd.telemetry.log import Log
from logherd.wire.codes import ResponseCode
from logherd.wire.frame import Frame
from logherd.wire.headers import encode_header

__all__ = ["ExternalNames"]

REGISTER_SECONDS = 30.0
RETRY_SECONDS = 1.0
ANSWER_SECONDS = 3.0

_log = Log("logherd.names")


class ExternalNames:
    """Keeps this broker registered at every given name service, each on its own: one that is away delays no other.

    Invariants: (1) a registration is repeated every 30 s, at once when anything changed or the connection was lost, and
    every second while it fails; (2) while this broker follows, nothing is registered, and what it had registered at a
    name service is withdrawn there once that can be reached.
    """

    def __init__(self, addresses: Sequence[Endpoint], registrar: Registrar) -> None:
        self._addresses = tuple(addresses)
        self._registrar = registrar
        self._changed = {address: asyncio.Event() for address in addresses}
        self._connections: dict[Endpoint, Connection] = {}
        self.address = ";".join(map(str, addresses))
        self.servers: dict[str, Server] = {}
        """No client connects to it here."""

    def topic_changed(self, _change: TopicChange) -> None:
        """Tell all name services soon."""
        self._register_soon()

    def permission_changed(self, _permission: int) -> None:
        """Tell all name services soon."""
        self._register_soon()

    def lead(self, epoch: int) -> None:
        """This broker leads its group in this epoch and is ready to serve: tell all name services at once."""
        self._registrar.lead(epoch)
        self._register_soon()

    def follow(self) -> None:
        """This broker leads no more: withdraw what was registered."""
        self._registrar.follow()
        self._register_soon()

    async def join(self, guard: TaskGuard) -> None:
        """The broker serves: begin to register."""
        for address in self._addresses:
            guard.start(f"registration at {address}", self._keep_registered(address))

    async def leave(self) -> None:
        """The broker is about to stop: unregister where a connection stands."""
        self._registrar.follow()
        async with asyncio.TaskGroup() as group:
            for address in tuple(self._connections):
                group.create_task(self._try(address, self._registrar.unregister()))

    async def stop(self) -> None:
        """Close the connections."""
        for connection in self._connections.values():
            await connection.close()
        self._connections.clear()

    def _register_soon(self) -> None:
        for event in self._changed.values():
            event.set()

    async def _keep_registered(self, address: Endpoint) -> None:
        changed, registered, failing = self._changed[address], False, False
        while True:
            changed.clear()
            request = self._registrar.register()
            leads = request is not None
            if request is None and registered:
                request = self._registrar.unregister()
            reason = "" if request is None else await self._try(address, request)
            registered = leads if not reason else registered or leads  # a lost answer may stand for a registration
            if bool(reason) != failing:
                failing = bool(reason)
                _log_change(address, reason, leads=leads)
            if failing:
                await asyncio.sleep(RETRY_SECONDS)
            else:
                await self._wait(changed)

    async def _wait(self, changed: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(REGISTER_SECONDS):
                await changed.wait()
        except TimeoutError:
            pass

    async def _try(self, address: Endpoint, request: OutgoingRequest) -> str:
        """Send one request; the result is empty or says what went wrong."""
        try:
            connection = self._connections.get(address)
            if connection is None or connection.closed:
                lost = self._changed[address].set
                connection = await connect(address.host, address.port, on_lost=lambda _connection: lost())
                self._connections[address] = connection
            frame = Frame(int(request.code), 0, ext=encode_header(request.header), body=request.body)
            answer = await connection.call(frame, seconds=ANSWER_SECONDS)
        except NetError as error:
            return str(error)
        return "" if answer.code == ResponseCode.SUCCESS else f"code {answer.code}: {answer.remark}"


def _log_change(address: Endpoint, reason: str, *, leads: bool) -> None:
    if reason:
        _log.warning("registration failed", name_server=str(address), reason=reason)
    else:
        _log.info("registered" if leads else "withdrawn", name_server=str(address))
