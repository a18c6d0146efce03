"""Answers that look up very many queues: some at once, and the rest later, one slice after the other."""

from collections import deque
from collections.abc import Callable, Generator
from typing import Final, NamedTuple

from logherd.service.errors import RequestError
from logherd.service.metadata import MetadataRefusedError
from logherd.service.ports import PARKED, Answer, Reply, Request, Session
from logherd.store import StoreDamaged, StoreError
from logherd.wire.codes import ResponseCode

__all__ = ["QUEUES_AT_ONCE", "WAITING_MAX", "Look", "Slices"]

QUEUES_AT_ONCE: Final = 1_000
"""Looked up in one go, which takes some 50 ms: the loop waits, and a leader has to renew its lease every second."""
WAITING_MAX: Final = 16

Look = Generator[int, None, Reply]
"""Makes an answer, and gives after each queue how many were looked up; QUEUES_AT_ONCE of one that waits."""


class _Waiting(NamedTuple):
    request: Request
    session: Session
    look: Look


class Slices:
    """The answers of one broker that take long; one slice of one of them at a time."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self.on_damage: Callable[[StoreDamaged], None] = lambda _: None
        """Hears of damage that a later slice has met; of what the first one meets the dispatcher tells."""

    def begin(self, request: Request, session: Session, look: Look) -> Answer:
        """The answer, if few queues are looked up for it; `tick` gives it else. Raises: RequestError 2; as the look."""
        reply = _look_on(look)
        if reply is not None:
            return reply
        if len(self._waiting) >= WAITING_MAX:
            raise RequestError(ResponseCode.SYSTEM_BUSY, f"{WAITING_MAX} such requests are being answered; try later")
        self._waiting.append(_Waiting(request, session, look))
        return PARKED

    def tick(self) -> None:
        """Go on with the answers that take long, each in its turn. Call it every 100 ms or so."""
        if not self._waiting:
            return
        waiting = self._waiting.popleft()
        request, session, look = waiting
        try:
            reply = Reply(ResponseCode.SYSTEM_ERROR) if session.closed else _look_on(look)
        except (StoreError, OSError) as error:
            reply = Reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
            if isinstance(error, StoreDamaged):
                self.on_damage(error)
        except RequestError as error:
            reply = Reply(error.code, remark=error.remark)
        except MetadataRefusedError as error:
            reply = Reply(ResponseCode.SERVICE_NOT_AVAILABLE, remark=str(error))
        if reply is None:
            self._waiting.append(waiting)  # behind the others: it may wait for a commit that does not come
        else:
            session.reply(request, reply)


def _look_on(look: Look) -> Reply | None:
    """Look up the next queues; the answer if those were the last."""
    queues = 0
    try:
        while queues < QUEUES_AT_ONCE:
            queues += next(look)
    except StopIteration as ended:
        reply: Reply = ended.value
        return reply
    return None
