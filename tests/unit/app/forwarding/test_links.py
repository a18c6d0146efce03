"""Links to the leader at moments that sockets seldom meet."""

import asyncio
import inspect
import logging
from collections.abc import Coroutine
from typing import Any, cast

import pytest

from logherd.aiokit.tasks import TaskGuard
from logherd.app.forwarding.links import RETRY_SECONDS, UNSENT_BYTES_MAX, LeaderLinks, LinkEvents
from logherd.net.connection import Connection, Outcome
from logherd.net.errors import RequestTimeout
from logherd.service.forwarding.admission import refused
from logherd.service.forwarding.roles import Following
from logherd.service.identity import BrokerIdentity
from logherd.wire.codes import ResponseCode
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers import encode_header
from logherd.wire.headers.forwarding import ForwardingClock, Refused
from logherd.wire.limits import DEFAULT_LIMITS
from unit.net.fakes import FakeTransport
from unit.service.client_fakes import FakeClock

LEADER = Following("10.0.0.1:10911", 5)
NEXT = Following("10.0.0.3:10911", 6)
YES = Frame(0, 0, flag=Flag.RESPONSE, ext=encode_header(ForwardingClock(clock_ms=1)))
NO_CLOCK = Frame(0, 0, flag=Flag.RESPONSE)


class Attempt:
    def cancel(self) -> None:
        """Nothing runs."""


class Guard:
    """Keeps the pause before each attempt that it is given, and runs none."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    @property
    def started(self) -> int:
        return len(self.pauses)

    def start(self, _name: str, work: Coroutine[Any, Any, None], *, eternal: bool) -> Attempt:
        assert not eternal
        self.pauses.append(inspect.getcoroutinelocals(work)["pause"])
        work.close()
        return Attempt()


class Events:
    def __init__(self) -> None:
        self.opened: list[int] = []
        self.lost: list[int] = []
        self.clocks: list[tuple[int, int]] = []

    def link_opened(self, number: int, epoch: int, ahead_ms: int) -> None:
        self.opened.append(number)

    def link_lost(self, number: int) -> None:
        self.lost.append(number)

    def link_clock(self, number: int, ahead_ms: int) -> None:
        self.clocks.append((number, ahead_ms))

    def link_asks(self, connection: Connection, frame: Frame) -> None:
        """No leader asks here."""


class Wire(FakeTransport):
    def is_reading(self) -> bool:
        return self.reading


class Bench:
    """Links that follow a leader, and what comes of that."""

    def __init__(self) -> None:
        self.guard, self.events, self.clock = Guard(), Events(), FakeClock()
        self.links = LeaderLinks(
            BrokerIdentity("c", "g", 1, "10.0.0.2:10911"), "instance", clock=self.clock,
            guard=cast("TaskGuard", self.guard), events=cast("LinkEvents", self.events),
        )  # fmt: skip
        self.links.follow(LEADER)

    def connection(self, wire: Wire | None) -> Connection:
        """One to the leader, or one that has ended."""
        made = Connection("peer", asyncio.get_running_loop(), None, on_lost=None, limits=DEFAULT_LIMITS)
        if wire is not None:
            made.connection_made(wire)
        return made

    def opened(self, wire: Wire | None, *, leader: Following = LEADER, pause: float = 0) -> tuple[Connection, bool]:
        connection = self.connection(wire)
        return connection, self.links._opened(leader, connection, YES, pause=pause)

    def beaten(self, connection: Connection, outcome: Outcome) -> None:
        """The leader is asked for its clock."""
        (link,) = self.links._links.values()
        self.links._beat(link)
        ((_, on_outcome),) = connection._pending.drain()
        on_outcome(outcome)


async def test_a_leader_that_agrees_and_ends_the_connection_at_once_is_tried_again() -> None:
    bench = Bench()
    assert not bench.opened(None)[1]
    assert (len(bench.links), bench.events.opened) == (0, [])
    assert bench.opened(Wire())[1]
    assert (len(bench.links), len(bench.events.opened)) == (1, 1)


async def test_that_the_elected_one_does_not_lead_yet_is_no_warning_and_a_leader_that_fails_otherwise_is_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    bench = Bench()
    not_leader, other_group = (
        Frame(each.code, 0, flag=Flag.RESPONSE, ext=encode_header(each.header), remark=each.remark)
        for each in (refused(Refused.NOT_LEADER, LEADER), refused(Refused.OTHER_GROUP, LEADER))
    )
    broken = Frame(ResponseCode.SYSTEM_ERROR, 0, flag=Flag.RESPONSE, remark="broken")
    for each in (not_leader, not_leader, other_group, broken):
        assert not bench.links._opened(LEADER, bench.connection(Wire()), each, pause=0)
    told = [(each.levelname, each.getMessage(), each.__dict__["fields"]["reason"]) for each in caplog.records]
    assert told == [
        ("INFO", "no requests go to the leader yet", "not carried out: not-leader"),
        ("WARNING", "no requests go to the leader yet", "not carried out: other-group"),
        ("WARNING", "no requests go to the leader yet", "broken"),
    ]


async def test_a_link_that_is_lost_while_another_is_tried_for_is_not_tried_for_twice() -> None:
    bench = Bench()
    first, _ = bench.opened(Wire())
    bench.links.follow(LEADER)  # it has refused a request
    bench.links._lost(first)
    assert (bench.guard.started, len(bench.events.lost)) == (2, 1)
    second, _ = bench.opened(Wire())
    bench.links._lost(second)
    assert bench.guard.started == 3


async def test_a_leader_that_was_not_read_for_a_while_since_it_was_asked_is_asked_again() -> None:
    bench, wire = Bench(), Wire()
    connection, _ = bench.opened(wire)
    (link,) = bench.links._links.values()
    for held in (True, False):
        bench.links._beat(link)
        if held:
            bench.links.hold_reading(held=True)
            bench.links.hold_reading(held=False)
        ((_, on_outcome),) = connection._pending.drain()
        on_outcome(RequestTimeout("peer", 3.0))
        assert wire.aborted is not held


async def test_who_stops_and_hears_of_a_leader_before_its_link_has_ended_tries_for_no_other() -> None:
    bench = Bench()
    first, _ = bench.opened(Wire())
    bench.links.stop()
    bench.links.follow(LEADER)
    bench.links._lost(first)
    assert bench.guard.started == 1


async def test_each_answer_of_a_leader_with_its_clock_is_told_and_one_without_costs_nobody_the_link() -> None:
    """With the first reading alone a request would be begun too late, or refused in time, once the clocks drift."""
    bench = Bench()
    connection, _ = bench.opened(Wire())
    bench.beaten(connection, Frame(0, 0, flag=Flag.RESPONSE, ext=encode_header(ForwardingClock(clock_ms=60_000))))
    assert bench.events.clocks == [(1, 60_000 - bench.clock.monotonic)]
    bench.beaten(connection, NO_CLOCK)
    assert (len(bench.events.clocks), len(bench.links), connection.closed) == (1, 1, False)


@pytest.mark.parametrize("answers", [True, False])
async def test_after_a_link_that_has_answered_the_next_is_tried_for_without_a_pause(answers: bool) -> None:
    bench = Bench()
    connection, _ = bench.opened(Wire(), pause=0.3)
    if answers:
        bench.beaten(connection, YES)
    bench.links._lost(connection)
    assert bench.guard.pauses == [0, 0 if answers else 0.3]


async def test_a_link_to_a_former_leader_that_is_lost_is_not_made_again() -> None:
    bench = Bench()
    former, _ = bench.opened(Wire())
    bench.links.follow(NEXT)
    latter, _ = bench.opened(Wire(), leader=NEXT)
    bench.links._lost(former)
    assert bench.guard.started == 2
    bench.links._lost(latter)
    assert bench.guard.started == 3


async def test_a_link_that_is_lost_is_asked_for_its_clock_no_more() -> None:
    bench = Bench()
    connection, _ = bench.opened(Wire())
    (link,) = bench.links._links.values()
    bench.links._lost(connection)
    bench.links._beat(link)
    assert connection.open_requests == 0


async def test_offset_commits_that_the_leader_does_not_take_fill_no_memory() -> None:
    bench, wire = Bench(), Wire()
    connection, _ = bench.opened(wire)
    (number,) = bench.events.opened
    commit = Frame(15, 0, flag=Flag.ONEWAY, body=b"much")
    wire.unsent = UNSENT_BYTES_MAX - 1
    bench.links.offer(number, commit)
    taken = connection.unsent
    assert taken > UNSENT_BYTES_MAX
    bench.links.offer(number, commit)
    assert connection.unsent == taken
    bench.links.tell(number, Frame(27012, 0))  # nobody would say it again
    assert connection.unsent > taken


async def test_a_leader_that_cannot_be_reached_for_long_is_tried_for_twice_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench, slept = Bench(), list[float]()

    async def rest(seconds: float) -> None:
        slept.append(seconds)

    async def reached(_leader: Following, _pause: float) -> bool:
        return len(slept) == 20

    monkeypatch.setattr(asyncio, "sleep", rest)
    monkeypatch.setattr(bench.links, "_try", reached)
    await bench.links._pursue(LEADER, 0)
    assert max(slept) <= 1.3 * RETRY_SECONDS[1]
    assert slept[-1] >= 0.7 * RETRY_SECONDS[1]


async def test_who_names_no_address_or_tells_no_clock_is_tried_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hint may say anything. To fail otherwise would end this broker."""
    bench, wire = Bench(), Wire()
    connection = bench.connection(wire)

    async def connected(*_: object, **__: object) -> Connection:
        return connection

    async def call(_frame: Frame, *, seconds: float) -> Frame:
        return NO_CLOCK

    monkeypatch.setattr("logherd.app.forwarding.links.connect", connected)
    monkeypatch.setattr(connection, "call", call)
    for leader in (Following("nowhere", 6), LEADER):
        assert not await bench.links._try(leader, 0)
    assert (wire.aborted, bench.events.opened) == (True, [])
