"""Answers that come faster than a client reads them."""

import asyncio
import socket
from pathlib import Path

from logherd.wire.codec import FrameReader, encode_frame
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from logherd.wire.headers import encode_header
from logherd.wire.headers.pull import PullMessageHeader
from unit.app.forwarding.rig import TOPIC, Node, eventually, group_of, send_frame

_PULLS = 64
_BODY = b"x" * 200_000


def pull_frame(opaque: int, *, offset: int = 0, suspend_ms: int = 0) -> Frame:
    header = PullMessageHeader(
        consumer_group="readers", topic=TOPIC, queue_id=0, queue_offset=offset, messages_max=32,
        sys_flag=6 if suspend_ms else 4, commit_offset=-1, suspend_timeout_ms=suspend_ms, subscription_version=0,
        subscription="*", expression_type="TAG",
    )  # fmt: skip
    return Frame(RequestCode.PULL_MESSAGE, opaque, ext=encode_header(header))


async def connected(node: Node) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection of which little lies in the system while it is not read."""
    host, _, port = node.address.rpartition(":")
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    made.settimeout(0)
    await asyncio.get_running_loop().sock_connect(made, (host, int(port)))
    return await asyncio.open_connection(sock=made)


async def answers_to(reader: asyncio.StreamReader, count: int) -> list[Frame]:
    """So many answers, or those that came before the connection ended."""
    frames, answers = FrameReader(), list[Frame]()
    while len(answers) < count and (data := await reader.read(65_536)):
        answers += frames.feed(data)
    return answers


def codes(answers: list[Frame]) -> set[int]:
    """What was answered, each pull once."""
    assert sorted(answer.opaque for answer in answers) == list(range(len(answers)))
    return {answer.code for answer in answers}


async def test_a_client_that_pulls_much_at_once_over_another_broker_gets_all_of_it(tmp_path: Path) -> None:
    async with group_of(2, tmp_path, limits={"unsentSizePerConnection": "1MiB"}) as group:
        leader, other = group.nodes
        group.elect(leader)
        sender = await other.connect()
        assert (await sender.call(send_frame(_BODY), seconds=5)).code == 0
        forwarder = other.broker._forwarding.gate._forwarder
        reader, writer = await connected(other)
        asked_again = set[int]()
        wanted = set(range(1, _PULLS + 1))
        while wanted:
            taken = forwarder.taken + len(wanted)
            writer.write(b"".join(encode_frame(pull_frame(opaque)) for opaque in wanted))
            await eventually(lambda taken=taken: forwarder.taken >= taken and forwarder.idle)  # before anything is read
            answers = await answers_to(reader, len(wanted))
            assert {answer.opaque for answer in answers} == wanted
            given = [answer for answer in answers if answer.code == 0]
            assert given
            assert all(len(answer.body) > len(_BODY) for answer in given)
            refused = {answer.code for answer in answers} - {0}
            assert refused <= {ResponseCode.FLOW_CONTROL}  # stock consumers pull again, from where they were
            asked_again |= refused
            wanted -= {answer.opaque for answer in given}
        assert asked_again
        writer.close()
        await sender.close()


async def test_an_answer_that_is_larger_than_what_may_wait_comes_alone(tmp_path: Path) -> None:
    async with group_of(2, tmp_path, limits={"unsentSizePerConnection": "1MiB"}) as group:
        leader, other = group.nodes
        group.elect(leader)
        client = await other.connect()
        body = b"x" * 700_000
        assert (await client.call(send_frame(body), seconds=5)).code == 0
        answer = await client.call(pull_frame(0), seconds=5)
        assert answer.code == 0
        assert len(answer.body) > len(body)
        await client.close()


async def test_a_client_whose_many_pulls_waited_for_this_broker_to_lead_keeps_its_connection(tmp_path: Path) -> None:
    async with group_of(1, tmp_path, limits={"unsentSizePerConnection": "1MiB"}) as group:
        (node,) = group.nodes
        group.elect(node)
        sender = await node.connect()
        assert (await sender.call(send_frame(_BODY), seconds=5)).code == 0
        group.depose()
        gate = node.broker._forwarding.gate
        reader, writer = await connected(node)
        writer.write(b"".join(encode_frame(pull_frame(opaque)) for opaque in range(_PULLS)))
        await eventually(lambda: gate.held == _PULLS)
        group.elect(node)
        assert codes(await answers_to(reader, _PULLS)) == {0, ResponseCode.FLOW_CONTROL}
        writer.close()
        await sender.close()


async def test_a_client_whose_many_pulls_one_message_wakes_keeps_its_connection(tmp_path: Path) -> None:
    async with group_of(1, tmp_path, limits={"unsentSizePerConnection": "1MiB"}) as group:
        (node,) = group.nodes
        group.elect(node)
        sender = await node.connect()
        assert (await sender.call(send_frame(b"first"), seconds=5)).code == 0
        hold = node.broker._services.pull.hold
        reader, writer = await connected(node)
        pulls = (pull_frame(opaque, offset=1, suspend_ms=15_000) for opaque in range(_PULLS))
        writer.write(b"".join(map(encode_frame, pulls)))
        await eventually(lambda: len(hold) == _PULLS)
        assert (await sender.call(send_frame(_BODY), seconds=5)).code == 0
        assert codes(await answers_to(reader, _PULLS)) == {0, ResponseCode.FLOW_CONTROL}
        writer.close()
        await sender.close()


async def test_a_client_that_pulls_the_largest_messages_at_once_keeps_its_connection(tmp_path: Path) -> None:
    async with group_of(1, tmp_path) as group:
        (node,) = group.nodes
        group.elect(node)
        sender = await node.connect()
        assert (await sender.call(send_frame(b"x" * 4_000_000), seconds=5)).code == 0
        reader, writer = await connected(node)
        writer.write(b"".join(encode_frame(pull_frame(opaque)) for opaque in range(16)))
        assert codes(await answers_to(reader, 16)) == {0, ResponseCode.FLOW_CONTROL}
        writer.close()
        await sender.close()
