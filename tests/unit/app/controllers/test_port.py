"""The port of a controller: who is answered how, who is told of decisions, and what a defect costs."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from logherd.app.clock import boot_ms
from logherd.app.controllers.board import Board
from logherd.app.controllers.port import DeskPort
from logherd.app.quorum.outcomes import Applied, Outcome, ReadAt, ReadOutcome
from logherd.controller.commands import Command, Configure, decode_command
from logherd.controller.values import BrokerId, Registration
from logherd.controller.verdicts import Verdict
from logherd.kit.errors import InvariantError
from logherd.model.names import Position
from logherd.net.session import NetSession
from logherd.service.controllers.steps import Seat
from logherd.service.ports import Reply, Request
from logherd.wire.codec import FrameReader
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Flag, Frame, Serialize
from unit.controller.desk import KEY, Desk
from unit.service.controllers.caller import quorum_view
from unit.service.controllers.test_desk import beating, registering

UNKNOWN = 29_999


class Session:
    """Collects what it is told."""

    def __init__(self, number: int) -> None:
        self.id = number
        self.remote_ip = f"10.0.0.{number}"
        self.codes: list[int] = []
        self.remarks: list[str | None] = []
        self.encoded: list[int] = []
        self.notices: list[int] = []

    def reply(self, request: Request, reply: Reply) -> None:
        self.codes.append(reply.code)
        self.remarks.append(reply.remark)

    def send_encoded(self, requests: list[Frame], answers: list[bytes]) -> None:
        (frame,) = FrameReader().feed(answers[0])
        assert frame.opaque == requests[0].opaque
        self.encoded.append(frame.code)

    def notify(self, code: int, header: object, body: bytes = b"") -> None:
        self.notices.append(code)

    def park(self, request: Request) -> None: ...


class Quorum:
    """Confirms every leadership at once, and decides what is proposed."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def read(self, then: Callable[[ReadOutcome], None]) -> None:
        then(ReadAt(Position(0)))

    def propose(self, body: bytes, then: Callable[[Outcome[Verdict]], None]) -> None:
        then(Applied(Position(0), self.desk.submit(decode_command(body))))


class Rig:
    def __init__(self) -> None:
        self.desk = Desk(now=boot_ms())
        self.desk.found(1, 2, 3, master=1)
        self.board = Board(lambda: self.desk.machine, self.desk.terms, self.desk.options)
        self.board.quorum = cast("Any", Quorum(self.desk))
        self.board.office = self.desk.office
        self.error: Exception | None = None
        self.port = DeskPort(self.board, self.view, boot_ms)
        self.sessions = [Session(number) for number in range(3)]
        for session in self.sessions:
            self.port.on_open(cast("NetSession", session))

    def view(self) -> Any:
        return quorum_view(cast("Any", self), own="n1")

    @property
    def settings(self) -> dict[str, int]:
        """What a controller's machine has set, as 1010 asks for it."""
        if self.error is not None:
            raise self.error
        return {}

    def ask(self, session: Session, *frames: Frame) -> None:
        self.port.on_frames(cast("NetSession", session), list(frames))

    def beat(self, broker: int, **more: object) -> Frame:
        said = {**beating(self.desk, broker), **more}
        return Frame(RequestCode.BROKER_HEARTBEAT, 7, ext={name: str(value) for name, value in said.items()})

    async def speak(self, session: Session, broker: int, **more: object) -> None:
        """A heartbeat, and its answer."""
        await self.hear(session, self.beat(broker, **more))

    async def hear(self, session: Session, frame: Frame) -> None:
        before = len(session.encoded) + len(session.codes)
        self.ask(session, frame)
        async with asyncio.timeout(5):
            while len(session.encoded) + len(session.codes) == before:
                await asyncio.sleep(0)

    def decide(self) -> None:
        """Another in-sync set, or the former one again."""
        if self.desk.group.master is None:
            verdict = self.desk.release(1, life=1)
        else:
            members = (1, 2) if 3 in self.desk.group.sync.members else (1, 2, 3)
            verdict = self.desk.alter(1, *members)
        self.port.applied(cast("Command", None), verdict)

    @property
    def notices(self) -> list[int]:
        return [len(session.notices) for session in self.sessions]


async def test_r19_a_decision_is_told_where_the_brokers_of_its_group_spoke_last_and_not_where_they_are_gone() -> None:
    rig = Rig()
    first, second, _ = rig.sessions
    await rig.speak(first, 1)
    await rig.speak(second, 2)
    rig.decide()
    assert rig.notices == [1, 1, 0]
    assert first.notices == [RequestCode.NOTIFY_BROKER_ROLE_CHANGED]
    await rig.speak(second, 1)
    rig.decide()
    assert rig.notices == [1, 2, 0]
    rig.port.on_close(cast("NetSession", second))
    rig.decide()
    assert rig.notices == [1, 2, 0]


async def test_who_has_registered_is_told_of_decisions_before_its_first_heartbeat() -> None:
    rig = Rig()
    session = rig.sessions[0]
    said = {name: str(value) for name, value in registering(2, logherdIncarnation="later").items()}
    await rig.hear(session, Frame(RequestCode.CONTROLLER_REGISTER_BROKER, 7, ext=said))
    assert session.codes == [ResponseCode.SUCCESS]
    rig.decide()
    assert rig.notices == [1, 0, 0]


async def test_each_decision_is_logged_and_no_broker_is_told_what_is_nothing_to_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "logherd.controller")
    rig = Rig()
    await rig.speak(rig.sessions[0], 1)
    rig.port.applied(cast("Command", None), rig.desk.submit(Configure(group=KEY, replicas=3, min_in_sync=2)))
    assert (rig.notices, caplog.messages) == ([0, 0, 0], [])
    rig.decide()
    assert (rig.notices, caplog.messages) == ([1, 0, 0], ["in-sync set decided"])


async def test_only_the_leader_tells_of_decisions() -> None:
    rig = Rig()
    await rig.speak(rig.sessions[0], 1)
    rig.board.office = None
    rig.decide()
    assert rig.notices == [0, 0, 0]


async def test_whose_heartbeat_is_refused_speaks_for_nobody() -> None:
    rig = Rig()
    session = rig.sessions[0]
    await rig.speak(session, 1, logherdRegistration=99)
    rig.decide()
    assert (session.encoded, rig.notices) == ([ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED], [0, 0, 0])


async def test_who_has_left_before_the_answer_speaks_for_nobody() -> None:
    rig = Rig()
    session = rig.sessions[0]
    rig.ask(session, rig.beat(1))
    rig.port.on_close(cast("NetSession", session))
    async with asyncio.timeout(5):
        while not session.encoded:
            await asyncio.sleep(0)
    rig.decide()
    assert rig.notices == [0, 0, 0]
    assert len(rig.port._speakers) == 0


async def test_nothing_is_kept_of_a_connection_that_has_ended() -> None:
    rig = Rig()
    await rig.speak(rig.sessions[0], 1)
    assert len(rig.port._speakers) == 1
    rig.port.on_close(cast("NetSession", rig.sessions[0]))
    assert len(rig.port._speakers) == 0


async def test_who_is_refused_when_the_quorum_has_answered_speaks_for_nobody() -> None:
    rig = Rig()
    session = rig.sessions[0]
    rig.ask(session, rig.beat(1))
    rig.desk.register(1, life=2)
    async with asyncio.timeout(5):
        while not session.encoded:
            await asyncio.sleep(0)
    rig.decide()
    assert (session.encoded, rig.notices) == ([ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED], [0, 0, 0])


async def test_from_where_a_lease_is_renewed_is_known_of_exactly_the_process_that_does() -> None:
    rig = Rig()
    await rig.speak(rig.sessions[2], 1)
    seat = Seat(KEY, BrokerId(1), rig.desk.registration(1))
    assert rig.port.renewed_from(seat) == "10.0.0.2"
    assert rig.port.renewed_from(Seat(KEY, BrokerId(1), Registration(99))) is None
    assert rig.port.renewed_from(Seat(KEY, BrokerId(2), rig.desk.registration(2))) is None
    rig.port.on_close(cast("NetSession", rig.sessions[2]))
    assert rig.port.renewed_from(seat) is None


@pytest.mark.parametrize(
    ("more", "encoded"),
    [({}, 1), ({"serialize": Serialize.BINARY}, 0), ({"flag": Flag.ONEWAY}, 0)],
    ids=["json", "binary", "oneway"],
)
async def test_a_shared_answer_goes_out_as_it_is_only_to_who_reads_json_and_wants_one(
    more: dict[str, Any], encoded: int
) -> None:
    rig = Rig()
    session = rig.sessions[0]
    frame = Frame(RequestCode.BROKER_HEARTBEAT, 7, ext=rig.beat(2).ext, **more)
    rig.ask(session, frame)
    async with asyncio.timeout(5):
        while not session.encoded and not session.codes:
            await asyncio.sleep(0)
    assert (len(session.encoded), len(session.codes)) == (encoded, 1 - encoded)


async def test_requests_and_refusals_are_counted_by_codes_of_which_peers_make_none_up() -> None:
    rig = Rig()
    rig.ask(rig.sessions[0], Frame(UNKNOWN, 1), Frame(RequestCode.CONTROLLER_GET_METADATA_INFO, 2))
    await rig.speak(rig.sessions[0], 1, logherdRegistration=99)
    beat, info = RequestCode.BROKER_HEARTBEAT, RequestCode.CONTROLLER_GET_METADATA_INFO
    assert rig.port.taken == {-1: 1, info: 1, beat: 1}
    assert rig.port.refused == {
        (-1, ResponseCode.REQUEST_CODE_NOT_SUPPORTED): 1,
        (beat, ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED): 1,
    }


def test_a_defect_costs_the_request_that_meets_it_and_no_other_of_its_pass() -> None:
    rig = Rig()
    session = rig.sessions[0]
    rig.error = ZeroDivisionError()
    config, info = RequestCode.GET_CONTROLLER_CONFIG, RequestCode.CONTROLLER_GET_METADATA_INFO
    rig.ask(session, Frame(config, 1), Frame(info, 2))
    assert session.codes == [ResponseCode.SYSTEM_ERROR, ResponseCode.SUCCESS]
    assert "ZeroDivisionError" in (session.remarks[0] or "")


def test_a_broken_rule_of_the_state_is_no_matter_of_one_request() -> None:
    rig = Rig()
    rig.error = InvariantError("the state is wrong")
    with pytest.raises(InvariantError):
        rig.ask(rig.sessions[0], Frame(RequestCode.GET_CONTROLLER_CONFIG, 1))
