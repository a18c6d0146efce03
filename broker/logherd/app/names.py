"""The name service of this process, and the broker's registration at it."""

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

from logherd.aiokit.tasks import TaskGuard
from logherd.app.guarded.lent import NAMES
from logherd.app.key_value_file import KeyValueFile
from logherd.app.requests import Port, WaitingAnswers
from logherd.kit.clock import Clock
from logherd.net.limits import NetLimits
from logherd.net.server import Server
from logherd.net.session import NetSession
from logherd.service.dispatcher import Dispatcher
from logherd.service.identity import BrokerIdentity
from logherd.service.metadata import Metadata
from logherd.service.names.epochs import KnownGroups, RegistrationError
from logherd.service.names.handlers import BrokerNames, TopicNames
from logherd.service.names.keyvalues import KeyValues
from logherd.service.names.registration import LocalRegistration
from logherd.service.names.routes import RouteTable
from logherd.service.names.settings import names_settings
from logherd.service.names.value_handlers import ValueNames
from logherd.service.ports import Reply, Request
from logherd.service.routing import Role
from logherd.settings.options import Endpoint
from logherd.telemetry.log import Log
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame

__all__ = ["EmbeddedNames", "Names"]

LEASE_MS = 3000
"""How long a leader that has not registered yet is waited for (H13), where nobody says how long a lease is."""
_TICK_SECONDS = 5.0
_PAUSED_MS, _GRACE_MS = 10_000, 30_000
"""Without a tick for so long this process stood still, and brokers get the time in which each registers again."""
_STOP_SECONDS = 2.0
_ELSEWHERE = "this is another name service, which clients ask meanwhile; try again"

_log = Log("logherd.names")


class Names:
    """A name service. `key_values_path` keeps the KV configuration over restarts; None: in memory only.

    Raises: KeyValuesDamaged, OSError if that file cannot be read.
    """

    def __init__(
        self, clock: Clock, *, key_values_path: Path | None, groups: KnownGroups | None = None, lease_ms: int = LEASE_MS
    ) -> None:
        self._clock = clock
        self._lease_ms = lease_ms
        self.routes = RouteTable(started_ms=clock.monotonic_ms(), grace_ms=lease_ms, groups=groups)
        file = None if key_values_path is None else KeyValueFile(key_values_path)
        self._values = KeyValues(save=lambda _: None) if file is None else KeyValues(file.load(), save=file.save)
        self._brokers = BrokerNames(self.routes, self._values, clock)
        self.dispatcher = self._dispatcher()
        self._ticked_ms = clock.monotonic_ms()
        self._spared_until_ms = 0

    def port(self) -> Port:
        """The handler of the name service's listening port."""
        return Port(self.dispatcher, WaitingAnswers(_NoLog()), on_pass=lambda: None, on_close=self._closed)

    def _dispatcher(self) -> Dispatcher:
        settings = names_settings(grace_ms=self._lease_ms, expiry_interval_ms=int(_TICK_SECONDS * 1000))
        families = (
            TopicNames(self.routes, self._clock).handlers(),
            self._brokers.handlers(),
            ValueNames(self._values, settings).handlers(),
        )
        typed = {int(code): handler for family in families for code, handler in family.items()}
        return Dispatcher(Role.NAMES, self._clock, typed=typed)

    def tick(self) -> None:
        """Drop brokers that fell silent. Call it every 5 s. What they said while this process stood still is read after
        it has woken: they were not silent."""
        now, last = self._clock.monotonic_ms(), self._ticked_ms
        self._ticked_ms = now
        if now - last >= _PAUSED_MS:
            self._spared_until_ms = now + _GRACE_MS
        self.routes.expire(now, deaf=now < self._spared_until_ms)
        self.dispatcher.tell()

    def _closed(self, session: NetSession) -> None:
        self.routes.session_closed(session.id, self._clock.monotonic_ms())


class _NoLog:
    """The name service has no log: none of its answers waits."""

    committed_position = 0


class _Door:
    """The port of a name service to which guardians of others bring their clients.

    They may ask. A broker that registered here would stay with this name service for a minute after its own one is
    back, which would know of no leader so long; so it is sent back, to try again until it is there.
    """

    def __init__(self, port: Port) -> None:
        self._port = port
        self._brought: set[int] = set()

    def brought(self, session: NetSession) -> None:
        """A guardian has brought this client."""
        self._brought.add(session.id)

    def on_open(self, session: NetSession) -> None:
        self._port.on_open(session)

    def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
        if session.id in self._brought:
            for at, frame in enumerate(frames):
                if frame.code == RequestCode.REGISTER_BROKER:
                    self._port.on_frames(session, frames[:at])
                    session.reply(Request(frame, None, 0), Reply(ResponseCode.SYSTEM_ERROR, remark=_ELSEWHERE))
                    session.end("a registration that was meant for another name service")
                    return
        self._port.on_frames(session, frames)

    def on_close(self, session: NetSession) -> None:
        self._brought.discard(session.id)
        self._port.on_close(session)


class EmbeddedNames:
    """A name service in the process of a broker or a controller. A broker joins it by plain calls (`attach`)."""

    def __init__(self, names: Names, server: Server, listening: socket.socket) -> None:
        self._names = names
        self._server = server
        self._listening = listening
        self._registration: LocalRegistration | None = None
        self.address = ""

    @staticmethod
    def prepare(
        listening: socket.socket, clock: Clock, *, key_values_path: Path, groups: KnownGroups, limits: NetLimits,
        lease_ms: int = LEASE_MS,
    ) -> "EmbeddedNames":  # fmt: skip
        """Make the service around an address that was bound; it does not accept connections yet. `lease_ms`: of leaders
        whose controllers are in this process."""
        names = Names(clock, key_values_path=key_values_path, groups=groups, lease_ms=lease_ms)
        door = _Door(names.port())
        server = Server(door, limits)
        server.on_adopt = door.brought
        return EmbeddedNames(names, server, listening)

    @property
    def server(self) -> Server:
        """Its port."""
        return self._server

    @property
    def routes(self) -> RouteTable:
        """What it answers from."""
        return self._names.routes

    def attach(
        self, identity: BrokerIdentity, metadata: Metadata, clock: Clock, *, ha_address: str = "", alone: bool = True
    ) -> None:
        """Follow the topics of this broker, which is alone in its group or begins as a follower."""
        self._registration = LocalRegistration(
            self._names.routes, identity, metadata, clock, ha_address=ha_address, alone=alone
        )

    def lead(self, epoch: int) -> None:
        """The broker leads its group in this epoch and is ready to serve. A later leader's routes stay as they are."""
        if self._registration is not None:
            self._registration.lead(epoch)
            _try(self._registration.register)

    def name(self, *, own: bool) -> None:
        """It is a broker alone that has its name service in its process; it has one address."""

    def follow(self) -> None:
        """The broker leads no more: its routes end with the next leader, or after a while."""
        if self._registration is not None:
            self._registration.follow()

    def set_permission(self, permission: int) -> None:
        """Put the broker's own permission into its routes."""
        if self._registration is not None:
            _try(partial(self._registration.set_permission, permission))

    @property
    def servers(self) -> dict[str, Server]:
        """Its server, by the name under which a guardian lends its socket."""
        return {NAMES: self._server}

    async def join(self, guard: TaskGuard) -> None:
        """The broker serves: put it into the routes, then answer who asks for them."""
        if self._registration is not None:
            self._registration.register()
        host, port = await self._server.listen_on(self._listening)
        self.address = str(Endpoint(host=host, port=port))
        guard.start("name service expiry", self._expire())

    async def leave(self) -> None:
        """The broker is about to stop: take it out of the routes, for good."""
        if self._registration is not None:
            self._registration.unregister()
            self._registration = None

    async def stop(self) -> None:
        """Close the port."""
        await self._server.stop(_STOP_SECONDS)
        self._listening.close()
        self._names.dispatcher.tell(ending=True)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self._names.tick()
            if self._registration is not None:
                _try(self._registration.register)


def _try(register: Callable[[], None]) -> None:
    """Anybody can register here, also under this broker's name: then it is tried again until that is over."""
    try:
        register()
    except RegistrationError as error:
        _log.warning("registration refused", reason=str(error))
