"""One client of the controllers over real sockets: finds the leader, asks, and keeps what came of every attempt."""

import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from checkers.history import Outcome
from checkers.operations import Recorder
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from logherd.wire.headers import decode_header, encode_header
from logherd.wire.headers.leases import LeaderHint
from system.blocking import BlockingClient, NoAnswerError

__all__ = ["Asked", "ControllerClient", "Question", "outcome_of"]

_BACK_OFF_SECONDS = 0.05
Connect = Callable[[str, float], socket.socket]
"""A connection to a controller by its name; raises OSError."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request as the history names it, and as the wire carries it. `read` makes the history's answer of a frame."""

    name: str
    key: str
    arguments: Mapping[str, Any]
    code: RequestCode
    header: Struct
    read: Callable[[Frame], Mapping[str, Any]]
    body: bytes = b""
    refusals: frozenset[int] = frozenset()
    """Codes that are an answer of their own, not a failure: a claim that is refused says something."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of one attempt. `frame` is None if nothing came back; times are monotonic nanoseconds."""

    outcome: Outcome
    sent: int
    returned: int
    frame: Frame | None
    answer: Mapping[str, Any]


def outcome_of(question: Question, frame: Frame | None) -> Outcome:
    """What the asker may believe.

    A redirect is sent only when nothing was proposed, and a refusal by a rule changes nothing; an error of the system
    says that the outcome is unknown. Any other code is unknown too: a new one must not make a false alarm.
    """
    if frame is None or frame.code == ResponseCode.SYSTEM_ERROR:
        return Outcome.UNKNOWN
    if frame.code == ResponseCode.SUCCESS or frame.code in question.refusals:
        return Outcome.OK
    nothing_done = (
        ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH <= frame.code <= ResponseCode.CONTROLLER_BROKER_ID_INVALID
    )
    return Outcome.FAILED if nothing_done else Outcome.UNKNOWN


class ControllerClient:
    """One connection at a time, to whoever leads as far as it knows. Not thread-safe."""

    def __init__(self, connect: Connect, names: Mapping[str, str], recorder: Recorder, *, seconds: float = 1.0) -> None:
        """`names`: address of each controller, as redirects name it, to its name."""
        self._connect = connect
        self._names = names
        self._order = list(names.values())
        self.recorder = recorder
        self._seconds = seconds
        self._target = self._order[0]
        self._client: BlockingClient | None = None

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def ask(self, question: Question, *, attempt: int = 1) -> Asked | None:
        """One attempt, at one controller; None if it could not even be sent. Moves on when this one does not lead."""
        try:
            self._client = self._client or BlockingClient(0, made=self._connect(self._target, self._seconds))
        except OSError:
            self._turn(None)
            return None
        self.recorder.invoke(question.name, question.key, question.arguments, attempt=attempt)
        sent, frame = time.monotonic_ns(), None
        try:
            frame = self._client.ask(question.code, encode_header(question.header), question.body)
        except NoAnswerError:
            self._turn(None)
        outcome = outcome_of(question, frame)
        answer = question.read(frame) if outcome is Outcome.OK and frame is not None else {}
        self.recorder.answered(outcome, answer)
        if frame is not None and frame.code == ResponseCode.CONTROLLER_NOT_LEADER:
            self._turn(decode_header(LeaderHint, frame.ext).leader_address)
        elif frame is not None and outcome is Outcome.UNKNOWN:
            # A leader whose disk stalls refuses at once; asked again without a pause it would fill the history.
            time.sleep(_BACK_OFF_SECONDS)
        return Asked(outcome, sent, time.monotonic_ns(), frame, answer)

    def _turn(self, hint: str | None) -> None:
        """Go to another controller: the one that was named, or the next."""
        self.close()
        named = self._names.get(hint or "")
        if named is not None and named != self._target:
            self._target = named
            return
        self._target = self._order[(self._order.index(self._target) + 1) % len(self._order)]
        time.sleep(_BACK_OFF_SECONDS)
