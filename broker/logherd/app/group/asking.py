"""A broker's questions to the controllers: whichever of them leads is found, and followed when it changes.

A question that gets no answer is not repeated here: the machine asks again, with what is true by then.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from logherd.aiokit.tasks import TaskGuard
from logherd.client.peers import parse_address
from logherd.controller.commands import AlterSyncSet, Register, Release
from logherd.controller.reports import Granted, Report, Withheld
from logherd.group.output import Ask
from logherd.net.connection import Connection, Outcome, connect
from logherd.net.errors import NetError
from logherd.service.controllers.asking import (
    Asking,
    Joined,
    Redirected,
    Refused,
    SetChanged,
    altering,
    heartbeat,
    joined,
    leased,
    registering,
    released,
    releasing,
    set_changed,
)
from logherd.settings.options import Endpoint
from logherd.telemetry.log import Log
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.errors import WireError
from logherd.wire.frame import Frame
from logherd.wire.headers import encode_header

__all__ = ["Answered", "ControllersClient", "ask_once", "named_address"]

_log = Log("logherd.group")

_ANSWER_SECONDS: Final = 1.0
_CONNECT_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 0.05
_RETRY_SECONDS_MAX: Final = 0.5
_SHUNNED_MS: Final = 3_000
"""A controller that gave no answer is passed over for so long where there are others: while those elect, each question
to the dead one, whose guardian keeps its port, would cost a second of a lease that has three."""

Answered = Joined | Granted | Withheld | SetChanged
"""What a question was answered with; a release is answered by silence."""


class _Turns:
    """Whose turn it is of the controllers that the settings name."""

    def __init__(self, addresses: list[tuple[str, int]]) -> None:
        self._addresses = addresses
        self._shunned: dict[tuple[str, int], int] = {}
        """Until when, in milliseconds."""

    @property
    def latest(self) -> tuple[str, int]:
        """The one that was asked last of these."""
        return self._addresses[0]

    def after(self, asked: tuple[str, int], now: int, *, silent: bool) -> tuple[str, int]:
        """The next one, and not the one that was asked if there is any other. `silent`: that one gave no answer."""
        if silent:
            self._shunned[asked] = now + _SHUNNED_MS
        turn = self._addresses[1:] + self._addresses[:1]
        others = [each for each in turn if each != asked] or turn
        chosen = next((each for each in others if self._shunned.get(each, now) <= now), others[0])
        at = turn.index(chosen)
        self._addresses = turn[at:] + turn[:at]
        return chosen


class _Questions:
    """Those that have not left: the latest of each kind. A report waits for the answer to the one before it, so that
    controllers that are slow get no more of them for being slow."""

    def __init__(self) -> None:
        self._waiting: dict[type[Ask], Ask] = {}
        self._reported_to: Connection | None = None

    def put(self, question: Ask) -> None:
        self._waiting[type(question)] = question

    def put_back(self, question: Ask) -> None:
        """One that was not answered; if there is a later one, that is asked."""
        self._waiting.setdefault(type(question), question)

    def answered(self, connection: Connection, question: Ask) -> None:
        """Or there will be no answer."""
        if isinstance(question, Report) and self._reported_to is connection:
            self._reported_to = None

    def due(self, connection: Connection) -> list[Ask]:
        """What leaves over this connection now."""
        held = self._waiting.pop(Report, None) if self._reported_to is connection else None
        due, self._waiting = self._waiting, {}
        if held is not None:
            self._waiting[Report] = held
        if Report in due:
            self._reported_to = connection
        return list(due.values())


class ControllersClient:
    """Belongs to the loop on which it is made. Every method but `stop` returns at once.

    Invariants: (1) at most one connection, to the controller that is believed to lead; (2) the latest question of each
    kind waits while there is none; (3) over each connection at most one report is under way.
    """

    def __init__(
        self, addresses: Sequence[Endpoint], *, now_ms: Callable[[], int],
        on_answer: Callable[[Ask, Answered, int], None], on_notice: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """`on_answer(question, answer, sent)`: `sent` is when the question left, by `now_ms`; leases count from it.

        `on_notice`: a controller says that there is news of this broker's group (1008).
        """
        self._turns = _Turns([(each.host, each.port) for each in addresses])
        self._now_ms = now_ms
        self._on_answer = on_answer
        self._on_notice = on_notice
        self._target = self._turns.latest
        self._connection: Connection | None = None
        self._questions = _Questions()
        self._wanted = asyncio.Event()
        self._told = ""
        self._helped = True
        """Whether the latest connection brought an answer; that another controller leads is one only at first."""
        self._redirects = 0
        """How many controllers in a row have named another one."""
        self._stopped = False

    @property
    def controller(self) -> str:
        """The controller that is asked, "host:port"; "" while none can be reached."""
        connection = self._connection
        return connection.peer if connection is not None and not connection.closed else ""

    def start(self, guard: TaskGuard) -> None:
        """Begin to connect."""
        guard.start("controllers", self._keep_connected())

    async def stop(self) -> None:
        """Close the connection; nothing is answered any more."""
        self._stopped = True
        if self._connection is not None:
            await self._connection.close()

    def ask(self, question: Ask) -> None:
        """Send a question to the leading controller, now or as soon as one is connected; a report as soon as there is
        an answer to the one before it."""
        self._questions.put(question)
        connection = self._connection
        if connection is None or connection.closed:
            self._wanted.set()
        else:
            self._send_due(connection)

    def _send_due(self, connection: Connection) -> None:
        for question in self._questions.due(connection):
            self._send(connection, question)

    def _send(self, connection: Connection, question: Ask) -> None:
        sent, asking = self._now_ms(), _encode(question)
        frame = Frame(int(asking.code), 0, ext=encode_header(asking.header), body=asking.body)
        connection.start(
            frame, lambda outcome: self._outcome(connection, question, sent, outcome), seconds=_ANSWER_SECONDS
        )

    def _outcome(self, connection: Connection, question: Ask, sent: int, outcome: Outcome) -> None:
        self._questions.answered(connection, question)
        if self._stopped:
            return
        self._take(connection, question, sent, outcome)
        if connection is self._connection and not connection.closed:
            self._send_due(connection)

    def _take(self, connection: Connection, question: Ask, sent: int, outcome: Outcome) -> None:
        if isinstance(outcome, NetError):
            self._leave(connection, str(outcome), silent=True)
            return
        if connection is self._connection:
            self._helped = True
        try:
            answer = _decode(question, outcome)
        except WireError as error:
            self._leave(connection, f"{connection.peer} is no controller of LogHerd: {error}")
            return
        if isinstance(answer, Redirected):
            self._redirected(connection, answer.address, question)
            return
        if connection is self._connection:
            self._redirects = 0
        if isinstance(answer, Refused):
            self._refused(connection, question, answer)
        elif answer is not None:
            self._tell("")
            self._on_answer(question, answer, sent)

    def _redirected(self, connection: Connection, address: str | None, question: Ask) -> None:
        if connection is not self._connection:
            return
        if address is None or address == connection.peer:
            self._leave(connection, "no controller leads")
            return
        target = named_address(address)
        if target is None:
            self._leave(connection, f"{connection.peer} names {address!r} as the leading controller")
            return
        self._questions.put_back(question)
        redirects = self._redirects + 1
        if self._target != self._turns.latest:
            self._leave(connection, f"{connection.peer} was named as the leading controller and names {address}")
        else:
            self._connection, self._target = None, target
            connection.abort()
            self._wanted.set()
        self._redirects, self._helped = redirects, redirects == 1

    def _refused(self, connection: Connection, question: Ask, answer: Refused) -> None:
        """Nothing was done. What is refused for good is told once; the next view tells the machine why."""
        if answer.code != ResponseCode.SYSTEM_ERROR:
            self._tell(f"{type(question).__name__} refused with {answer.code}: {answer.remark}")
        elif connection is self._connection:
            _log.debug("a controller does not know", controller=connection.peer, reason=answer.remark)

    def _leave(self, connection: Connection, reason: str, *, silent: bool = False) -> None:
        """This one does not help: try the next."""
        if connection is not self._connection:
            return
        self._tell(reason)
        self._connection = None
        connection.abort()
        self._next(silent=silent)
        self._wanted.set()

    def _next(self, *, silent: bool) -> None:
        """Go on behind the one that was asked last: who was named may be nobody, and must not hide the others."""
        self._redirects = 0
        self._target = self._turns.after(self._target, self._now_ms(), silent=silent)

    def _tell(self, reason: str) -> None:
        if reason and reason != self._told:
            _log.warning("controllers do not answer", reason=reason)
        elif not reason and self._told:
            _log.info("controllers answer", controller=self.controller)
        self._told = reason

    def _asked(self, _connection: Connection, frame: Frame) -> None:
        if frame.code == RequestCode.NOTIFY_BROKER_ROLE_CHANGED and not self._stopped:
            self._on_notice()

    async def _keep_connected(self) -> None:
        wait = _RETRY_SECONDS
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if self._connection is not None and not self._connection.closed:
                continue
            if self._helped:
                wait = _RETRY_SECONDS
            else:  # it let us go at once, as one does that has no room; or who was named names yet another
                await asyncio.sleep(wait)
                wait = min(2 * wait, _RETRY_SECONDS_MAX)
            self._helped = False
            host, port = self._target
            try:
                self._connection = await connect(
                    host, port, seconds=_CONNECT_SECONDS, on_request=self._asked,
                    on_lost=lambda _connection: self._wanted.set(),
                )  # fmt: skip
            except NetError as error:
                self._tell(str(error))
                self._next(silent=True)
                self._wanted.set()
                continue
            self._send_due(self._connection)


def _encode(question: Ask) -> Asking:
    match question:
        case Report():
            return heartbeat(question)
        case Register():
            return registering(question)
        case AlterSyncSet():
            return altering(question)
        case Release():
            return releasing(question)


def _decode(question: Ask, answer: Frame) -> Answered | Redirected | Refused | None:
    match question:
        case Report():
            taken = leased(answer)
            unknown = isinstance(taken, Refused) and taken.code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
            return Withheld(None, None) if unknown else taken
        case Register():
            return joined(answer)
        case AlterSyncSet():
            return set_changed(answer)
        case Release():
            done = released(answer)
            return None if isinstance(done, bool) else done


async def ask_once(target: tuple[str, int], asking: Asking, *, connect_seconds: float, seconds: float) -> Frame:
    """One question over a connection of its own, for whoever needs the controllers now and then. Raises: NetError."""
    connection = await connect(*target, seconds=connect_seconds)
    try:
        frame = Frame(int(asking.code), 0, ext=encode_header(asking.header), body=asking.body)
        return await connection.call(frame, seconds=seconds)
    finally:
        connection.abort()


def named_address(text: str) -> tuple[str, int] | None:
    """Host and port of the controller that another one names as the leader; None if it names nothing of the kind."""
    try:
        return parse_address(text)
    except ValueError:
        return None
