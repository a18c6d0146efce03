"""Each rule of the forwarder by itself."""

from unittest.mock import ANY
from weakref import ref

import pytest

from logherd.service.forwarding.effects import CloseLink, Execute, Follow, Relay, Transmit
from logherd.service.forwarding.forwarder import Forwarder, ForwarderLimits
from logherd.service.forwarding.handling import HOLD_MS
from logherd.service.forwarding.roles import Following
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers.forwarding import Refused
from unit.service.client_fakes import FakeSession
from unit.service.forwarding.desk import (
    COMMIT,
    LINK,
    LOCK,
    NEXT,
    NOW,
    OK,
    PULL,
    READ,
    SEND,
    A,
    B,
    Desk,
    code_of,
    refusal,
    sent,
)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_request_goes_to_the_leader_and_its_answer_to_the_client(desk: Desk) -> None:
    desk.link()
    assert sent(desk.ask()) == [1]
    (effect,) = desk.answer(1)
    assert isinstance(effect, Relay)
    assert effect.answer is OK
    assert desk.forwarder.idle


def test_h10_the_time_left_travels_on_the_leaders_clock(desk: Desk) -> None:
    desk.link(ahead_ms=700)
    (first,) = desk.ask()
    assert isinstance(first, Transmit)
    assert (first.deadline_ms, first.epoch) == (NOW + 2_500 + 700, 5)
    desk.forwarder.clock(LINK, 690)
    (second,) = desk.ask(now_ms=NOW + 5)
    assert isinstance(second, Transmit)
    assert second.deadline_ms == NOW + 5 + 2_500 + 690


def test_without_a_leader_requests_wait_and_then_go_in_order(desk: Desk) -> None:
    for _ in range(3):
        assert desk.ask() == []
    assert sent(desk.link()) == [1, 2, 3]
    assert desk.forwarder.held == 0


@pytest.mark.parametrize(
    ("code", "ext", "milliseconds", "heard"),
    [
        (SEND, {}, 2_500, 14),
        (LOCK, {}, 800, 14),
        (PULL, {"sysFlag": "2", "suspendTimeoutMillis": "15000"}, 15_000, 215),
        (PULL, {"sysFlag": "2", "suspendTimeoutMillis": "999999999"}, 30_000, 215),
        (PULL, {"sysFlag": "0", "suspendTimeoutMillis": "15000"}, 2_500, 215),
        (PULL, {"sysFlag": "what"}, 2_500, 215),
    ],
)
def test_h10_a_request_is_held_for_its_time_and_then_gets_a_retriable_code(
    desk: Desk, code: int, ext: dict[str, str], milliseconds: int, heard: int
) -> None:
    desk.ask(code, ext=ext)
    assert desk.forwarder.due_ms() == NOW + milliseconds
    assert desk.forwarder.tick(now_ms=NOW + milliseconds - 1) == []
    assert code_of(desk.forwarder.tick(now_ms=NOW + milliseconds)) == heard
    assert desk.forwarder.due_ms() is None
    assert desk.forwarder.idle


def test_a_request_whose_time_is_over_is_not_sent_to_a_leader_that_comes_then(desk: Desk) -> None:
    desk.ask()
    assert code_of(desk.link(now_ms=NOW + 2_500)) == 14


def test_h11_an_offset_commit_is_never_held(desk: Desk) -> None:
    assert code_of(desk.ask(COMMIT)) == 14
    assert desk.ask(COMMIT, flag=Flag.ONEWAY) == []
    assert desk.link() == []
    assert sent(desk.ask(COMMIT)) == [3]


def test_h11_an_offset_commit_does_not_overtake_what_is_held_before_it(desk: Desk) -> None:
    desk.forwarder = Forwarder(ForwarderLimits(away_bytes_max=1))
    desk.link()
    assert sent(desk.ask()) == [1]
    assert desk.ask() == []  # no room
    assert code_of(desk.ask(COMMIT)) == 14


@pytest.mark.parametrize("written", [True, False])
def test_h11_an_offset_commit_is_never_repeated(desk: Desk, written: bool) -> None:
    desk.link()
    desk.ask(COMMIT)
    assert code_of(desk.lose(1, written=written)) == (1 if written else 14)


def test_h11_a_refused_offset_commit_is_not_repeated(desk: Desk) -> None:
    desk.link()
    desk.ask(COMMIT)
    effects = desk.answer(1, refusal(Refused.NOT_LEADER))
    assert code_of([effect for effect in effects if not isinstance(effect, Follow)]) == 14


def test_h10_what_was_not_written_is_sent_again(desk: Desk) -> None:
    desk.link()
    desk.ask()
    assert desk.lose(1, written=False) == []
    assert sent(desk.forwarder.linked(NEXT, epoch=5, ahead_ms=0, now_ms=NOW), NEXT) == [1]


def test_h10_what_was_written_and_not_answered_is_unknown(desk: Desk) -> None:
    desk.link()
    desk.ask()
    assert code_of(desk.lose(1, written=True)) == 1
    assert desk.forwarder.linked(NEXT, epoch=5, ahead_ms=0, now_ms=NOW) == []


def test_what_changes_nothing_is_asked_again_also_if_it_was_written(desk: Desk) -> None:
    desk.link()
    desk.ask(READ)
    desk.ask()
    desk.forwarder.lost(LINK)
    assert desk.forwarder.unanswered(LINK, 1, written=True, why="gone", now_ms=NOW) == []
    assert code_of(desk.lose(2, written=True)) == 1
    assert sent(desk.forwarder.linked(NEXT, epoch=5, ahead_ms=0, now_ms=NOW), NEXT) == [1]
    assert desk.answer(1, link=NEXT) == [Relay(ANY, OK)]


def test_what_changes_nothing_is_not_asked_again_when_its_time_is_over(desk: Desk) -> None:
    desk.link()
    desk.ask(READ)
    assert code_of(desk.forwarder.unanswered(LINK, 1, written=True, why="late", now_ms=NOW + HOLD_MS)) == 14


def test_what_changes_nothing_is_asked_of_the_new_leader_when_the_old_one_had_its_time(desk: Desk) -> None:
    desk.link()
    desk.ask(READ)
    desk.link(NEXT, B)
    assert desk.ask() == []
    closed, *rest = desk.forwarder.tick(now_ms=NOW + 500)
    assert closed == CloseLink(LINK)
    assert sent(rest, NEXT) == [1, 2]
    assert desk.answer(1) == []  # it comes after all


def test_a_pull_that_was_lost_may_be_pulled_again_at_once(desk: Desk) -> None:
    desk.link()
    desk.ask(PULL)
    assert code_of(desk.lose(1, written=True)) == 215


def test_h10_a_leader_that_does_not_answer_in_time_leaves_it_unknown(desk: Desk) -> None:
    desk.link()
    desk.ask()
    effects = desk.forwarder.unanswered(LINK, 1, written=True, why="late", now_ms=NOW + 30_000)
    assert code_of(effects) == 1
    assert desk.answer(1) == []  # it comes after all


def test_h10_a_typed_refusal_lets_it_be_sent_again_to_whom_the_hint_names(desk: Desk) -> None:
    desk.link()
    desk.ask()
    assert desk.answer(1, refusal(Refused.NOT_LEADER, epoch=6, leader="b:1")) == [Follow("b:1", 6)]
    assert desk.forwarder.wanted == B
    assert desk.ask() == []
    assert sent(desk.forwarder.linked(NEXT, epoch=6, ahead_ms=0, now_ms=NOW), NEXT) == [1, 2]


def test_an_older_hint_is_not_followed_but_another_link_is_made(desk: Desk) -> None:
    desk.link()
    desk.ask()
    assert desk.answer(1, refusal(Refused.NOT_LEADER, epoch=4, leader="old:1")) == [Follow("a:1", 5)]


def test_h10_a_refusal_for_want_of_time_ends_the_request_and_not_the_link(desk: Desk) -> None:
    desk.link()
    desk.ask()
    assert code_of(desk.answer(1, refusal(Refused.LATE))) == 14
    assert sent(desk.ask()) == [2]


def test_a_refused_request_whose_time_is_over_is_not_sent_again(desk: Desk) -> None:
    desk.link()
    desk.ask()
    effects = desk.answer(1, refusal(Refused.NOT_LEADER), now_ms=NOW + 2_500)
    assert code_of([effect for effect in effects if not isinstance(effect, Follow)]) == 14


def test_a_garbled_refusal_is_one_that_says_nothing_was_done(desk: Desk) -> None:
    desk.link()
    desk.ask()
    assert desk.answer(1, Frame(27010, 0, flag=Flag.RESPONSE)) == [Follow("a:1", 5)]
    assert desk.forwarder.held == 1


def test_what_comes_later_waits_until_the_old_leader_has_said_what_became_of_what_came_before(desk: Desk) -> None:
    desk.link()
    desk.ask()
    desk.ask()
    desk.answer(1, refusal(Refused.NOT_LEADER, epoch=6, leader="b:1"))
    assert desk.forwarder.linked(NEXT, epoch=6, ahead_ms=0, now_ms=NOW) == []
    assert desk.ask() == []
    assert sent(desk.answer(2, refusal(Refused.NOT_LEADER)), NEXT) == [1, 2, 3]


def test_other_clients_do_not_wait_for_that(desk: Desk) -> None:
    desk.link()
    desk.ask()
    desk.forwarder.follow(B, now_ms=NOW)
    desk.forwarder.linked(NEXT, epoch=6, ahead_ms=0, now_ms=NOW)
    assert desk.ask() == []
    assert sent(desk.ask(session=FakeSession(id=2)), NEXT) == [3]


def test_an_old_leader_has_a_little_time_and_then_its_requests_are_unknown(desk: Desk) -> None:
    desk.link()
    desk.ask()
    desk.link(NEXT, B)
    assert desk.ask() == []
    assert desk.forwarder.due_ms() == NOW + 500
    closed, unknown, *rest = desk.forwarder.tick(now_ms=NOW + 500)
    assert closed == CloseLink(LINK)
    assert code_of([unknown]) == 1
    assert sent(rest, NEXT) == [2]
    assert desk.answer(1) == []


def test_an_old_leader_has_no_more_time_while_the_new_one_cannot_be_reached(desk: Desk) -> None:
    desk.link()
    desk.ask()
    assert desk.forwarder.follow(B, now_ms=NOW) == [Follow("b:1", 6)]
    closed, unknown = desk.forwarder.tick(now_ms=NOW + 500)
    assert closed == CloseLink(LINK)
    assert code_of([unknown]) == 1
    assert desk.forwarder.due_ms() is None
    assert desk.forwarder.tick(now_ms=NOW + 501) == []


def test_an_old_link_is_closed_as_soon_as_nothing_is_open_on_it(desk: Desk) -> None:
    desk.link()
    desk.ask()
    desk.link(NEXT, B)
    desk.answer(1)
    assert desk.forwarder.due_ms() == 0
    assert desk.forwarder.tick(now_ms=NOW) == [CloseLink(LINK)]


def test_a_second_link_to_the_same_leader_replaces_the_first(desk: Desk) -> None:
    desk.link()
    desk.forwarder.linked(NEXT, epoch=5, ahead_ms=0, now_ms=NOW)
    assert desk.forwarder.tick(now_ms=NOW) == [CloseLink(LINK)]
    assert sent(desk.ask(), NEXT) == [1]


def test_a_pull_does_not_hold_up_what_comes_after_it(desk: Desk) -> None:
    desk.link()
    desk.ask(PULL)
    desk.link(NEXT, B)
    assert sent(desk.ask(), NEXT) == [2]


@pytest.mark.parametrize("suspend_ms", ["0", "1", "-1"])
def test_a_pull_that_hardly_wants_to_wait_has_time_to_arrive(desk: Desk, suspend_ms: str) -> None:
    desk.link(ahead_ms=7)
    [effect] = desk.ask(PULL, ext={"sysFlag": "2", "suspendTimeoutMillis": suspend_ms})
    assert isinstance(effect, Transmit)
    assert effect.deadline_ms == NOW + 2_500 + 7


def test_old_news_of_a_leader_is_ignored(desk: Desk) -> None:
    desk.link(leader=B)
    assert desk.forwarder.follow(A, now_ms=NOW) == []
    assert desk.forwarder.wanted == B


def test_a_link_for_an_epoch_that_is_not_wanted_is_closed(desk: Desk) -> None:
    desk.forwarder.follow(B, now_ms=NOW)
    assert desk.forwarder.linked(LINK, epoch=5, ahead_ms=0, now_ms=NOW) == []
    assert desk.forwarder.tick(now_ms=NOW) == [CloseLink(LINK)]
    assert desk.ask() == []


def test_an_epoch_that_was_only_heard_of_is_forgotten_when_nobody_leads(desk: Desk) -> None:
    desk.forwarder.follow(B, now_ms=NOW)
    desk.forwarder.wait()
    assert desk.forwarder.follow(A, now_ms=NOW) == [Follow("a:1", 5)]


@pytest.mark.parametrize("leads", [True, False])
def test_a_link_that_opens_when_nobody_else_leads_any_more_is_closed(desk: Desk, leads: bool) -> None:
    desk.forwarder.follow(A, now_ms=NOW)
    if leads:
        desk.forwarder.lead(6, now_ms=NOW)
    else:
        desk.forwarder.wait()
    assert desk.forwarder.linked(LINK, epoch=5, ahead_ms=0, now_ms=NOW) == []
    assert desk.forwarder.tick(now_ms=NOW) == [CloseLink(LINK)]


def test_h10_what_became_of_requests_on_a_lost_link_is_waited_for_also_if_it_was_to_be_closed(desk: Desk) -> None:
    desk.link()
    desk.ask()
    desk.link(NEXT, B)
    desk.forwarder.lost(LINK)
    assert desk.forwarder.tick(now_ms=NOW + 500) == []
    again = desk.forwarder.unanswered(LINK, 1, written=False, why="gone", now_ms=NOW + 500)
    assert sent(again, NEXT) == [1]


def test_each_request_on_a_lost_link_gets_its_outcome_and_then_nothing_is_kept_of_the_link(desk: Desk) -> None:
    desk.link()
    desk.ask()
    desk.ask()
    assert code_of(desk.lose(1, written=True)) == 1
    assert code_of(desk.lose(2, written=True)) == 1
    assert desk.forwarder._links == {}


def test_an_old_leader_that_has_said_something_still_has_its_time_for_the_rest(desk: Desk) -> None:
    desk.link()
    desk.ask()
    desk.ask()
    desk.link(NEXT, B)
    desk.answer(1)
    assert desk.forwarder.tick(now_ms=NOW + 499) == []


def test_a_leader_that_refused_has_its_time_for_the_rest_and_then_its_link_is_closed(desk: Desk) -> None:
    desk.link()
    desk.ask()
    desk.ask()
    assert desk.answer(1, refusal(Refused.NOT_LEADER, epoch=5, leader="c:1")) == [Follow("a:1", 5)]
    assert desk.forwarder.tick(now_ms=NOW + 499) == []
    closed, unknown = desk.forwarder.tick(now_ms=NOW + 500)
    assert closed == CloseLink(LINK)
    assert code_of([unknown]) == 1


def test_nothing_is_kept_of_a_oneway_commit(desk: Desk) -> None:
    desk.link()
    assert sent(desk.ask(COMMIT, flag=Flag.ONEWAY)) == [1]
    assert desk.forwarder.idle


def test_a_link_that_was_lost_is_not_used_again(desk: Desk) -> None:
    desk.link()
    desk.ask()
    desk.forwarder.lost(LINK)
    desk.forwarder.wait()
    assert desk.forwarder.follow(A, now_ms=NOW) == [Follow("a:1", 5)]


def test_a_leader_that_was_doubted_and_is_confirmed_keeps_its_link(desk: Desk) -> None:
    desk.link()
    desk.forwarder.wait()
    assert desk.ask() == []
    follow, *rest = desk.forwarder.follow(A, now_ms=NOW)
    assert follow == Follow("a:1", 5, LINK)
    assert sent(rest) == [1]


def test_a_leader_that_is_confirmed_after_it_refused_gets_a_new_link(desk: Desk) -> None:
    desk.link()
    desk.ask()
    desk.ask()
    desk.answer(1, refusal(Refused.NOT_LEADER))
    desk.forwarder.wait()
    assert desk.forwarder.follow(A, now_ms=NOW) == [Follow("a:1", 5)]


def test_a_leader_that_moves_within_its_epoch_gets_a_new_link(desk: Desk) -> None:
    desk.link()
    assert desk.forwarder.follow(A, now_ms=NOW) == []
    assert desk.forwarder.follow(Following("elsewhere:1", 5), now_ms=NOW) == [Follow("elsewhere:1", 5)]


def test_h10_what_became_of_requests_on_a_lost_link_is_waited_for_also_if_another_leads_then(desk: Desk) -> None:
    desk.link()
    desk.ask()
    desk.forwarder.lost(LINK)
    desk.link(NEXT, B)
    assert desk.forwarder.tick(now_ms=NOW + 500) == []
    again = desk.forwarder.unanswered(LINK, 1, written=False, why="gone", now_ms=NOW + 500)
    assert sent(again, NEXT) == [1]


def test_a_leader_that_is_followed_again_is_not_given_up_as_an_old_one(desk: Desk) -> None:
    desk.link()
    desk.ask()
    desk.forwarder.follow(B, now_ms=NOW)
    desk.forwarder.wait()
    assert desk.forwarder.follow(A, now_ms=NOW) == [Follow("a:1", 5, LINK)]
    assert desk.forwarder.tick(now_ms=NOW + 500) == []
    assert isinstance(desk.answer(1)[0], Relay)


def test_an_old_leader_has_no_more_time_when_leaders_go_on_changing(desk: Desk) -> None:
    desk.link()
    desk.ask()
    desk.forwarder.follow(B, now_ms=NOW)
    desk.forwarder.follow(Following("c:1", 7), now_ms=NOW + 400)
    assert desk.forwarder.due_ms() == NOW + 500


def test_nothing_is_kept_of_a_lost_link_on_which_nothing_was_open(desk: Desk) -> None:
    desk.link()
    desk.forwarder.lost(LINK)
    desk.forwarder.lost(LINK)
    desk.forwarder.clock(LINK, 7)  # its last answer may have come behind that
    assert desk.forwarder._links == {}


def test_what_waits_behind_a_request_whose_time_was_over_goes_to_the_leader_that_comes(desk: Desk) -> None:
    desk.ask(LOCK)
    desk.ask()
    assert code_of(desk.forwarder.tick(now_ms=NOW + 800)) == 14
    assert not desk.forwarder.idle
    assert sent(desk.link(now_ms=NOW + 900)) == [2]
    desk.answer(2)
    assert desk.forwarder.idle


def test_what_is_held_or_away_is_left_to_do(desk: Desk) -> None:
    assert desk.forwarder.idle
    desk.ask()
    assert not desk.forwarder.idle
    assert sent(desk.link()) == [1]
    assert not desk.forwarder.idle
    desk.answer(1)
    assert desk.forwarder.idle


def test_who_led_and_follows_has_nothing_to_close_of_its_own(desk: Desk) -> None:
    desk.forwarder.lead(5, now_ms=NOW)
    desk.forwarder.follow(B, now_ms=NOW)
    assert desk.forwarder.due_ms() is None


def test_when_this_broker_leads_what_is_held_is_carried_out_here_in_order(desk: Desk) -> None:
    desk.ask()
    desk.ask()
    effects = desk.forwarder.lead(7, now_ms=NOW)
    assert [effect.errand.frame.opaque for effect in effects if isinstance(effect, Execute)] == [1, 2]
    assert desk.forwarder.idle


def test_when_this_broker_leads_a_client_still_waits_for_the_old_leaders_word(desk: Desk) -> None:
    desk.link()
    desk.ask()
    assert desk.forwarder.lead(7, now_ms=NOW) == []
    assert desk.ask() == []
    assert not desk.forwarder.idle
    relayed, executed = desk.answer(1)
    assert isinstance(relayed, Relay)
    assert isinstance(executed, Execute)
    assert desk.forwarder.idle


def test_who_pulls_at_a_broker_that_stops_is_told_to_pull_again_and_all_else_goes_on(desk: Desk) -> None:
    desk.link()
    desk.ask(PULL)
    desk.ask()
    desk.forwarder.lost(LINK)
    desk.ask(PULL)
    desk.ask()
    away, held = desk.forwarder.leave(now_ms=NOW)[::-1]
    assert (code_of([held]), code_of([away])) == (215, 215)
    assert code_of(desk.ask(PULL)) == 215
    assert desk.forwarder.unanswered(LINK, 1, written=True, why="gone", now_ms=NOW) == [], "it has its answer"
    assert desk.lose(2, written=False) == []
    assert sent(desk.forwarder.linked(NEXT, epoch=5, ahead_ms=0, now_ms=NOW), NEXT) == [2, 4]


def test_room_that_pulls_had_is_given_to_others_when_a_broker_stops() -> None:
    desk = Desk(ForwarderLimits(pull_bytes_max=1, held_max=10))
    desk.link()
    assert sent(desk.ask(PULL)) == [1]
    assert desk.ask(PULL) == []
    assert desk.ask() == []  # behind what waits for room
    told_first, *rest = desk.forwarder.leave(now_ms=NOW)
    assert code_of([told_first]) == 215
    assert sent([each for each in rest if isinstance(each, Transmit)]) == [3]
    assert desk.forwarder.held == 0


def test_of_pulls_that_wait_each_is_told_once_though_one_makes_room_for_the_next() -> None:
    desk = Desk(ForwarderLimits(pull_bytes_max=2 * 1024))
    desk.link()
    assert sent(desk.ask(PULL)) == [1]
    assert desk.ask(PULL, body=b"x" * 2048) == []
    assert desk.ask(PULL) == []
    assert [code_of([each]) for each in desk.forwarder.leave(now_ms=NOW)] == [215] * 3
    assert desk.forwarder.idle


def test_what_a_client_that_left_had_waiting_is_dropped(desk: Desk) -> None:
    desk.ask()
    desk.forwarder.closed(desk.session.id)
    assert desk.forwarder.held == desk.forwarder.held_bytes == 0
    assert desk.forwarder.due_ms() is None
    assert desk.link() == []


@pytest.mark.parametrize("sent_on", [True, False])
def test_nothing_is_kept_of_what_waited_once_it_is_over(desk: Desk, sent_on: bool) -> None:
    """Memory is bounded by what is held, and not by what was held within the longest time that anything may be."""
    first = FakeSession(id=1)
    desk.ask(session=first)
    if sent_on:
        desk.link()
        desk.answer(1)
        desk.forwarder.wait()
    desk.ask(session=FakeSession(id=2), now_ms=NOW - 1)  # its time is over before, and it goes on waiting
    gone = ref(first)
    desk.forwarder.closed(first.id)
    del first
    assert gone() is None
    assert desk.forwarder.due_ms() == NOW - 1 + HOLD_MS


def test_what_a_client_that_left_had_under_way_is_answered_to_nobody_and_not_sent_again(desk: Desk) -> None:
    desk.link()
    for _ in range(3):
        desk.ask()
    desk.forwarder.closed(desk.session.id)
    assert desk.answer(1) == []
    assert desk.answer(2, refusal(Refused.NOT_LEADER)) == [Follow("a:1", 5)]
    assert desk.lose(3, written=True) == []
    assert desk.forwarder.held == 0


def test_a_oneway_send_is_sent_again_after_a_refusal_and_never_answered(desk: Desk) -> None:
    desk.link()
    desk.ask(flag=Flag.ONEWAY)
    desk.answer(1, refusal(Refused.NOT_LEADER, epoch=6, leader="b:1"))
    assert sent(desk.forwarder.linked(NEXT, epoch=6, ahead_ms=0, now_ms=NOW), NEXT) == [1]
    assert desk.answer(1, link=NEXT) == []
