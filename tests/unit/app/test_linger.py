"""Who was answered together is waited for, for a bounded time; nobody waits for one; whoever waits has a timer."""

import pytest

from logherd.app.linger import (
    LINGER_BYTES_MAX,
    LINGER_CONNECTIONS_MIN,
    LINGER_RUNS_MAX,
    LINGER_SECONDS_MAX,
    Linger,
)

from .timers import Timer, Timers

MANY = 8 * LINGER_CONNECTIONS_MIN
RECORD_BYTES = 100
RUN_SECONDS = 0.001
WAIT_SECONDS = LINGER_RUNS_MAX * RUN_SECONDS


class World(Timers):
    """A leader's passes: what it appends leaves unless it is held, and `leave` is a pass that ends."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 50.0
        self.position = 0
        self.new = 0
        self.runs: list[int] = []
        """How many requests left together, run by run."""
        self.linger = Linger(self.end_pass, self.later, lambda: self.now)

    @property
    def timer(self) -> Timer | None:
        """The one that runs."""
        running = [timer for timer in self.timers if not timer.cancelled]
        assert len(running) <= 1
        return running[0] if running else None

    @property
    def wait(self) -> float:
        """For how many seconds somebody was asked to wait, who still does."""
        assert self.timer is not None
        return self.timer.seconds

    def ask(self, count: int = 1, size: int = RECORD_BYTES) -> None:
        """Requests of so many connections, each in a pass of its own."""
        for _ in range(count):
            self.position += size
            self.new += 1
            self.linger.asked(self.position)
            self.end_pass()

    def answer(self, count: int) -> None:
        """The run of so many is committed."""
        self.now += RUN_SECONDS
        self.linger.answered(count)

    def end_pass(self) -> None:
        if self.linger.hold():
            assert self.timer is not None
            return
        assert self.timer is None
        self.linger.left()
        if self.new:
            self.runs.append(self.new)
            self.new = 0

    def run_out(self) -> None:
        """The time of the timer has come, by a clock that is a little behind."""
        timer = self.timer
        assert timer is not None
        self.now += timer.seconds * 0.99
        self.timers.remove(timer)
        timer.run_out()

    def send_together(self, count: int) -> None:
        """So many are under way in one run."""
        before = len(self.runs)
        for _ in range(count):
            self.position += RECORD_BYTES
            self.new += 1
            self.linger.asked(self.position)
        self.end_pass()
        assert self.runs[before:] == [count]


@pytest.fixture
def world() -> World:
    world = World()
    world.send_together(1)  # where the log begins is known from here on
    world.answer(1)
    world.runs.clear()
    return world


def test_those_who_were_answered_together_leave_together_again(world: World) -> None:
    world.send_together(MANY)
    world.answer(MANY)
    world.ask(MANY - 1)
    assert world.runs == [MANY]
    world.ask()
    assert world.runs == [MANY, MANY]


def test_who_comes_while_many_are_under_way_leaves_with_them_the_next_time(world: World) -> None:
    world.send_together(MANY)
    world.ask(3)
    assert world.runs == [MANY]
    world.answer(MANY)
    assert world.runs == [MANY]
    world.ask(MANY)
    assert world.runs == [MANY, MANY + 3]


def test_nobody_waits_for_a_lone_sender(world: World) -> None:
    for _ in range(3):
        world.ask()
        world.answer(1)
    assert world.runs == [1, 1, 1]
    assert world.timer is None


def test_who_does_not_ask_again_is_waited_for_once_for_a_short_time(world: World) -> None:
    world.send_together(MANY)
    world.answer(MANY)
    world.ask()
    assert world.wait == pytest.approx(WAIT_SECONDS)
    world.run_out()
    assert world.runs == [MANY, 1]
    world.answer(1)
    world.send_together(MANY)
    world.answer(MANY)
    world.ask()  # it was in vain the last time
    assert world.runs == [MANY, 1, MANY, 1]


def test_two_senders_need_not_take_turns(world: World) -> None:
    world.ask()
    world.ask()  # the first one's run is under way
    world.answer(1)
    assert world.runs == [1]
    world.ask()
    assert world.runs == [1, 2]
    world.answer(2)
    world.ask()
    world.ask()
    assert world.runs == [1, 2, 2]


def test_who_asks_when_the_wait_is_over_has_been_waited_for_in_vain(world: World) -> None:
    world.send_together(MANY)
    world.answer(MANY)
    world.now += WAIT_SECONDS
    world.ask()
    assert world.runs == [MANY, 1]
    world.answer(1)
    world.send_together(MANY)
    world.answer(MANY)
    world.ask()
    assert world.runs == [MANY, 1, MANY, 1]


def test_the_wait_is_counted_from_the_answers(world: World) -> None:
    world.send_together(MANY)
    world.answer(MANY)
    world.now += WAIT_SECONDS / 2
    world.ask()
    assert world.wait == pytest.approx(WAIT_SECONDS / 2)
    world.now += WAIT_SECONDS
    world.ask()
    assert world.runs == [MANY, 2]


def test_a_run_that_is_not_answered_holds_nobody_for_long(world: World) -> None:
    world.send_together(MANY)
    world.ask()
    assert world.wait == pytest.approx(LINGER_SECONDS_MAX)
    world.run_out()
    assert world.runs == [MANY, 1]


def test_after_a_slow_run_nobody_is_waited_for_longer_than_a_bound(world: World) -> None:
    world.send_together(MANY)
    world.now += LINGER_SECONDS_MAX
    world.answer(MANY)
    world.ask()
    assert world.wait == pytest.approx(LINGER_SECONDS_MAX)


def test_answers_in_parts_let_those_who_were_held_for_all_go_in_time(world: World) -> None:
    world.send_together(MANY)
    world.ask()
    world.answer(MANY - 1)
    assert world.wait == pytest.approx(WAIT_SECONDS)
    world.run_out()
    assert world.runs == [MANY, 1]


def test_answers_in_parts_prolong_no_wait(world: World) -> None:
    world.send_together(2 * MANY)
    world.ask()
    world.answer(MANY)
    world.now += WAIT_SECONDS - RUN_SECONDS
    world.answer(MANY)
    assert world.runs == [2 * MANY, 1]


def test_those_who_are_held_leave_with_the_answers_if_nobody_is_waited_for(world: World) -> None:
    world.send_together(MANY)
    world.answer(MANY)
    world.ask()
    world.run_out()  # in vain: the next time nobody is waited for
    world.answer(1)
    world.send_together(MANY)
    world.ask()
    world.answer(MANY)
    assert world.runs == [MANY, 1, MANY, 1]
    assert world.timer is None


def test_large_runs_wait_for_nobody(world: World) -> None:
    world.send_together(MANY)
    world.ask(size=LINGER_BYTES_MAX - 1)
    assert world.runs == [MANY]
    world.ask(size=1)
    assert world.runs == [MANY, 2]


def test_a_pass_without_requests_is_not_held_and_ends_no_wait(world: World) -> None:
    world.send_together(MANY)
    world.answer(MANY)
    world.end_pass()
    world.ask()
    assert world.runs == [MANY]
    assert world.timer is not None


def test_when_all_are_given_up_what_was_held_leaves(world: World) -> None:
    world.send_together(MANY)
    world.ask()
    world.linger.forget()
    assert world.runs == [MANY, 1]
    assert world.timer is None
    world.ask()
    assert world.runs == [MANY, 1, 1]
