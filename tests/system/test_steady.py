"""The judge of failover rounds sees what it is there for."""

import pytest

from system.failover import Round, Rounds
from system.steady import JavaSend, compare, longest_gap, unexcused

pytestmark = pytest.mark.system

TOPIC = "Orders"


def stored_send(value: str, at: float, offset: int = 0) -> JavaSend:
    return JavaSend(value, at, at + 0.01, "", 0, offset)


def failed_send(value: str, at: float, until: float) -> JavaSend:
    return JavaSend(value, at, until, "RemotingTooMuchRequestException: sendDefaultImpl call timeout")


def holds(*values: str) -> dict[tuple[str, int], tuple[int, list[tuple[int, str]]]]:
    return {(TOPIC, 0): (0, list(enumerate(values)))}


def test_what_was_acknowledged_and_is_not_there_is_lost() -> None:
    sends = [stored_send("a", 1, 0), stored_send("b", 2, 1)]
    assert compare(TOPIC, sends, holds("a", "b")).clean
    assert compare(TOPIC, sends, holds("a")).lost == (sends[1],)
    assert compare(TOPIC, sends, holds("b", "a")).lost == tuple(sends)


def test_what_nobody_sent_is_foreign_and_what_failed_may_be_there_all_the_same() -> None:
    sends = [stored_send("a", 1, 0), failed_send("b", 2, 5)]
    assert compare(TOPIC, sends, holds("a", "b")).clean
    assert compare(TOPIC, sends, holds("a", "x")).foreign == ("x",)


def test_a_value_that_the_client_sent_again_is_no_fault() -> None:
    difference = compare(TOPIC, [stored_send("a", 1, 1)], holds("a", "a"))
    assert (difference.clean, difference.repeated) == (True, 1)


def test_a_gap_is_between_successes_of_all_threads() -> None:
    sends = [stored_send("a", 1), failed_send("b", 1.1, 4.1), stored_send("c", 2), stored_send("d", 5)]
    assert longest_gap(sends, 1.5, 3) == pytest.approx(3)
    assert longest_gap(sends, 0, 1.9) == pytest.approx(1), "the one that ends inside or begins inside"
    assert longest_gap(sends, 6, 9) == 3, "nothing at all was stored"


def test_only_sends_that_could_reach_what_was_hurt_are_excused() -> None:
    before, during, after = failed_send("a", 9.9, 12.9), failed_send("b", 11, 13), failed_send("c", 13, 16)
    rounds = Rounds(sends=[failed_send("0", 1, 4), before, during, after])
    killed = Round("leader killed", "b1", begin=10, over=12, end=20)
    assert rounds.failed(killed) == [before, during, after]
    assert rounds.late(killed) == [after]
    assert rounds.late(Round("planned switch", "b1", begin=10, over=0, end=20)) == [before, during, after]


def test_of_failed_sends_as_many_are_the_clients_own_as_it_left_waiting_for_their_whole_time() -> None:
    quick, first, second = failed_send("a", 1, 2), failed_send("b", 1, 4), failed_send("c", 1, 4.01)
    assert unexcused([first, quick, second], 2) == [quick]
    assert unexcused([first, quick, second], 1) == [quick, second]
    assert unexcused([first, second], 0) == [first, second]
