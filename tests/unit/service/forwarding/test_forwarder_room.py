"""What is held and what is on its way is bounded, and whoever waits for room gets it in turn."""

from collections import Counter, deque
from collections.abc import Callable
from itertools import count

import pytest

from logherd.service.forwarding.effects import Answer, Effect, Execute, Follow, Relay, Transmit
from logherd.service.forwarding.errand import Caller, Errand
from logherd.service.forwarding.forwarder import Forwarder, ForwarderLimits
from logherd.service.forwarding.handling import HOLD_MS
from logherd.wire.frame import Flag
from unit.service.client_fakes import FakeSession
from unit.service.forwarding.desk import (
    LINK,
    NEXT,
    NOW,
    PULL,
    A,
    B,
    Desk,
    code_of,
    sent,
)


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.mark.parametrize(
    "limits",
    [ForwarderLimits(held_max=2), ForwarderLimits(held_bytes_max=3_000), ForwarderLimits(caller_bytes_max=3_000)],
    ids=["count", "bytes", "bytes of one client"],
)
def test_what_is_held_is_bounded(limits: ForwarderLimits) -> None:
    desk = Desk(limits)
    assert desk.ask() == []
    assert desk.ask() == []
    assert code_of(desk.ask()) == 14
    assert desk.ask(flag=Flag.ONEWAY) == []
    assert (desk.forwarder.held, desk.forwarder.held_bytes) == (2, 2 * 1024)


@pytest.mark.parametrize("sent_on", [True, False], ids=["sent on", "its time is over"])
def test_what_a_client_had_waiting_takes_no_room_from_what_it_asks_later(sent_on: bool) -> None:
    """Otherwise one connection would be refused for ever after enough changes of leader."""
    desk = Desk(ForwarderLimits(caller_bytes_max=3_000))
    for epoch in (1, 2, 3):
        assert (desk.ask(), desk.ask()) == ([], [])
        if sent_on:
            desk.forwarder.lead(epoch, now_ms=NOW)
            desk.forwarder.wait()
        else:
            desk.forwarder.tick(now_ms=NOW + HOLD_MS)
        assert desk.forwarder.held == 0


def test_a_large_header_counts_towards_what_is_held() -> None:
    desk = Desk(ForwarderLimits(held_bytes_max=100_000))
    assert desk.ask(ext={"properties": "x" * 30_000}) == []
    assert desk.forwarder.held_bytes > 30_000
    assert code_of(desk.ask(ext={"properties": "x" * 80_000})) == 14
    assert desk.ask() == []


def test_what_is_on_its_way_is_bounded_and_the_rest_follows_as_answers_come(desk: Desk) -> None:
    desk = Desk(ForwarderLimits(away_bytes_max=2 * 1024))
    desk.link()
    other = FakeSession(id=2)
    assert sent(desk.ask()) == [1]
    assert sent(desk.ask(session=other)) == [2]
    assert desk.ask() == []
    assert desk.ask(session=other) == []
    relay, *rest = desk.answer(1)
    assert isinstance(relay, Relay)
    assert sent(rest) == [3]
    relay, *rest = desk.answer(2)
    assert isinstance(relay, Relay)
    assert sent(rest) == [4]


def test_a_request_larger_than_the_bound_goes_alone(desk: Desk) -> None:
    desk = Desk(ForwarderLimits(away_bytes_max=10))
    desk.link()
    assert sent(desk.ask(body=b"x" * 100)) == [1]
    assert desk.ask() == []
    assert sent(desk.answer(1)[1:]) == [2]


def test_pulls_have_a_bound_of_their_own(desk: Desk) -> None:
    desk = Desk(ForwarderLimits(pull_bytes_max=2048))
    desk.link()
    assert sent(desk.ask(PULL)) == [1]
    assert sent(desk.ask(PULL)) == [2]
    assert desk.ask(PULL) == []
    assert sent(desk.ask(session=FakeSession(id=2))) == [4]
    relay, *rest = desk.answer(1)
    assert isinstance(relay, Relay)
    assert sent(rest) == [3]


def test_pulls_that_wait_for_room_cost_other_requests_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(ForwarderLimits(pull_bytes_max=1024))
    desk.link()
    for number in range(2, 50):
        desk.ask(PULL, session=FakeSession(id=number))
    looked: list[int] = []
    flush = Forwarder._flush

    def counted(forwarder: Forwarder, caller: Caller, now_ms: int) -> list[Effect]:
        looked.append(caller.session.id)
        return flush(forwarder, caller, now_ms)

    monkeypatch.setattr(Forwarder, "_flush", counted)
    (request,) = sent(desk.ask())
    desk.answer(request)
    assert len(looked) <= 1
    for _, number in zip(range(2, 49), count(1), strict=False):
        relay, *rest = desk.answer(number)
        assert isinstance(relay, Relay)
        assert sent(rest) == [number + 1]
    assert len(looked) < 3 * 48


def test_what_stands_behind_a_pull_goes_when_that_ones_time_is_over(desk: Desk) -> None:
    desk = Desk(ForwarderLimits(pull_bytes_max=1024))
    desk.link()
    assert sent(desk.ask(PULL, session=FakeSession(id=2))) == [1]
    assert desk.ask(PULL) == []
    assert desk.ask(now_ms=NOW + 1) == []
    answer, go = desk.forwarder.tick(now_ms=NOW + HOLD_MS)
    assert code_of([answer]) == 215
    assert sent([go]) == [3]


def test_who_came_to_wait_for_other_room_has_one_turn_as_all_have() -> None:
    """It stands in the queue for each room by then, and the entry that is out of date counts for nothing."""
    desk = Desk(ForwarderLimits(away_bytes_max=1024, pull_bytes_max=1024))
    desk.link()
    others, other = FakeSession(id=2), FakeSession(id=3)
    assert sent(desk.ask(session=others)) == [1]
    assert sent(desk.ask(PULL, session=others)) == [2]
    assert desk.ask() == []
    for session in (desk.session, desk.session, desk.session, other, other):
        assert desk.ask(PULL, session=session, now_ms=NOW + 1) == []
    assert code_of(desk.forwarder.tick(now_ms=NOW + HOLD_MS)) == 14
    assert len(desk.answer(1)) == 1
    order = [2]
    while len(order) < 6:
        order += sent(desk.answer(order[-1])[1:])
    assert order == [2, 7, 4, 8, 5, 6]


def test_what_comes_behind_a_request_that_waits_for_room_costs_it_no_turn() -> None:
    desk = Desk(ForwarderLimits(away_bytes_max=1024, pull_bytes_max=1024))
    desk.link()
    assert sent(desk.ask(session=FakeSession(id=2))) == [1]
    assert desk.ask() == []
    assert desk.ask(session=FakeSession(id=3)) == []
    assert desk.ask(PULL) == []
    assert sent(desk.answer(1)[1:]) == [2, 4]


def test_what_has_room_does_not_overtake_what_waits_for_it(desk: Desk) -> None:
    desk = Desk(ForwarderLimits(away_bytes_max=3 * 1024))
    desk.link()
    assert sent(desk.ask()) == [1]
    assert desk.ask(body=b"x" * 2048) == []
    assert desk.ask() == []
    assert sent(desk.answer(1)[1:]) == [2]
    assert sent(desk.answer(2)[1:]) == [3]


def test_who_waits_for_room_goes_on_waiting_for_it_when_the_leader_is_confirmed() -> None:
    desk = Desk(ForwarderLimits(away_bytes_max=1024))
    desk.link()
    assert sent(desk.ask()) == [1]
    assert desk.ask(session=FakeSession(id=2)) == []
    desk.forwarder.wait()
    assert desk.forwarder.follow(A, now_ms=NOW) == [Follow(A.address, A.epoch, LINK)]
    assert sent(desk.answer(1)[1:]) == [2]


def test_what_still_waits_for_room_when_the_leader_goes_is_sent_to_the_next() -> None:
    desk = Desk(ForwarderLimits(away_bytes_max=1024))
    desk.link()
    assert [sent(desk.ask()) for _ in range(3)] == [[1], [], []]
    assert sent(desk.answer(1)[1:]) == [2]
    desk.lose(2, written=True)
    assert sent(desk.link(NEXT, B), NEXT) == [3]


def test_what_is_carried_out_here_needs_no_room() -> None:
    desk = Desk(ForwarderLimits(away_bytes_max=1024))
    desk.link()
    assert sent(desk.ask()) == [1]
    desk.forwarder.lead(6, now_ms=NOW)
    (effect,) = desk.ask(session=FakeSession(id=2))
    assert isinstance(effect, Execute)


def test_pulls_that_are_large_have_less_room() -> None:
    desk = Desk(ForwarderLimits(pull_bytes_max=100_000))
    desk.link()
    assert sent(desk.ask(PULL, ext={"subscription": "x" * 60_000})) == [1]
    assert desk.ask(PULL, body=b"x" * 60_000) == []
    assert sent(desk.answer(1)[1:]) == [2]


def test_a_client_with_a_request_now_and_then_gets_room_beside_those_that_fill_it() -> None:
    """Each of three keeps 40 requests on their way, for 64 of which there is room; the leader takes one each ms."""
    desk = Desk(ForwarderLimits(away_bytes_max=64 * 2048))
    desk.link()
    away: deque[Errand] = deque()
    served: Counter[int] = Counter()
    sessions = [FakeSession() for _ in range(4)]
    for number, session in enumerate(sessions):
        session.id = number

    def carry_out(effects: list[Effect]) -> None:
        assert not any(isinstance(effect, Answer) for effect in effects), "nobody's time runs out"
        away.extend(effect.errand for effect in effects if isinstance(effect, Transmit))

    for session in sessions[:3]:
        for _ in range(40):
            carry_out(desk.ask(body=bytes(1024), session=session))
    for now_ms in range(NOW, NOW + 4000):
        carry_out(desk.forwarder.tick(now_ms=now_ms))
        if now_ms % 20 == 0:
            carry_out(desk.ask(session=sessions[3], now_ms=now_ms))
        errand = away.popleft()
        served[errand.caller.session.id] += 1
        carry_out(desk.answer(errand.number, now_ms=now_ms))
        if errand.caller.session is not sessions[3]:
            carry_out(desk.ask(body=bytes(1024), session=errand.caller.session, now_ms=now_ms))
    assert served[3] > 190
    assert max(served[each] for each in range(3)) < 1.1 * min(served[each] for each in range(3))


def test_many_whose_time_is_over_are_found_quickly_among_many_that_wait_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer's pulls wait longer than the sends of the same client, and stand before them."""
    looks = 0

    def counted(holds: Callable[[Errand, Errand], bool]) -> Callable[[Errand, Errand], bool]:
        def look(one: Errand, other: Errand) -> bool:
            nonlocal looks
            looks += 1
            return holds(one, other)

        return look

    desk = Desk()
    for _ in range(500):
        desk.ask(PULL, ext={"sysFlag": "2", "suspendTimeoutMillis": "15000"})
    for _ in range(500):
        desk.ask()
    monkeypatch.setattr(Errand, "__eq__", counted(lambda one, other: one is other))
    monkeypatch.setattr(Errand, "__lt__", counted(lambda one, other: one.number < other.number))
    assert len(desk.forwarder.tick(now_ms=NOW + HOLD_MS)) == 500
    assert desk.forwarder.held == 500
    assert looks < 500 * 12
