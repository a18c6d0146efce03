"""The leader's side: connections of other brokers of the group, and their clients as sessions of ours.

A client that comes through another broker is a `RemoteSession`. When that broker's connection is lost its clients are
out of reach but not gone: the broker connects again and names them anew before anything else, and only who is not named
then, or was not within GRACE_MS, leaves its groups. So a client counts as gone only when its last connection on any
broker is gone (H12).
"""

from collections.abc import Callable
from typing import Final, NamedTuple, cast

from logherd.app.requests import Port
from logherd.kit.clock import Clock
from logherd.kit.errors import ensure
from logherd.net.limits import FlowLimits
from logherd.net.session import NetSession
from logherd.service.errors import RequestError
from logherd.service.forwarding.admission import check_forwarded, not_leader, refused
from logherd.service.forwarding.handling import HANDLING
from logherd.service.forwarding.remote_session import RemoteSession
from logherd.service.forwarding.roles import Leadership, Leading
from logherd.service.identity import BrokerIdentity
from logherd.service.ports import Answer, Reply, Request, Session
from logherd.service.requests import header_of
from logherd.telemetry.log import Log
from logherd.telemetry.sparing import SparingLog
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.errors import HeaderError
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers import decode_header
from logherd.wire.headers.forwarding import (
    ForwardedHeader,
    ForwardingClock,
    ForwardingLeftHeader,
    ForwardingOpenHeader,
    Refused,
)

__all__ = ["GRACE_MS", "LINKS_BEYOND", "LINK_FLOW", "Reception", "ReceptionHooks"]

GRACE_MS: Final = 5_000
LINKS_BEYOND: Final = 16
"""Connections that are kept for other brokers where clients use up all, or all of an address: one for each of at most
six, and the one before it, which may not have ended yet."""

_MIB = 1024 * 1024
_SETTLE_MS: Final = 1_000
"""How long an older connection of a broker stays when all its clients are named on a newer one: twice as long as the
broker itself waits to hear what became of what it has sent there. What was not read yet is refused meanwhile."""

LINK_FLOW = FlowLimits(
    running_max=131_072, parked_max=131_072, request_bytes_max=128 * _MIB, unsent_bytes_soft=32 * _MIB,
    unsent_bytes_max=256 * _MIB,
)  # fmt: skip
"""One such connection carries the requests of all clients of a broker, which bounds them itself (`ForwarderLimits`)
and below this: if we ceased to read it, the broker would take us for silent and give up all that is on it."""

_log = Log("logherd.app.forwarding")


class ReceptionHooks(NamedTuple):
    """What others are told of clients of other brokers."""

    on_unreachable: Callable[[Session], None]
    on_gone: Callable[[Session], None]
    on_guest: Callable[[NetSession], None]
    """A connection is no client's but another broker's."""


class _Guest:
    """A broker that forwards to us, and its clients by their number there.

    `over`: we have forgotten who they are, because we have ceased to lead since or they are named on a newer
    connection. If we lead again they are to be named anew, on another connection, also in the same epoch.
    `ends_ms`: when we end the connection, because there is a newer one.
    """

    __slots__ = ("broker_id", "ends_ms", "link", "lost_ms", "over", "sessions")

    def __init__(self, link: NetSession, header: ForwardingOpenHeader) -> None:
        self.link = link
        self.broker_id = header.broker_id
        self.sessions: dict[int, RemoteSession] = {}
        self.lost_ms: int | None = None
        self.ends_ms: int | None = None
        self.over = False


class Reception:
    """The `FrameHandler` of forwarding connections, and the handler of the request that makes one.

    1. A request that comes here is carried out or refused, never sent on (H12).
    2. Before anything of it is done, the epoch that it expects is this broker's and its time is not over (H10).
    """

    def __init__(
        self, identity: BrokerIdentity, instance: str, leadership: Leadership, *, clock: Clock, hooks: ReceptionHooks
    ) -> None:
        self._identity = identity
        self._instance = instance
        self._leadership = leadership
        self._clock = clock
        self._hooks = hooks
        self._port: Port | None = None
        self._complaints = SparingLog(_log, lambda: clock.monotonic_ms() / 1000)
        self._guests: dict[int, _Guest] = {}
        self._last_id = 0

    def attach(self, port: Port) -> None:
        """Where requests are carried out; before the first connection."""
        self._port = port

    def __len__(self) -> int:
        """Number of clients of other brokers."""
        return sum(len(guest.sessions) for guest in self._guests.values())

    # ---- the broker port's request

    def open(self, request: Request, session: Session) -> Answer:
        """27010. The connection is ours from the next slice of requests on; the peer waits for the answer."""
        header = header_of(request, ForwardingOpenHeader)
        self._leadership.confirm()
        identity, role = self._identity, self._leadership.current
        if (header.cluster, header.group) != (identity.cluster, identity.name):
            self._complaints.warning("broker of another group refused", cluster=header.cluster, group=header.group)
            return refused(Refused.OTHER_GROUP, role)
        if not isinstance(role, Leading) or role.epoch != header.epoch or header.instance == self._instance:
            return not_leader(role)
        if not isinstance(session, NetSession):
            raise RequestError(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "a forwarded request opens no forwarding")
        self._hooks.on_guest(session)
        session.hand_over(self, LINK_FLOW)
        self._guests[session.id] = _Guest(session, header)
        _log.info("broker forwards its clients to us", broker_id=header.broker_id, remote=session.remote_ip)
        return Reply(header=ForwardingClock(clock_ms=self._clock.monotonic_ms()))

    # ---- FrameHandler

    def on_open(self, session: NetSession) -> None:
        """Connections come here later, by `open`."""

    def on_frames(self, link: NetSession, frames: list[Frame]) -> None:
        port = self._port
        ensure(port is not None, "a reception is attached before the first connection")
        self._leadership.confirm()  # once: what is admitted is carried out in the same role
        guest, now_ms = self._guests[link.id], self._clock.monotonic_ms()
        requests: list[tuple[Frame, Session]] = []
        for frame in frames:
            if frame.code in _OWN:
                # What came before it is done before it.
                cast("Port", port).on_behalf(link, requests)
                requests = []
                self._own(guest, frame)
            else:
                caller = self._admit(guest, frame, now_ms)
                if isinstance(caller, Reply):
                    link.reply(Request(frame, None, 0), caller)
                else:
                    requests.append((frame, caller))
        cast("Port", port).on_behalf(link, requests)

    def on_close(self, link: NetSession) -> None:
        guest = self._guests[link.id]
        guest.lost_ms = self._clock.monotonic_ms()
        for session in guest.sessions.values():
            self._hooks.on_unreachable(session)
        _log.info("broker forwards no more", broker_id=guest.broker_id, clients=len(guest.sessions))
        if not guest.sessions:
            del self._guests[link.id]

    # ---- what the app calls

    def tick(self) -> None:
        """Who was not named again in time is gone. Call it every 100 ms or so."""
        now_ms = self._clock.monotonic_ms()
        for guest in list(self._guests.values()):
            if guest.lost_ms is not None and now_ms - guest.lost_ms >= GRACE_MS:
                self._forget(guest)
            elif guest.ends_ms is not None and now_ms >= guest.ends_ms:
                guest.link.end("the broker has a newer forwarding connection")
        self._complaints.tell()

    def stop(self) -> None:
        """The broker ends: say what is left to say."""
        self._complaints.tell(ending=True)

    def step_down(self) -> None:
        """This broker does not lead any more: its guests' clients are the next leader's. Nobody is told."""
        for link_id, guest in list(self._guests.items()):
            for session in guest.sessions.values():
                session.leave()
            guest.sessions.clear()
            guest.over = True
            if guest.lost_ms is not None:
                del self._guests[link_id]

    # ---- inside

    def _admit(self, guest: _Guest, frame: Frame, now_ms: int) -> Reply | RemoteSession:
        if frame.code not in HANDLING:
            return Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f"{frame.code} is not forwarded")
        try:
            marks = decode_header(ForwardedHeader, frame.ext)
            role = self._leadership.current
            refusal = not_leader(role) if guest.over else check_forwarded(marks, role, now_ms=now_ms)
            if refusal is not None:
                return refusal
            session = guest.sessions.get(marks.session)
            if session is None:
                self._last_id -= 1  # ids of connections are positive
                session = RemoteSession(
                    self._last_id, guest.link, marks.session, ip=marks.client_ip, port=marks.client_port
                )
                guest.sessions[marks.session] = session
        except (HeaderError, ValueError) as error:
            return Reply(ResponseCode.INVALID_PARAMETER, remark=f"forwarded wrongly: {error}")
        return session

    def _own(self, guest: _Guest, frame: Frame) -> None:
        if frame.code == RequestCode.FORWARDING_CLOCK:
            clock = ForwardingClock(clock_ms=self._clock.monotonic_ms())
            guest.link.reply(Request(frame, None, 0), Reply(header=clock))
            return
        if frame.code == RequestCode.FORWARDING_COMPLETE:
            self._complete(guest)
        else:
            self._left(guest, frame)
        if not frame.flag & Flag.ONEWAY:
            guest.link.reply(Request(frame, None, 0), Reply())

    def _left(self, guest: _Guest, frame: Frame) -> None:
        try:
            number = decode_header(ForwardingLeftHeader, frame.ext).session
        except HeaderError as error:
            self._complaints.warning("a forwarding broker names nobody", broker_id=guest.broker_id, error=error)
            return
        session = guest.sessions.pop(number, None)
        if session is not None:
            self._part(session)

    def _complete(self, guest: _Guest) -> None:
        """All clients of a broker are named on its new connection: what is left of an older one is over.

        Older is what was opened before, in which order guests are kept. What an older one says late ends no newer one.
        Requests that lie unread there are told that nothing was done: an end would leave them unknown.
        """
        for other in list(self._guests.values()):
            if other is guest:
                return
            if other.broker_id == guest.broker_id:
                if other.ends_ms is None:
                    other.over, other.ends_ms = True, self._clock.monotonic_ms() + _SETTLE_MS
                self._forget(other)

    def _forget(self, guest: _Guest) -> None:
        sessions = list(guest.sessions.values())
        guest.sessions.clear()
        for session in sessions:
            self._part(session)
        if guest.lost_ms is not None:
            del self._guests[guest.link.id]

    def _part(self, session: RemoteSession) -> None:
        session.leave()
        self._hooks.on_gone(session)


_OWN = frozenset(map(int, (RequestCode.FORWARDING_CLOCK, RequestCode.FORWARDING_LEFT, RequestCode.FORWARDING_COMPLETE)))
