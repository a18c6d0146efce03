"""Brokers over real sockets: whoever is asked, the leader carries it out, and a change of leader costs no answer."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import pytest

from logherd.client.producer import Outgoing, Producer
from logherd.net.connection import Connection
from logherd.service.forwarding.forwarder import Forwarder, ForwarderLimits
from logherd.service.forwarding.roles import Following
from logherd.wire.batch import BatchMessage, encode_batch
from logherd.wire.codec import encode_frame
from logherd.wire.frame import Serialize
from unit.app.forwarding.rig import QUEUES, TOPIC, Group, eventually, group_of, routes_to, send_frame


async def test_a_send_to_a_broker_that_does_not_lead_is_stored_by_the_leader(tmp_path: Path) -> None:
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        client = await other.connect()
        answers = await asyncio.gather(*(client.call(send_frame(b"%d" % n), seconds=5) for n in range(50)))
        assert [answer.code for answer in answers] == [0] * 50
        assert [int(answer.ext["queueOffset"]) for answer in answers] == list(range(50))
        assert leader.bodies() == {b"%d" % n: 1 for n in range(50)}
        assert not other.bodies()
        await client.close()


async def test_the_answer_to_a_large_batch_comes_through_another_broker(tmp_path: Path) -> None:
    """It lists the ids of all messages in one field of its header."""
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        client = await other.connect()
        batch = send_frame(encode_batch(BatchMessage(0, b"%d" % n, b"") for n in range(10_000)))
        batch.code = 320
        answer = await client.call(batch, seconds=20)
        assert (answer.code, answer.remark) == (0, None)
        assert answer.ext["msgId"].count(",") == 9_999
        await client.close()


@pytest.mark.parametrize("more", [{f"x{n}": "x" for n in range(117)}, {f"x{n}": "\x01" * 11_000 for n in range(4)}])
async def test_a_header_that_is_too_large_to_be_sent_on_costs_nobody_the_link(
    tmp_path: Path, more: dict[str, str]
) -> None:
    """It may come here: what goes on has further fields, and is longer in JSON than with a binary header."""
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        client, another = await other.connect(), await other.connect()
        assert (await another.call(send_frame(b"before"), seconds=5)).code == 0
        large = send_frame(b"large")
        large.ext |= more
        large.serialize = Serialize.BINARY
        answers = await asyncio.gather(
            client.call(large, seconds=5), *(another.call(send_frame(b"%d" % n), seconds=5) for n in range(5))
        )
        assert [answer.code for answer in answers] == [13, *[0] * 5]
        assert "the limit is" in (answers[0].remark or "")
        await client.close()
        await another.close()


@pytest.mark.parametrize("header_kib", [4, 32])
async def test_a_header_as_large_as_the_settings_allow_is_sent_on_with_what_is_added_to_it(
    tmp_path: Path, header_kib: int
) -> None:
    async with group_of(2, tmp_path, limits={"headerSize": f"{header_kib}KiB"}) as group:
        leader, other = group.nodes
        group.elect(leader)
        client, another = await other.connect(), await other.connect()
        assert (await another.call(send_frame(b"before"), seconds=5)).code == 0
        large = send_frame(b"large")
        large.ext["x"] = ""
        large.ext["x"] = "x" * (header_kib * 1024 - int.from_bytes(encode_frame(large)[5:8]) - 8)
        answers = await asyncio.gather(
            client.call(large, seconds=5), *(another.call(send_frame(b"%d" % n), seconds=5) for n in range(5))
        )
        assert [answer.code for answer in answers] == [0] * 6
        await client.close()
        await another.close()


async def test_what_cannot_be_sent_on_lets_nothing_overtake_what_came_behind_it(tmp_path: Path) -> None:
    """Its room is another request's, which is the last of those that wait."""
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        gate = other.broker._forwarding.gate
        gate._forwarder = Forwarder(ForwarderLimits(away_bytes_max=3 * 1_100))
        client = await other.connect()
        large = send_frame(b"large")
        large.ext |= {f"x{n}": "\x01" * 11_000 for n in range(4)}
        large.serialize = Serialize.BINARY
        frames = [large, *(send_frame(b"%d" % n) for n in range(3))]
        sends = [asyncio.ensure_future(client.call(frame, seconds=5)) for frame in frames]
        await eventually(lambda: gate.held == 4)
        group.elect(leader)
        assert [answer.code for answer in await asyncio.gather(*sends)] == [13, 0, 0, 0]
        assert [message.body for message in leader.messages()] == [b"0", b"1", b"2"]
        await client.close()


async def test_a_send_is_held_while_nobody_leads_and_stored_once(tmp_path: Path) -> None:
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        client = await other.connect()
        sends = [asyncio.ensure_future(client.call(send_frame(b"%d" % n), seconds=5)) for n in range(20)]
        await eventually(lambda: other.broker._forwarding.gate.held == 20)
        group.elect(leader)
        assert [answer.code for answer in await asyncio.gather(*sends)] == [0] * 20
        assert leader.bodies() == {b"%d" % n: 1 for n in range(20)}
        await client.close()


async def test_a_held_send_is_stored_here_when_this_broker_becomes_the_leader(tmp_path: Path) -> None:
    async with group_of(1, tmp_path) as group:
        (node,) = group.nodes
        client = await node.connect()
        sends = [asyncio.ensure_future(client.call(send_frame(b"%d" % n), seconds=5)) for n in range(20)]
        await eventually(lambda: node.broker._forwarding.gate.held == 20)
        group.elect(node)
        answers = await asyncio.gather(*sends)
        assert [int(answer.ext["queueOffset"]) for answer in answers] == list(range(20))
        await client.close()


async def test_h10_a_send_is_held_for_2500_ms_at_most_and_then_may_be_tried_again(tmp_path: Path) -> None:
    async with group_of(1, tmp_path) as group:
        (node,) = group.nodes
        client = await node.connect()
        begun = time.monotonic()
        answer = await client.call(send_frame(b"x"), seconds=5)
        assert time.monotonic() - begun >= 2.4
        assert answer.code == 14
        assert answer.remark is not None
        assert "nothing was stored" in answer.remark
        group.elect(node)
        assert not node.bodies()
        await client.close()


class Load:
    """Requests without a retry on one connection: what was answered to each body."""

    def __init__(self, number: int, connection: Connection) -> None:
        self.number = number
        self._connection = connection
        self.codes: dict[bytes, int] = {}

    async def run(self, window: int, stopping: asyncio.Event) -> None:
        """Keep `window` sends under way; each in its queue, so that the log shows their order."""
        open_calls: set[asyncio.Task[None]] = set()
        n = 0
        while not stopping.is_set():
            open_calls.add(asyncio.ensure_future(self._send(b"%d-%06d" % (self.number, n))))
            n += 1
            if len(open_calls) >= window:
                _, open_calls = await asyncio.wait(open_calls, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(*open_calls)

    async def _send(self, body: bytes) -> None:
        answer = await self._connection.call(send_frame(body, self.number % QUEUES), seconds=10)
        assert body not in self.codes
        self.codes[body] = answer.code


async def change_leaders(group: Group, random: Random, reached: Callable[[], int]) -> None:
    """Six changes under load: at once, after a while without a leader, with brokers that hear of it late."""
    for _ in range(6):
        goal = reached() + 150
        await eventually(lambda goal=goal: reached() >= goal)  # type: ignore[misc]
        leader = random.choice(group.nodes)
        kind = random.randrange(3)
        if kind == 0:
            group.depose()
            for _ in range(random.randrange(200)):
                await asyncio.sleep(0)
            group.elect(leader)
        elif kind == 1:
            group.elect(leader)
        else:  # one broker goes on with the old leader for a while
            late = random.choice(group.nodes)
            group.elect(leader, told=[node for node in group.nodes if node is not late])
            for _ in range(random.randrange(200)):
                await asyncio.sleep(0)
            if late is not leader:
                late.leadership.set(Following(leader.address, group.epoch))
    goal = reached() + 150
    await eventually(lambda: reached() >= goal)


async def test_what_a_leader_appended_and_did_not_commit_before_it_lost_the_lead_is_unknown(tmp_path: Path) -> None:
    async with group_of(3, tmp_path) as group:
        leader, other, third = group.nodes
        group.elect(leader)
        clients = [await leader.connect(), await other.connect()]
        sends = [asyncio.ensure_future(client.call(send_frame(b"x"), seconds=5)) for client in clients]
        answers = leader.broker._forwarding.answers
        # An answer waits for at least one pass of the loop, in which this looks.
        await eventually(lambda: len(answers) > 0)
        waiting = len(answers)
        group.elect(third)
        codes = sorted([answer.code for answer in await asyncio.gather(*sends)])
        assert codes.count(1) == waiting
        assert len(answers) == 0
        for client in clients:
            await client.close()


async def test_what_a_leader_appended_before_it_hands_over_is_answered_once_it_is_committed(tmp_path: Path) -> None:
    async with group_of(1, tmp_path) as group:
        (leader,) = group.nodes
        group.elect(leader)
        client = await leader.connect()
        send = asyncio.ensure_future(client.call(send_frame(b"x"), seconds=5))
        answers = leader.broker._forwarding.answers
        await eventually(lambda: len(answers) > 0)
        group.depose()
        assert (await send).code == 0
        await client.close()


@pytest.mark.parametrize("seed", range(5))
async def test_h10_every_send_has_one_answer_that_tells_the_truth_while_the_leader_changes(
    tmp_path: Path, seed: int
) -> None:
    async with group_of(3, tmp_path) as group:
        group.elect(group.nodes[0])
        connections = [await group.nodes[number % 3].connect() for number in range(4)]
        loads = [Load(number, connection) for number, connection in enumerate(connections)]
        stopping = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for load in loads:
                tasks.create_task(load.run(16, stopping))
            await change_leaders(group, Random(seed), lambda: sum(len(load.codes) for load in loads))
            stopping.set()
        stored = group.stored()
        codes = {body: code for load in loads for body, code in load.codes.items()}
        assert set(codes.values()) <= {0, 1, 14}
        assert set(stored) <= set(codes)
        for body, code in codes.items():
            assert stored[body] in {0: (1,), 14: (0,), 1: (0, 1)}[code], (body, code)
        assert sum(code == 0 for code in codes.values()) > 500
        for node in group.nodes:  # order per connection: each has its own queue
            bodies = [message.body for message in node.messages()]
            for load in loads:
                mine = [body for body in bodies if body.startswith(b"%d-" % load.number)]
                assert mine == sorted(mine)
        for connection in connections:
            await connection.close()


async def test_a_stock_like_producer_has_no_failed_send_while_the_leader_changes(tmp_path: Path) -> None:
    async with group_of(3, tmp_path) as group, AsyncExitStack() as stack:
        group.elect(group.nodes[0])
        acknowledged: list[bytes] = []
        stopping = asyncio.Event()

        async def produce(number: int) -> None:
            routes = await stack.enter_async_context(routes_to(group.nodes[number % 3]))
            async with Producer([routes], "p") as producer:
                while not stopping.is_set():
                    body = b"%d-%d" % (number, len(acknowledged))
                    await producer.send(TOPIC, Outgoing(body))
                    acknowledged.append(body)

        async with asyncio.TaskGroup() as tasks:
            for number in range(6):
                tasks.create_task(produce(number))
            await change_leaders(group, Random(1), lambda: len(acknowledged))
            stopping.set()
        assert set(acknowledged) <= set(group.stored())
