"""From the network's frames to the dispatcher, and answers back: at once, after a commit, or never.

An answer that waits for a commit stands in one queue in order of arrival. Positions only grow in that order (an answer
that waits for less than the one before it waits a little longer), so releasing is popping from the front.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol, cast

from logherd.app.linger import Linger
from logherd.app.resting import REST_BYTES_MAX, REST_REQUESTS_MIN, Resting
from logherd.kit.errors import InvariantError
from logherd.net.session import NetSession
from logherd.service.dispatcher import Dispatcher
from logherd.service.forwarding.handling import HANDLING, Kind
from logherd.service.ports import Answer, Reply, ReplyAfter, Request, Session
from logherd.telemetry.log import Log
from logherd.wire.codes import ResponseCode
from logherd.wire.frame import Flag, Frame

__all__ = ["Port", "WaitingAnswers"]

_log = Log("logherd.app.requests")

_RUN_LENGTH_MIN = 4
"""Fewer requests are carried out one by one: preparing a run costs as much as it saves for two or three."""

_SHORT_RUNS_MAX = 3


class CommittedLog(Protocol):
    """What says how far answers may leave."""

    @property
    def committed_position(self) -> int: ...


class WaitingAnswers:
    """Answers that may leave only when the log is committed up to their position. Loop thread only.

    Ready answers of one slice of requests wait together, for the position of the last one: they leave in one piece.
    """

    def __init__(self, log: CommittedLog, resting: Resting | None = None, linger: Linger | None = None) -> None:
        """Connections with many unanswered requests are left to `resting`, until all are answered. `linger` hears of
        each connection whose requests wait; what comes behind its own counts as one with it."""
        self._log = log
        self._resting = resting
        self._linger = linger
        self._waiting: deque[tuple[int, NetSession, list[Frame], list[bytes] | Reply, bool]] = deque()
        self.again: Callable[[NetSession, Frame], None] | None = None
        """Takes what is to be asked of the next leader."""

    def __len__(self) -> int:
        return sum(len(frames) for _, _, frames, _, _ in self._waiting)

    def add(self, session: NetSession, frame: Frame, position: int, reply: Reply) -> None:
        """Keep an answer, or send it at once if its position is committed and nothing older waits."""
        self._add(position, session, [frame], reply)

    def add_ready(self, session: NetSession, frames: list[Frame], position: int, answers: list[bytes]) -> None:
        """The same for encoded answers to `frames`, all of which wait for `position`."""
        self._add(position, session, frames, answers)

    @property
    def any(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting)

    def release(self, committed_position: int) -> None:
        """Send everything that waited for at most this position."""
        waiting = self._waiting
        if not waiting or waiting[0][0] > committed_position:
            return
        connections = 0
        while waiting and waiting[0][0] <= committed_position:
            _, session, frames, answers, counted = waiting.popleft()
            connections += counted
            _send(session, frames, answers)
        if self._linger is not None:
            self._linger.answered(connections)
        if self._resting is not None:
            self._resting.answered()

    def give_up(self, reply: Reply) -> int:
        """Answer everything that waits with `reply`: nobody here learns what becomes of it. What changes nothing goes
        to `again` instead. Returns how many were answered."""
        waiting, self._waiting = self._waiting, deque()
        if self._linger is not None:
            self._linger.forget()
        count = 0
        for _, session, frames, _, _ in waiting:
            for frame in frames:
                handling = HANDLING.get(frame.code)
                if self.again is not None and handling is not None and handling.kind is Kind.READ:
                    self.again(session, frame)
                else:
                    session.reply(Request(frame, None, 0), reply)
                    count += 1
        if self._resting is not None:
            self._resting.answered()
        return count

    def _add(self, position: int, session: NetSession, frames: list[Frame], answers: list[bytes] | Reply) -> None:
        committed = self._log.committed_position
        if not self._waiting and position <= committed:
            _send(session, frames, answers)
            return
        counted = not self._waiting or self._waiting[-1][1] is not session
        self._waiting.append((position, session, frames, answers, counted))
        if self._linger is not None:
            self._linger.asked(position, connections=counted)
        if (
            self._resting is not None and session.running >= REST_REQUESTS_MIN
            and position - committed < REST_BYTES_MAX
        ):  # fmt: skip
            self._resting.add(session)


def _send(session: NetSession, frames: list[Frame], answers: list[bytes] | Reply) -> None:
    if isinstance(answers, Reply):
        session.reply(Request(frames[0], None, 0), answers)
    else:
        session.send_encoded(frames, answers)


def _internal_error(frame: Frame, error: Exception) -> Reply | None:
    """A defect of ours in one request: told to its sender and to the log, of no matter to anybody else."""
    _log.error("request failed by a defect", cause=error, code=frame.code)
    if frame.flag & Flag.ONEWAY:
        return None
    return Reply(ResponseCode.SYSTEM_ERROR, remark=f"internal error ({type(error).__name__}), see the broker's log")


class _Ready:
    """Encoded answers of one slice of requests, with what they answer and the position that the last one waits for."""

    __slots__ = ("answers", "frames", "position")

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.answers: list[bytes] = []
        self.position = 0


class Port:
    """A `FrameHandler`: one listening port's requests, answered by one dispatcher."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        answers: WaitingAnswers,
        *,
        on_pass: Callable[[], None],
        on_close: Callable[[NetSession], None],
    ) -> None:
        """`on_pass` hears that requests were handled in this pass of the loop; `on_close` that a client is gone."""
        self._handle = dispatcher.handle
        self._handle_run = dispatcher.handle_run
        self._answers = answers
        self._on_pass = on_pass
        self._on_close = on_close

    def on_open(self, session: NetSession) -> None:
        """Nothing is kept for a connection before it says something."""

    def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
        at, count = 0, len(frames)
        ready = _Ready()
        short_runs = 0
        while at < count:
            length = 0
            # Requests that take turns with others are not looked at twice.
            if count - at >= _RUN_LENGTH_MIN and short_runs < _SHORT_RUNS_MAX:
                length = self._run(frames, at, session, ready)
                short_runs += length < _RUN_LENGTH_MIN
            if length == 0:
                length = 1
                self._one(frames[at], session, ready)
            at += length
        if ready.answers:
            self._answers.add_ready(session, ready.frames, ready.position, ready.answers)
        self._on_pass()

    def on_behalf(self, link: NetSession, requests: list[tuple[Frame, Session]]) -> None:
        """Requests that came over `link` from clients of another broker, each with its client; the answers go back
        over the link."""
        ready = _Ready()
        for frame, caller in requests:
            self._one(frame, link, ready, caller)
        if ready.answers:
            self._answers.add_ready(link, ready.frames, ready.position, ready.answers)
        self._on_pass()

    def _run(self, frames: list[Frame], at: int, session: NetSession, ready: _Ready) -> int:
        """Carry out together what can be from `at` on; the number of requests.

        After a defect of ours it is not known what was done: all that may have been among them hear of an error.
        """
        try:
            run = self._handle_run(frames, at, session)
        except InvariantError:
            raise
        except Exception as error:
            for frame in frames[at:]:
                reply = _internal_error(frame, error)
                if reply is not None:
                    session.reply(Request(frame, None, 0), reply)
            return len(frames) - at
        if run is None:
            return 0
        length = len(run.answers)
        ready.frames += frames[at : at + length]
        ready.answers += run.answers
        ready.position = run.position
        return length

    def _one(self, frame: Frame, session: NetSession, ready: _Ready, caller: Session | None = None) -> None:
        """Carry out one request that came over `session`, from `caller` if that is somebody else."""
        answer: Answer | None
        try:
            answer = self._handle(frame, caller or session)
        except InvariantError:
            raise  # the log may be broken: whoever runs the loop ends the process
        except Exception as error:
            answer = _internal_error(frame, error)
        if type(answer) is ReplyAfter:
            reply = answer.reply
            if type(reply) is bytes:
                ready.frames.append(frame)
                ready.answers.append(reply)
                ready.position = answer.position
            else:
                self._answers.add(session, frame, answer.position, cast("Reply", reply))
        elif answer is not None:
            session.reply(Request(frame, None, 0), cast("Reply", answer))
        elif not frame.flag & Flag.ONEWAY:
            session.park(Request(frame, None, 0))

    def on_close(self, session: NetSession) -> None:
        self._on_close(session)
