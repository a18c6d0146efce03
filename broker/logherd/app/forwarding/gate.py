"""What stands behind the broker's port: the services while this broker leads, the forwarder while it does not.

While it leads and nothing is left from before, `on_frames` is the services' own: a broker that is alone spends nothing
on forwarding, and one that leads a group looks at its lease.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, cast

from logherd.aiokit.tasks import TaskGuard
from logherd.app.forwarding.links import LeaderLinks
from logherd.app.forwarding.reception import Reception
from logherd.app.requests import Port, WaitingAnswers
from logherd.kit.clock import Clock
from logherd.net.connection import Connection, Outcome
from logherd.net.errors import ConnectionLost, RequestTimeout
from logherd.net.session import NetSession
from logherd.service.forwarding.admission import not_leader
from logherd.service.forwarding.effects import Answer, CloseLink, Effect, Execute, Follow, Relay, Transmit
from logherd.service.forwarding.errand import Errand, at_home, outgoing
from logherd.service.forwarding.forwarder import Forwarder
from logherd.service.forwarding.handling import HANDLING, Kind
from logherd.service.forwarding.roles import Following, Leadership, Leading, Nobody, Role
from logherd.service.forwarding.roster import Roster
from logherd.service.identity import BrokerIdentity
from logherd.service.ports import Reply, Request
from logherd.service.pull.following import FollowerPulls
from logherd.service.pull.handler import unread
from logherd.service.routing import ROUTES, Where
from logherd.telemetry.log import Log
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.errors import FrameError, HeaderError
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers import decode_header, encode_header
from logherd.wire.headers.forwarding import (
    ForwardedHeader,
    ForwardingLeftHeader,
    ForwardingRefusal,
    Refused,
    ToClientHeader,
)

__all__ = ["Gate", "GateParts"]

_log = Log("logherd.app.forwarding")

_ROSTER_MS: Final = 10_000
_MARKS = tuple(ToClientHeader.__struct_encode_fields__)


class GateParts(NamedTuple):
    """What the gate stands between. `on_lead` hears that this broker begins to lead, `on_step_down` that it leads no
    more, `on_leave` that it stops."""

    port: Port
    answers: WaitingAnswers
    reception: Reception
    roster: Roster
    on_lead: Callable[[], None]
    on_step_down: Callable[[], None]
    on_leave: Callable[[], None]
    reads: FollowerPulls | None = None
    """Pulls that are answered here while another leads; None: all go to the leader."""


class Gate:
    """The `FrameHandler` of a broker's port, and the `LinkEvents` of its links. Loop thread only."""

    def __init__(
        self, parts: GateParts, identity: BrokerIdentity, instance: str, *, leadership: Leadership, clock: Clock,
        guard: TaskGuard,
    ) -> None:  # fmt: skip
        self._parts = parts
        self._leadership = leadership
        self._clock = clock
        self._forwarder = Forwarder()
        self._links = LeaderLinks(identity, instance, clock=clock, guard=guard, events=self)
        self._sessions: dict[int, NetSession] = {}
        self._leads = True
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None
        self._served = self._take if leadership.leased else parts.port.on_frames
        self.on_frames: Callable[[NetSession, list[Frame]], None] = self._served
        parts.answers.again = self._ask_again
        leadership.on_change.append(self._changed)
        if not isinstance(leadership.current, Leading):
            self._changed(leadership.current)

    @property
    def held(self) -> int:
        """Number of requests that wait for a leader."""
        return self._forwarder.held

    @property
    def taken(self) -> int:
        """Number of requests since the start that came while another led."""
        return self._forwarder.taken

    @property
    def read(self) -> int:
        """Number of pulls since the start that were answered here while another led."""
        return 0 if self._parts.reads is None else self._parts.reads.served

    def tick(self, *, unread: bool) -> None:
        """Every 100 ms or so; `unread`: the memory is full of answers that clients do not read."""
        self._links.hold_reading(held=unread)

    def leave(self) -> None:
        """This broker is about to stop: who waits for messages is told to pull again, elsewhere."""
        self._parts.on_leave()
        self._carry_out(self._forwarder.leave(now_ms=self._clock.monotonic_ms()))
        self._settle()

    def stop(self) -> None:
        """Make no new links and close those that are open."""
        self._links.stop()
        if self._timer is not None:
            self._timer.cancel()

    # ---- FrameHandler

    def on_open(self, session: NetSession) -> None:
        self._sessions[session.id] = session
        self._parts.port.on_open(session)

    def on_close(self, session: NetSession) -> None:
        self._forget(session)
        self._parts.port.on_close(session)

    def handed_over(self, session: NetSession) -> None:
        """The connection turned out to be another broker's: it is the reception's from now on."""
        self._forget(session)

    def _forget(self, session: NetSession) -> None:
        self._sessions.pop(session.id, None)
        self._forwarder.closed(session.id)
        self._parts.roster.closed(session.id)
        if self._parts.reads is not None:
            self._parts.reads.closed(session.id)
        if len(self._links):
            header = ForwardingLeftHeader(session=session.id)
            self._links.tell_all([Frame(RequestCode.FORWARDING_LEFT, 0, ext=encode_header(header))])

    def _take(self, session: NetSession, frames: list[Frame]) -> None:
        """`on_frames` while this broker leads for a time."""
        self._leadership.confirm()
        if self._leads:
            self._parts.port.on_frames(session, frames)
        else:
            self._sort(session, frames)

    def _sort(self, session: NetSession, frames: list[Frame]) -> None:
        """`on_frames` while this broker does not lead, or what came before has not all gone its way."""
        self._leadership.confirm()
        parts, now_ms = self._parts, self._clock.monotonic_ms()
        for frame in frames:
            handling = HANDLING.get(frame.code)
            if handling is None:
                parts.port.on_frames(session, [frame])
                continue
            if ROUTES[frame.code].where is Where.BOTH:
                parts.roster.note(session, frame)
                if parts.reads is not None:
                    parts.reads.note(session, frame)
            if handling.kind is Kind.PULL:
                if parts.reads is not None and self._served_here(parts.reads, session, frame, now_ms):
                    continue
                session.park(Request(frame, None, 0))
            self._carry_out(self._forwarder.take(session, frame, now_ms=now_ms))
        self._settle()

    def _served_here(self, reads: FollowerPulls, session: NetSession, frame: Frame, now_ms: int) -> bool:
        """Answer a pull without the leader, if that may be; the offset that rides on it goes there all the same."""
        answered = reads.answer(frame) if isinstance(self._leadership.current, Following) else None
        if answered is None:
            return False
        reply, commit = answered
        session.reply(Request(frame, None, 0), _as_far_as_read(session, reply))
        if commit is not None:
            self._carry_out(self._forwarder.take(session, commit, now_ms=now_ms))
        return True

    def _ask_again(self, session: NetSession, frame: Frame) -> None:
        """What changes nothing and waited here for a commit, as the leadership ends."""
        if session.handed_over:
            session.reply(Request(frame, None, 0), not_leader(Nobody()))
        else:  # once it has ended
            asyncio.get_running_loop().call_soon(self._take_again, session, frame)

    def _take_again(self, session: NetSession, frame: Frame) -> None:
        if not session.closed:
            self.on_frames(session, [frame])

    # ---- the role

    def _changed(self, role: Role) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._leads and not isinstance(role, Leading):
            self._leads = False
            self.on_frames = self._sort
            self._parts.on_step_down()  # answers waiting pulls, for which their sessions must still be there
            self._parts.reception.step_down()
            if self._parts.reads is not None:
                self._parts.reads.begin(self._parts.roster.heartbeats())
        if isinstance(role, Leading):
            self._lead(role, now_ms)
        elif isinstance(role, Following):
            count = self._parts.answers.give_up(
                Reply(ResponseCode.SYSTEM_ERROR, remark="unknown: the leader changed before the request was committed")
            )
            if count:
                _log.warning("requests whose outcome is unknown", count=count)
            self._carry_out(self._forwarder.follow(role, now_ms=now_ms))
        else:
            self._forwarder.wait()
            self._links.rest()
        self._settle()

    def _lead(self, role: Leading, now_ms: int) -> None:
        self._links.rest()
        self._leads = True
        self._parts.on_lead()
        for session, heartbeat in list(self._parts.roster.heartbeats()):
            self._parts.port.on_frames(cast("NetSession", session), [heartbeat])
        self._carry_out(self._forwarder.lead(role.epoch, now_ms=now_ms))

    def _settle(self) -> None:
        """After whatever happened: the services' own port when nothing is left for the forwarder, and its next time."""
        if self._leads and self._forwarder.idle:
            self.on_frames = self._served
        due_ms = self._forwarder.due_ms()
        if due_ms == self._timer_ms:
            return
        self._timer_ms = due_ms
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due_ms is not None:
            seconds = max(0, due_ms - self._clock.monotonic_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(seconds, self._due)

    def _due(self) -> None:
        self._timer = self._timer_ms = None
        self._leadership.confirm()  # what waited may be for this broker itself
        self._carry_out(self._forwarder.tick(now_ms=self._clock.monotonic_ms()))
        self._settle()

    # ---- LinkEvents

    def link_opened(self, number: int, epoch: int, ahead_ms: int) -> None:
        now_ms = self._clock.monotonic_ms()
        for session, heartbeat in self._parts.roster.heartbeats():
            marks = ForwardedHeader(
                session=session.id, client_ip=session.remote_ip, client_port=session.remote_port, epoch=epoch,
                deadline_ms=now_ms + ahead_ms + _ROSTER_MS,
            )  # fmt: skip
            heartbeat.ext = encode_header(marks)
            self._links.tell(number, heartbeat)
        self._links.tell(number, Frame(RequestCode.FORWARDING_COMPLETE, 0))
        self._carry_out(self._forwarder.linked(number, epoch=epoch, ahead_ms=ahead_ms, now_ms=now_ms))
        self._settle()

    def link_clock(self, number: int, ahead_ms: int) -> None:
        self._forwarder.clock(number, ahead_ms)

    def link_lost(self, number: int) -> None:
        self._forwarder.lost(number)

    def link_refused(self, hint: Following) -> None:
        self._carry_out(self._forwarder.follow(hint, now_ms=self._clock.monotonic_ms()))
        self._settle()

    def link_asks(self, connection: Connection, frame: Frame) -> None:
        try:
            marks = decode_header(ToClientHeader, frame.ext)
        except HeaderError as error:
            _log.warning("the leader asks nobody", leader=connection.peer, code=frame.code, error=error)
            return
        session = self._sessions.get(marks.session)
        ext = {key: value for key, value in frame.ext.items() if key not in _MARKS}
        if frame.flag & Flag.ONEWAY:
            if session is not None:
                session.notify(frame.code, ext, frame.body)
            return

        def on_answer(answer: Frame | None) -> None:
            try:
                connection.answer(_from_client(frame, answer))
            except FrameError as error:  # what came in a frame need not fit one in the encoding that goes on
                _log.warning("a client's answer cannot be passed on", code=frame.code, error=error)
                connection.answer(_from_client(frame, None))

        if session is None:
            on_answer(None)
        else:
            session.call(frame.code, ext, frame.body, timeout_ms=marks.timeout_ms, on_answer=on_answer)

    # ---- effects

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if type(effect) is Transmit:
                self._transmit(effect)
            elif type(effect) is Relay:
                _relay(effect)
            elif type(effect) is Answer:
                _session(effect.errand).reply(Request(effect.errand.frame, None, 0), effect.reply)
            elif type(effect) is Execute:
                frame = at_home(effect.errand, now_ms=self._clock.monotonic_ms())
                self._parts.port.on_frames(_session(effect.errand), [frame])
            elif type(effect) is Follow:
                self._links.follow(Following(effect.address, effect.epoch), effect.have)
            elif type(effect) is CloseLink:
                self._links.close(effect.link)

    def _transmit(self, effect: Transmit) -> None:
        errand, link, now_ms = effect.errand, effect.link, self._clock.monotonic_ms()
        frame = outgoing(errand, epoch=effect.epoch, deadline_ms=effect.deadline_ms, now_ms=now_ms)

        def on_outcome(outcome: Outcome) -> None:
            self._outcome(link, errand, outcome)

        try:
            if frame.flag & Flag.ONEWAY:
                self._links.offer(link, frame)
            else:
                self._links.start(link, frame, on_outcome, seconds=errand.answer_ms / 1000)
        except FrameError as error:
            refusal = Frame(ResponseCode.MESSAGE_ILLEGAL, 0, flag=Flag.RESPONSE, remark=str(error))
            # Later, as every outcome: what is to be sent behind it must not be overtaken by what then has room.
            asyncio.get_running_loop().call_soon(on_outcome, refusal)

    def _outcome(self, link: int, errand: Errand, outcome: Outcome) -> None:
        self._leadership.confirm()  # what waited for this may be for this broker itself
        now_ms = self._clock.monotonic_ms()
        if isinstance(outcome, Frame):
            effects = self._forwarder.answered(link, errand.number, outcome, now_ms=now_ms)
        else:
            if isinstance(outcome, ConnectionLost):
                self._forwarder.lost(link)
            written = not isinstance(outcome, ConnectionLost) or outcome.written
            why = "the leader did not answer in time"
            if not isinstance(outcome, RequestTimeout):
                why = "the connection to the leader was lost"
            effects = self._forwarder.unanswered(link, errand.number, written=written, why=why, now_ms=now_ms)
        self._carry_out(effects)
        self._settle()


def _relay(effect: Relay) -> None:
    """Give the leader's answer to the client."""
    errand, answer = effect.errand, effect.answer
    session, reply = _session(errand), Reply(answer.code, answer.ext, answer.body, remark=answer.remark)
    if errand.handling.kind is Kind.PULL:
        reply = _as_far_as_read(session, reply)
    session.reply(Request(errand.frame, None, 0), reply)


def _as_far_as_read(session: NetSession, reply: Reply) -> Reply:
    """The answer to a pull, or that there is no room for it. The leader looks at how fast its own clients read, and we
    read on for others: what this one can ask for again must not pile up until its connection is given up."""
    body = reply.body
    size = len(body) if isinstance(body, bytes) else sum(map(len, body))
    return reply if not size or session.has_room(size) else unread(size)


def _session(errand: Errand) -> NetSession:
    return cast("NetSession", errand.caller.session)


def _from_client(question: Frame, answer: Frame | None) -> Frame:
    """A client's answer as the leader gets it; None: there is no such client or it did not answer."""
    if answer is None:
        gone = ForwardingRefusal(reason=Refused.CLIENT_GONE)
        code = int(ResponseCode.FORWARDING_REFUSED)
        return Frame(code, question.opaque, flag=Flag.RESPONSE, ext=encode_header(gone))
    return Frame(
        answer.code, question.opaque, flag=Flag.RESPONSE, ext=answer.ext, body=answer.body, remark=answer.remark,
        language=answer.language, version=answer.version,
    )  # fmt: skip
