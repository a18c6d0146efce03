"""Counters and their windows, against a clock that the test moves."""

from hypothesis import given
from hypothesis import strategies as st

from logherd.service.stats import BrokerStats, Window

WALL = 1_700_000_000_000
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def started() -> BrokerStats:
    return BrokerStats(now_ms=0, wall_ms=WALL)


def run(stats: BrokerStats, until_ms: int, *, start_ms: int = 0, step_ms: int = 1000) -> None:
    for now in range(start_ms + step_ms, until_ms + 1, step_ms):
        stats.tick(now, WALL + now)


def test_a_minute_counts_what_happened_in_it() -> None:
    stats = started()
    stats.count_put("T", 30, 3000)
    run(stats, 10_000)
    view = stats.view("TOPIC_PUT_NUMS", "T", cluster="C")
    assert view is not None
    assert view.minute == Window(30, 3.0, 30.0)
    size = stats.view("TOPIC_PUT_SIZE", "T", cluster="C")
    assert size is not None
    assert size.minute == Window(3000, 300.0, 3000.0)


def test_a_minute_forgets_what_is_older() -> None:
    stats = started()
    stats.count_put("T", 30, 3000)
    run(stats, 10_000)
    run(stats, 80_000, start_ms=10_000)
    view = stats.view("TOPIC_PUT_NUMS", "T", cluster="C")
    assert view is not None
    assert view.minute.sum == 0


def test_hour_and_day_keep_what_the_minute_forgot() -> None:
    stats = started()
    stats.count_put("T", 30, 3000)
    run(stats, 2 * HOUR, step_ms=10_000)
    view = stats.view("TOPIC_PUT_NUMS", "T", cluster="C")
    assert view is not None
    assert (view.minute.sum, view.hour.sum, view.day.sum) == (0, 0, 30)
    run(stats, 27 * HOUR, start_ms=2 * HOUR, step_ms=60_000)
    later = stats.view("TOPIC_PUT_NUMS", "T", cluster="C")
    assert later is not None
    assert later.day.sum == 0


def test_gets_are_counted_by_topic_and_group() -> None:
    stats = started()
    stats.count_get("g", "T", 5, 50)
    stats.count_get("h", "T", 7, 70)
    stats.count_get("g", "T", 0, 0)
    run(stats, 10_000)
    view = stats.view("GROUP_GET_NUMS", "T@g", cluster="C")
    assert view is not None
    assert view.minute.sum == 5
    assert stats.consume_rate("g", "T") == 0.5
    assert stats.view("GROUP_GET_NUMS", "T@nobody", cluster="C") is None
    assert stats.view("NO_SUCH", "T", cluster="C") is None


def test_broker_totals_have_the_cluster_as_their_key() -> None:
    stats = started()
    stats.count_put("T", 1, 10)
    stats.count_put("U", 2, 10)
    run(stats, 10_000)
    view = stats.view("BROKER_PUT_NUMS", "C", cluster="C")
    assert view is not None
    assert view.minute.sum == 3
    assert stats.view("BROKER_PUT_NUMS", "T", cluster="C") is None


def test_rates_are_over_the_last_10_60_and_600_seconds() -> None:
    stats = started()
    run(stats, 590_000)
    stats.count_put("T", 600, 6000)
    run(stats, 600_000, start_ms=590_000)
    assert stats.rates("put") == (60.0, 10.0, 1.0)
    assert stats.rates("missed") == (0.0, 0.0, 0.0)


def test_midnight_moves_the_day_totals() -> None:
    stats = started()
    stats.count_put("T", 5, 5)
    stats.count_get("g", "T", 2, 2)
    stats.tick(DAY, WALL + DAY)
    stats.count_put("T", 3, 3)
    assert stats.put_totals() == (0, 5, 8)
    stats.tick(2 * DAY, WALL + 2 * DAY)
    assert stats.put_totals() == (5, 8, 8)
    assert stats.get_totals() == (2, 2, 2)


def test_a_clock_that_goes_back_over_midnight_moves_no_totals() -> None:
    stats = started()
    stats.count_put("T", 5, 50)
    stats.tick(1_000, WALL + DAY)
    stats.tick(2_000, WALL)
    stats.tick(3_000, WALL + DAY)
    assert stats.put_totals() == (0, 5, 5)


def test_broker_totals_are_the_sums_of_all_topics_and_groups() -> None:
    stats = started()
    stats.count_put("T", 2, 20, 2)
    stats.count_put("U", 3, 30)
    stats.count_get("g", "T", 4, 40)
    stats.count_get("g", "U", 1, 10)
    stats.count_get("g", "U", 0, 0)
    assert (stats.put_bytes, stats.put_calls, stats.get_bytes) == (50, 3, 50)
    assert stats.pulls == (2, 1)
    run(stats, 10_000)
    size = stats.view("GROUP_GET_SIZE", "T@g", cluster="C")
    assert size is not None
    assert size.minute == Window(40, 4.0, 40.0)
    assert (stats.consume_rate("g", "T"), stats.consume_rate("g", "X"), stats.put_rate("X")) == (0.4, 0.0, 0.0)


def test_a_counter_remembers_no_more_than_its_windows_need() -> None:
    stats = started()
    for now in range(0, 30 * HOUR, 600_000):
        stats.count_put("T", 1, 1)
        stats.count_put("T", 1, 1)
        stats.count_get("g", "T", 1, 1)
        stats.tick(now, WALL + now)
    for counter in (stats._put["T"], stats._get["T", "g"], *stats._totals):
        assert [len(samples) for samples in counter.samples] == [7, 7, 25]
        assert all(len({sample.at_ms for sample in samples}) == len(samples) for samples in counter.samples)


def test_the_rate_of_a_young_topic_is_over_its_own_time() -> None:
    stats = started()
    run(stats, 30_000)
    stats.count_put("T", 30, 300)
    run(stats, 40_000, start_ms=30_000)
    assert stats.put_rate("T") == 3.0


def test_a_forgotten_group_takes_nobody_elses_counters_along() -> None:
    stats = started()
    stats.count_get("g", "T", 4, 40)
    stats.count_get("h", "T", 4, 40)
    stats.forget_group("g")
    assert stats.view("GROUP_GET_NUMS", "T@g", cluster="C") is None
    assert stats.view("GROUP_GET_NUMS", "T@h", cluster="C") is not None


def test_forgotten_topics_and_groups_count_from_nothing() -> None:
    stats = started()
    stats.count_put("T", 5, 5)
    stats.count_get("g", "T", 2, 2)
    stats.count_get("g", "U", 2, 2)
    stats.forget_topic("T")
    assert stats.view("TOPIC_PUT_NUMS", "T", cluster="C") is None
    assert stats.view("GROUP_GET_NUMS", "T@g", cluster="C") is None
    assert stats.view("GROUP_GET_NUMS", "U@g", cluster="C") is not None
    stats.forget_group("g")
    assert stats.view("GROUP_GET_NUMS", "U@g", cluster="C") is None


@given(
    st.lists(
        st.tuples(st.sampled_from(["wait", "put", "put other"]), st.integers(1, 40_000), st.integers(1, 9)),
        max_size=60,
    )
)
def test_windows_are_those_of_samples_taken_at_every_boundary(steps: list[tuple[str, int, int]]) -> None:
    stats = started()
    stats.count_put("T", 1, 1)
    now, total, size, calls, marks = 0, 1, 1, 1, [(0, 0, 0, 0)]
    for step, wait_ms, messages in steps:
        if step == "wait":
            now += wait_ms
            stats.tick(now, WALL)
            if now - marks[-1][0] >= 10_000:
                marks = [*marks, (now, total, size, calls)][-7:]
        else:
            stats.count_put("T" if step == "put" else "U", messages, messages * 10)
            if step == "put":
                total, size, calls = total + messages, size + messages * 10, calls + 1
    view = stats.view("TOPIC_PUT_NUMS", "T", cluster="C")
    bytes_view = stats.view("TOPIC_PUT_SIZE", "T", cluster="C")
    assert view is not None
    assert bytes_view is not None
    (first_ms, first, first_size, first_calls), (last_ms, last, last_size, last_calls) = marks[0], marks[-1]
    assert (view.minute.sum, bytes_view.minute.sum) == (last - first, last_size - first_size)
    if last_ms > first_ms:
        assert view.minute.per_second == (last - first) * 1000 / (last_ms - first_ms)
    if last_calls > first_calls:
        assert view.minute.per_call == (last - first) / (last_calls - first_calls)
