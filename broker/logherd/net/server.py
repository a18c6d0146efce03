"""The listening side: accepts connections, sweeps their clocks with one timer, and stops in order."""

import asyncio
import socket
from collections.abc import Callable
from typing import NamedTuple, Protocol

from logherd.aiokit.listening import begin_to_listen
from logherd.net.hub import FrameHandler, Hub
from logherd.net.limits import NetLimits
from logherd.net.parting import LOOK_SECONDS
from logherd.net.session import NetSession
from logherd.telemetry.log import Log

__all__ = ["Server", "Traffic"]

_SILENT_SECONDS = 0.15
_AWAY_SECONDS_MAX = 1.0
_REST_SECONDS = 0.5
LISTEN_BACKLOG = 4096
"""Of a socket that a guardian has lent, too: there it is how many wait while nobody accepts."""


class Listener(Protocol):
    """Something that accepts connections."""

    def close(self) -> None:
        """Accept no more."""


class Traffic(NamedTuple):
    """Connections and bytes since the start, of all connections there were."""

    accepted: int
    refused: int
    received: int
    sent: int


class Server:
    """A remoting port. Belongs to the loop on which it is made; every method is called there.

    `limits` bounds what peers can take; `handler` answers. Nothing is written to disk.
    """

    def __init__(
        self, handler: FrameHandler, limits: NetLimits | None = None, *, log: Log | None = None,
        typed_sends: bool = False, peers: int = 0,
    ) -> None:  # fmt: skip
        """With `typed_sends` the handler gets ordinary sends as SendFrame. Beyond the limit of an address up to `peers`
        more connections are accepted, on which only another broker is heard."""
        self._loop = asyncio.get_running_loop()
        self._hub = Hub(
            handler, limits or NetLimits(), now=self._loop.time, defer=self._loop.call_soon,
            log=log or Log("logherd.net"), typed_sends=typed_sends, peers=peers,
        )  # fmt: skip
        self._listeners: list[Listener] = []
        self._timer: asyncio.TimerHandle | None = None
        self.on_adopt: Callable[[NetSession], None] = lambda _: None
        """Hears of each connection that `adopt` has taken, after `on_open`."""
        self.on_leave: Callable[[], None] = lambda: None
        """Told once when a stop begins to end connections: who has parked requests lets them go, and parks no more."""

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return self._hub.admission.total

    @property
    def traffic(self) -> Traffic:
        """Looks at every open connection."""
        admission, sessions = self._hub.admission, self._hub.sessions
        return Traffic(
            admission.accepted, admission.refused,
            admission.received + sum(session.bytes_received for session in sessions),
            admission.sent + sum(session.bytes_sent for session in sessions),
        )  # fmt: skip

    @property
    def bytes_held(self) -> int:
        """Bytes of requests, half frames and unsent answers of all connections."""
        return self._hub.budget.used

    @property
    def unread_answers_fill_memory(self) -> bool:
        """Whether the memory that all connections may take is used up, and mostly by answers that clients do not read.

        Looks at every connection, but only when the memory is used up.
        """
        budget = self._hub.budget
        return budget.full and sum(session.unsent for session in self._hub.sessions) * 2 > budget.used

    @property
    def connections_max(self) -> int:
        """How many connections may be open."""
        return self._hub.limits.admission.connections_max

    def relimit(self, limits: NetLimits) -> None:
        """Go by these limits from now on, also on open connections; a frame's largest size only on new ones."""
        self._hub.relimit(limits)

    @property
    def sessions(self) -> tuple[NetSession, ...]:
        """The open connections."""
        return tuple(self._hub.sessions)

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Accept connections on host:port (0: any free port); the result is the bound address.

        Raises: OSError if the address cannot be bound.
        """
        return self._add(
            await self._loop.create_server(self._make_session, host, port, backlog=LISTEN_BACKLOG, reuse_address=True)
        )

    async def listen_on(self, listening: socket.socket) -> tuple[str, int]:
        """Accept connections on a socket that someone else bound, and take it over.

        Raises: OSError if somebody has begun to listen on its port since it was bound.
        """
        begin_to_listen(listening, LISTEN_BACKLOG)
        return self._add(await self._loop.create_server(self._make_session, sock=listening, backlog=LISTEN_BACKLOG))

    def close_with(self, listener: Listener) -> None:
        """Close this one, too, when the server stops: it accepts connections for `adopt`."""
        self._listeners.append(listener)

    def adopt(self, transport: asyncio.Transport, remote: tuple[str, int], received: bytes) -> None:
        """Serve a connection that somebody else has accepted.

        `remote` is the client's address as it counts for limits and in records, `received` what it has sent already.
        """
        session = self._make_session()
        transport.set_protocol(session)
        session.begin(transport, *remote)
        if not session.closed:
            self.on_adopt(session)
        if received:
            session.data_received(received)

    def write(self) -> None:
        """Write what was answered so far, which else happens at the end of this pass. Nothing is read on here."""
        self._hub.write()

    async def stop(self, seconds: float) -> None:
        """Stop accepting, send clients away, take no further requests, answer those that run, close. Idempotent.

        What is not answered or not read by its peer after `seconds` is cut off. With 0 nobody is told beforehand to use
        another connection, and parked requests are not answered.
        """
        first, self._hub.stopping = not self._hub.stopping, True
        for listener in self._listeners:  # 1. nobody new
            listener.close()
        deadline = self._loop.time() + seconds
        if first and seconds > 0:
            await self._send_away()
            self.on_leave()
            await self._end_at_rest(deadline)
        self._hub.budget.held = True
        for session in self.sessions:  # 2. nothing new
            session.stop_reading()
        if not await self._wait(lambda: all(session.quiet for session in self._hub.sessions), deadline):  # 3. answers
            busy = sum(not session.quiet for session in self._hub.sessions)
            self._hub.log.warning("requests left without an answer at stop", connections=busy, seconds=seconds)
        for session in self.sessions:  # 4. sockets, what is queued first
            session.close()
        if not await self._wait(lambda: not self._hub.sessions, deadline):
            self._hub.log.warning("connections cut at stop", connections=self.connections, seconds=seconds)
            for session in self.sessions:
                session.abort()
            await self._wait(lambda: not self._hub.sessions, self._loop.time() + 1)
        if self._timer is not None:  # 5. last, so that deadlines held until here
            self._timer.cancel()
            self._timer = None
        self._hub.log.tell(ending=True)

    async def _send_away(self) -> None:
        """Tell clients to use another connection until no one had to be told for a moment.

        Who sends nothing in that time hears nothing; it has nothing on its way either.
        """
        told = asyncio.Event()
        for session in self.sessions:
            session.send_away(told.set)
        until = self._loop.time() + _AWAY_SECONDS_MAX
        while self._hub.sessions and (left := until - self._loop.time()) > 0:
            told.clear()
            try:
                async with asyncio.timeout(min(left, _SILENT_SECONDS)):
                    await told.wait()
            except TimeoutError:
                return

    async def _end_at_rest(self, deadline: float) -> None:
        """End each connection at a moment at which nothing is on its way there, as far as there is one soon: it is at
        rest at two looks running, and nothing came between them."""
        until = min(self._loop.time() + _REST_SECONDS, deadline)
        before: dict[NetSession, int] = {}
        while self._hub.sessions and self._loop.time() < until:
            resting = {session: session.bytes_received for session in self.sessions if session.at_rest}
            for session, received in resting.items():
                if before.get(session) == received:
                    session.abort()
            before = resting
            await asyncio.sleep(LOOK_SECONDS)

    async def _wait(self, reached: Callable[[], bool], deadline: float) -> bool:
        changed = asyncio.Event()
        self._hub.watch_quiet(changed.set)
        try:
            async with asyncio.timeout_at(deadline):
                while not reached():
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            return False
        finally:
            self._hub.watch_quiet(None)
        return True

    def _add(self, listener: asyncio.Server) -> tuple[str, int]:
        self._listeners.append(listener)
        if self._timer is None:
            self._timer = self._loop.call_later(self._hub.limits.patience.sweep_seconds, self._sweep)
        address = listener.sockets[0].getsockname()
        return address[0], address[1]

    def _make_session(self) -> NetSession:
        return NetSession(self._hub)

    def _sweep(self) -> None:
        self._timer = self._loop.call_later(self._hub.limits.patience.sweep_seconds, self._sweep)
        self._hub.sweep(self._loop.time())
