"""What a leader does for other brokers is done under its lease, and it keeps account of who they are."""

import asyncio
from pathlib import Path

import pytest

from logherd.app.forwarding.leadership import SettableLeadership
from logherd.app.forwarding.reception import LINK_FLOW
from logherd.net.connection import Connection
from logherd.net.errors import ConnectionLost
from logherd.net.session import NetSession
from logherd.service.forwarding.errand import HEADER_BYTES
from logherd.service.forwarding.forwarder import ForwarderLimits
from logherd.service.forwarding.roles import Leading, Nobody, Role
from logherd.service.ports import Session
from logherd.wire.bodies import encode_body
from logherd.wire.bodies.clients import Heartbeat, ProducerData
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from logherd.wire.headers import decode_header, encode_header
from logherd.wire.headers.forwarding import ForwardedHeader, ForwardingRefusal, Refused
from logherd.wire.headers.pull import PullMessageHeader
from unit.app.forwarding.rig import TOPIC, Group, Node, eventually, group_of, send_frame

OPENING = {"cluster": "C", "group": "g", "epoch": "1", "brokerId": "8", "instance": "i"}


async def linked(leader: Node) -> Connection:
    """A connection of broker 8, as far as the leader knows."""
    link = await leader.connect()
    assert (await link.call(Frame(RequestCode.FORWARDING_OPEN, 0, ext=dict(OPENING)), seconds=5)).code == 0
    return link


def forwarded(frame: Frame, session: int = 3) -> Frame:
    marks = ForwardedHeader(session=session, client_ip="10.0.0.1", client_port=9, epoch=1, deadline_ms=1 << 50)
    frame.ext.update(encode_header(marks))
    return frame


def long_poll() -> Frame:
    header = PullMessageHeader(
        consumer_group="readers", topic=TOPIC, queue_id=0, queue_offset=1, messages_max=32, sys_flag=6,
        commit_offset=-1, suspend_timeout_ms=15_000, subscription_version=0, subscription="*", expression_type="TAG",
    )  # fmt: skip
    return Frame(RequestCode.PULL_MESSAGE, 0, ext=encode_header(header))


async def led(group: Group) -> Node:
    (leader,) = group.nodes
    group.elect(leader)
    return leader


async def test_a_newer_connection_of_a_broker_ends_the_one_before(tmp_path: Path) -> None:
    async with group_of(1, tmp_path) as group:
        leader = await led(group)
        older, newer = await linked(leader), await linked(leader)
        assert (await older.call(forwarded(send_frame(b"0")), seconds=5)).code == 0
        assert (await newer.call(Frame(RequestCode.FORWARDING_COMPLETE, 0), seconds=5)).code == 0
        reception = leader.broker._forwarding._reception
        await eventually(lambda: older.closed and len(reception._guests) == 1)
        assert (await newer.call(forwarded(send_frame(b"1")), seconds=5)).code == 0
        assert len(reception) == 1
        await newer.close()


async def test_what_lies_unread_on_an_older_connection_is_refused_by_type_and_not_left_unknown(tmp_path: Path) -> None:
    """As when a hand-over is called off: the broker links anew, and may have sent more on the older one."""
    async with group_of(1, tmp_path) as group:
        leader = await led(group)
        older, newer = await linked(leader), await linked(leader)
        assert (await newer.call(Frame(RequestCode.FORWARDING_COMPLETE, 0), seconds=5)).code == 0
        refused = await older.call(forwarded(send_frame(b"0")), seconds=5)
        assert refused.code == ResponseCode.FORWARDING_REFUSED
        assert decode_header(ForwardingRefusal, refused.ext).reason == Refused.NOT_LEADER
        assert (await newer.call(forwarded(send_frame(b"0")), seconds=5)).code == 0
        assert leader.bodies() == {b"0": 1}
        for each in (older, newer):
            await each.close()


async def test_what_an_older_connection_of_a_broker_says_late_ends_no_newer_one(tmp_path: Path) -> None:
    """Both are open for a moment, and it may be read last although it was written first."""
    async with group_of(1, tmp_path) as group:
        leader = await led(group)
        older, newer = await linked(leader), await linked(leader)
        assert (await newer.call(forwarded(send_frame(b"0")), seconds=5)).code == 0
        reception = leader.broker._forwarding._reception
        assert (await older.call(Frame(RequestCode.FORWARDING_COMPLETE, 0), seconds=5)).code == 0
        assert len(reception) == 1, "its clients have left their groups"
        assert (await newer.call(forwarded(send_frame(b"1")), seconds=5)).code == 0
        for each in (older, newer):
            await each.close()


async def test_clients_that_use_up_the_connections_of_an_address_keep_no_broker_of_it_out(tmp_path: Path) -> None:
    async with group_of(2, tmp_path, limits={"connectionsPerAddress": 1}) as group:
        leader, other = group.nodes
        clients = [await leader.connect()]
        group.elect(leader)
        assert (await clients[0].call(send_frame(b"0"), seconds=5)).code == 0
        clients += [await leader.connect(), await other.connect()]
        with pytest.raises(ConnectionLost):
            await clients[1].call(send_frame(b"too many"), seconds=5)
        assert (await clients[2].call(send_frame(b"1"), seconds=5)).code == 0
        assert leader.bodies() == {b"0": 1, b"1": 1}
        for client in clients:
            await client.close()


async def test_who_left_without_a_word_or_is_not_named_costs_nobody_the_link(tmp_path: Path) -> None:
    async with group_of(1, tmp_path) as group:
        leader = await led(group)
        link = await linked(leader)
        for ext in ({}, {"logherdSession": "x"}, {"logherdSession": "4"}):
            link.oneway(Frame(RequestCode.FORWARDING_LEFT, 0, ext=ext))
        assert (await link.call(Frame(RequestCode.FORWARDING_CLOCK, 0), seconds=5)).code == 0
        assert not link.closed
        await link.close()


async def test_brokers_of_another_group_fill_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Anybody can say that he is one."""
    async with group_of(1, tmp_path) as group:
        link = await (await led(group)).connect()
        for number in range(30):
            strange = Frame(RequestCode.FORWARDING_OPEN, 0, ext={**OPENING, "group": f"other{number}"})
            assert (await link.call(strange, seconds=5)).code != 0
        assert caplog.messages.count("broker of another group refused") == 10
        await link.close()
    assert caplog.messages.count("broker of another group refused") == 11, "how many more there were, at the end"


async def test_how_many_lines_were_left_out_is_told_in_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with group_of(1, tmp_path) as group:
        forwarding = (await led(group)).broker._forwarding
        for number, complaints in enumerate((forwarding._reception._complaints, forwarding.dispatcher._complaints)):
            for _ in range(12):
                complaints.warning(f"complaint {number}")
            now = complaints._now()
            complaints._now = lambda now=now: now + 60
        forwarding.tick(None)
        assert [caplog.messages.count(f"complaint {number}") for number in range(2)] == [11, 11]


async def test_and_at_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with group_of(1, tmp_path) as group:
        forwarding = (await led(group)).broker._forwarding
        for _ in range(12):
            forwarding.dispatcher._complaints.warning("complaint")
    assert caplog.messages.count("complaint") == 11


async def test_what_is_not_forwarded_or_has_no_caller_is_refused_and_costs_nobody_the_link(tmp_path: Path) -> None:
    async with group_of(1, tmp_path) as group:
        leader = await led(group)
        link = await linked(leader)
        for code in (RequestCode.UPDATE_BROKER_CONFIG, RequestCode.FORWARDING_OPEN):
            refused = await link.call(forwarded(Frame(code, 0, ext=dict(OPENING))), seconds=5)
            assert refused.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        nobody, nowhere = send_frame(b"1"), forwarded(send_frame(b"2"))
        nowhere.ext["logherdClientIp"] = "nowhere"
        for frame in (nobody, nowhere):
            assert (await link.call(frame, seconds=5)).code == ResponseCode.INVALID_PARAMETER
        assert (await link.call(forwarded(send_frame(b"3")), seconds=5)).code == 0
        assert leader.bodies() == {b"3": 1}
        await link.close()


async def test_what_comes_in_one_piece_around_a_brokers_own_request_is_done_once(tmp_path: Path) -> None:
    async with group_of(1, tmp_path) as group:
        leader = await led(group)
        link = await linked(leader)
        frames = [forwarded(send_frame(b"1")), Frame(RequestCode.FORWARDING_CLOCK, 0), forwarded(send_frame(b"2"))]
        answers = await asyncio.gather(*(link.call(frame, seconds=5) for frame in frames))
        assert [answer.code for answer in answers] == [0, 0, 0]
        assert leader.bodies() == {b"1": 1, b"2": 1}
        await link.close()


async def test_what_came_before_a_clients_leave_is_done_before_it(tmp_path: Path) -> None:
    """Otherwise it would join its groups when it has left, and be a member for as long as it is not silent."""
    async with group_of(1, tmp_path) as group:
        leader = await led(group)
        link = await linked(leader)
        body = encode_body(Heartbeat(client_id="c", producers=[ProducerData(group="p")]))
        joins = forwarded(Frame(RequestCode.HEART_BEAT, 0, body=body))
        leaves = Frame(RequestCode.FORWARDING_LEFT, 0, ext={"logherdSession": "3"})
        answers = await asyncio.gather(link.call(joins, seconds=5), link.call(leaves, seconds=5))
        assert [answer.code for answer in answers] == [0, 0]
        assert list(leader.broker._services.registry.producer_groups()) == []
        await link.close()


async def test_the_link_of_a_broker_has_the_bounds_of_all_its_clients_together(tmp_path: Path) -> None:
    async with group_of(1, tmp_path) as group:
        leader = await led(group)
        link = await linked(leader)
        (guest,) = leader.broker._forwarding._reception._guests.values()
        assert guest.link._flow is LINK_FLOW
        await link.close()


async def test_what_the_leader_says_to_nobody_costs_nobody_the_link(tmp_path: Path) -> None:
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        client = await other.connect()
        assert (await client.call(send_frame(b"0"), seconds=5)).code == 0
        (guest,) = leader.broker._forwarding._reception._guests.values()
        for fields in ({"logherdSession": "999"}, {}):  # a client that has just left, and none at all
            guest.link.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, fields)
        assert (await client.call(send_frame(b"1"), seconds=5)).code == 0
        assert not guest.link.closed
        await client.close()


async def test_to_who_has_left_or_is_the_next_leaders_nothing_more_is_said(tmp_path: Path) -> None:
    """Though the connection that it came on is open."""
    async with group_of(1, tmp_path) as group:
        leader = await led(group)
        link = await linked(leader)
        for number in (3, 4):
            assert (await link.call(forwarded(send_frame(b"0"), number), seconds=5)).code == 0
        (guest,) = leader.broker._forwarding._reception._guests.values()
        staying, leaving = guest.sessions[3], guest.sessions[4]
        left = Frame(RequestCode.FORWARDING_LEFT, 0, ext={"logherdSession": "4"})
        assert (await link.call(left, seconds=5)).code == 0
        assert (staying.closed, leaving.closed) == (False, True)
        assert max(staying.id, leaving.id) < 0, "no connection to this broker has such a number"
        leader.leadership.set(Nobody())
        assert staying.closed
        assert len(leader.broker._forwarding._reception) == 0
        assert not link.closed
        await link.close()


async def test_a_broker_without_clients_is_forgotten_with_its_connection(tmp_path: Path) -> None:
    async with group_of(1, tmp_path) as group:
        leader = await led(group)
        link = await linked(leader)
        guests = leader.broker._forwarding._reception._guests
        assert len(guests) == 1
        assert not leader.broker._forwarding.gate._sessions  # it is no client
        await link.close()
        await eventually(lambda: not guests, seconds=2)


async def test_the_polls_of_clients_out_of_reach_wait_no_more_and_a_new_role_forgets_the_clients(
    tmp_path: Path,
) -> None:
    async with group_of(1, tmp_path) as group:
        leader = await led(group)
        link = await linked(leader)
        assert (await link.call(forwarded(send_frame(b"0")), seconds=5)).code == 0
        poll = asyncio.ensure_future(link.call(forwarded(long_poll()), seconds=5))
        reception, hold = leader.broker._forwarding._reception, leader.broker._services.pull.hold
        await eventually(lambda: len(hold) == 1)
        await link.close()
        await asyncio.wait([poll])
        await eventually(lambda: len(hold) == 0, seconds=2)
        assert len(reception) == 1  # it may be named again
        leader.leadership.set(Nobody())
        assert (len(reception), reception._guests) == (0, {})


async def test_a_lease_that_is_over_is_noticed_before_anything_of_another_broker_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        client = await other.connect()
        assert (await client.call(send_frame(b"0"), seconds=5)).code == 0
        monkeypatch.setattr(leader.leadership, "confirm", lambda: leader.leadership.set(Nobody()))
        sending = asyncio.ensure_future(client.call(send_frame(b"1"), seconds=5))
        await eventually(lambda: leader.leadership.current == Nobody())
        leader.leadership.set(Leading(group.epoch))
        link = await leader.connect()
        opening = {"cluster": "C", "group": "g", "epoch": str(group.epoch), "brokerId": "8", "instance": "i"}
        opened = await link.call(Frame(RequestCode.FORWARDING_OPEN, 0, ext=opening), seconds=5)
        assert (opened.code, opened.ext["logherdRefused"]) == (27010, "not-leader")
        group.elect(other)
        assert (await sending).code == 0
        assert (leader.bodies(), other.bodies()) == ({b"0": 1}, {b"1": 1})
        await link.close()
        await client.close()


async def test_a_lease_that_is_over_is_noticed_before_anything_of_an_own_client_is_done_and_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SettableLeadership, "leased", True)
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader, told=())  # else the other one, when it links to it, may be the first to notice
        client = await leader.connect()
        assert (await client.call(send_frame(b"0"), seconds=5)).code == 0

        def confirm() -> None:
            if isinstance(leader.leadership.current, Leading):
                leader.leadership.set(Nobody())

        monkeypatch.setattr(leader.leadership, "confirm", confirm)
        sending = asyncio.ensure_future(client.call(send_frame(b"1"), seconds=5))
        await eventually(lambda: leader.leadership.current == Nobody())
        group.elect(other)
        assert (await sending).code == 0
        assert (leader.bodies(), other.bodies()) == ({b"0": 1}, {b"1": 1})
        await client.close()


async def test_requests_that_came_together_are_all_done_under_one_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is over between the looks at the first and at the second."""
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        client = await other.connect()
        assert (await client.call(send_frame(b"0"), seconds=5)).code == 0
        port = leader.broker._forwarding._reception._port
        looks, done, on_behalf = 0, list[tuple[int, Role]](), port.on_behalf

        def confirm() -> None:
            nonlocal looks
            looks += 1
            if looks == 2:
                leader.leadership.set(Nobody())

        def carry_out(link: NetSession, requests: list[tuple[Frame, Session]]) -> None:
            done.append((len(requests), leader.leadership.current))
            on_behalf(link, requests)

        monkeypatch.setattr(leader.leadership, "confirm", confirm)
        monkeypatch.setattr(port, "on_behalf", carry_out)
        sends = [asyncio.ensure_future(client.call(send_frame(b"%d" % number), seconds=5)) for number in (1, 2)]
        await sends[0]
        assert [role for count, role in done if count] == [Leading(group.epoch)]
        await asyncio.gather(*sends)
        await client.close()


def test_a_leader_reads_a_link_on_which_is_as_much_as_a_broker_lets_be() -> None:
    """If it did not, it would answer no beat either, and be given up with all that it has."""
    limits = ForwarderLimits()
    beats = 1024
    sent_on, asked = limits.away_bytes_max // HEADER_BYTES, limits.pull_bytes_max // HEADER_BYTES
    assert LINK_FLOW.running_max > sent_on + beats
    assert LINK_FLOW.parked_max > asked
    assert LINK_FLOW.request_bytes_max > limits.away_bytes_max + limits.pull_bytes_max + beats * HEADER_BYTES
