"""A client of another broker looks like any other to the services, and is reached through its broker."""

from collections.abc import Callable

import pytest

from logherd.model.host import encode_host
from logherd.service.forwarding.admission import check_forwarded
from logherd.service.forwarding.remote_session import RemoteSession
from logherd.service.forwarding.roles import Following, Leading, Nobody, Role
from logherd.service.ports import Reply, Request
from logherd.wire.frame import Frame
from logherd.wire.headers.clients import ConsumerGroupHeader
from logherd.wire.headers.forwarding import ForwardedHeader, ForwardingRefusal


class FakeLink:
    def __init__(self) -> None:
        self.closed = False
        self.said: list[tuple[int, dict[str, str], bytes]] = []
        self.on_answer: Callable[[Frame | None], None] | None = None
        self.timeout_ms = 0
        self.replies: list[Reply] = []
        self.room = 0

    def has_room(self, size: int) -> bool:
        return size <= self.room

    def notify(self, code: int, header: dict[str, str], body: bytes = b"") -> None:
        self.said.append((code, header, body))

    def call(
        self, code: int, header: dict[str, str], body: bytes, *, timeout_ms: int,
        on_answer: Callable[[Frame | None], None],
    ) -> None:  # fmt: skip
        self.said.append((code, header, body))
        self.timeout_ms, self.on_answer = timeout_ms, on_answer

    def reply(self, request: Request, reply: Reply) -> None:
        self.replies.append(reply)


@pytest.fixture
def link() -> FakeLink:
    return FakeLink()


@pytest.fixture
def session(link: FakeLink) -> RemoteSession:
    return RemoteSession(-1, link, 77, ip="10.0.0.9", port=4711)


def test_it_has_the_clients_own_address(session: RemoteSession) -> None:
    assert (session.remote_ip, session.remote_port) == ("10.0.0.9", 4711)
    assert session.remote_host == encode_host("10.0.0.9", 4711)


def test_it_has_a_number_of_its_own_and_hears_its_answers_over_the_link(session: RemoteSession, link: FakeLink) -> None:
    reply = Reply(remark="later")
    session.reply(Request(Frame(11, 5), None, 0), reply)
    assert (session.id, link.replies) == (-1, [reply])


def test_its_answers_find_the_room_that_the_link_has(session: RemoteSession, link: FakeLink) -> None:
    link.room = 5
    assert session.has_room(5)
    assert not session.has_room(6)


def test_an_address_that_is_none_is_refused(link: FakeLink) -> None:
    with pytest.raises(ValueError, match="does not appear to be"):
        RemoteSession(-1, link, 77, ip="nowhere", port=4711)


def test_h12_what_is_said_to_it_names_the_connection_that_its_broker_knows(
    session: RemoteSession, link: FakeLink
) -> None:
    session.notify(40, ConsumerGroupHeader(consumer_group="g"), b"body")
    assert link.said == [(40, {"consumerGroup": "g", "logherdSession": "77", "logherdTimeout": "0"}, b"body")]


@pytest.mark.parametrize(
    ("answer", "heard"),
    [(Frame(0, 1, body=b"yes"), b"yes"), (Frame(27010, 1), None), (None, None)],
    ids=["answered", "gone there", "no answer"],
)
def test_what_it_is_asked_is_answered_once(
    session: RemoteSession, link: FakeLink, answer: Frame | None, heard: bytes | None
) -> None:
    answers: list[bytes | None] = []
    session.call(307, None, b"", timeout_ms=5_000, on_answer=lambda frame: answers.append(frame and frame.body))
    assert link.timeout_ms > 5_000  # its broker waits for the client, we wait for the broker
    assert link.said[0][1]["logherdTimeout"] == "5000"
    assert link.on_answer is not None
    link.on_answer(answer)
    assert answers == [heard]


def test_one_that_left_or_is_out_of_reach_hears_nothing(session: RemoteSession, link: FakeLink) -> None:
    link.closed = True
    assert session.closed
    session.notify(40, None)
    link.closed = False
    assert not session.closed
    session.leave()
    assert session.closed
    session.notify(40, None)
    assert link.said == []


@pytest.mark.parametrize(
    ("role", "now_ms", "refusal"),
    [
        (Leading(5), 99, None),
        (Leading(5), 100, ForwardingRefusal(reason="late", epoch=5)),
        (Leading(4), 99, ForwardingRefusal(reason="not-leader", epoch=4)),
        (Leading(6), 99, ForwardingRefusal(reason="not-leader", epoch=6)),
        (Following("b:1", 6), 99, ForwardingRefusal(reason="not-leader", epoch=6, leader="b:1")),
        (Nobody(), 100, ForwardingRefusal(reason="not-leader")),
    ],
)
def test_h12_the_leader_takes_what_is_meant_for_its_epoch_and_not_late(
    role: Role, now_ms: int, refusal: ForwardingRefusal | None
) -> None:
    marks = ForwardedHeader(session=1, client_ip="::1", client_port=1, epoch=5, deadline_ms=100)
    answer = check_forwarded(marks, role, now_ms=now_ms)
    assert (None if answer is None else answer.header) == refusal
    assert answer is None or answer.code == 27010
