"""Every order of death, restart, election, report and signal in the life of a child."""

import signal

import pytest

from logherd_guardian.events import (
    Asked,
    Event,
    Exited,
    Kill,
    Leave,
    Part,
    Parted,
    Report,
    Reported,
    Spawn,
    Spawned,
    SpawnFailed,
    Superseded,
    Take,
    Tick,
)
from logherd_guardian.frames import Exit
from logherd_guardian.machine import ENDING_MS, PARTING_MS, SIGNALS, Phase, exit_code
from logherd_guardian.page import Page
from unit.guardian.life import STOP_MS, TERM, TICK, WHO, Life, known


def test_the_first_tick_starts_a_child_and_takes_connections_until_it_serves() -> None:
    life = Life()
    assert life(Tick()) == [Take(on=True), Spawn()]
    assert life(Spawned("1")) == []
    assert life.wait(None, 10_000) == []
    assert life.wait(Page(identity=WHO), 10_000) == []
    assert life(Tick(known(registered=False))) == [Take(on=False)]
    assert life.wait(known(registered=False), 10_000) == []
    assert life(Tick(known())) == [Superseded()]
    assert life.wait(known(), 10_000) == []


def test_a_death_is_reported_and_connections_taken_before_the_next_start() -> None:
    life = Life()
    name = life.serve()
    assert life(Exited(-9, known()), TICK) == [Report(Exit(WHO, name)), Take(on=True)]
    assert life(Tick(), 49) == []
    assert life(Tick(), 1) == [Spawn()]
    assert life.said[-2:] == ["the child has exited: signal=9 (SIGKILL)", "next start in 50 ms"]


@pytest.mark.parametrize(("number", "told"), [(7, "signal=7 (SIGBUS)"), (40, "signal=40")])
def test_a_signal_that_ended_the_child_is_told_by_name_if_it_has_one(number: int, told: str) -> None:
    life = Life()
    life.serve()
    life(Exited(-number, known()))
    assert f"the child has exited: {told}" in life.said
    assert all(signal.Signals[name] == number for number, name in SIGNALS.items())


def test_each_exit_is_reported_with_its_own_incarnation() -> None:
    life = Life()
    names = []
    for _ in range(4):
        name = life.serve()
        assert Report(Exit(WHO, name)) in life(Exited(1, known()))
        names.append(name)
    assert len(set(names)) == 4


def test_a_death_before_the_page_says_who_it_was_is_not_reported() -> None:
    life = Life()
    life.spawn()
    assert life(Exited(1, None)) == []
    life.spawn()
    assert life(Exited(1, Page(sequence=1))) == []


def test_a_death_between_the_page_and_the_registration_is_reported_and_supersedes_nothing() -> None:
    life = Life()
    life.serve()
    life(Exited(-9, known()))
    name = life.spawn()
    assert life(Tick(Page(identity=WHO))) == []
    assert life(Exited(-9, Page(identity=WHO))) == [Report(Exit(WHO, name))]


def test_earlier_exits_are_superseded_by_the_next_childs_registration_and_not_by_its_readiness() -> None:
    life = Life()
    life.serve()
    life(Exited(-9, known()))
    life.spawn()
    assert life(Tick(known(registered=False))) == [Take(on=False)]
    assert life(Tick(known())) == [Superseded()]


def test_without_controllers_nothing_is_reported() -> None:
    life = Life(reports=False)
    life.serve()
    assert life(Exited(-9, known())) == [Take(on=True)]
    assert life(TERM) == [Take(on=False), Leave(137)]


def test_a_child_that_stops_to_accept_is_stood_in_for() -> None:
    life = Life()
    life.serve()
    assert life(Tick(known(ready=False))) == [Take(on=True)]
    assert life(Tick(known(ready=False)), TICK) == []
    assert life(Exited(0, known(ready=False))) == [Report(Exit(WHO, f"{1:032x}"))]
    life.spawn()
    assert life(Tick(known())) == [Superseded(), Take(on=False)]


def test_its_time_of_service_begins_anew_when_it_accepts_again() -> None:
    life = Life()
    life.serve()
    life.wait(known(), 60_000)
    life(Tick(known(ready=False)))
    assert life.machine.phase is Phase.STARTING
    life(Tick(known()))
    assert life.machine.phase is Phase.SERVING
    for milliseconds in (50, 100):  # as one that serves for a moment each time
        life(Exited(1, known()), TICK)
        assert life.said[-1] == f"next start in {milliseconds} ms"
        life.serve()


def test_a_child_that_never_served_is_not_taken_for_the_one_before_it_which_did() -> None:
    """Or one that dies at each start would be started twenty times a second, for ever."""
    life = Life()
    life.serve()
    life.wait(known(), 10_000)
    life(Exited(-9, known()))
    life.spawn()
    life(Exited(1, None))
    assert life.said[-1] == "next start in 100 ms"


def test_it_never_gives_up() -> None:
    life = Life()
    for _ in range(300):
        life.spawn()
        life(Exited(1, None))
    assert life.said[-1] == "next start in 10000 ms"


def test_a_child_that_cannot_start_is_told_and_waited_for_longer() -> None:
    life = Life()
    life.spawn()
    life(Exited(3, None))
    assert life.said[-2:] == ["the child has exited: code=3, which means that it cannot start", "next start in 1000 ms"]


def test_a_child_that_served_for_ten_seconds_is_started_again_soon() -> None:
    life = Life()
    for _ in range(6):
        life.spawn()
        life(Exited(1, None))
    life.serve()
    life.wait(known(), 10_000)
    life(Exited(-9, known()))
    assert life.said[-1] == "next start in 50 ms"


def test_when_the_system_makes_no_process_it_is_tried_again() -> None:
    life = Life()
    assert Spawn() in life(Tick())
    assert life(SpawnFailed("Cannot allocate memory")) == []
    assert life.said == ["no child: Cannot allocate memory", "next start in 50 ms"]
    life.spawn()


def test_however_often_the_system_makes_no_process_it_is_tried_as_often_as_after_deaths() -> None:
    """What is wanting may be there at any moment: it is no child that cannot start."""
    life = Life()
    for _ in range(20):
        while Spawn() not in life(Tick(), TICK):
            pass
        life(SpawnFailed("Resource temporarily unavailable"))
    assert life.said[-1] == "next start in 10000 ms"


# ---- leases


def test_a_lease_kept_too_long_is_a_kill_and_not_yet_a_report() -> None:
    life = Life()
    name = life.serve()
    over = known(epoch=4, lease_end_ms=life.now + 3_000)
    assert life.wait(over, 3_800) == []
    assert life.wait(over, 400) == [Kill(signal.SIGKILL), Take(on=True)]
    assert life.said[-1] == "killed: lease over and not released, epoch=4"
    assert life.machine.phase is Phase.DOOMED
    assert life.wait(over, 60_000) == []  # it hangs in the kernel: nothing is proven
    assert life(Exited(-9, over)) == [Report(Exit(WHO, name))]


def test_a_child_that_is_doomed_is_not_believed_to_serve() -> None:
    life = Life()
    life.serve()
    life.wait(known(lease_end_ms=life.now), 1_200)
    assert life.machine.phase is Phase.DOOMED
    assert life(Tick(known())) == []
    assert life(Tick(known(ready=False))) == []


def test_a_child_in_its_start_is_watched_too() -> None:
    life = Life()
    life.spawn()
    assert Kill(signal.SIGKILL) in life.wait(Page(lease_end_ms=life.now), 1_400)


def test_a_released_lease_kills_nobody() -> None:
    life = Life()
    life.serve()
    life.wait(known(lease_end_ms=life.now + 1_000), 1_600)
    assert life.wait(known(lease_end_ms=0), 60_000) == []


def test_a_suspended_host_kills_nobody_who_renews_in_time() -> None:
    life = Life()
    life.serve()
    over = known(lease_end_ms=life.now + 3_000)
    assert life(Tick(over), 3_600_000) == []
    assert life.wait(over, 800) == []
    assert life.wait(known(lease_end_ms=life.now + 3_000), 3_000) == []


def test_a_new_child_is_not_judged_by_the_lease_of_the_last() -> None:
    life = Life()
    life.serve()
    life(Exited(-9, known(lease_end_ms=life.now + 10)))
    life.spawn()
    assert life.wait(None, 10_000) == []


# ---- signals


def test_a_stop_is_forwarded_and_the_exit_code_is_the_childs() -> None:
    life = Life()
    name = life.serve()
    assert life(TERM) == [Kill(signal.SIGTERM)]
    assert life(Exited(7, known(ready=False)), 100) == [Report(Exit(WHO, name)), Take(on=True)]
    assert life(Reported(), 100) == [Take(on=False), Leave(7)]
    assert life.machine.phase is Phase.ENDED


def test_a_stop_whose_report_nobody_hears_ends_all_the_same() -> None:
    life = Life()
    life.serve()
    life(TERM)
    life(Exited(0, known()))
    assert life(Tick(), PARTING_MS - 1) == []
    assert life(Tick(), 1) == [Take(on=False), Leave(0)]


@pytest.mark.parametrize("reports", [True, False])
@pytest.mark.parametrize("before", [[], [Exited(-9, known())]], ids=["serving", "between two children"])
def test_a_guardian_with_peers_keeps_its_door_for_a_second_after_the_last_child(
    before: list[Event], reports: bool
) -> None:
    """Whoever comes by an address that is about to move is passed on, however soon the exit was reported."""
    life = Life(reports=reports, passes=True)
    life.serve()
    for event in (*before, TERM, *([] if before else [Exited(0, known(ready=False))])):
        life(event)
    assert life.machine.phase is Phase.LEAVING
    assert life(Reported(), PARTING_MS - 1) == []
    assert life(Tick(), 1) == [Take(on=False), Part()]


@pytest.mark.parametrize("end", [(Parted(), 1), (TERM, 1), (Tick(), ENDING_MS)], ids=["at rest", "asked again", "late"])
def test_those_that_are_passed_on_may_end_before_the_guardian_does(end: tuple[Event, int]) -> None:
    life = Life(passes=True)
    life.serve()
    life(TERM)
    life(Exited(0, known()))
    assert life(Parted()) == [], "it takes them still"
    life(Tick(), PARTING_MS)
    assert life.machine.phase is Phase.PARTING
    assert life(Reported()) == life(Tick(), ENDING_MS - 1) == []
    event, after = end
    assert life(event, after) == [Leave(0)]


def test_a_second_stop_ends_also_a_guardian_with_peers_at_once() -> None:
    life = Life(passes=True)
    life.serve()
    life(TERM)
    life(Exited(0, known()))
    assert life(TERM) == [Take(on=False), Leave(0)]


def test_a_child_that_does_not_stop_in_time_is_killed() -> None:
    life = Life()
    life.serve()
    life(TERM)
    assert life(Tick(known()), STOP_MS - 1) == []
    assert life(Tick(known()), 1) == [Kill(signal.SIGKILL)]
    assert life(Exited(-9, None)) == [Leave(137)]


def test_a_child_that_outlives_its_kill_is_killed_again_after_as_long() -> None:
    life = Life()
    life.serve()
    life(TERM)
    assert life.wait(known(), 2 * STOP_MS) == [Kill(signal.SIGKILL)] * 2


def test_a_second_stop_is_forwarded_and_does_not_prolong_the_time() -> None:
    life = Life()
    life.serve()
    life(TERM)
    assert life(Asked(signal.SIGINT, stop=True), STOP_MS - 1) == [Kill(signal.SIGINT)]
    assert life(Tick(known()), 1) == [Kill(signal.SIGKILL)]


def test_a_child_that_drains_before_it_stops_is_stood_in_for() -> None:
    life = Life()
    name = life.serve()
    life(TERM)
    assert life(Tick(known()), TICK) == []
    assert life(Tick(known(ready=False)), TICK) == [Take(on=True)]
    assert life(Exited(0, known(ready=False)), TICK) == [Report(Exit(WHO, name))]
    assert life(Reported()) == [Take(on=False), Leave(0)]


def test_a_stop_while_connections_are_taken_goes_on_with_that_until_the_end() -> None:
    life = Life()
    life.spawn()
    assert life(TERM) == [Kill(signal.SIGTERM)]
    assert life(Exited(0, None)) == [Take(on=False), Leave(0)]


def test_a_stop_between_two_children_ends_at_once() -> None:
    life = Life()
    life.spawn()
    life(Exited(3, None))
    assert life(TERM) == [Take(on=False), Leave(3)]


def test_a_stop_between_two_children_gives_the_report_its_time() -> None:
    for end, code in ((Reported(), 137), (TERM, 137), (Tick(), 137)):
        life = Life()
        life.serve()
        life(Exited(-9, known()))
        assert life(TERM) == []
        assert life(end, PARTING_MS) == [Take(on=False), Leave(code)]


def test_a_report_that_was_heard_before_the_stop_delays_nothing() -> None:
    life = Life()
    life.serve()
    life(Exited(-9, known()))
    assert life(Reported()) == []
    assert life(TERM) == [Take(on=False), Leave(137)]


@pytest.mark.parametrize("end", [Reported(), Tick()])
def test_a_stop_gives_a_report_its_time_also_when_the_next_child_was_registered(end: Event) -> None:
    """The controllers may still wait for the lease of the process before."""
    life = Life()
    life.serve()
    life(Exited(-9, known()))
    life.serve()
    life(TERM)
    assert life(Exited(0, None)) == [Take(on=True)]
    assert life(end, PARTING_MS) == [Take(on=False), Leave(0)]


def test_a_stop_before_the_first_child_ends_with_0() -> None:
    life = Life(reports=False)
    assert life(TERM) == [Leave(0)]


def test_a_stop_of_a_doomed_child_ends_with_its_death() -> None:
    life = Life()
    name = life.serve()
    life.wait(known(lease_end_ms=life.now), 1_200)
    assert life(TERM) == [Kill(signal.SIGTERM)]
    assert life(Exited(-9, known())) == [Report(Exit(WHO, name))]
    assert life(Reported()) == [Take(on=False), Leave(137)]


def test_a_doomed_child_is_not_believed_after_a_stop_either() -> None:
    """It hangs in the kernel, and its page still says that it accepts: nobody would."""
    life = Life()
    life.serve()
    life.wait(known(lease_end_ms=life.now), 1_200)
    assert life(TERM) == [Kill(signal.SIGTERM)]
    assert life.wait(known(), 2 * STOP_MS) == []


def test_a_lease_kept_too_long_is_a_kill_in_a_stop_too_and_no_other_child_follows() -> None:
    """A child that is paused gets no longer because somebody wants it to stop."""
    life = Life()
    name = life.serve()
    over = known(lease_end_ms=life.now)
    assert life(TERM) == [Kill(signal.SIGTERM)]
    assert life.wait(over, 1_200) == [Kill(signal.SIGKILL), Take(on=True)]
    assert life(TERM) == [Kill(signal.SIGTERM)]
    assert life(Exited(-9, over)) == [Report(Exit(WHO, name))]
    assert life(Reported()) == [Take(on=False), Leave(137)]


def test_other_signals_are_forwarded_while_there_is_a_child() -> None:
    life = Life()
    hangup = Asked(signal.SIGHUP, stop=False)
    assert life(hangup) == []
    life.serve()
    assert life(hangup) == [Kill(signal.SIGHUP)]
    assert life.machine.phase is Phase.SERVING


def test_after_its_end_nothing_is_done() -> None:
    life = Life()
    life.spawn()
    life(TERM)
    life(Exited(0, None))
    for event in (Tick(), TERM, Reported(), Exited(1, None), Asked(1, stop=False), SpawnFailed("x")):
        assert life(event, 100_000) == []


@pytest.mark.parametrize(("status", "code"), [(0, 0), (3, 3), (-9, 137), (-15, 143)])
def test_exit_codes_are_what_a_shell_makes_of_them(status: int, code: int) -> None:
    assert exit_code(status) == code
