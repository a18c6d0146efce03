"""Nobody rests longer than the timer, and after it nobody rests before more is committed."""

from logherd.app.resting import REST_SECONDS_MAX, Resting

from .restful import Restful
from .timers import Timers


def test_each_is_woken_when_all_that_it_asked_for_is_answered() -> None:
    clock, one, other = Timers(), Restful(running=1), Restful(running=1)
    resting = Resting(clock.later)
    for client in (one, other, one):
        resting.add(client)
    assert one.resting
    assert other.resting
    [timer] = clock.timers
    assert timer.seconds == REST_SECONDS_MAX
    one.running = 0
    resting.answered()
    assert not one.resting
    assert other.resting
    assert not timer.cancelled
    other.running = 0
    resting.answered()
    assert not other.resting
    assert timer.cancelled


def test_the_timer_wakes_all_and_nobody_rests_again_before_answers_leave() -> None:
    clock, client = Timers(), Restful(running=1)
    resting = Resting(clock.later)
    resting.add(client)
    clock.timers[0].run_out()
    assert not client.resting
    resting.add(client)
    assert not client.resting
    resting.answered()
    resting.add(client)
    assert client.resting
    assert len(clock.timers) == 2


def test_answers_while_nobody_rests_change_nothing() -> None:
    clock = Timers()
    resting = Resting(clock.later)
    resting.answered()
    assert clock.timers == []
