"""A broker finds the leading controller, and follows it when it changes."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import cast

import pytest
from msgspec.structs import replace

from logherd.aiokit.tasks import TaskGuard
from logherd.app.group import asking
from logherd.app.group.asking import Answered, ControllersClient, _Questions
from logherd.controller.commands import Register, Release
from logherd.controller.reports import Report, Withheld
from logherd.controller.values import BrokerId, GroupKey, Registration
from logherd.group.output import Ask
from logherd.net.connection import Connection
from logherd.net.errors import ConnectionLost
from logherd.net.server import Server
from logherd.net.session import NetSession
from logherd.service.controllers.asking import Joined
from logherd.service.ports import Reply, Request
from logherd.settings.options import Endpoint
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from logherd.wire.headers.leases import LeaderHint, RegisteredResponse
from unit.app.forwarding.rig import eventually

GROUP = GroupKey("C", "orders")
REGISTER = Register(group=GROUP, broker_id=BrokerId(1), store_id="s", incarnation="i", address="b1:1")
REPORT = Report(group=GROUP, broker_id=BrokerId(1), registration=Registration(7), address="b1:1")


@dataclass
class Controller:
    """Answers as it is told; counts what it hears."""

    leader: str | None = ""
    """Where it sends others; "" if it leads itself."""
    silent: bool = False
    heard: list[int] = field(default_factory=list)
    unanswered: list[tuple[NetSession, Frame]] = field(default_factory=list)
    sessions: list[NetSession] = field(default_factory=list)

    def on_open(self, session: NetSession) -> None:
        self.sessions.append(session)

    def on_close(self, session: NetSession) -> None:
        pass

    def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
        for frame in frames:
            self.heard.append(frame.code)
            if self.silent:
                self.unanswered.append((session, frame))
            else:
                session.reply(Request(frame, None, 0), self.answer(frame))

    def answer(self, frame: Frame) -> Reply:
        if self.leader != "":
            return Reply(ResponseCode.CONTROLLER_NOT_LEADER, LeaderHint(leader_address=self.leader))
        if frame.code == RequestCode.CONTROLLER_REGISTER_BROKER:
            return Reply(ResponseCode.SUCCESS, RegisteredResponse(registration=7, min_in_sync=2))
        if frame.code == RequestCode.BROKER_HEARTBEAT:
            return Reply(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark="who is that")
        return Reply(ResponseCode.SUCCESS)


@dataclass
class Scene:
    client: ControllersClient
    addresses: list[Endpoint]
    servers: list[Server]
    answers: list[tuple[Ask, Answered, int]]
    notices: list[None]
    news: asyncio.Event
    clock: list[int]
    """The time at the broker, ms; the one item."""

    async def asked(self, question: Ask) -> Answered:
        """Ask again and again, as the machine does, until there is an answer."""
        count = len(self.answers)
        async with asyncio.timeout(30):
            while len(self.answers) == count:
                self.client.ask(question)
                await self.something(0.3)
        return self.answers[count][1]

    async def something(self, seconds: float) -> None:
        """Wait for an answer or a notice, so long at most."""
        self.news.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.news.wait()


@asynccontextmanager
async def scene(*controllers: Controller) -> AsyncIterator[Scene]:
    servers = [Server(controller) for controller in controllers]
    addresses = []
    for server in servers:
        host, port = await server.listen("127.0.0.1", 0)
        addresses.append(Endpoint(host=host, port=port))
    answers: list[tuple[Ask, Answered, int]] = []
    notices: list[None] = []
    news, clock = asyncio.Event(), [1234]

    def answered(question: Ask, answer: Answered, sent: int) -> None:
        answers.append((question, answer, sent))
        news.set()

    def noticed() -> None:
        notices.append(None)
        news.set()

    client = ControllersClient(addresses, now_ms=lambda: clock[0], on_answer=answered, on_notice=noticed)
    guard = TaskGuard()
    client.start(guard)
    try:
        yield Scene(client, addresses, servers, answers, notices, news, clock)
    finally:
        await client.stop()
        await guard.stop(5)
        for server in servers:
            await server.stop(0)


async def test_a_question_is_answered_by_the_leader_whoever_is_asked_first() -> None:
    follower, leader = Controller(leader=None), Controller()
    async with scene(follower, leader) as at:
        follower.leader = str(at.addresses[1])
        assert await at.asked(REGISTER) == Joined(Registration(7), 2)
        assert at.client.controller == str(at.addresses[1])
        assert follower.heard == [RequestCode.CONTROLLER_REGISTER_BROKER]
        assert at.answers[0][2] == 1234


async def test_a_question_waits_for_a_connection_and_only_the_latest_of_its_kind() -> None:
    leader = Controller()
    async with scene(leader) as at:
        for _ in range(3):
            at.client.ask(REGISTER)
        async with asyncio.timeout(30):
            while not at.answers:
                await at.something(30)
        assert leader.heard == [RequestCode.CONTROLLER_REGISTER_BROKER]


async def test_a_report_waits_for_the_answer_to_the_one_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who leads reports ten times as often where answers come late; a fleet that did so might never get one in time."""
    monkeypatch.setattr(asking, "_ANSWER_SECONDS", 60.0)
    slow = Controller(silent=True)
    async with scene(slow) as given:
        given.client.ask(REPORT)
        await eventually(lambda: len(slow.unanswered) == 1)
        for number in (8, 9):
            given.client.ask(replace(REPORT, registration=Registration(number)))
        given.client.ask(REGISTER)
        await eventually(lambda: len(slow.unanswered) == 2)
        assert slow.heard == [RequestCode.BROKER_HEARTBEAT, RequestCode.CONTROLLER_REGISTER_BROKER]
        slow.silent = False
        session, first = slow.unanswered[0]
        session.reply(Request(first, None, 0), slow.answer(first))
        await eventually(lambda: len(given.answers) == 2)
        asked = [question for question, _, _ in given.answers]
    assert asked == [REPORT, replace(REPORT, registration=Registration(9))], "of those that waited the latest"


async def test_an_answer_counts_from_when_its_question_left_however_late_it_comes() -> None:
    """A lease that counted from the answer would outlast what the controllers have granted."""
    slow = Controller(silent=True)
    async with scene(slow) as at:
        at.client.ask(REGISTER)
        await eventually(lambda: len(slow.unanswered) == 1)
        at.clock[0] += 700
        session, question = slow.unanswered[0]
        session.reply(Request(question, None, 0), slow.answer(question))
        await eventually(lambda: len(at.answers) == 1)
        assert at.answers[0][2] == 1234


def test_a_question_that_was_not_answered_is_not_asked_in_place_of_a_later_one() -> None:
    questions, connection = _Questions(), cast("Connection", object())
    questions.put(REPORT)
    assert questions.due(connection) == [REPORT]
    later = replace(REPORT, registration=Registration(8))
    questions.put(later)
    questions.put_back(REPORT)
    assert questions.due(cast("Connection", object())) == [later]


def test_an_answer_over_a_connection_that_was_left_lets_no_second_report_go_over_the_next() -> None:
    questions, left, connection = _Questions(), cast("Connection", object()), cast("Connection", object())
    questions.put(REPORT)
    questions.due(left)
    questions.put(REPORT)
    assert questions.due(connection) == [REPORT]
    questions.put(REPORT)
    questions.answered(left, REPORT)
    assert questions.due(connection) == []
    questions.answered(connection, REPORT)
    assert questions.due(connection) == [REPORT]


async def test_a_controller_that_does_not_answer_is_left_for_the_next() -> None:
    async with scene(Controller(silent=True), Controller()) as at:
        assert await at.asked(REGISTER) == Joined(Registration(7), 2)
        assert at.client.controller == str(at.addresses[1])


async def test_a_silent_controller_is_not_asked_again_before_the_others_have_elected() -> None:
    """Its guardian keeps its port: each question to it costs a second of a lease."""
    silent, one, other = Controller(silent=True), Controller(leader=None), Controller(leader=None)
    async with scene(silent, one, other) as at:
        at.client.ask(REGISTER)
        async with asyncio.timeout(30):
            while not one.heard or not other.heard or len(one.heard) + len(other.heard) < 6:
                at.client.ask(REGISTER)
                await asyncio.sleep(0)
        other.leader = ""
        assert await at.asked(REGISTER) == Joined(Registration(7), 2)
        assert len(silent.sessions) == 1


async def test_a_controller_that_is_gone_is_left_for_the_next() -> None:
    async with scene(Controller(), Controller()) as at:
        await at.asked(REGISTER)
        await at.servers[0].stop(0)
        await at.asked(REGISTER)
        assert at.client.controller == str(at.addresses[1])


async def test_a_controller_without_a_leader_is_left_for_the_next() -> None:
    async with scene(Controller(leader=None), Controller()) as at:
        await at.asked(REGISTER)
        assert at.client.controller == str(at.addresses[1])


async def test_a_process_that_is_not_known_is_told_to_register_again() -> None:
    async with scene(Controller()) as at:
        assert await at.asked(REPORT) == Withheld(None, None)


async def test_a_release_is_answered_by_silence() -> None:
    leader = Controller()
    release = Release(group=GROUP, broker_id=BrokerId(1), store_id="s", incarnation="i", exited=False)
    async with scene(leader) as at:
        at.client.ask(release)
        await at.asked(REGISTER)
        assert RequestCode.LEASE_RELEASE in leader.heard
        assert all(not isinstance(question, Release) for question, _, _ in at.answers)


async def test_news_of_the_group_are_heard_from_the_controller_that_is_asked() -> None:
    leader = Controller()
    async with scene(leader) as at:
        await at.asked(REGISTER)
        leader.sessions[0].notify(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, {}, b"")
        async with asyncio.timeout(30):
            while not at.notices:
                await at.something(30)


async def test_controllers_that_name_each_other_are_asked_after_longer_and_longer_pauses() -> None:
    one, other = Controller(), Controller()
    async with scene(one, other) as at:
        one.leader, other.leader = str(at.addresses[1]), str(at.addresses[0])
        begun = time.monotonic()
        at.client.ask(REGISTER)
        async with asyncio.timeout(30):
            while len(one.heard) + len(other.heard) < 5:
                await asyncio.sleep(0)
        assert time.monotonic() - begun > 0.3
        other.leader = ""
        assert await at.asked(REGISTER) == Joined(Registration(7), 2)


async def test_a_leader_is_found_though_the_controller_that_is_asked_first_names_an_address_where_nobody_is() -> None:
    """As behind a translation of addresses, where the controllers' own are of no use to a broker."""
    lost = Controller()
    async with scene(lost, Controller()) as at:
        with socket.create_server(("127.0.0.1", 0)) as unused:
            lost.leader = f"127.0.0.1:{unused.getsockname()[1]}"
        assert await at.asked(REGISTER) == Joined(Registration(7), 2)
        assert at.client.controller == str(at.addresses[1])


@pytest.mark.parametrize("port", ["65536", "9" * 5000, "-1", "x"])
async def test_a_leader_is_found_though_the_controller_that_is_asked_first_names_what_is_no_address(port: str) -> None:
    async with scene(Controller(leader=f"127.0.0.1:{port}"), Controller()) as at:
        assert await at.asked(REGISTER) == Joined(Registration(7), 2)


async def test_a_third_controller_is_asked_where_two_name_each_other() -> None:
    one, other = Controller(), Controller()
    async with scene(one, other, Controller()) as at:
        one.leader, other.leader = str(at.addresses[1]), str(at.addresses[0])
        assert await at.asked(REGISTER) == Joined(Registration(7), 2)
        assert at.client.controller == str(at.addresses[2])


class Full(asyncio.Protocol):
    """Takes connections and lets them go, as a controller does that has no room, or a proxy before none."""

    came = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        type(self).came += 1
        cast("asyncio.Transport", transport).abort()


async def test_a_controller_that_lets_each_connection_go_is_connected_to_after_longer_and_longer_pauses() -> None:
    full = await asyncio.get_running_loop().create_server(Full, "127.0.0.1", 0)
    host, port = full.sockets[0].getsockname()
    client = ControllersClient([Endpoint(host=host, port=port)], now_ms=lambda: 0, on_answer=lambda *_: None)
    guard = TaskGuard()
    client.start(guard)
    try:
        begun = time.monotonic()
        client.ask(REPORT)
        async with asyncio.timeout(30):
            while Full.came < 4:
                await asyncio.sleep(0)
        assert time.monotonic() - begun > 0.3
    finally:
        await guard.stop(5)
        await client.stop()
        full.close()


class Enough(Exception):
    """The test has seen what it wanted."""


async def test_controllers_that_cannot_be_reached_for_long_are_tried_for_twice_a_second_and_anew_once_they_helped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept, helpful = list[float](), [8]
    client = ControllersClient([Endpoint(host="c1", port=1)], now_ms=lambda: 0, on_answer=lambda *_: None)

    async def rest(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 10:
            raise Enough

    async def unreachable(*_: object, **__: object) -> Connection:
        if helpful == [len(slept)]:
            helpful.clear()
            client._helped = True  # as if there had been an answer over it
        raise ConnectionLost("c1", written=False, reason="refused")

    monkeypatch.setattr(asyncio, "sleep", rest)
    monkeypatch.setattr(asking, "connect", unreachable)
    client.ask(REPORT)
    with pytest.raises(Enough):
        await client._keep_connected()
    assert slept == [0.05, 0.1, 0.2, 0.4, 0.5, 0.5, 0.5, 0.5, 0.05, 0.1]
