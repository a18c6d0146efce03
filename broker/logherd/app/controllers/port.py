"""The port where brokers and tools ask: each request becomes a step, each step one answer.

When a decision changes a group, its brokers are told at once on the connections on which they speak (1008); whoever
misses it hears the same with its next heartbeat.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial

from logherd.app.controllers.board import Asker, Board
from logherd.app.controllers.news import log_decision
from logherd.controller.commands import Command
from logherd.controller.verdicts import Verdict
from logherd.kit.errors import InvariantError
from logherd.net.session import NetSession
from logherd.service.controllers.desk import QuorumView, endings, take
from logherd.service.controllers.notices import Speakers, notice_of, seat_of
from logherd.service.controllers.steps import Confirm, Seat, Step
from logherd.service.ports import Reply, Request, SharedReply
from logherd.telemetry.log import Log
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame, Serialize
from logherd.wire.table import REQUESTS

__all__ = ["DeskPort"]

_log = Log("logherd.controller")


class DeskPort:
    """A `FrameHandler` for the controllers' requests. Invariant: who speaks for a broker is a session that is open."""

    def __init__(self, board: Board, view: Callable[[], QuorumView], clock: Callable[[], int]) -> None:
        """`clock` is that of leases; `view` gives the quorum as this controller knows it."""
        self._board = board
        self._view = view
        self._clock = clock
        self._sessions: dict[int, NetSession] = {}
        self._speakers = Speakers()
        self.taken: Counter[int] = Counter()
        """Requests since the start, by code."""
        self.refused: Counter[tuple[int, int]] = Counter()
        """Answers other than success, by the codes of request and answer."""

    def on_open(self, session: NetSession) -> None:
        """Somebody may speak for a broker on it."""
        self._sessions[session.id] = session

    def on_close(self, session: NetSession) -> None:
        """Answers to this connection go nowhere from now on."""
        self._sessions.pop(session.id, None)
        self._speakers.closed(session.id)

    def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
        """Answer each request once, now or later."""
        view = self._view()
        ends = endings(view)
        for frame in frames:
            self.taken[frame.code if frame.code in REQUESTS else -1] += 1  # peers choose codes
            request = Request(frame, None, 0)
            try:
                step: Step[Reply] = take(frame, self._board.office, view, self._clock())
                seat = step.speaker if isinstance(step, Confirm) else None
                asker = Asker(partial(self._answer, session, request, seat), partial(session.park, request), ends)
                self._board.carry_out(step, asker)
            except InvariantError:
                raise  # the state may be wrong: whoever runs the loop ends the process
            except Exception as error:
                _log.error("request failed by a defect", cause=error, code=frame.code)
                remark = f"internal error ({type(error).__name__}), see the controller's log"
                session.reply(request, Reply(ResponseCode.SYSTEM_ERROR, remark=remark))

    def applied(self, _command: Command, verdict: Verdict) -> None:
        """Tell the brokers of a group what was decided. Only the leader does: it is whom they speak to."""
        if self._board.office is None:
            return
        for event in verdict.events:
            log_decision(event)
        notice = notice_of(verdict)
        if notice is None:
            return
        for number in self._speakers.of(notice.group):
            self._sessions[number].notify(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, notice.header, notice.body)

    def renewed_from(self, seat: Seat) -> str | None:
        """The address from which this process of a broker renews its lease, if it does so at this controller."""
        number = self._speakers.session_of(seat)
        return None if number is None else self._sessions[number].remote_ip

    def _answer(self, session: NetSession, request: Request, seat: Seat | None, reply: Reply) -> None:
        frame = request.frame
        if reply.code:
            self.refused[frame.code if frame.code in REQUESTS else -1, reply.code] += 1
        if reply.code == 0 and session.id in self._sessions:
            if seat is None:
                seat = seat_of(frame, reply)
            if seat is not None:
                self._speakers.heard(session.id, seat)
        if isinstance(reply, SharedReply) and frame.serialize is Serialize.JSON and not frame.is_oneway:
            session.send_encoded([frame], [reply.encoded(frame.opaque)])
        else:
            session.reply(request, reply)
