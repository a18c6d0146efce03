"""Clients of a broker that does not lead: members of their groups at the leader, reached by it, gone when they are."""

import asyncio
import time
from pathlib import Path
from typing import cast

import pytest

from logherd.app.forwarding.reception import GRACE_MS
from logherd.model.host import decode_host
from logherd.net.connection import Connection, connect
from logherd.service.clients import heartbeats
from logherd.service.forwarding.roles import Following, Leading, Nobody
from logherd.service.ports import Reply, ReplyAfter
from logherd.wire.bodies import decode_body, encode_body
from logherd.wire.bodies.clients import ConsumerData, ConsumerIds, Heartbeat, Subscription
from logherd.wire.codec import encode_frame
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Flag, Frame, Serialize
from logherd.wire.headers import decode_header, encode_header
from logherd.wire.headers.clients import ConsumerGroupHeader, RunningInfoHeader, UnregisterClientHeader
from logherd.wire.headers.forwarding import ForwardedHeader
from logherd.wire.headers.offsets import QueryConsumerOffsetHeader, UpdateConsumerOffsetHeader
from logherd.wire.headers.pull import PullMessageHeader, PullMessageResponse
from logherd.wire.limits import DEFAULT_LIMITS
from logherd.wire.message import decode_messages
from unit.app.forwarding.rig import TOPIC, Group, Node, eventually, group_of, send_frame, start_alone

CONSUMERS = "readers"


@pytest.fixture(autouse=True)
def short_calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new leader waits long enough for brokers that are all in this process."""
    monkeypatch.setattr(heartbeats, "CALM_MS", 500)


class Client:
    """A consumer on one connection: joins its group, and keeps what the broker asks of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[Frame] = []
        self.connection: Connection | None = None

    async def join(self, node: Node) -> None:
        self.connection = await node.connect(self._asked)
        await self.beat()

    async def beat(self) -> None:
        topic = Subscription(topic=TOPIC, expression="*", version=1)
        body = Heartbeat(client_id=self.name, consumers=[ConsumerData(group=CONSUMERS, subscriptions=[topic])])
        answer = await self.call(Frame(RequestCode.HEART_BEAT, 0, body=encode_body(body)))
        assert answer.code == 0, answer.remark

    async def call(self, frame: Frame) -> Frame:
        assert self.connection is not None
        return await self.connection.call(frame, seconds=10)

    async def close(self) -> None:
        assert self.connection is not None
        await self.connection.close()

    async def members(self) -> set[str]:
        header = encode_header(ConsumerGroupHeader(consumer_group=CONSUMERS))
        answer = await self.call(Frame(RequestCode.GET_CONSUMER_LIST_BY_GROUP, 0, ext=header))
        return set(decode_body(ConsumerIds, answer.body).ids) if answer.code == 0 else set()

    @property
    def notified(self) -> int:
        return sum(frame.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED for frame in self.asked)

    def _asked(self, connection: Connection, frame: Frame) -> None:
        self.asked.append(frame)
        if frame.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            connection.answer(Frame(0, frame.opaque, flag=Flag.RESPONSE, body=b"running: " + self.name.encode()))


async def until_members(client: Client, expected: set[str]) -> None:
    async with asyncio.timeout(10):
        while await client.members() != expected:
            await asyncio.sleep(0)


async def all_told(leader: Node, clients: list[Client]) -> list[int]:
    """How often each was told once nothing is left to be told, also of what changed shortly after a notice."""
    await eventually(lambda: not leader.broker._services.heartbeats._told)
    for client in clients:
        await client.members()  # what was sent before the answer is here
    return [client.notified for client in clients]


def registered(node: Node) -> set[str]:
    entry = node.broker._services.registry.consumer_group(CONSUMERS)
    return set() if entry is None else set(entry.members)


async def test_h12_clients_of_different_brokers_are_one_group_and_hear_of_each_other(tmp_path: Path) -> None:
    async with group_of(3, tmp_path) as group:
        group.elect(group.nodes[0])
        clients = [Client(name) for name in "abc"]
        for client, node in zip(clients, group.nodes, strict=True):
            await client.join(node)
        for client in clients:
            assert await client.members() == {"a", "b", "c"}
        await eventually(lambda: all(client.notified for client in clients))
        before = await all_told(group.nodes[0], clients)
        await clients[2].close()
        await until_members(clients[0], {"a", "b"})
        await eventually(lambda: all(c.notified > n for c, n in zip(clients[:2], before, strict=False)))
        for client in clients[:2]:
            header = {key for frame in client.asked for key in frame.ext}
            assert header == {"consumerGroup"}  # nothing of ours reaches a client
            await client.close()


async def test_a_new_leader_has_nobody_look_at_a_list_in_which_clients_of_others_are_missing(tmp_path: Path) -> None:
    """Who is told of a group shares out its queues at once: those of who is not in the list are consumed twice then."""
    async with group_of(3, tmp_path) as group:
        group.elect(group.nodes[0])
        here, there = Client("here"), Client("there")
        await here.join(group.nodes[1])
        await there.join(group.nodes[2])
        [before] = await all_told(group.nodes[0], [here])
        group.depose()
        group.elect(group.nodes[1], told=[])
        asked = asyncio.ensure_future(here.members())
        await eventually(lambda: len(group.nodes[1].broker._services.heartbeats._asking) == 1)
        assert (registered(group.nodes[1]), here.notified) == ({"here"}, before), "the others know of no leader yet"
        group.nodes[2].leadership.set(Following(group.nodes[1].address, group.epoch))
        assert await asked == {"here", "there"}
        await asyncio.gather(here.close(), there.close())


async def test_h12_a_client_is_gone_when_its_last_connection_on_any_broker_is(tmp_path: Path) -> None:
    async with group_of(3, tmp_path) as group:
        group.elect(group.nodes[0])
        watcher = Client("watcher")
        await watcher.join(group.nodes[0])
        twins = [Client("twin"), Client("twin")]
        await twins[0].join(group.nodes[1])
        await twins[1].join(group.nodes[2])
        [before] = await all_told(group.nodes[0], [watcher])
        await twins[0].close()
        reception = group.nodes[0].broker._forwarding._reception
        await eventually(lambda: len(reception) == 1)
        assert await watcher.members() == {"watcher", "twin"}
        assert watcher.notified == before
        await twins[1].close()
        await until_members(watcher, {"watcher"})
        await eventually(lambda: watcher.notified > before)
        await watcher.close()


async def test_a_question_to_a_client_of_another_broker_is_answered_by_that_client(tmp_path: Path) -> None:
    async with group_of(3, tmp_path) as group:
        group.elect(group.nodes[0])
        asked, tool = Client("asked"), Client("tool")
        await asked.join(group.nodes[1])
        await tool.join(group.nodes[2])
        header = encode_header(RunningInfoHeader(consumer_group=CONSUMERS, client_id="asked"))
        answer = await tool.call(Frame(RequestCode.GET_CONSUMER_RUNNING_INFO, 0, ext=header))
        assert (answer.code, answer.body) == (0, b"running: asked")
        await asked.close()
        await until_members(tool, {"tool"})
        answer = await tool.call(Frame(RequestCode.GET_CONSUMER_RUNNING_INFO, 0, ext=header))
        assert answer.code == 1
        await tool.close()


async def test_an_answer_of_a_client_that_no_frame_to_the_leader_holds_is_none(tmp_path: Path) -> None:
    """It fits the largest frame with a binary header, which goes on as a larger JSON one."""
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        client = Client("asked")

        def answer_at_length(connection: Connection, frame: Frame) -> None:
            if frame.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
                answer = Frame(0, frame.opaque, flag=Flag.RESPONSE, serialize=Serialize.BINARY)
                answer.body = bytes(DEFAULT_LIMITS.frame_bytes_max - len(encode_frame(answer)))
                connection.answer(answer)

        client.connection = await other.connect(answer_at_length)
        await client.beat()
        tool = await leader.connect()
        header = encode_header(RunningInfoHeader(consumer_group=CONSUMERS, client_id="asked"))
        asked = Frame(RequestCode.GET_CONSUMER_RUNNING_INFO, 0, ext=header)
        assert (await tool.call(asked, seconds=5)).code == ResponseCode.CONSUME_MSG_TIMEOUT
        assert await client.members() == {"asked"}


async def test_a_new_leader_knows_every_client_of_every_broker_before_it_is_asked(tmp_path: Path) -> None:
    async with group_of(3, tmp_path) as group:
        group.elect(group.nodes[0])
        clients = [Client(name) for name in "abc"]
        for client, node in zip(clients, group.nodes, strict=True):
            await client.join(node)
        for leader in (group.nodes[1], group.nodes[2], group.nodes[0]):
            group.elect(leader)
            for client in clients:
                await until_members(client, {"a", "b", "c"})
            assert [registered(node) for node in group.nodes if node is not leader] == [set(), set()]
            # Each is named by the broker that has it, and by nobody else: or it would stay when it leaves.
            assert len(leader.broker._forwarding._reception) == 2
        for client in clients:
            await client.close()


async def test_a_leader_that_leads_again_in_its_epoch_knows_every_client_of_every_broker(tmp_path: Path) -> None:
    """As after a hand-over that was given up, or a lease that was over for a moment: no other broker need notice."""
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        near, far = Client("near"), Client("far")
        await near.join(leader)
        await far.join(other)
        assert await near.members() == {"near", "far"}
        leader.leadership.set(Nobody())
        leader.leadership.set(Leading(group.epoch))
        assert await far.members() == {"near", "far"}
        assert registered(leader) == {"near", "far"}
        await near.close()
        await until_members(far, {"far"})
        await far.close()


async def test_clients_behind_a_link_that_was_lost_stay_members(tmp_path: Path) -> None:
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        watcher, client = Client("watcher"), Client("client")
        await watcher.join(leader)
        await client.join(other)
        [before] = await all_told(group.nodes[0], [watcher])
        links = other.broker._forwarding.gate._links
        (number,) = links._links
        links.close(number)
        await eventually(lambda: len(links) == 1 and number not in links._links)
        assert await client.members() == {"watcher", "client"}
        guests = leader.broker._forwarding._reception._guests
        await eventually(lambda: len(guests) == 1, seconds=3)  # at once, not after the time for those who never return
        assert registered(leader) == {"watcher", "client"}
        assert watcher.notified == before
        # And it is reached over the new one.
        await watcher.close()
        await eventually(lambda: client.notified > 0)
        await client.close()


async def test_h12_clients_of_a_broker_that_does_not_come_back_are_gone_after_their_time(
    tmp_path: Path,
) -> None:
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        watcher, client = Client("watcher"), Client("client")
        await watcher.join(leader)
        await client.join(other)
        gate = other.broker._forwarding.gate
        gate._links.stop()
        await eventually(lambda: len(gate._links) == 0)
        assert registered(leader) == {"watcher", "client"}
        lost_at = time.monotonic()
        await eventually(lambda: registered(leader) == {"watcher"}, seconds=8)
        assert time.monotonic() - lost_at > 0.9 * GRACE_MS / 1000
        await watcher.close()
        await client.close()


async def test_what_a_client_had_waiting_goes_with_it_and_no_leader_hears_its_name(tmp_path: Path) -> None:
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        stays, leaves = Client("stays"), Client("leaves")
        await stays.join(other)
        await leaves.join(other)
        group.depose()
        gate = other.broker._forwarding.gate
        send = asyncio.ensure_future(leaves.call(send_frame(b"waits")))
        await eventually(lambda: gate.held == 1)
        await leaves.close()
        await eventually(lambda: gate.held == 0, seconds=2)
        await asyncio.wait([send])
        for node in (leader, other):
            group.elect(node)
            await until_members(stays, {"stays"})
            assert registered(node) == {"stays"}
        assert not group.stored()
        await stays.close()
        await eventually(lambda: registered(other) == set())
        assert not gate._sessions


async def test_a_client_that_unregisters_is_not_named_to_the_next_leader(tmp_path: Path) -> None:
    async with group_of(3, tmp_path) as group:
        group.elect(group.nodes[0])
        stays, leaves = Client("stays"), Client("leaves")
        await stays.join(group.nodes[1])
        await leaves.join(group.nodes[1])
        header = encode_header(UnregisterClientHeader(client_id="leaves", consumer_group=CONSUMERS))
        assert (await leaves.call(Frame(RequestCode.UNREGISTER_CLIENT, 0, ext=header))).code == 0
        assert await stays.members() == {"stays"}
        group.elect(group.nodes[2])
        assert await stays.members() == {"stays"}
        await stays.close()
        await leaves.close()


def pull_frame(offset: int, suspend_ms: int = 15_000) -> Frame:
    header = PullMessageHeader(
        consumer_group=CONSUMERS, topic=TOPIC, queue_id=0, queue_offset=offset, messages_max=32, sys_flag=6,
        commit_offset=-1, suspend_timeout_ms=suspend_ms, subscription_version=0, subscription="*",
        expression_type="TAG",
    )  # fmt: skip
    return Frame(RequestCode.PULL_MESSAGE, 0, ext=encode_header(header))


async def started(tmp_group: Group, client: Client, node: Node) -> None:
    await client.join(node)
    assert (await client.call(send_frame(b"first"))).code == 0


async def test_a_long_poll_through_another_broker_is_woken_by_a_message(tmp_path: Path) -> None:
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        client = Client("client")
        await started(group, client, other)
        poll = asyncio.ensure_future(client.call(pull_frame(1)))
        hold = leader.broker._services.pull.hold
        await eventually(lambda: len(hold) == 1)
        assert (await client.call(send_frame(b"second"))).code == 0
        answer = await poll
        assert answer.code == 0
        assert [message.body for message in decode_messages(answer.body)] == [b"second"]
        assert decode_header(PullMessageResponse, answer.ext).next_begin_offset == 2
        await client.close()


async def test_long_polls_that_are_passed_on_take_no_place_of_requests_that_run(tmp_path: Path) -> None:
    async with group_of(2, tmp_path, limits={"requestsPerConnection": 2}) as group:
        leader, other = group.nodes
        group.elect(leader)
        client = Client("client")
        await started(group, client, other)
        polls = [asyncio.ensure_future(client.call(pull_frame(1))) for _ in range(3)]
        hold = leader.broker._services.pull.hold
        await eventually(lambda: len(hold) == 3, seconds=3)
        assert (await client.call(send_frame(b"second"))).code == 0
        assert [answer.code for answer in await asyncio.gather(*polls)] == [0] * 3
        await client.close()


async def test_a_long_poll_is_told_to_pull_again_when_the_leader_steps_down(tmp_path: Path) -> None:
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        near, far = Client("near"), Client("far")
        await started(group, near, leader)
        await far.join(other)
        polls = [asyncio.ensure_future(client.call(pull_frame(1))) for client in (near, far)]
        hold = leader.broker._services.pull.hold
        await eventually(lambda: len(hold) == 2)
        group.elect(other)
        for answer in await asyncio.gather(*polls):
            assert answer.code == 19
            assert decode_header(PullMessageResponse, answer.ext).next_begin_offset == 1
        await near.close()
        await far.close()


@pytest.mark.parametrize("through", ["the leader", "another broker"])
async def test_a_long_poll_is_told_to_pull_again_when_its_broker_stops(tmp_path: Path, through: str) -> None:
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        asked = leader if through == "the leader" else other
        client = Client("client")
        await started(group, client, asked)
        poll = asyncio.ensure_future(client.call(pull_frame(1)))
        hold = leader.broker._services.pull.hold
        await eventually(lambda: len(hold) == 1)
        assert asked.broker._server is not None
        asked.broker._server.on_leave()
        assert (await poll).code == ResponseCode.FLOW_CONTROL
        assert (await client.call(pull_frame(1))).code == ResponseCode.FLOW_CONTROL
        assert (await client.call(send_frame(b"second"))).code == 0
        await client.close()


@pytest.mark.parametrize("through", ["the leader", "another broker"])
async def test_a_question_that_waits_for_a_commit_as_its_leader_goes_is_asked_of_the_next(
    tmp_path: Path, through: str
) -> None:
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        client = Client("client")
        await started(group, client, leader if through == "the leader" else other)
        port, answers = leader.broker._forwarding.gate._parts.port, leader.broker._forwarding.answers
        handle = port._handle
        port._handle = lambda frame, session: ReplyAfter(1 << 60, cast("Reply", handle(frame, session)))
        header = QueryConsumerOffsetHeader(consumer_group=CONSUMERS, topic=TOPIC, queue_id=0)
        question = Frame(RequestCode.QUERY_CONSUMER_OFFSET, 0, ext=encode_header(header))
        asked = asyncio.ensure_future(client.call(question))
        await eventually(lambda: len(answers) == 1)
        group.elect(other)
        assert (await asked).code == ResponseCode.QUERY_NOT_FOUND
        await client.close()


async def test_a_consumer_that_has_yet_to_say_who_it_is_gets_messages_of_a_new_leader(tmp_path: Path) -> None:
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(other)
        client = Client("client")
        await started(group, client, other)
        other.broker._engine.metadata.offsets.commit(CONSUMERS, TOPIC, 0, 0)
        other.broker._services.registry.clear()
        pull = pull_frame(0)
        pull.ext["sysFlag"] = "2"
        other.broker._services.pull._heard_at_ms = 0  # it has led for long
        assert (await client.call(pull)).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
        group.elect(leader)
        group.elect(other)
        other.broker._services.registry.clear()
        assert (await client.call(pull)).code == 0
        await client.close()


async def test_a_long_poll_ends_when_its_client_leaves_the_other_broker(tmp_path: Path) -> None:
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        client = Client("client")
        await started(group, client, other)
        poll = asyncio.ensure_future(client.call(pull_frame(1)))
        hold = leader.broker._services.pull.hold
        await eventually(lambda: len(hold) == 1)
        await client.close()
        await eventually(lambda: len(hold) == 0, seconds=3)
        await asyncio.wait([poll])
        assert poll.exception() is not None
        # The connection between the brokers outlives the client: it must not count for ever what nobody waits for.
        await eventually(lambda: other.broker._forwarding.gate._forwarder.idle, seconds=3)
        (link,) = (guest.link for guest in leader.broker._forwarding._reception._guests.values())
        assert (link._intake.parked, link._intake.size) == (0, 0)


async def test_h11_offset_commits_go_through_while_there_is_a_leader_and_are_refused_while_there_is_none(
    tmp_path: Path,
) -> None:
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        client = Client("client")
        await started(group, client, other)
        commit = encode_header(
            UpdateConsumerOffsetHeader(consumer_group=CONSUMERS, topic=TOPIC, queue_id=0, commit_offset=1)
        )
        query = encode_header(QueryConsumerOffsetHeader(consumer_group=CONSUMERS, topic=TOPIC, queue_id=0))
        assert client.connection is not None
        client.connection.oneway(Frame(RequestCode.UPDATE_CONSUMER_OFFSET, 0, ext=commit))
        answer = await client.call(Frame(RequestCode.QUERY_CONSUMER_OFFSET, 0, ext=query))
        assert answer.ext == {"offset": "1"}
        group.depose()
        answer = await client.call(Frame(RequestCode.UPDATE_CONSUMER_OFFSET, 0, ext=commit))
        assert answer.code == 14
        assert other.broker._forwarding.gate.held == 0
        await client.close()


async def test_a_message_that_came_through_another_broker_was_born_at_its_client(tmp_path: Path) -> None:
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        client = Client("client")
        await started(group, client, other)
        (session,) = other.broker._server.sessions if other.broker._server else ()
        (message,) = leader.messages()
        assert decode_host(message.born_host) == (session.remote_ip, session.remote_port)
        await client.close()


async def test_h12_a_forwarded_request_is_not_sent_on_by_a_broker_that_does_not_lead_any_more(tmp_path: Path) -> None:
    """The second broker believes in the first, which has just been followed by the third."""
    async with group_of(3, tmp_path) as group:
        first, second, third = group.nodes
        group.elect(first)
        client = await second.connect()
        assert (await client.call(send_frame(b"0"), seconds=5)).code == 0
        group.elect(third, told=[first])
        answer = await client.call(send_frame(b"1"), seconds=5)
        assert answer.code == 0  # the hint in the refusal led there
        assert third.bodies() == {b"1": 1}
        link = first.broker._forwarding.gate._links
        assert len(link) == 0 or not first.bodies()[b"1"]
        await client.close()


async def test_nobody_forwards_to_a_broker_that_is_alone(tmp_path: Path) -> None:
    broker = await start_alone(tmp_path / "alone")
    host, _, port = broker.addresses()["address"].rpartition(":")
    link = await connect(host, int(port))
    opening = {"cluster": "C", "group": "g", "epoch": "1", "brokerId": "8", "instance": "i"}
    answer = await link.call(Frame(RequestCode.FORWARDING_OPEN, 0, ext=opening), seconds=5)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert "alone in its group" in (answer.remark or "")
    await link.close()
    await broker.stop()


async def test_h10_a_request_that_waited_too_long_before_the_leader_saw_it_is_refused_there(tmp_path: Path) -> None:
    async with group_of(1, tmp_path) as group:
        (leader,) = group.nodes
        group.elect(leader)
        link = await leader.connect()
        opening = {"cluster": "C", "group": "g", "epoch": "1", "brokerId": "8", "instance": "i"}
        opened = await link.call(Frame(RequestCode.FORWARDING_OPEN, 0, ext=opening), seconds=5)
        clock_ms = int(opened.ext["clockMs"])

        async def forwarded(deadline_ms: int, epoch: int = 1) -> Frame:
            marks = ForwardedHeader(
                session=3, client_ip="10.0.0.1", client_port=9, epoch=epoch, deadline_ms=deadline_ms
            )
            frame = send_frame(b"%d" % deadline_ms)
            frame.ext.update(encode_header(marks))
            return await link.call(frame, seconds=5)

        late = await forwarded(clock_ms)
        assert (late.code, late.ext["logherdRefused"]) == (27010, "late")
        other_epoch = await forwarded(clock_ms + 60_000, epoch=2)
        assert (other_epoch.code, other_epoch.ext["logherdRefused"]) == (27010, "not-leader")
        assert (await forwarded(clock_ms + 60_000)).code == 0
        assert leader.bodies() == {b"%d" % (clock_ms + 60_000): 1}
        leader.leadership.set(Leading(2))
        assert (await forwarded(clock_ms + 60_001)).code == 27010
        await link.close()


async def test_forwarding_is_refused_by_name_to_another_group_and_by_who_does_not_lead(tmp_path: Path) -> None:
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        opening = {"cluster": "C", "group": "g", "epoch": "1", "brokerId": "8", "instance": "i"}
        for node, change, reason in (
            (leader, {"group": "x"}, "other-group"),
            (leader, {"cluster": "x"}, "other-group"),
            (leader, {"epoch": "2"}, "not-leader"),
            (leader, {"instance": leader.broker._forwarding._reception._instance}, "not-leader"),  # it is itself
            (other, {}, "not-leader"),
        ):
            connection = await node.connect()
            frame = Frame(RequestCode.FORWARDING_OPEN, 0, ext={**opening, **change})
            answer = await connection.call(frame, seconds=5)
            assert (answer.code, answer.ext["logherdRefused"]) == (27010, reason)
            if node is other:
                assert (answer.ext["logherdLeader"], answer.ext["logherdEpoch"]) == (leader.address, "1")
            await connection.close()


async def test_what_is_about_one_broker_is_answered_by_the_broker_that_was_asked(tmp_path: Path) -> None:
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        assert other.broker.addresses()["address"] != leader.broker.addresses()["address"]
        client = await other.connect()
        answer = await client.call(Frame(RequestCode.GET_BROKER_CONFIG, 0), seconds=5)
        assert b"brokerId=1" in answer.body
        unknown = await client.call(Frame(4242, 0), seconds=5)
        assert unknown.code == 3
        await client.close()
