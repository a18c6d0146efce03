"""One broker: what it consists of, in which order it starts and stops.

Start: addresses, store, metadata and its barrier, services, name service, and only then the port. Whoever connects
finds everything complete. Stop: out of the routes, no new requests, the running ones answered, the rest flushed, the
store closed. A store that failed skips the last steps: nothing may be written after it.
"""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

from logherd.aiokit.tasks import TaskEnded, TaskGuard
from logherd.app.admin_http import AdminHttp
from logherd.app.binding import CannotListen
from logherd.app.broker_pages import BrokerPages, BrokerParts
from logherd.app.classic.leading import ClassicLeading, ha_address
from logherd.app.clock import SystemClock
from logherd.app.descriptors import DescriptorShares, shares_for
from logherd.app.engine import Engine
from logherd.app.external_names import ExternalNames
from logherd.app.forwarding.assembly import Forwarding, Surroundings
from logherd.app.forwarding.reception import LINKS_BEYOND
from logherd.app.group.engine import GroupEngine
from logherd.app.group.reads import follower_pulls
from logherd.app.group.view import GroupView
from logherd.app.guarded.keeper import LeaseKeeper
from logherd.app.guarded.lent import NAMES, REMOTING, Lent
from logherd.app.guarded.relay import open_relay
from logherd.app.live_settings import LiveSettings
from logherd.app.names import EmbeddedNames
from logherd.app.option_values import names_limits, net_limits, relimit
from logherd.app.requests import WaitingAnswers
from logherd.app.resting import Resting
from logherd.app.services import Place, Services
from logherd.app.space import SpaceNews
from logherd.net.server import Server
from logherd.service.forwarding.roles import Leadership
from logherd.service.names.epochs import Expected
from logherd.service.names.registration import Registrar
from logherd.service.replica_view import RequestsView
from logherd.settings.options import BrokerOptions, Endpoint
from logherd.store import QueueLog
from logherd.telemetry.log import Log

__all__ = ["Broker"]

STOP_SECONDS = 5.0
HAND_OVER_SECONDS = 10.0
_TICK_SECONDS = 0.1

_log = Log("logherd.app")


def _links_beyond(options: BrokerOptions, leadership: Leadership | None) -> int:
    """Connections that are kept for other brokers of the group, where there are any."""
    return 0 if options.replication.mode == "alone" and leadership is None else LINKS_BEYOND


class Broker:
    """A running broker. Made by `start`; belongs to the loop on which it was started."""

    def __init__(
        self,
        options: BrokerOptions,
        place: Place,
        clock: SystemClock,
        *,
        shares: DescriptorShares,
        names_socket: socket.socket | None,
        on_failure: Callable[[], None],
        leadership: Leadership | None,
        keeper: LeaseKeeper,
    ) -> None:
        self._guard = TaskGuard(on_end=self._task_ended)
        self._live = LiveSettings("broker", options, self._guard)
        self._place = place
        self._clock = clock
        self._slaves = ClassicLeading.prepare(options)
        self._engine = self._open(shares.cached_files, keeper, on_failure)
        self._services = Services(
            self._live, place, store=self._engine.store, metadata=self._engine.metadata, clock=clock
        )
        engine, alone = self._engine, isinstance(self._engine, Engine) and leadership is None
        around = Surroundings(
            place.identity, leadership or engine.leadership, alone, clock, self._guard, engine.schedule,
            follower_pulls(options, engine, self._services, clock) if isinstance(engine, GroupEngine) else None,
        )  # fmt: skip
        resting = Resting(asyncio.get_running_loop().call_later)
        answers = WaitingAnswers(self._engine.store, resting, self._engine.linger)
        self._forwarding = Forwarding(around, self._services, answers)
        self._server: Server | None = None
        self._names = self._name_service(names_socket, shares.name_connections)
        if isinstance(self._engine, GroupEngine):
            self._engine.standing.attach(self._forwarding.answers, self._names)
            self._forwarding.dispatcher.on_damage = self._engine.damages.found
            self._services.slices.on_damage = self._engine.damages.found
        self._bound: dict[str, str] = {}
        self._services.replication = self._replication()
        self._live.applied_by += [self._services.follow_settings, self._engine.follow_settings, self._relimit]
        token = options.admin_token_file
        self._admin = AdminHttp(self._pages().routes(), token_file=None if token is None else Path(token))

    @staticmethod
    async def start(
        options: BrokerOptions, *, on_failure: Callable[[], None], leadership: Leadership | None = None,
        lent: Lent | None = None,
    ) -> "Broker":  # fmt: skip
        """Open everything and serve. `on_failure` hears once that the store failed; `check` then tells why.

        Without `leadership` the broker is alone in its group and always leads.

        Raises: CannotListen, StoreError, MetadataError, BrokerFailed, OSError; nothing is left open or running then.
        """
        lent = lent or Lent()
        listening = lent.take(REMOTING, options.listen, "listen")
        names_socket: socket.socket | None = None
        try:
            if options.name_service.mode == "embedded":
                names_socket = lent.take(NAMES, options.name_service.listen, "nameService.listen")
            lent.take_nothing_else()
            host, port = listening.getsockname()[:2]
            links = _links_beyond(options, leadership)
            shares = shares_for(options, links=links)
            broker = Broker(
                options, await Place.find(options, port), SystemClock(), shares=shares, names_socket=names_socket,
                on_failure=on_failure, leadership=leadership, keeper=lent.keeper,
            )  # fmt: skip
        except BaseException:
            listening.close()
            if names_socket is not None:
                names_socket.close()
            raise
        try:
            address = str(Endpoint(host=host, port=port))
            await broker._serve(listening, address, shares.broker_connections, links)
        except BaseException:
            listening.close()
            await broker.abandon()
            raise
        return broker

    @property
    def _options(self) -> BrokerOptions:
        return self._live.options

    def addresses(self) -> dict[str, str]:
        """What was bound: address, admin, nameServer and, if there is one, relay, each "host:port"."""
        return dict(self._bound)

    def check(self) -> None:
        """Raises: BrokerFailed if the store has failed."""
        self._engine.check()

    def fail(self, error: BaseException) -> None:
        """Something broke that keeps the broker right; it must not go on."""
        self._engine.fail(error)

    async def stop(self) -> None:
        """Stop in order; see the module's text. Raises BrokerFailed if the last flush fails."""
        self._bound.clear()
        if isinstance(self._engine, GroupEngine):
            await self._engine.hand_over(HAND_OVER_SECONDS)
        await self._names.leave()
        if self._server is not None:
            await self._server.stop(STOP_SECONDS)
        self._forwarding.stop()
        await self._names.stop()
        await self._close(orderly=True)
        self._engine.check()

    async def abandon(self) -> None:
        """Let go of everything without writing: after a failure, or when the start did not get through."""
        self._bound.clear()
        await self._names.stop()
        if self._server is not None:
            await self._server.stop(0)
        self._forwarding.stop()
        await self._close(orderly=False)

    # ---- start and stop

    def _open(self, cached_files: int, keeper: LeaseKeeper, on_failure: Callable[[], None]) -> Engine | GroupEngine:
        options, place, clock = self._options, self._place, self._clock
        if options.replication.mode == "alone":
            return Engine.open(
                options, store_host=place.store_host, clock=clock, cached_files=cached_files,
                on_commit=self._committed_alone, on_failure=on_failure,
            )  # fmt: skip
        return GroupEngine.open(
            options, address=place.identity.address, store_host=place.store_host, clock=clock,
            cached_files=cached_files, keeper=keeper, on_answer=self._answer, on_commit=self._committed,
            on_failure=on_failure,
        )  # fmt: skip

    def _name_service(self, listening: socket.socket | None, connections: int) -> EmbeddedNames | ExternalNames:
        identity = self._place.identity
        if listening is None:
            registrar = Registrar(
                identity, self._engine.metadata, routed=self._place.routed,
                ha_address=ha_address(self._options, identity),
                alone=isinstance(self._engine, Engine),
            )  # fmt: skip
            follower = identity if self._options.replication.follower_reads else None
            names = ExternalNames(self._options.name_service.addresses, registrar, follower=follower)
            self._engine.metadata.on_topic_change.append(names.topic_changed)
            self._services.permission_hooks += [registrar.set_permission, names.permission_changed]
            return names
        path = Path(self._options.data_dir) / "names.json"
        embedded = EmbeddedNames.prepare(
            listening, self._clock, key_values_path=path, groups=Expected((identity.name,)),
            limits=names_limits(self._options.limits, connections=connections),
        )  # fmt: skip
        embedded.attach(
            identity, self._engine.metadata, self._clock, ha_address=ha_address(self._options, identity),
            alone=isinstance(self._engine, Engine),
        )  # fmt: skip
        self._services.permission_hooks.append(embedded.set_permission)
        return embedded

    def _pages(self) -> BrokerPages:
        names = self._names if isinstance(self._names, EmbeddedNames) else None
        return BrokerPages(
            BrokerParts(
                place=self._place, data_dir=self._options.data_dir, started_ms=self._clock.now_ms(),
                engine=self._engine, services=self._services, forwarding=self._forwarding,
                server=lambda: self._server, names=names, live=self._live, bound=self._bound, slaves=self._slaves,
            )
        )  # fmt: skip

    def _replication(self) -> GroupView | None:
        gate = self._forwarding.gate
        if not isinstance(self._engine, GroupEngine):
            return None
        return GroupView(self._engine, lambda: RequestsView(forwarded=gate.taken, held=gate.held, read=gate.read))

    async def _serve(self, listening: socket.socket, address: str, connections: int, links: int) -> None:
        if isinstance(self._engine, Engine):
            await self._engine.begin(self._options)
        largest = self._options.store.message_bytes_max
        limits = net_limits(self._options.limits, connections=connections, body_bytes_max=largest)
        if connections < self._options.limits.connections:
            _log.warning(
                "fewer connections than the settings allow: the system grants too few descriptors",
                connections=connections, settings=self._options.limits.connections,
            )  # fmt: skip
        self._server = Server(self._forwarding.gate, limits, typed_sends=True, peers=links)
        self._server.on_leave = self._forwarding.gate.leave
        await self._server.listen_on(listening)
        admin_host = self._options.admin_listen.host
        try:
            admin_port = await self._admin.start(admin_host, self._options.admin_listen.port)
        except OSError as error:
            raise CannotListen(f"adminListen {self._options.admin_listen}: {error.strerror}") from error
        self._guard.start("ticks", self._ticks())
        await self._names.join(self._guard)
        if isinstance(self._engine, GroupEngine):
            await self._engine.begin(self._guard)
            self._bound["peer"] = self._engine.peer_address
        if self._slaves is not None:
            await self._slaves.open(
                self._engine.store, self._server, self._place.identity, names=self._name_servers,
                segment_bytes=self._options.store.segment_bytes, clock=self._clock, guard=self._guard,
                leads=lambda: isinstance(self._engine, Engine) or self._engine.may_answer(),
                on_damage=self._forwarding.dispatcher.on_damage,
            )  # fmt: skip
        relay = await open_relay(self._options.guardian, {REMOTING: self._server, **self._names.servers})
        self._bound |= {
            "address": address,
            "admin": str(Endpoint(host=admin_host, port=admin_port)),
            "nameServer": self._names.address,
            **relay,
        }

    def _name_servers(self) -> list[str]:
        told = self._options.name_service
        return [self._names.address] if told.mode == "embedded" else [str(each) for each in told.addresses]

    async def _close(self, *, orderly: bool) -> None:
        self._admin.close()
        if self._slaves is not None:
            await self._slaves.close()
        await self._guard.stop(STOP_SECONDS)
        await self._engine.close(orderly=orderly, seconds=STOP_SECONDS)

    # ---- while it runs

    def _relimit(self, options: BrokerOptions) -> None:
        largest = options.store.message_bytes_max
        relimit(self._server, self._names.servers.values(), options.limits, body_bytes_max=largest)

    def _answer(self, position: int) -> None:
        """Release what waits for a position up to this one."""
        answers = self._forwarding.answers
        if answers.any and (isinstance(self._engine, Engine) or self._engine.may_answer()):
            answers.release(position)
            if self._server is not None:
                self._server.write()

    def _committed_alone(self, touched: list[QueueLog], committed_position: int) -> None:
        self._answer(committed_position)
        self._committed(touched)

    def _committed(self, touched: list[QueueLog]) -> None:
        self._services.committed(touched)
        if self._slaves is not None:
            self._slaves.committed()

    def _task_ended(self, ended: TaskEnded) -> None:
        self._engine.fail(ended.error or RuntimeError(f"the task {ended.name} ended"))

    async def _ticks(self) -> None:
        """All periodic work, on one timer. Each step is short; none may raise."""
        services, space, passes = self._services, SpaceNews(), 0
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            passes += 1
            services.pull.tick()
            services.slices.tick()
            services.heartbeats.tell_again()
            self._forwarding.tick(self._server)
            if passes % 10 == 0:
                services.stats.tick(self._clock.monotonic_ms(), self._clock.now_ms())
                self._engine.tick()
                space.look(self._engine.store.disk)
            if passes % 20 == 0:
                self._engine.apply_retention(self._clock.now_ms())
            if passes % 100 == 0:
                services.heartbeats.tick()
                services.locks.tick()
