"""What the gate does with links that the test holds in its hand, and with a pull that waited for this broker."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from logherd.app.forwarding.gate import Gate
from logherd.app.forwarding.links import LeaderLinks
from logherd.net.connection import Connection, Outcome
from logherd.net.errors import RequestTimeout
from logherd.net.session import NetSession
from logherd.service.forwarding.handling import HANDLING, HOLD_MS
from logherd.service.forwarding.roles import Following
from logherd.wire.bodies import encode_body
from logherd.wire.bodies.clients import Heartbeat, ProducerData
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers import decode_header, encode_header
from logherd.wire.headers.forwarding import ForwardedHeader, ForwardingRefusal, Refused, ToClientHeader
from logherd.wire.headers.offsets import QueryConsumerOffsetHeader
from logherd.wire.headers.pull import PullFlag, PullMessageHeader
from unit.app.forwarding.rig import TOPIC, Node, eventually, group_of, send_frame
from unit.service.client_fakes import FakeClock

AHEAD_MS = 5_000_000
"""The leader's machine has run for so much longer."""
SLACK_MS = 60_000


class Links:
    """Keeps what it is to send."""

    def __init__(self) -> None:
        self.sent: list[Frame] = []
        self.told: list[Frame] = []
        self.started: list[tuple[Frame, Callable[[Outcome], None], float]] = []
        self.followed: list[Following] = []
        self.closed: list[int] = []

    def __len__(self) -> int:
        return 0

    def follow(self, leader: Following, _have: int = 0) -> None:
        self.followed.append(leader)

    def tell(self, _number: int, frame: Frame) -> None:
        self.sent.append(frame)
        self.told.append(frame)

    def offer(self, number: int, frame: Frame) -> None:
        self.tell(number, frame)

    def start(self, _number: int, frame: Frame, on_outcome: Callable[[Outcome], None], *, seconds: float) -> None:
        self.sent.append(frame)
        self.started.append((frame, on_outcome, seconds))

    def close(self, number: int) -> None:
        self.closed.append(number)

    def hold_reading(self, *, held: bool) -> None:
        """Nothing is read here."""

    def rest(self) -> None:
        """Nothing is tried for."""

    def stop(self) -> None:
        """Nothing is open."""


@asynccontextmanager
async def following(folder: Path) -> AsyncIterator[tuple[Node, Gate, Links]]:
    """A broker that follows a leader in epoch 3, to which nothing goes but by links that the test holds."""
    async with group_of(1, folder) as group:
        (node,) = group.nodes
        gate, links = node.broker._forwarding.gate, Links()
        gate._links = cast("LeaderLinks", links)
        node.leadership.set(Following("127.0.0.1:1", 3))
        yield node, gate, links


def marks_of(frame: Frame) -> ForwardedHeader:
    return decode_header(ForwardedHeader, frame.ext)


def answer(sent: tuple[Frame, Callable[[Outcome], None], float]) -> None:
    sent[1](Frame(0, 0, flag=Flag.RESPONSE))


def heartbeat() -> Frame:
    body = Heartbeat(client_id="c", producers=[ProducerData(group="p")])
    return Frame(RequestCode.HEART_BEAT, 0, body=encode_body(body))


def asked(client: Connection, frame: Frame) -> asyncio.Future[Frame]:
    return asyncio.ensure_future(client.call(frame, seconds=30))


async def test_h10_whatever_goes_to_the_leader_has_its_time_by_the_leaders_clock(tmp_path: Path) -> None:
    """Clients that are named too late by that clock would be unknown to a new leader."""
    async with following(tmp_path) as (node, gate, links):
        assert links.followed == [Following("127.0.0.1:1", 3)]
        client = await node.connect()
        calls = [asked(client, heartbeat())]
        await eventually(lambda: gate.held == 1)
        begun_ms = gate._clock.monotonic_ms()
        gate.link_opened(7, 3, AHEAD_MS)
        named, complete = links.told
        assert (named.code, complete.code) == (RequestCode.HEART_BEAT, RequestCode.FORWARDING_COMPLETE)
        gate.link_clock(7, 2 * AHEAD_MS)
        calls.append(asked(client, send_frame(b"x")))
        await eventually(lambda: len(links.started) == 2)
        first, second = (each[0] for each in links.started)
        for frame, ahead_ms in ((named, AHEAD_MS), (first, AHEAD_MS), (second, 2 * AHEAD_MS)):
            marks = marks_of(frame)
            assert marks.epoch == 3
            assert 0 < marks.deadline_ms - begun_ms - ahead_ms < SLACK_MS
        assert named.flag & Flag.ONEWAY
        assert [seconds * 1000 for *_, seconds in links.started] == [
            HANDLING[code].answer_ms for code in (RequestCode.HEART_BEAT, second.code)
        ]
        for sent in links.started:
            answer(sent)
        assert [each.code for each in await asyncio.gather(*calls)] == [0, 0]
        await client.close()


async def test_the_link_to_a_former_leader_is_closed_once_nothing_is_open_on_it(tmp_path: Path) -> None:
    async with following(tmp_path) as (node, gate, links):
        gate.link_opened(7, 3, 0)
        client = await node.connect()
        call = asked(client, send_frame(b"x"))
        await eventually(lambda: len(links.started) == 1)
        node.leadership.set(Following("127.0.0.1:1", 4))
        gate.link_opened(8, 4, 0)
        assert links.closed == []
        answer(links.started[0])
        assert (await call).code == 0
        await eventually(lambda: links.closed == [7])
        await client.close()


async def test_h11_a_pull_that_waited_for_this_broker_to_lead_commits_nothing(tmp_path: Path) -> None:
    async with group_of(1, tmp_path) as group:
        (node,) = group.nodes
        gate = node.broker._forwarding.gate
        group.elect(node)
        client = await node.connect()
        assert (await client.call(send_frame(b"x"), seconds=30)).code == 0
        flags = PullFlag.COMMIT_OFFSET | PullFlag.SUBSCRIPTION
        header = PullMessageHeader(
            consumer_group="readers", topic=TOPIC, queue_id=0, queue_offset=0, messages_max=32, sys_flag=flags,
            commit_offset=1, suspend_timeout_ms=0, subscription_version=0, subscription="*", expression_type="TAG",
        )  # fmt: skip
        query = encode_header(QueryConsumerOffsetHeader(consumer_group="readers", topic=TOPIC, queue_id=0))

        async def committed() -> str | None:
            found = await client.call(Frame(RequestCode.QUERY_CONSUMER_OFFSET, 0, ext=query), seconds=30)
            return found.ext.get("offset")

        group.depose()
        pull = asked(client, Frame(RequestCode.PULL_MESSAGE, 0, ext=encode_header(header)))
        await eventually(lambda: gate.held == 1)
        group.elect(node)
        assert (await pull).code == 0
        assert await committed() != "1"
        await client.call(Frame(RequestCode.PULL_MESSAGE, 0, ext=encode_header(header)), seconds=30)
        assert await committed() == "1", "as one does that did not wait"
        await client.close()


async def test_a_leader_on_another_broker_hears_who_the_clients_are_before_what_they_ask(tmp_path: Path) -> None:
    async with following(tmp_path) as (node, gate, links):
        client = await node.connect()
        call = asked(client, heartbeat())
        await eventually(lambda: gate.held == 1)
        gate.link_opened(7, 3, 0)
        assert [frame.code for frame in links.sent] == [
            RequestCode.HEART_BEAT, RequestCode.FORWARDING_COMPLETE, RequestCode.HEART_BEAT,
        ]  # fmt: skip
        answer(links.started[0])
        await call
        await client.close()


async def test_the_services_here_hear_who_the_clients_are_before_what_they_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with group_of(1, tmp_path) as group:
        (node,) = group.nodes
        gate = node.broker._forwarding.gate
        port, done = gate._parts.port, list[int]()
        client = await node.connect()
        calls = [asked(client, frame) for frame in (heartbeat(), send_frame(b"x"))]
        await eventually(lambda: gate.held == 2)

        def carried_out(session: NetSession, frames: list[Frame]) -> None:
            done.extend(frame.code for frame in frames)
            port.on_behalf(session, [(frame, session) for frame in frames])

        monkeypatch.setattr(port, "on_frames", carried_out)
        group.elect(node)
        assert done == [RequestCode.HEART_BEAT, RequestCode.HEART_BEAT, 310]
        await asyncio.gather(*calls)
        await client.close()


async def test_h10_what_a_leader_does_not_answer_in_time_is_unknown_and_not_sent_again(tmp_path: Path) -> None:
    async with following(tmp_path) as (node, gate, links):
        gate.link_opened(7, 3, 0)
        client = await node.connect()
        call = asked(client, send_frame(b"x"))
        await eventually(lambda: len(links.started) == 1)
        _, on_outcome, seconds = links.started[0]
        on_outcome(RequestTimeout("leader", seconds))
        assert len(links.started) == 1
        heard = await call
        assert heard.code == ResponseCode.SYSTEM_ERROR
        assert "unknown: the leader did not answer in time" in (heard.remark or "")
        await client.close()


async def test_when_the_time_of_one_that_waits_is_over_the_gate_looks_again_for_the_next(tmp_path: Path) -> None:
    async with group_of(1, tmp_path) as group:
        (node,) = group.nodes
        gate, clock = node.broker._forwarding.gate, FakeClock()
        gate._clock = clock
        client = await node.connect()
        calls = [asked(client, send_frame(b"first"))]
        await eventually(lambda: gate.held == 1)
        clock.monotonic += 1_000
        calls.append(asked(client, send_frame(b"second")))
        await eventually(lambda: gate.held == 2)
        clock.monotonic += HOLD_MS - 1_000
        gate._due()
        assert (await calls[0]).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert gate.held == 1
        assert gate._timer is not None
        assert gate._timer_ms == clock.monotonic + 1_000
        group.elect(node)
        assert (await calls[1]).code == 0
        await client.close()


async def test_a_link_for_a_leader_that_is_not_wanted_any_more_is_closed_though_nothing_else_happens(
    tmp_path: Path,
) -> None:
    async with following(tmp_path) as (_, gate, links):
        gate.link_opened(7, 2, 0)
        await eventually(lambda: links.closed == [7])


async def test_a_leader_that_asks_a_client_who_has_left_hears_so_at_once(tmp_path: Path) -> None:
    async with group_of(1, tmp_path) as group:
        gate, heard = group.nodes[0].broker._forwarding.gate, list[Frame]()

        class Leader:
            """Keeps what it is answered."""

            answer = heard.append

        marks = encode_header(ToClientHeader(session=999, timeout_ms=60_000))
        gate.link_asks(cast("Connection", Leader), Frame(RequestCode.GET_CONSUMER_RUNNING_INFO, 8, ext=marks))
        (told,) = heard
        assert (told.code, told.opaque, told.flag) == (ResponseCode.FORWARDING_REFUSED, 8, Flag.RESPONSE)
        assert decode_header(ForwardingRefusal, told.ext).reason == Refused.CLIENT_GONE
