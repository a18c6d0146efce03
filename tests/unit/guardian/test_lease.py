"""H16: killed only if the lease is over and the guardian has been ticking for a further second."""

from logherd_guardian.lease import GAP_MS, STEADY_MS, LeaseWatch
from logherd_guardian.page import Page

TICK = 200


def first_overdue(watch: LeaseWatch, page: Page | None, *, begin: int, end: int) -> int | None:
    return next((now for now in range(begin, end, TICK) if watch.is_overdue(page, now)), None)


def test_a_lease_that_runs_is_not_overdue() -> None:
    assert first_overdue(LeaseWatch(0), Page(lease_end_ms=20_000), begin=0, end=20_000) is None


def test_a_lease_that_is_over_becomes_overdue_a_second_later() -> None:
    assert first_overdue(LeaseWatch(0), Page(lease_end_ms=3_000), begin=0, end=20_000) == 3_000 + STEADY_MS


def test_a_released_lease_is_never_overdue() -> None:
    assert first_overdue(LeaseWatch(0), Page(lease_end_ms=0), begin=0, end=20_000) is None


def test_nothing_said_is_nothing_overdue() -> None:
    assert first_overdue(LeaseWatch(0), None, begin=0, end=20_000) is None


def test_after_a_suspension_the_child_gets_its_second() -> None:
    watch = LeaseWatch(0)
    page = Page(lease_end_ms=3_000)
    assert first_overdue(watch, page, begin=0, end=1_001) is None
    awake = 3_600_000
    assert first_overdue(watch, page, begin=awake, end=awake + 10_000) == awake + STEADY_MS


def test_the_first_tick_long_after_the_start_is_a_gap() -> None:
    assert first_overdue(LeaseWatch(0), Page(lease_end_ms=1), begin=60_000, end=70_000) == 60_000 + STEADY_MS


def test_a_gap_in_the_last_second_begins_it_again() -> None:
    watch, page = LeaseWatch(0), Page(lease_end_ms=100)
    for now in (0, 200, 400, 600, 800, 1_000):
        assert not watch.is_overdue(page, now)
    late = 1_000 + GAP_MS + 1
    assert first_overdue(watch, page, begin=late, end=late + 5_000) == late + STEADY_MS


def test_ticks_just_within_the_gap_are_steady() -> None:
    watch, page = LeaseWatch(0), Page(lease_end_ms=100)
    assert [watch.is_overdue(page, now) for now in (GAP_MS, 2 * GAP_MS, 3 * GAP_MS)] == [False, False, True]


def test_two_ticks_in_one_millisecond_are_no_gap() -> None:
    watch, page = LeaseWatch(0), Page(lease_end_ms=100)
    times = (400, 800, 800, 1_000, 1_100)
    assert [watch.is_overdue(page, now) for now in times] == [False, False, False, False, True]


def test_a_clock_that_goes_back_is_a_gap() -> None:
    watch, page = LeaseWatch(10_000), Page(lease_end_ms=100)
    assert not watch.is_overdue(page, 10_200)
    assert not watch.is_overdue(page, 5_000)
    assert not watch.is_overdue(page, 5_400)
    assert not watch.is_overdue(page, 5_800)
    assert watch.is_overdue(page, 6_000)


def test_a_renewal_after_the_end_saves_the_child() -> None:
    watch = LeaseWatch(0)
    assert first_overdue(watch, Page(lease_end_ms=1_000), begin=0, end=1_900) is None
    assert first_overdue(watch, Page(lease_end_ms=9_000), begin=2_000, end=9_900) is None
