"""Restarts: soon at first, later and later, never not at all."""

from logherd_guardian.backoff import RestartDelays


def test_quick_deaths_wait_longer_and_longer_up_to_a_bound() -> None:
    delays = RestartDelays()
    waits = [delays.after(1, 0) for _ in range(200)]
    assert waits[:9] == [50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000]
    assert set(waits[8:]) == {10_000}


def test_a_child_that_served_for_a_while_starts_the_count_over() -> None:
    delays = RestartDelays()
    for _ in range(5):
        delays.after(-9, 9_999)
    assert delays.after(-9, 10_000) == 50
    assert delays.after(-9, 0) == 100


def test_a_child_that_cannot_start_waits_longer_but_not_for_ever() -> None:
    for code in (2, 3, 126, 127):
        delays = RestartDelays()
        waits = [delays.after(code, 0) for _ in range(50)]
        assert waits[:3] == [1_000, 2_000, 4_000]
        assert max(waits) == waits[-1] == 60_000
