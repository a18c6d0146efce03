"""One controller: what it consists of, in which order it starts and stops.

Start: addresses, identity and log, then the ports. A controller that leads nobody yet answers with redirects, so its
ports may open before the quorum has a leader. Stop: leadership is handed over, no new requests, running ones answered,
links closed, the log closed. A log that failed skips all that writes.
"""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

from logherd.aiokit.tasks import TaskEnded, TaskGuard
from logherd.app.admin_http import AdminHttp
from logherd.app.binding import CannotListen, bind
from logherd.app.clock import SystemClock, boot_ms
from logherd.app.controllers.board import Board
from logherd.app.controllers.decisions import Decisions
from logherd.app.controllers.member import Member
from logherd.app.controllers.news import complaints
from logherd.app.controllers.port import DeskPort
from logherd.app.controllers.reports import Reports
from logherd.app.controllers.site import ControllerSite
from logherd.app.descriptors import DescriptorShares, grant_descriptors, relays_for, share_descriptors
from logherd.app.guarded.lent import NAMES, REMOTING, Lent
from logherd.app.guarded.relay import open_relay
from logherd.app.live_settings import LiveSettings
from logherd.app.metrics.controller import read_board, read_quorum
from logherd.app.metrics.parts import read_names, read_port, read_requests
from logherd.app.metrics.text import scrape_of
from logherd.app.names import EmbeddedNames
from logherd.app.option_values import names_limits, net_limits, relimit
from logherd.controller.leases import LeaseTerms
from logherd.controller.settings import OfficeOptions
from logherd.net.server import Server
from logherd.raftlog.options import RaftLogOptions
from logherd.settings.options import ControllerOptions, Endpoint
from logherd.telemetry.metrics import Readings

__all__ = ["Controller", "shares_of"]

STOP_SECONDS = 5.0
_HAND_OVER_SECONDS = 1.0
_TICK_SECONDS = 0.05
_LOG_FILES_MIN = 64


def shares_of(options: ControllerOptions) -> DescriptorShares:
    """The shares of a controller with these settings, which say how long its log gets. Raises the limit.

    Raises: TooFewDescriptors.
    """
    log = RaftLogOptions()
    # What is before a snapshot goes only when the next one is made, so that a log gets twice as long.
    segments = 2 * (options.snapshot_bytes // log.segment_bytes + 1) + log.spare_segments
    return share_descriptors(
        grant_descriptors(), segments=max(_LOG_FILES_MIN, segments), connections=options.limits.connections,
        kept=relays_for(options.guardian),
    )  # fmt: skip


class Controller:
    """A running controller. Made by `start`; belongs to the loop on which it was started."""

    def __init__(self, options: ControllerOptions, *, on_failure: Callable[[], None]) -> None:
        self._options = options
        self._decisions = Decisions()
        terms = LeaseTerms(lease_ms=options.lease_ms, bound_ppm=options.clock_drift_ppm)
        self._board = Board(lambda: self._decisions.machine, terms, OfficeOptions(fresh_ms=options.lease_ms * 5 // 6))
        self._decisions.hooks.append(self._board.applied)
        self._member = Member(options, self._decisions, self._board, on_failure=on_failure)
        self._reports = Reports(options, self._member, self._board)
        self._guard = TaskGuard(on_end=self._task_ended)
        self._port = DeskPort(self._board, self._reports.quorum_view, boot_ms)
        self._server: Server | None = None
        self._names: EmbeddedNames | None = None
        self._live = LiveSettings("controller", options, self._guard)
        self._live.applied_by.append(self._relimit)
        token = options.admin_token_file
        place = self._reports.place(self._port.renewed_from)
        self._admin = AdminHttp(
            ControllerSite(self._board, place, scrape=scrape_of(self._collect), settings=self._live),
            token_file=None if token is None else Path(token),
        )

    @staticmethod
    async def start(
        options: ControllerOptions, *, on_failure: Callable[[], None], lent: Lent | None = None
    ) -> "Controller":
        """Open everything and serve. `on_failure` hears once that it failed; `check` then tells why.

        Raises: CannotListen, PeerError, StoreError, OSError; nothing is left open or running then.
        """
        lent = lent or Lent()
        taken = [lent.take(REMOTING, options.listen, "listen")]
        try:
            taken.append(bind(options.peer_listen, "peerListen"))
            if options.name_service.mode == "embedded":
                taken.append(lent.take(NAMES, options.name_service.listen, "nameService.listen"))
            lent.take_nothing_else()
            controller = Controller(options, on_failure=on_failure)
        except BaseException:
            for each in taken:
                each.close()
            raise
        try:
            await controller._serve(*taken)
        except BaseException:
            await controller.abandon()
            for each in taken:
                each.close()
            raise
        return controller

    def addresses(self) -> dict[str, str]:
        """What was bound: address, peer, admin, nameServer and relay, each "host:port", and the node's name."""
        return self._reports.bound | {"node": self._options.node_name}

    def check(self) -> None:
        """Raises: ServerFailed if the member has failed."""
        self._member.check()

    def fail(self, error: BaseException) -> None:
        """Something broke that keeps the controller right; it must not go on."""
        self._member.fail(error)

    async def stop(self) -> None:
        """Stop in order; see the module's text. Raises NodeFailed if the last write fails."""
        self._reports.bound.clear()
        await self._member.hand_over(_HAND_OVER_SECONDS)
        await self._close(STOP_SECONDS)
        self.check()

    async def abandon(self) -> None:
        """Let go of everything without writing: after a failure, or when the start did not get through."""
        self._reports.bound.clear()
        await self._close(0)

    # ---- start and stop

    async def _serve(self, listening: socket.socket, peers: socket.socket, names: socket.socket | None = None) -> None:
        options, clock = self._options, SystemClock()
        bound = self._reports.bound
        shares = shares_of(options)
        bound["peer"] = str(await self._member.start(peers, self._guard))
        port = self._port
        self._decisions.hooks.append(port.applied)
        self._server = Server(port, net_limits(options.limits, connections=shares.broker_connections))
        bound["address"] = str(_endpoint(await self._server.listen_on(listening)))
        if names is not None:
            self._names = EmbeddedNames.prepare(
                names, clock, key_values_path=Path(options.data_dir) / "names.json",
                groups=self._decisions.known_groups,
                limits=names_limits(options.limits, connections=shares.name_connections), lease_ms=options.lease_ms,
            )  # fmt: skip
            await self._names.join(self._guard)
            bound["nameServer"] = self._names.address
        servers = {REMOTING: self._server, **(self._names.servers if self._names is not None else {})}
        host = options.admin_listen.host
        try:
            bound["admin"] = str(Endpoint(host=host, port=await self._admin.start(host, options.admin_listen.port)))
        except OSError as error:
            raise CannotListen(f"adminListen {options.admin_listen}: {error.strerror}") from error
        bound.update(await open_relay(options.guardian, servers))
        self._guard.start("ticks", self._ticks())

    async def _close(self, seconds: float) -> None:
        if self._names is not None:
            await self._names.stop()
        if self._server is not None:
            await self._server.stop(seconds)
        self._admin.close()
        await self._guard.stop(STOP_SECONDS)
        await self._member.stop(STOP_SECONDS)
        complaints.tell(ending=True)

    def _relimit(self, options: ControllerOptions) -> None:
        relimit(self._server, () if self._names is None else (self._names.server,), options.limits)

    def _collect(self) -> Readings:
        readings = Readings()
        read_quorum(readings, self._reports.standing(), self._member.node)
        read_board(readings, self._board)
        read_requests(readings, self._port.taken, self._port.refused)
        read_port(readings, self._server, "controller")
        if self._names is not None:
            read_port(readings, self._names.server, "names")
            read_names(readings, self._names.routes)
        return readings

    async def _ticks(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self._board.tick()
            complaints.tell()
            self._decisions.known_groups.look(self._member.read)

    def _task_ended(self, ended: TaskEnded) -> None:
        self._member.fail(ended.error or RuntimeError(f"the task {ended.name} ended"))


def _endpoint(address: tuple[str, int]) -> Endpoint:
    return Endpoint(host=address[0], port=address[1])
