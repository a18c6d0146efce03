"""Windows in messages and bytes, the shared allowance, the durable end, heartbeat rounds."""

import pytest

from logherd.kit.errors import InvariantError
from logherd.model.names import Position
from logherd.replication.durable import DurableEnd
from logherd.replication.messages import ReplicaId
from logherd.replication.rounds import Rounds
from logherd.replication.window import TokenBucket, Window

A = ReplicaId("a")


def test_a_window_is_bounded_in_messages_and_in_bytes() -> None:
    window = Window(messages_max=2, bytes_max=100)
    window.add(Position(10), 60)
    assert window.room == 40
    window.add(Position(20), 10)
    assert window.room == 0
    window.release(Position(10))
    assert (window.messages, window.room) == (1, 90)


def test_one_large_message_travels_alone() -> None:
    window = Window(messages_max=8, bytes_max=100)
    window.add(Position(10), 500)
    assert window.room <= 0
    window.release(Position(10))
    assert window.room == 100


def test_a_window_keeps_the_order_of_sending() -> None:
    window = Window(messages_max=2, bytes_max=100)
    window.add(Position(20), 1)
    with pytest.raises(InvariantError):
        window.add(Position(10), 1)


def test_a_bucket_earns_by_time_goes_into_debt_once_and_never_overflows() -> None:
    bucket = TokenBucket(bytes_per_second=1_000, burst=100)
    bucket.fill(0)
    bucket.take(300)
    assert not bucket.open
    bucket.fill(200)
    assert not bucket.open
    bucket.fill(201)
    assert bucket.open
    bucket.fill(100_000)
    bucket.take(100)
    assert not bucket.open


def test_what_a_bucket_is_granted_comes_on_top_and_is_not_saved_up() -> None:
    bucket = TokenBucket(bytes_per_second=1, burst=100)
    for size in (1_000, 0, 50, 30):
        bucket.grant(size)
    bucket.take(130)
    assert not bucket.open, "no more than the burst and what was granted last"
    bucket.grant(1)
    assert bucket.open
    bucket.take(11)
    bucket.grant(10)
    assert not bucket.open, "a debt is paid first"


def test_a_bucket_loses_no_time_to_short_steps() -> None:
    bucket = TokenBucket(bytes_per_second=10, burst=5)
    bucket.fill(0)
    bucket.take(5)
    for now in range(1, 101):
        bucket.fill(now)
    assert bucket.open


def test_flushed_bytes_are_durable_in_the_order_of_their_tokens() -> None:
    durable = DurableEnd(Position(0))
    first, second = durable.wrote(Position(10), 5), durable.wrote(Position(20), 6)
    assert durable.waiting_since == 5
    assert durable.flushed(first)
    assert (durable.position, durable.waiting_since) == (10, 6)
    assert durable.flushed(second)
    assert (durable.position, durable.waiting_since) == (20, None)


def test_a_completion_of_bytes_that_were_cut_counts_only_up_to_the_cut() -> None:
    durable = DurableEnd(Position(0))
    old = durable.wrote(Position(30), 0)
    durable.cut(Position(10))
    new = durable.wrote(Position(30), 1)
    durable.flushed(old)
    assert durable.position == 10
    durable.flushed(new)
    assert durable.position == 30


def test_what_a_cut_left_alone_is_not_durable_before_its_own_flush() -> None:
    """The cut is beyond the first of two writes that are on their way."""
    durable = DurableEnd(Position(0))
    first, second = durable.wrote(Position(10), 0), durable.wrote(Position(30), 0)
    durable.cut(Position(20))
    assert durable.flushed(first)
    assert durable.position == 10
    assert durable.flushed(second)
    assert durable.position == 20


def test_a_completion_that_is_told_late_or_again_takes_nothing_back() -> None:
    durable = DurableEnd(Position(0))
    first, second = durable.wrote(Position(10), 0), durable.wrote(Position(20), 0)
    assert durable.flushed(second)
    assert (durable.position, durable.flushed_token) == (20, second)
    for late in (first, second):
        assert not durable.flushed(late)
        assert (durable.position, durable.flushed_token) == (20, second)


def test_a_flush_that_nobody_asked_for_is_an_error_of_the_shell() -> None:
    with pytest.raises(InvariantError):
        DurableEnd(Position(0)).flushed(1)


def test_an_answered_round_proves_life_at_the_time_it_was_sent() -> None:
    rounds = Rounds()
    first, second = rounds.begin(100), rounds.begin(250)
    assert rounds.answer(A, second)
    assert rounds.heard_at(A) == 250
    assert not rounds.answer(A, first)
    assert not rounds.answer(A, second + 1)
    assert rounds.round_of(A) == second


def test_whatever_is_told_of_peers_changes_with_the_count_of_answers_and_with_nothing_else() -> None:
    """So that what was made of it may be kept until then."""
    rounds, counts = Rounds(), list[int]()
    assert rounds.begun_at == 0
    first, second = rounds.begin(100), rounds.begin(250)
    assert rounds.begun_at == 250
    for number in (first, first, second, first, second):
        rounds.answer(A, number)
        counts.append(rounds.answers)
    rounds.forget(A)
    assert [*counts, rounds.answers] == [1, 1, 2, 2, 2, 3]
    assert (rounds.round_of(A), rounds.heard_at(A)) == (0, None)
    assert rounds.answer(A, second), "it is news again"


def test_an_answer_to_a_round_long_forgotten_is_worth_nothing() -> None:
    rounds = Rounds()
    first = rounds.begin(0)
    for now in range(1, 5_000):
        rounds.begin(now)
    assert not rounds.answer(A, first)
    assert rounds.heard_at(A) is None
