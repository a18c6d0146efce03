"""Registration at name services in other processes, of LogHerd or of RocketMQ."""

import asyncio
from collections.abc import Sequence
from functools import partial

from logherd.aiokit.tasks import TaskGuard
from logherd.net.connection import Connection, connect
from logherd.net.errors import NetError, RequestTimeout
from logherd.net.server import Server
from logherd.service.identity import BrokerIdentity
from logherd.service.metadata import TopicChange
from logherd.service.names.registration import OutgoingRequest, Registrar
from logherd.settings.options import Endpoint
from logherd.telemetry.log import Log
from logherd.wire.codes import ResponseCode
from logherd.wire.errors import FrameError
from logherd.wire.frame import Frame
from logherd.wire.headers import encode_header

__all__ = ["ExternalNames"]

REGISTER_SECONDS = 30.0
RETRY_SECONDS = 1.0
ANSWER_SECONDS = 3.0
ATTEND_SECONDS = 15.0
"""Longer than a former leader stays in routes."""

_log = Log("logherd.names")


class ExternalNames:
    """Keeps this broker registered at every given name service, each on its own: one that is away delays no other.

    Invariants: (1) a registration is repeated every 30 s, every second while it fails, and at once when anything
    changed or the connection was lost, unless that had stood for less than a second; (2) while this broker follows,
    nothing is registered, and its own address, if it had registered that, is withdrawn at a name service once that can
    be reached; (3) with `follower`, it is registered under that name while it follows, but not so soon after it led
    that its address is still the leader's in routes.
    """

    def __init__(
        self, addresses: Sequence[Endpoint], registrar: Registrar, *, follower: BrokerIdentity | None = None
    ) -> None:
        self._follower = follower
        self._attended: set[Endpoint] = set()
        self._attend_at = 0.0
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

    def name(self, *, own: bool) -> None:
        """Clients find this leader at its own address, or at the one that follows the leader."""
        if self._registrar.name(own=own):
            _log.info("as a leader routes name", address=self._registrar.address)
            self._register_soon()

    def follow(self) -> None:
        """This broker leads no more: withdraw what was registered."""
        if self._registrar.leads:
            self._attend_at = asyncio.get_running_loop().time() + ATTEND_SECONDS
        self._registrar.follow()
        self._register_soon()

    async def join(self, guard: TaskGuard) -> None:
        """The broker serves: begin to register."""
        for address in self._addresses:
            guard.start(f"registration at {address}", self._keep_registered(address))

    async def leave(self) -> None:
        """The broker is about to stop: unregister where a connection stands."""
        self._registrar.follow()
        self._attend_at = float("inf")
        async with asyncio.TaskGroup() as group:
            for address in tuple(self._connections):
                group.create_task(self._leave(address))

    async def stop(self) -> None:
        """End the connections at once: one that hangs may never read what is still on its way."""
        for connection in self._connections.values():
            connection.abort()
        self._connections.clear()

    async def _leave(self, address: Endpoint) -> None:
        await self._depart(address)
        request = self._registrar.unregister() if self._registrar.ever_led else None
        if request is not None:
            await self._try(address, request)

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
            if leads:
                await self._depart(address)
            reason = "" if request is None else await self._try(address, request)
            registered = leads if not reason else registered or leads  # a lost answer may stand for a registration
            reason = reason or await self._attend(address)
            if bool(reason) != failing:
                failing = bool(reason)
                _log_change(address, reason, leads=leads)
            if failing:
                await asyncio.sleep(RETRY_SECONDS)
            else:
                await self._wait(changed)

    async def _attend(self, address: Endpoint) -> str:
        """Register as a follower, if it is time for that; as `_try`."""
        due = self._follower is not None and asyncio.get_running_loop().time() >= self._attend_at
        request = self._registrar.attend(self._follower) if due and self._follower is not None else None
        if request is None:
            return ""
        self._attended.add(address)
        return await self._try(address, request)

    async def _depart(self, address: Endpoint) -> None:
        """Withdraw what was registered as a follower, before anything is registered as a leader."""
        if address in self._attended and self._follower is not None:
            self._attended.discard(address)
            await self._try(address, self._registrar.depart(self._follower))

    async def _wait(self, changed: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(REGISTER_SECONDS):
                await changed.wait()
        except TimeoutError:
            pass

    async def _try(self, address: Endpoint, request: OutgoingRequest) -> str:
        """Send one request; the result is empty or says what went wrong."""
        connection = self._connections.get(address)
        try:
            if connection is None or connection.closed:
                lost = partial(self._lost, address, asyncio.get_running_loop().time())
                connection = await connect(address.host, address.port, on_lost=lost)
                self._connections[address] = connection
            frame = Frame(int(request.code), 0, ext=encode_header(request.header), body=request.body)
            answer = await connection.call(frame, seconds=ANSWER_SECONDS)
        except (NetError, FrameError) as error:  # FrameError: more topics than one frame holds
            if connection is not None and isinstance(error, RequestTimeout):
                connection.abort()  # another one may stand there by now; and what this one has not read goes
            return str(error)
        return "" if answer.code == ResponseCode.SUCCESS else f"code {answer.code}: {answer.remark}"

    def _lost(self, address: Endpoint, since: float, _connection: Connection) -> None:
        """Register again. A name service that ends each connection after its answer is not asked without a pause."""
        loop = asyncio.get_running_loop()
        loop.call_at(max(loop.time(), since + RETRY_SECONDS), self._changed[address].set)


def _log_change(address: Endpoint, reason: str, *, leads: bool) -> None:
    if reason:
        _log.warning("registration failed", name_server=str(address), reason=reason)
    else:
        _log.info("registered" if leads else "withdrawn", name_server=str(address))
