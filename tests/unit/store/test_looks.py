"""When free space is looked at: each interval, and later where the answer misled."""

from logherd.store.looks import Looks

INTERVAL = 1000


def until_due(looks: Looks, now: int) -> int:
    """How many intervals pass before it is looked."""
    passed = 0
    while not looks.due(now + passed * INTERVAL):
        passed += 1
    return passed


def misled_often(looks: Looks) -> int:
    """What time it is then."""
    now = 0
    for _ in range(6):
        now += until_due(looks, now) * INTERVAL
        looks.misled(now)
    return now


def test_it_is_looked_each_interval() -> None:
    looks = Looks(INTERVAL)
    assert [looks.due(now) for now in (0, 1, 999, 1000, 1500, 2000)] == [True, False, False, True, False, True]


def test_an_answer_that_misled_is_asked_for_ever_later_and_at_most_16_intervals_later() -> None:
    looks = Looks(INTERVAL)
    waited = list[int]()
    for _ in range(7):
        waited.append(until_due(looks, sum(waited) * INTERVAL))
        looks.misled(sum(waited) * INTERVAL)
    assert waited == [0, 2, 4, 8, 16, 16, 16]


def test_an_answer_that_misleads_for_once_is_not_held_against_those_of_long_ago() -> None:
    looks = Looks(INTERVAL)
    now = misled_often(looks) + 60_000
    now += until_due(looks, now) * INTERVAL
    looks.misled(now)
    assert until_due(looks, now) == 2


def test_it_is_looked_at_once_when_what_lacked_is_there() -> None:
    looks = Looks(INTERVAL)
    now = misled_often(looks)
    looks.anew()
    assert looks.due(now)
    looks.misled(now)
    assert until_due(looks, now) == 2
