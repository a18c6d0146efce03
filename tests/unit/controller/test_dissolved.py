"""R20 where a group is dissolved while it is led: it is founded anew by all that had been acknowledged until then."""

from logherd.controller.commands import Clean, Elect
from logherd.controller.machine import Machine
from logherd.controller.reports import Withheld
from logherd.controller.values import BrokerId
from logherd.controller.verdicts import Refusal
from logherd.replication.epochs import ORIGIN, Point
from unit.controller.desk import KEY, Desk, point

SHORT, LONG = point(1, 100), point(1, 900)


def dissolved(first: Point = SHORT) -> Desk:
    """Broker 1 led when the group was forgotten, and goes on until its lease is over; all have registered again."""
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.now += desk.terms.waiter_ms - 1
    desk.beat(1)
    assert desk.submit(Clean(group=KEY, expected_epoch=desk.group.epoch)).refusal is None
    for broker in (1, 2, 3):
        desk.register(broker, end=first)
    return desk


def pass_time(desk: Desk, ms: int, *, step: int = 500, **ends: Point) -> list[Elect]:
    """Brokers b1, b2, ... report these ends."""
    elections: list[Elect] = []
    for _ in range(0, ms, step):
        for name, end in ends.items():
            desk.beat(int(name[1:]), end=end)
        elections += desk.wait(step)
    return elections


def test_r20_who_has_copied_more_since_it_registered_has_to_register_again() -> None:
    desk = dissolved(ORIGIN)
    assert desk.beat(2, end=LONG) == Withheld(None, Refusal.FENCED_EPOCH)
    assert pass_time(desk, 30_000, b1=ORIGIN, b2=LONG, b3=ORIGIN) == []
    desk.register(2, end=LONG)
    (election,) = pass_time(desk, 3_000, b1=ORIGIN, b2=LONG, b3=ORIGIN)
    assert election.broker_id == 2
    assert desk.group.sync.members == (2,)
    assert pass_time(desk, 3_000, b1=ORIGIN, b2=point(2, 950), b3=ORIGIN) == []


def test_r20_what_was_told_of_a_log_before_the_lease_was_over_founds_no_group() -> None:
    desk = dissolved(LONG)
    over = desk.office.over_at(desk.group)
    desk.now = over - 1
    desk.beat(1, end=SHORT)
    desk.beat(2, end=SHORT)
    desk.beat(3, end=point(1, 150))
    desk.now = over
    assert desk.decide() == []
    (election,) = pass_time(desk, 500, b1=LONG, b2=LONG, b3=point(1, 150))
    assert election.broker_id == 1


def test_r20_what_was_told_of_a_log_before_the_leader_exited_founds_no_group() -> None:
    desk = dissolved(SHORT)
    desk.register(4, end=SHORT)
    desk.beat(2, 4, end=SHORT)
    desk.register(3, end=point(1, 150))
    desk.beat(3, end=point(1, 150))
    desk.release(1)
    assert desk.decide() == []
    for broker in (2, 4):
        assert desk.beat(broker, end=LONG) == Withheld(None, Refusal.FENCED_EPOCH)
        desk.register(broker, end=LONG)
    (election,) = pass_time(desk, 1_000, b2=LONG, b3=point(1, 150), b4=LONG)
    assert election.broker_id == 2


def test_a_lease_that_is_given_back_makes_nobody_pass_for_dead() -> None:
    """Its id would be free for another store, and a process could be forgotten that lives."""
    desk = dissolved(SHORT)
    desk.beat(1, 2, 3, end=SHORT)
    desk.release(1)
    assert [broker for broker in (1, 2, 3) if desk.office.alive(desk.group, BrokerId(broker), desk.now)] == [2, 3]


def test_a_release_that_is_refused_delays_nobody() -> None:
    desk = dissolved(SHORT)
    for _ in range(0, 10_000, 250):
        desk.beat(1, 2, 3, end=SHORT)
        desk.now += 1
        assert desk.release(2, life=7).refusal is Refusal.FENCED_PROCESS
        if desk.wait(249):
            return
    raise AssertionError("nobody was elected")


def test_who_lets_go_of_no_lease_delays_nobody() -> None:
    """What the others told before is as true as it was."""
    desk = dissolved(SHORT)
    desk.register(4, end=SHORT)
    desk.now = desk.office.over_at(desk.group)
    desk.beat(1, 2, 3, end=SHORT)
    desk.release(4)
    (election,) = desk.decide()
    assert isinstance(election, Elect)
    assert election.alive == (1, 2, 3)


def test_r2_that_the_leadership_before_was_over_says_nothing_about_a_later_one_that_is_lost() -> None:
    """The group had been founded anew, and led, when the controllers lost that."""
    desk = dissolved(SHORT)
    desk.release(1)
    desk.now += 60_000
    desk.machine = Machine.load(desk.machine.save())
    desk.reopen()
    lost = point(5_000, 900)
    for broker in (1, 2, 3):
        desk.register(broker, life=2, end=lost, seen=5_000)
    assert pass_time(desk, 3_000, b1=lost, b2=lost, b3=lost) == []
    assert len(pass_time(desk, 1_500, b1=lost, b2=lost, b3=lost)) == 1
