"""An exit is reported until somebody who decides has answered."""

from hypothesis import given
from hypothesis import strategies as st

from logherd_guardian.events import Exited, Report, Superseded, Tick
from logherd_guardian.frames import Answer, Exit
from logherd_guardian.reporter import Ask, Reporter
from unit.guardian.life import TICK, WHO, Life, known

FIRST, SECOND = Exit(WHO, "1" * 32), Exit(WHO, "2" * 32)
NOT_LEADER = 2007


def test_nothing_is_asked_before_an_exit() -> None:
    reporter = Reporter(("a", "b"))
    assert reporter.is_done
    assert reporter.due(0) == []


def test_all_controllers_are_asked_at_once_and_each_once_at_a_time() -> None:
    reporter = Reporter(("a", "b", "c"))
    reporter.add(FIRST)
    assert reporter.due(0) == [Ask("a", FIRST), Ask("b", FIRST), Ask("c", FIRST)]
    assert reporter.due(60_000) == []


def test_one_acknowledgement_is_enough() -> None:
    reporter = Reporter(("a", "b"))
    reporter.add(FIRST)
    ask, _ = reporter.due(0)
    said = reporter.answered(ask, Answer(0), 5)
    assert said == "the controllers know of the exit: a"
    assert reporter.is_done
    assert reporter.due(60_000) == []


def test_silence_is_asked_again_with_bounded_back_off() -> None:
    reporter, now, waits = Reporter(("a",)), 0, []
    reporter.add(FIRST)
    for _ in range(9):
        (ask,) = reporter.due(now)
        reporter.unanswered(ask, now)
        began = now
        while not reporter.due(now):
            now += 1
        reporter.withdrawn(ask)
        waits.append(now - began)
    assert waits == [50, 100, 200, 400, 800, 1_000, 1_000, 1_000, 1_000]


def test_a_leader_that_is_named_is_asked_at_once() -> None:
    reporter = Reporter(("a",))
    reporter.add(FIRST)
    (ask,) = reporter.due(0)
    assert reporter.answered(ask, Answer(NOT_LEADER, "x:1"), 1) is None
    assert reporter.due(1) == [Ask("x:1", FIRST)]


def test_who_does_not_lead_and_knows_no_leader_names_nobody() -> None:
    reporter = Reporter(("a",))
    reporter.add(FIRST)
    (ask,) = reporter.due(0)
    assert reporter.answered(ask, Answer(NOT_LEADER), 0) is None
    assert reporter.due(1_000) == [Ask("a", FIRST)]


def test_two_that_name_each_other_do_not_spin() -> None:
    reporter, asked = Reporter(("a", "b")), 0
    reporter.add(FIRST)
    for now in range(10_000):
        for ask in reporter.due(now):
            asked += 1
            reporter.answered(ask, Answer(NOT_LEADER, {"a": "b", "b": "a"}[ask.address]), now)
    assert asked <= 2 * 15


def test_leaders_named_by_liars_are_bounded() -> None:
    reporter, addresses = Reporter(("a",)), set()
    reporter.add(FIRST)
    for now in range(0, 60_000, 50):
        for ask in reporter.due(now):
            addresses.add(ask.address)
            reporter.answered(ask, Answer(NOT_LEADER, f"liar-{now}-{ask.address[:8]}"), now)
    assert len(addresses) <= 1 + 8


def test_busy_and_unknown_outcomes_are_asked_again() -> None:
    for code in (1, 2):
        reporter = Reporter(("a",))
        reporter.add(FIRST)
        (ask,) = reporter.due(0)
        assert reporter.answered(ask, Answer(code), 0) is None
        assert reporter.due(49) == []
        assert reporter.due(50) == [Ask("a", FIRST)]


def test_a_refusal_is_the_last_word_and_is_said() -> None:
    reporter = Reporter(("a",))
    reporter.add(FIRST)
    (ask,) = reporter.due(0)
    said = reporter.answered(ask, Answer(2012, remark="fenced-process: bé"), 0)
    assert said == "the controllers refuse the report: code=2012 'fenced-process: b\\xe9'"
    assert reporter.is_done


def test_two_exits_are_reported_in_their_order() -> None:
    reporter = Reporter(("a",))
    reporter.add(FIRST)
    reporter.add(SECOND)
    (ask,) = reporter.due(0)
    assert ask.exit == FIRST
    reporter.answered(ask, Answer(0), 1)
    (ask,) = reporter.due(1)
    assert ask.exit == SECOND
    assert not reporter.is_done
    reporter.answered(ask, Answer(0), 2)
    assert reporter.is_done


def test_after_an_exit_is_settled_everybody_is_asked_about_the_next_at_once() -> None:
    reporter = Reporter(("a", "b"))
    reporter.add(FIRST)
    reporter.add(SECOND)
    first, silent = reporter.due(0)
    reporter.unanswered(silent, 1)
    reporter.answered(first, Answer(0), 2)
    assert reporter.due(2) == [Ask("a", SECOND), Ask("b", SECOND)]


def test_an_answer_about_an_exit_that_is_settled_settles_no_other() -> None:
    reporter = Reporter(("a", "b"))
    reporter.add(FIRST)
    first, late = reporter.due(0)
    reporter.answered(first, Answer(0), 1)
    reporter.add(SECOND)
    assert reporter.answered(late, Answer(0), 2) is None
    assert not reporter.is_done


def test_a_leaders_exit_that_no_controller_could_take_is_told_when_the_next_child_is_registered() -> None:
    """The controllers wait for the lease of the process before, until they hear that it has ended."""
    life, reporter = Life(), Reporter(("a", "b"))
    life.serve(lease_end_ms=life.now + 3_000)
    (report, _) = life(Exited(-9, known(lease_end_ms=life.now + 2_900)), TICK)
    assert isinstance(report, Report)
    reporter.add(report.exit)
    life.spawn()
    for _ in range(0, 2_000, 20):
        life.now += 20
        for ask in reporter.due(life.now):
            assert reporter.answered(ask, Answer(NOT_LEADER), life.now) is None
    assert Superseded() in life(Tick(known()))
    reporter.superseded(life.now)
    (ask, _) = reporter.due(life.now)
    assert ask == Ask("a", report.exit)
    assert reporter.answered(ask, Answer(0), life.now) == "the controllers know of the exit: a"
    assert reporter.is_done


def test_an_exit_that_nobody_answers_for_is_reported_for_five_seconds_after_the_next_registration() -> None:
    """Others may lead by then, or the addresses may be old ones."""
    reporter, asked = Reporter(("a",)), []
    reporter.add(FIRST)
    reporter.superseded(0)
    for now in range(60_000):
        if now == 3_000:
            reporter.add(SECOND)
        if now == 4_000:
            reporter.superseded(now)
        for ask in reporter.due(now):
            asked.append((ask.exit, now))
            reporter.unanswered(ask, now)
    times = {exited: [now for each, now in asked if each == exited] for exited in (FIRST, SECOND)}
    assert 4_000 <= max(times[FIRST]) < 5_000, "a later child does not prolong it"
    assert 8_000 <= max(times[SECOND]) < 9_000
    assert reporter.is_done
    assert len(asked) < 2 * 15


def test_a_new_exit_does_not_wait_for_the_back_off_of_an_old_one() -> None:
    reporter = Reporter(("a",))
    reporter.add(FIRST)
    for now in (0, 50, 150, 350, 750):
        (ask,) = reporter.due(now)
        reporter.unanswered(ask, now)
    reporter.add(SECOND)
    (ask,) = reporter.due(751)
    reporter.unanswered(ask, 751)
    assert reporter.due(751 + 50) == [ask], "nor for half of a second then"


def test_who_has_answered_is_asked_again_as_soon_as_one_that_never_failed() -> None:
    reporter = Reporter(("a",))
    reporter.add(FIRST)
    reporter.add(SECOND)
    for now in (0, 50, 150, 350):
        (ask,) = reporter.due(now)
        reporter.unanswered(ask, now)
    (ask,) = reporter.due(750)
    reporter.answered(ask, Answer(0), 750)
    (ask,) = reporter.due(750)
    reporter.unanswered(ask, 750)
    assert reporter.due(750 + 50) == [Ask("a", SECOND)]


def test_of_many_exits_the_oldest_are_forgotten() -> None:
    reporter, heard = Reporter(("a",)), []
    for number in range(20):
        reporter.add(Exit(WHO, f"{number:032x}"))
    while not reporter.is_done:
        (ask,) = reporter.due(0)
        heard.append(int(ask.exit.incarnation, 16))
        reporter.answered(ask, Answer(0), 0)
    assert heard == list(range(4, 20))


CODES = st.sampled_from([0, 1, 2, NOT_LEADER, 2012, None])


@given(st.lists(st.tuples(CODES, st.sampled_from(["a", "b", "d", None])), max_size=60), st.integers(1, 20))
def test_an_exit_is_either_settled_or_asked_about_within_a_second(
    answers: list[tuple[int | None, str | None]], exits: int
) -> None:
    reporter, now = Reporter(("a", "b", "c")), 0
    for number in range(exits):
        reporter.add(Exit(WHO, f"{number:032x}"))
    for code, leader in answers:
        if reporter.is_done:
            return
        asks: list[Ask] = []
        for _ in range(1_001):
            asks = reporter.due(now)
            if asks:
                break
            now += 1
        assert asks
        for ask in asks:
            if code is None:
                reporter.unanswered(ask, now)
            else:
                reporter.answered(ask, Answer(code, leader), now)
