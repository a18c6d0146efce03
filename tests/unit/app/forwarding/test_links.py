"""Links to the leader at moments that sockets seldom meet."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import cast

import pytest

from logherd.aiokit.tasks import TaskGuard
from logherd.app.forwarding.links import LeaderLinks, LinkEvents
from logherd.net.connection import Connection
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
YES = Frame(0, 0, flag=Flag.RESPONSE, ext=encode_header(ForwardingClock(clock_ms=1)))


class Attempt:
    def cancel(self) -> None:
        """Nothing runs."""


class Guard:
    """Counts what it is given, and runs nothing."""

    def __init__(self) -> None:
        self.started = 0

    def start(self, _name: str, work: Coroutine[object, object, None], *, eternal: bool) -> Attempt:
        assert not eternal
        work.close()
        self.started += 1
        return Attempt()


class Events:
    def __init__(self) -> None:
        self.opened: list[int] = []
        self.lost: list[int] = []

    def link_opened(self, number: int, epoch: int, ahead_ms: int) -> None:
        self.opened.append(number)

    def link_lost(self, number: int) -> None:
        self.lost.append(number)


class Wire(FakeTransport):
    def is_reading(self) -> bool:
        return self.reading


class Bench:
    """Links that follow a leader, and what comes of that."""

    def __init__(self) -> None:
        self.guard, self.events = Guard(), Events()
        self.links = LeaderLinks(
            BrokerIdentity("c", "g", 1, "10.0.0.2:10911"), "instance", clock=FakeClock(),
            guard=cast("TaskGuard", self.guard), events=cast("LinkEvents", self.events),
        )  # fmt: skip
        self.links.follow(LEADER)

    def connection(self, wire: Wire | None) -> Connection:
        """One to the leader, or one that has ended."""
        made = Connection("peer", asyncio.get_running_loop(), None, on_lost=None, limits=DEFAULT_LIMITS)
        if wire is not None:
            made.connection_made(wire)
        return made

    def opened(self, wire: Wire | None) -> tuple[Connection, bool]:
        connection = self.connection(wire)
        return connection, self.links._opened(LEADER, connection, YES, pause=0)


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
