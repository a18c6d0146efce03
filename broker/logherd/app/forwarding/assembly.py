"""All of forwarding, built and connected around a broker's services."""

import secrets
from collections.abc import Callable
from typing import NamedTuple

from logherd.aiokit.tasks import TaskGuard
from logherd.app.forwarding.gate import Gate, GateParts
from logherd.app.forwarding.reception import Reception, ReceptionHooks
from logherd.app.requests import Port, WaitingAnswers
from logherd.app.services import Services
from logherd.kit.clock import Clock
from logherd.kit.errors import ensure
from logherd.net.server import Server
from logherd.net.session import NetSession
from logherd.service.errors import RequestError
from logherd.service.forwarding.roles import Following, Leadership, Leading
from logherd.service.forwarding.roster import Roster
from logherd.service.identity import BrokerIdentity
from logherd.service.ports import Answer, Request, Session
from logherd.service.pull.following import FollowerPulls
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame

__all__ = ["Forwarding", "Surroundings"]


class Surroundings(NamedTuple):
    """What forwarding needs of the broker around it. `on_pass`: something may have been appended."""

    identity: BrokerIdentity
    leadership: Leadership
    alone: bool
    """Without a group: nobody may forward to it."""
    clock: Clock
    guard: TaskGuard
    on_pass: Callable[[], None]
    reads: FollowerPulls | None = None
    """Pulls that are answered here while another leads."""


class Forwarding:
    """The broker's port for clients and for other brokers: `gate` is the handler of its server."""

    def __init__(self, around: Surroundings, services: Services, answers: WaitingAnswers) -> None:
        instance = secrets.token_hex(8)
        self.answers = answers
        self._leadership = around.leadership
        self._roster = Roster(around.clock)
        hooks = ReceptionHooks(services.session_unreachable, services.session_closed, self._guest_came)
        self._reception = Reception(around.identity, instance, around.leadership, clock=around.clock, hooks=hooks)
        dispatcher = self.dispatcher = services.dispatcher(
            {RequestCode.FORWARDING_OPEN: _nobody_forwards if around.alone else self._reception.open}, watch=self._watch
        )
        ensure(not dispatcher.missing, "every request code of the route table has a handler", dispatcher.missing)
        port = Port(dispatcher, answers, on_pass=around.on_pass, on_close=services.session_closed)
        self._reception.attach(port)
        parts = GateParts(
            port, answers, self._reception, self._roster, on_lead=services.pull.lead,
            on_step_down=services.step_down, on_leave=services.pull.leave, reads=around.reads,
        )  # fmt: skip
        self.gate = Gate(
            parts, around.identity, instance, leadership=around.leadership, clock=around.clock, guard=around.guard
        )

    @property
    def role_name(self) -> str:
        """`leader`, `follower` or `none`."""
        role = self._leadership.current
        return "leader" if isinstance(role, Leading) else "follower" if isinstance(role, Following) else "none"

    def tick(self, server: Server | None) -> None:
        """Every 100 ms or so."""
        self._reception.tick()
        self.dispatcher.tell()
        self.gate.tick(unread=server is not None and server.unread_answers_fill_memory)

    def stop(self) -> None:
        """Give up links; the port itself is the server's to close."""
        self.gate.stop()
        self._reception.stop()
        self.dispatcher.tell(ending=True)

    def _watch(self, session: Session, frame: Frame) -> None:
        """A client said who it is. One of another broker is named to the next leader by that broker."""
        if isinstance(session, NetSession):
            self._roster.note(session, frame)

    def _guest_came(self, session: NetSession) -> None:
        self.gate.handed_over(session)


def _nobody_forwards(_request: Request, _session: Session) -> Answer:
    """27010 at a broker without a group: whoever asks could speak for clients of his own making."""
    raise RequestError(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "this broker is alone in its group: nobody forwards to it"
    )
