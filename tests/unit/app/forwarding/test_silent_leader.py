"""Leaders that say yes and then nothing, and clients that ask and do not listen."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from logherd.net.connection import Connection
from logherd.net.server import Server
from logherd.net.session import NetSession
from logherd.service.forwarding.admission import refused
from logherd.service.forwarding.roles import Following, Leading, Nobody, Role
from logherd.service.ports import Reply, Request
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers.forwarding import ForwardingClock, Refused
from unit.app.forwarding.rig import Node, eventually, group_of, send_frame
from unit.net.fakes import Recorder


class Silent(Recorder):
    """Agrees to lead, answers nothing after that."""

    def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
        super().on_frames(session, frames)
        for frame in frames:
            if frame.code == RequestCode.FORWARDING_OPEN:
                clock = ForwardingClock(clock_ms=time.monotonic_ns() // 1_000_000)
                session.reply(Request(frame, None, 0), Reply(header=clock))

    @property
    def sends(self) -> int:
        return sum(frame.code == 310 for frame in self.frames)


class Ending(Silent):
    """Ends each connection once it is complete, as a leader does that has a newer one of a broker of that number."""

    def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
        super().on_frames(session, frames)
        if any(frame.code == RequestCode.FORWARDING_COMPLETE for frame in frames):
            session.end("the broker has a newer forwarding connection")


@asynccontextmanager
async def silent_leader(silent: Silent | None = None) -> AsyncIterator[tuple[Silent, str]]:
    """It, and its address."""
    silent = silent or Silent()
    server = Server(silent)
    host, port = await server.listen("127.0.0.1", 0)
    try:
        yield silent, f"{host}:{port}"
    finally:
        await server.stop(0)


async def asked(node: Node, silent: Silent, address: str) -> tuple[Connection, asyncio.Future[Frame]]:
    """A client of this broker, and its request, which the leader has and does not answer."""
    node.leadership.set(Following(address, 1))
    client = await node.connect()
    first = asyncio.ensure_future(client.call(send_frame(b"first"), seconds=10))
    await eventually(lambda: silent.sends == 1)
    return client, first


@asynccontextmanager
async def waiting(tmp_path: Path) -> AsyncIterator[tuple[Node, Connection, asyncio.Future[Frame]]]:
    """A broker, a client of it, and that client's request, for which a silent leader lets it wait."""
    async with group_of(1, tmp_path) as group, silent_leader() as (silent, address):
        (node,) = group.nodes
        client, first = await asked(node, silent, address)
        yield node, client, first
        await client.close()


async def test_h10_what_a_leader_got_and_did_not_answer_is_unknown_and_not_sent_to_the_next(tmp_path: Path) -> None:
    async with group_of(2, tmp_path) as group, silent_leader() as (silent, address):
        leader, node = group.nodes
        group.epoch = 1
        client, first = await asked(node, silent, address)
        begun = time.monotonic()
        group.elect(leader)
        second = await client.call(send_frame(b"second"), seconds=10)
        assert second.code == 0
        assert time.monotonic() - begun > 0.4, "the old leader had not its time"
        answer = await first
        assert answer.code == 1
        assert answer.remark is not None
        assert answer.remark.startswith("unknown: ")
        assert group.stored() == {b"second": 1}
        await client.close()


@pytest.mark.parametrize("role", [Following("127.0.0.1:1", 2), Leading(2)], ids=["another", "this broker"])
async def test_h10_who_waits_for_a_former_leader_hears_in_its_time_though_nobody_asks_anything_more(
    tmp_path: Path, role: Role
) -> None:
    async with waiting(tmp_path) as (node, _client, first):
        begun = time.monotonic()
        node.leadership.set(role)
        assert (await first).code == 1
        assert time.monotonic() - begun < 2, "it had to wait until the leader counted as silent"


async def test_order_is_kept_when_this_broker_itself_becomes_the_leader(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (node, client, first):
        other = await node.connect()
        node.leadership.set(Leading(2))
        second = asyncio.ensure_future(client.call(send_frame(b"second"), seconds=10))
        ended = list[object]()
        for each in (first, second):
            each.add_done_callback(ended.append)
        assert (await other.call(send_frame(b"other"), seconds=10)).code == 0
        assert ended == []
        assert ((await first).code, (await second).code) == (1, 0)
        assert ended == [first, second]
        assert [message.body for message in node.messages()] == [b"other", b"second"]
        # Nothing is left for the forwarder, so the services have the port to themselves.
        assert node.broker._forwarding.gate.on_frames == node.broker._forwarding.gate._parts.port.on_frames
        await other.close()


async def test_a_lease_that_is_over_is_noticed_before_what_came_behind_another_leaders_requests_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with waiting(tmp_path) as (node, client, first):
        other = await node.connect()
        second = asyncio.ensure_future(client.call(send_frame(b"second"), seconds=10))
        node.leadership.set(Leading(2))
        # This process sleeps for longer than its lease, and only looking at the clock will show it.
        monkeypatch.setattr(node.leadership, "confirm", lambda: node.leadership.set(Nobody()))
        third = asyncio.ensure_future(other.call(send_frame(b"third"), seconds=10))
        assert (await first).code == 1
        assert [(await each).code for each in (second, third)] == [14, 14]
        assert node.messages() == []
        await other.close()


async def test_a_lease_that_is_over_is_noticed_before_requests_that_waited_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with waiting(tmp_path) as (node, client, first):
        node.leadership.set(Leading(2))
        second = asyncio.ensure_future(client.call(send_frame(b"second"), seconds=10))
        await eventually(lambda: node.broker._forwarding.gate.held == 1)
        monkeypatch.setattr(node.leadership, "confirm", lambda: node.leadership.set(Nobody()))
        assert (await first).code == 1  # the old leader had its time
        assert (await second).code == 14
        assert node.messages() == []


async def test_a_lease_that_is_over_is_noticed_before_what_stood_behind_a_lost_request_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with group_of(1, tmp_path) as group, silent_leader() as (silent, address):
        (node,) = group.nodes
        client, first = await asked(node, silent, address)
        node.leadership.set(Leading(2))
        second = asyncio.ensure_future(client.call(send_frame(b"second"), seconds=10))
        await eventually(lambda: node.broker._forwarding.gate.held == 1)
        monkeypatch.setattr(node.leadership, "confirm", lambda: node.leadership.set(Nobody()))
        for session in silent.opened:
            session.end("the old leader is gone")
        assert [(await each).code for each in (first, second)] == [1, 14]
        assert node.messages() == []
        await client.close()


async def test_a_leader_that_is_silent_for_as_long_as_a_lease_is_given_up(tmp_path: Path) -> None:
    async with group_of(1, tmp_path) as group, silent_leader() as (silent, address):
        (node,) = group.nodes
        node.leadership.set(Following(address, 1))
        client = await node.connect()
        begun = time.monotonic()
        answer = await client.call(send_frame(b"x"), seconds=10)
        assert answer.code == 1
        assert time.monotonic() - begun > 2.5
        await eventually(lambda: len(silent.opened) == 2)  # and asked again, with a new connection
        await client.close()


class Speaking(Silent):
    """Takes no notice of beats, as one whose answers to them stand behind many others on a slow line."""

    def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
        super().on_frames(session, frames)
        for frame in frames:
            if frame.code == 310:
                session.reply(Request(frame, None, 0), Reply())


async def test_a_leader_that_answers_anything_is_not_silent_until_it_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("logherd.app.forwarding.links.BEAT_SECONDS", 0.05)
    monkeypatch.setattr("logherd.app.forwarding.links.SILENT_SECONDS", 0.5)
    async with group_of(1, tmp_path) as group, silent_leader(Speaking()) as (leader, address):
        (node,) = group.nodes
        node.leadership.set(Following(address, 1))
        client = await node.connect()
        begun = time.monotonic()
        while time.monotonic() < begun + 2:
            assert (await client.call(send_frame(b"x"), seconds=10)).code == 0
        assert len(leader.opened) == 1
        stopped = time.monotonic()
        await eventually(lambda: len(leader.opened) == 2)
        assert time.monotonic() - stopped > 0.4
        await client.close()


async def test_a_leader_that_ends_each_connection_is_connected_to_after_longer_and_longer_pauses(
    tmp_path: Path,
) -> None:
    async with group_of(1, tmp_path) as group, silent_leader(Ending()) as (ending, address):
        (node,) = group.nodes
        begun = time.monotonic()
        node.leadership.set(Following(address, 1))
        await eventually(lambda: len(ending.opened) >= 6)
        assert time.monotonic() - begun > 0.3


async def test_a_leader_that_leads_on_in_its_epoch_gets_one_new_connection_not_one_after_the_other(
    tmp_path: Path,
) -> None:
    """Its lease was over for a moment. It ends the older connection when the newer one is complete."""
    async with group_of(2, tmp_path) as group:
        leader, node = group.nodes
        group.elect(leader)
        client = await node.connect()
        assert (await client.call(send_frame(b"x"), seconds=5)).code == 0
        leader.leadership.set(Nobody())
        call = asyncio.ensure_future(client.call(send_frame(b"y"), seconds=10))
        links = node.broker._forwarding.gate._links
        await eventually(lambda: bool(links._refusal))
        leader.leadership.set(Leading(group.epoch))
        assert (await call).code == 0
        begun = time.monotonic()
        await eventually(lambda: links._last_number > 2 or time.monotonic() > begun + 1)
        assert (links._last_number, len(links)) == (2, 1)
        await client.close()


async def test_answers_that_no_client_reads_stop_the_reading_from_the_leader(tmp_path: Path) -> None:
    async with group_of(2, tmp_path) as group:
        leader, node = group.nodes
        group.elect(leader)
        client = await node.connect()
        assert (await client.call(send_frame(b"x"), seconds=5)).code == 0
        gate = node.broker._forwarding.gate
        gate.tick(unread=True)
        call = asyncio.ensure_future(client.call(send_frame(b"y"), seconds=5))
        await eventually(lambda: leader.bodies()[b"y"] == 1)
        assert not call.done()
        gate.tick(unread=False)
        assert (await call).code == 0
        await client.close()


async def test_a_leader_that_is_not_read_is_not_taken_for_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("logherd.app.forwarding.links.BEAT_SECONDS", 0.05)
    monkeypatch.setattr("logherd.app.forwarding.links.SILENT_SECONDS", 0.2)
    async with group_of(2, tmp_path) as group:
        leader, node = group.nodes
        group.elect(leader)
        client = await node.connect()
        assert (await client.call(send_frame(b"x"), seconds=5)).code == 0
        gate = node.broker._forwarding.gate
        server = node.broker._server
        monkeypatch.setattr(type(server), "unread_answers_fill_memory", True)  # the broker's own ticks see it, too
        gate.tick(unread=True)
        begun = time.monotonic()
        call = asyncio.ensure_future(client.call(send_frame(b"y"), seconds=5))
        await eventually(lambda: time.monotonic() > begun + 0.6)
        assert not call.done()
        monkeypatch.setattr(type(server), "unread_answers_fill_memory", False)
        assert (await call).code == 0
        assert len(gate._links) == 1
        await client.close()


class Refusing(Recorder):
    """Behind the leader's address: refuses to be forwarded to."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason
        self.role: Role = Nobody()

    def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
        super().on_frames(session, frames)
        for frame in frames:
            session.reply(Request(frame, None, 0), refused(self.reason, self.role))


@asynccontextmanager
async def refusing(reason: str) -> AsyncIterator[tuple[Refusing, str]]:
    """It, and its address."""
    refuses = Refusing(reason)
    server = Server(refuses)
    host, port = await server.listen("127.0.0.1", 0)
    try:
        yield refuses, f"{host}:{port}"
    finally:
        await server.stop(0)


async def test_who_leads_another_group_is_not_believed_to_lead_this_one(tmp_path: Path) -> None:
    async with group_of(2, tmp_path) as group, refusing(Refused.OTHER_GROUP) as (stranger, address):
        leader, node = group.nodes
        stranger.role = Following("127.0.0.1:1", 40)
        node.leadership.set(Following(address, 1))  # an address that another pod has by now
        await eventually(lambda: len(stranger.frames) >= 1)
        begun = time.monotonic()
        await eventually(lambda: len(stranger.frames) >= 2 or time.monotonic() > begun + 1)
        group.epoch = 1
        group.elect(leader)
        client = await node.connect()
        assert (await client.call(send_frame(b"x"), seconds=10)).code == 0
        await client.close()


async def test_a_broker_that_names_the_address_at_which_it_was_asked_is_asked_again_after_a_pause(
    tmp_path: Path,
) -> None:
    async with group_of(1, tmp_path) as group, refusing(Refused.NOT_LEADER) as (successor, address):
        (node,) = group.nodes
        successor.role = Following(address, 1)
        begun = time.monotonic()
        node.leadership.set(successor.role)
        await eventually(lambda: len(successor.frames) >= 6)
        assert time.monotonic() - begun > 0.3


async def test_who_refuses_to_be_forwarded_to_is_left_with_no_open_connection(tmp_path: Path) -> None:
    """It may refuse for hours, and is asked about twice a second."""
    async with group_of(1, tmp_path) as group, refusing(Refused.NOT_LEADER) as (other, address):
        (node,) = group.nodes
        node.leadership.set(Following(address, 1))
        await eventually(lambda: len(other.frames) >= 4)
        node.leadership.set(Nobody())
        await eventually(lambda: len(other.closed) == len(other.opened))


async def test_h10_a_leader_that_another_broker_names_leaves_the_old_one_no_more_time_than_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its address has changed: whoever stands behind the new one says who leads, and who that is cannot be reached."""
    monkeypatch.setattr("logherd.app.forwarding.links.SILENT_SECONDS", 60)
    async with waiting(tmp_path) as (node, _, first), refusing(Refused.NOT_LEADER) as (other, address):
        other.role = Following("127.0.0.1:1", 2)
        begun = time.monotonic()
        node.leadership.set(Following(address, 1))
        assert (await first).code == 1
        assert time.monotonic() - begun > 0.4


@pytest.mark.parametrize("role", [Nobody(), Leading(2)], ids=["nobody", "this broker"])
async def test_no_link_is_tried_for_while_no_other_broker_leads(tmp_path: Path, role: Role) -> None:
    async with group_of(1, tmp_path) as group, refusing(Refused.NOT_LEADER) as (leader, address):
        (node,) = group.nodes
        node.leadership.set(Following(address, 1))
        await eventually(lambda: len(leader.frames) >= 1)
        links = node.broker._forwarding.gate._links
        assert links._pursuit is not None
        node.leadership.set(role)
        assert (links._pursuit, links._goal) == (None, None)


async def test_who_leads_no_more_is_tried_for_no_more(tmp_path: Path) -> None:
    async with group_of(1, tmp_path) as group, refusing(Refused.NOT_LEADER) as (leader, address):
        (node,) = group.nodes
        node.leadership.set(Following(address, 1))
        await eventually(lambda: len(leader.frames) >= 1)
        links = node.broker._forwarding.gate._links
        former = links._pursuit
        assert former is not None
        node.leadership.set(Following("127.0.0.1:1", 2))
        await asyncio.wait([former], timeout=5)
        assert former.cancelled()
        assert links._pursuit not in (former, None)


async def test_a_leader_that_is_named_again_keeps_the_connection_that_is_open(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (node, _client, _first):
        leader, links = node.leadership.current, node.broker._forwarding.gate._links
        node.leadership.set(Nobody())
        node.leadership.set(leader)
        assert (len(links), links._pursuit, links._goal) == (1, None, leader)


async def test_h10_what_was_not_written_to_a_link_that_is_gone_goes_over_the_next(tmp_path: Path) -> None:
    async with group_of(2, tmp_path) as group:
        leader, node = group.nodes
        group.elect(leader)
        client = await node.connect()
        assert (await client.call(send_frame(b"x"), seconds=5)).code == 0
        gate = node.broker._forwarding.gate
        (number,), (session,) = gate._links._links, gate._sessions.values()
        late = send_frame(b"y")
        late.flag = Flag.ONEWAY
        gate._links.close(number)
        gate.on_frames(session, [late])  # before the loop tells that the link is lost
        await eventually(lambda: leader.bodies()[b"y"] == 1)
        await client.close()


async def test_a_broker_that_stops_closes_its_connection_to_the_leader_and_tries_for_no_other(tmp_path: Path) -> None:
    async with group_of(1, tmp_path) as group, silent_leader() as (silent, address):
        (node,) = group.nodes
        client, first = await asked(node, silent, address)
        gate = node.broker._forwarding.gate
        gate.stop()
        await eventually(lambda: len(silent.closed) == 1)
        assert (await first).code == 1
        node.leadership.set(Following(address, 2))
        assert (len(gate._links), gate._links._pursuit) == (0, None)
        await client.close()


async def test_a_broker_that_stops_looks_no_more_at_what_it_holds(tmp_path: Path) -> None:
    async with group_of(1, tmp_path) as group:
        (node,) = group.nodes
        gate = node.broker._forwarding.gate
        client = await node.connect()
        held = asyncio.ensure_future(client.call(send_frame(b"held"), seconds=10))
        await eventually(lambda: gate.held == 1)
        timer = gate._timer
        assert timer is not None
        gate.stop()
        assert timer.cancelled()
        await client.close()
        await asyncio.wait([held])
