"""Answers leave in order and not before their commit; a defect in one request concerns that request alone."""

from typing import cast

import pytest

from logherd.app.linger import LINGER_CONNECTIONS_MIN, Linger
from logherd.app.requests import Port, WaitingAnswers
from logherd.app.resting import REST_BYTES_MAX, REST_REQUESTS_MIN, Resting
from logherd.kit.errors import InvariantError
from logherd.net.session import NetSession
from logherd.service.dispatcher import Dispatcher
from logherd.service.ports import Reply, ReplyAfter, Request, Run, Session
from logherd.wire.frame import Flag, Frame

from .restful import Restful


class FakeLog:
    committed_position = 0


class FakeSession(Restful):
    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[int, object]] = []
        self.parked: list[int] = []

    def reply(self, request: Request, reply: Reply) -> None:
        self.running -= 1
        self.sent.append((request.frame.opaque, reply.code))

    def send_encoded(self, frames: list[Frame], answers: list[bytes]) -> None:
        self.running -= len(frames)
        self.sent += [(frame.opaque, answer) for frame, answer in zip(frames, answers, strict=True)]

    def park(self, request: Request) -> None:
        self.parked.append(request.frame.opaque)


class FakeDispatcher:
    """Answers by code: 1 at once, 2 after position 10, 3 parks, 4 has a defect, 5 breaks an invariant."""

    def handle(self, frame: Frame, _session: object) -> Reply | ReplyAfter | None:
        if frame.code == 4:
            raise ZeroDivisionError
        if frame.code == 5:
            raise InvariantError("rule 1")
        return {1: Reply(0), 2: ReplyAfter(10, b"encoded")}.get(frame.code)

    def handle_run(self, frames: list[Frame], at: int, _session: object) -> Run | None:
        """Takes what has code 2 in a row; code 6 is a defect after which nobody knows what was done."""
        length = next((n for n, frame in enumerate(frames[at:]) if frame.code != 2), len(frames) - at)
        if at + length < len(frames) and frames[at + length].code == 6:
            raise ZeroDivisionError
        return Run(10, [b"run"] * length) if length else None


def make() -> tuple[Port, FakeSession, WaitingAnswers, list[str]]:
    passes: list[str] = []
    answers = WaitingAnswers(FakeLog())
    port = Port(
        cast(Dispatcher, FakeDispatcher()),
        answers,
        on_pass=lambda: passes.append("pass"),
        on_close=lambda _session: None,
    )
    return port, FakeSession(), answers, passes


def feed(port: Port, session: FakeSession, *frames: Frame) -> None:
    port.on_frames(cast(NetSession, session), list(frames))


def test_an_answer_waits_for_its_commit_and_overtakes_nothing_older() -> None:
    port, session, answers, passes = make()
    feed(port, session, Frame(2, 1), Frame(1, 2), Frame(2, 3))
    assert session.sent == [(2, 0)]
    assert passes == ["pass"]
    answers.release(9)
    assert len(answers) == 2
    answers.release(10)
    assert session.sent == [(2, 0), (1, b"encoded"), (3, b"encoded")]


def test_a_committed_position_is_answered_at_once() -> None:
    log = FakeLog()
    log.committed_position = 10
    answers, session = WaitingAnswers(log), FakeSession()
    answers.add(cast(NetSession, session), Frame(2, 1), 10, Reply(0))
    assert session.sent == [(1, 0)]


def test_what_a_handler_keeps_is_parked_and_a_oneway_request_is_not() -> None:
    port, session, _, _ = make()
    feed(port, session, Frame(3, 1), Frame(3, 2, flag=Flag.ONEWAY))
    assert session.parked == [1]


def test_a_defect_is_told_to_its_sender_and_the_rest_is_served() -> None:
    port, session, _, _ = make()
    feed(port, session, Frame(4, 1), Frame(4, 2, flag=Flag.ONEWAY), Frame(1, 3))
    assert session.sent == [(1, 1), (3, 0)]


def test_a_broken_invariant_is_never_answered() -> None:
    port, session, _, _ = make()
    with pytest.raises(InvariantError):
        feed(port, session, Frame(5, 1))
    assert session.sent == []


def test_a_run_is_answered_in_order_and_what_interrupts_it_alone() -> None:
    port, session, answers, _ = make()
    feed(port, session, *(Frame(code, opaque) for opaque, code in enumerate([2, 2, 2, 2, 1, 2, 2, 2, 2])))
    assert session.sent == [(4, 0)]
    answers.release(10)
    assert session.sent == [(4, 0), *((opaque, b"run") for opaque in (0, 1, 2, 3, 5, 6, 7, 8))]


def test_requests_that_take_turns_with_others_are_all_answered() -> None:
    port, session, answers, _ = make()
    feed(port, session, *(Frame(code, opaque) for opaque, code in enumerate([2, 1, 2, 1, 2, 1])))
    answers.release(10)
    assert session.sent == [(1, 0), (3, 0), (5, 0), (0, b"run"), (2, b"run"), (4, b"encoded")]


def test_a_defect_in_a_run_is_told_to_all_that_may_have_been_in_it() -> None:
    port, session, answers, _ = make()
    feed(port, session, Frame(2, 1), Frame(2, 2), Frame(6, 3), Frame(2, 4, flag=Flag.ONEWAY))
    assert session.sent == [(1, 1), (2, 1), (3, 1)]
    assert len(answers) == 0


def test_what_waits_can_be_given_up_and_nothing_of_it_is_answered_later() -> None:
    port, session, answers, _ = make()
    feed(port, session, Frame(2, 1), Frame(2, 2))
    assert answers.give_up(Reply(1)) == 2
    assert session.sent == [(1, 1), (2, 1)]
    answers.release(10)
    assert len(session.sent) == 2


def test_requests_on_behalf_of_others_are_answered_on_the_connection_that_brought_them() -> None:
    callers: list[object] = []

    class Noting(FakeDispatcher):
        def handle(self, frame: Frame, session: object) -> Reply | ReplyAfter | None:
            callers.append(session)
            return super().handle(frame, session)

    answers = WaitingAnswers(FakeLog())
    port = Port(cast(Dispatcher, Noting()), answers, on_pass=lambda: None, on_close=lambda _session: None)
    link = FakeSession()
    port.on_behalf(cast(NetSession, link), [(Frame(2, 1), cast(Session, "a")), (Frame(1, 2), cast(Session, "b"))])
    answers.release(10)
    assert callers == ["a", "b"]
    assert link.sent == [(2, 0), (1, b"encoded")]


class NoTimer:
    def cancel(self) -> None: ...


def resting_answers() -> tuple[WaitingAnswers, FakeSession]:
    return WaitingAnswers(FakeLog(), Resting(lambda _seconds, _run_out: NoTimer())), FakeSession()


def wait_for(answers: WaitingAnswers, session: FakeSession, count: int, position: int) -> None:
    session.running += count
    frames = [Frame(2, number) for number in range(count)]
    answers.add_ready(cast(NetSession, session), frames, position, [b"ready"] * count)


def test_a_connection_with_many_unanswered_requests_rests_until_all_are_answered() -> None:
    answers, session = resting_answers()
    wait_for(answers, session, REST_REQUESTS_MIN - 1, 10)
    assert not session.resting
    wait_for(answers, session, 1, 20)
    assert session.resting
    other = FakeSession()
    wait_for(answers, other, 1, 30)
    answers.release(10)
    assert session.resting
    answers.release(20)
    assert not session.resting
    assert len(answers) == 1


def test_connections_with_a_few_requests_each_are_read_on() -> None:
    answers, _ = resting_answers()
    sessions = [FakeSession() for _ in range(3 * REST_REQUESTS_MIN)]
    for number, session in enumerate(sessions):
        wait_for(answers, session, 1, 10 + number)
    assert not any(session.resting for session in sessions)


def test_a_connection_whose_messages_make_large_runs_is_read_on() -> None:
    answers, session = resting_answers()
    wait_for(answers, session, REST_REQUESTS_MIN, REST_BYTES_MAX)
    assert not session.resting


def test_a_connection_is_read_again_when_what_waits_is_given_up() -> None:
    answers, session = resting_answers()
    wait_for(answers, session, REST_REQUESTS_MIN, 10)
    assert answers.give_up(Reply(1)) == REST_REQUESTS_MIN
    assert not session.resting


def lingering_answers() -> tuple[WaitingAnswers, Linger]:
    linger = Linger(lambda: None, lambda _seconds, _run_out: NoTimer())
    return WaitingAnswers(FakeLog(), linger=linger), linger


def test_connections_that_were_answered_together_are_waited_for() -> None:
    answers, linger = lingering_answers()
    for position in range(1, LINGER_CONNECTIONS_MIN + 1):
        wait_for(answers, FakeSession(), 1, position)
    wait_for(answers, FakeSession(), 1, 50)
    linger.left()
    answers.release(LINGER_CONNECTIONS_MIN)
    wait_for(answers, FakeSession(), 1, 100)
    assert linger.hold()
    answers.give_up(Reply(1))
    wait_for(answers, FakeSession(), 1, 101)
    assert not linger.hold()


def test_many_requests_of_one_connection_are_not_waited_for() -> None:
    answers, linger = lingering_answers()
    session = FakeSession()
    for position in range(1, 11):
        wait_for(answers, session, 5, position)
    linger.left()
    answers.release(10)
    wait_for(answers, FakeSession(), 1, 11)
    assert not linger.hold()
