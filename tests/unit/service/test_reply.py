"""Request-reply: a reply reaches the client that waits for it, or its sender hears why not."""

from pathlib import Path

import pytest

from logherd.model.properties import parse_properties
from logherd.service.clients.registry import Connection
from logherd.service.ports import Reply
from logherd.wire.frame import Frame
from logherd.wire.headers.send import PushReplyHeader
from unit.service.client_fakes import FakeSession
from unit.service.rig import CLUSTER, HOST, Rig, frame_of, short_header

REPLY_V2, PUSH = 325, 326
WANTED = "REPLY_TO_CLIENT\x01waiting\x02CORRELATION_ID\x01c1\x02MSG_TYPE\x01reply\x02"


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.fixture
def requester(rig: Rig) -> FakeSession:
    session = FakeSession(id=50)
    rig.registry.join_producer("askers", Connection("waiting", session, "JAVA", 477, 0, 0))
    return session


def reply(rig: Rig, properties: str = WANTED, body: bytes = b"answer") -> Reply | None:
    answer = rig.request(REPLY_V2, short_header("replies", i=properties, e=0), body)
    rig.end_pass()
    assert answer is None or isinstance(answer, Reply)
    return answer


def test_a_reply_is_pushed_and_answered_when_it_was_taken(rig: Rig, requester: FakeSession) -> None:
    assert reply(rig) is None
    [call] = requester.calls
    assert (call.code, call.body) == (PUSH, b"answer")
    assert isinstance(call.header, PushReplyHeader)
    assert call.header.topic == "replies"
    assert call.header.born_host == "127.0.0.1:40001"
    assert call.header.store_host == "10.1.2.3:10911"
    pushed = parse_properties(call.header.properties or "")
    assert pushed["CORRELATION_ID"] == "c1"
    assert pushed["PUSH_REPLY_TIME"] == str(rig.clock.now_ms())
    assert rig.session.replies == []
    call.on_answer(Frame(0, 1))
    [answer] = map(frame_of, rig.session.replies)
    assert (answer.code, answer.ext["msgId"], answer.ext["queueOffset"]) == (0, "0", "0")
    assert answer.ext["MSG_REGION"] == "DefaultRegion"


@pytest.mark.parametrize(
    ("frame", "remark"), [(None, "did not answer in time"), (Frame(1, 1, remark="no"), "answered 1 no")]
)
def test_a_reply_that_was_not_taken_is_1(rig: Rig, requester: FakeSession, frame: Frame | None, remark: str) -> None:
    reply(rig)
    requester.calls[0].on_answer(frame)
    [answer] = rig.session.replies
    assert (answer.code, remark in (answer.remark or "")) == (1, True)


def test_a_reply_to_nobody_is_1_and_kept(rig: Rig) -> None:
    answer = reply(rig)
    assert answer is not None
    assert (answer.code, "'waiting'" in (answer.remark or "")) == (1, True)
    [record] = rig.records(f"{CLUSTER}_REPLY_TOPIC")
    assert bytes(record.body) == b"answer"
    assert record.store_host == HOST


def test_a_reply_is_not_kept_where_that_is_switched_off(tmp_path: Path) -> None:
    rig = Rig(tmp_path, sends={"store_replies": False})
    reply(rig)
    assert rig.records(f"{CLUSTER}_REPLY_TOPIC") == []


def test_a_reply_is_pushed_and_not_kept_while_too_much_waits_for_the_disk(tmp_path: Path) -> None:
    rig = Rig(tmp_path, sends={"unwritten_bytes_max": 3_000})
    requester = FakeSession(id=50)
    rig.registry.join_producer("askers", Connection("waiting", requester, "JAVA", 477, 0, 0))
    for _ in range(4):
        rig.request(REPLY_V2, short_header("replies", i=WANTED, e=0), b"b" * 2_000)
    rig.end_pass()
    assert len(requester.calls) == 4
    assert len(rig.records(f"{CLUSTER}_REPLY_TOPIC")) == 2


def test_a_reply_that_does_not_say_to_whom_or_is_too_large_is_13(tmp_path: Path) -> None:
    rig = Rig(tmp_path, sends={"body_bytes_max": 10})
    for answer, remark in ((reply(rig, "A\x01b\x02"), "REPLY_TO_CLIENT"), (reply(rig, body=b"b" * 11), "11 bytes")):
        assert answer is not None
        assert (answer.code, remark in (answer.remark or "")) == (13, True)
