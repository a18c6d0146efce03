"""What the gate tells whoever answers pulls while another broker leads, and when it asks."""

from collections.abc import Iterable
from pathlib import Path
from typing import cast

import pytest

from logherd.app.forwarding.gate import Gate
from logherd.service.forwarding.roles import Nobody
from logherd.service.ports import Reply, Session
from logherd.service.pull.following import FollowerPulls
from logherd.wire.bodies import encode_body
from logherd.wire.bodies.clients import Heartbeat, ProducerData
from logherd.wire.codec import encode_frame
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers import encode_header
from logherd.wire.headers.offsets import UpdateConsumerOffsetHeader
from unit.app.forwarding.rig import TOPIC, eventually, group_of
from unit.app.forwarding.test_unread_answers import answers_to, connected


class Reads:
    """Answers every pull, and commits an offset for it. `body` are messages that it finds."""

    def __init__(self) -> None:
        self.body: list[memoryview] = []
        self.begun: list[int] = []
        self.noted: list[int] = []
        self.ended: list[int] = []
        self.served = 0

    def begin(self, heartbeats: Iterable[tuple[Session, Frame]]) -> None:
        self.begun.append(len(list(heartbeats)))

    def note(self, _session: Session, frame: Frame) -> None:
        self.noted.append(frame.code)

    def closed(self, session_id: int) -> None:
        self.ended.append(session_id)

    def answer(self, _frame: Frame) -> tuple[Reply, Frame | None] | None:
        self.served += 1
        header = UpdateConsumerOffsetHeader(consumer_group="readers", topic=TOPIC, queue_id=0, commit_offset=7)
        commit = Frame(RequestCode.UPDATE_CONSUMER_OFFSET, 0, flag=Flag.ONEWAY, ext=encode_header(header))
        return Reply(body=self.body, remark="here"), commit


def reads_at(gate: Gate) -> Reads:
    reads = Reads()
    gate._parts = gate._parts._replace(reads=cast("FollowerPulls", reads))
    return reads


def heartbeat() -> Frame:
    body = Heartbeat(client_id="c", producers=[ProducerData(group="p")])
    return Frame(RequestCode.HEART_BEAT, 0, body=encode_body(body))


def pull() -> Frame:
    return Frame(RequestCode.PULL_MESSAGE, 0)


async def test_a_pull_is_answered_here_while_another_leads_and_its_offset_goes_to_that_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        gate = other.broker._forwarding.gate
        reads = reads_at(gate)
        group.elect(leader)
        committed: list[int] = []
        handle = leader.broker._forwarding._reception._port._handle

        def watched(frame: Frame, caller: Session) -> object:
            committed.append(frame.code)
            return handle(frame, caller)

        client = await other.connect()
        assert (await client.call(heartbeat(), seconds=5)).code == 0
        monkeypatch.setattr(leader.broker._forwarding._reception._port, "_handle", watched)
        assert (await client.call(pull(), seconds=5)).remark == "here"
        await eventually(lambda: committed == [RequestCode.UPDATE_CONSUMER_OFFSET])
        assert (gate.read, reads.noted) == (1, [RequestCode.HEART_BEAT])
        await client.close()
        await eventually(lambda: len(reads.ended) == 1)


async def test_a_client_whose_pulls_find_more_here_than_it_reads_keeps_its_connection(tmp_path: Path) -> None:
    async with group_of(2, tmp_path, limits={"unsentSizePerConnection": "1MiB"}) as group:
        leader, other = group.nodes
        reads = reads_at(other.broker._forwarding.gate)
        reads.body = [memoryview(bytes(200_000))]
        group.elect(leader)
        reader, writer = await connected(other)
        writer.write(b"".join(encode_frame(Frame(RequestCode.PULL_MESSAGE, opaque)) for opaque in range(64)))
        answers = await answers_to(reader, 64)
        assert len(answers) == 64
        assert {(answer.code, len(answer.body)) for answer in answers} == {(0, 200_000), (ResponseCode.FLOW_CONTROL, 0)}
        writer.close()


async def test_no_pull_is_answered_here_while_nobody_leads(tmp_path: Path) -> None:
    async with group_of(1, tmp_path) as group:
        (node,) = group.nodes
        reads = reads_at(node.broker._forwarding.gate)
        group.elect(node)
        client = await node.connect()
        assert (await client.call(heartbeat(), seconds=5)).code == 0
        node.leadership.set(Nobody())
        assert reads.begun == [1]  # it hears who is here as soon as this broker leads no more
        assert (await client.call(pull(), seconds=5)).remark != "here"
        assert reads.served == 0
        await client.close()
