"""The list of metrics keeps its own rules."""

import re

import pytest

from logherd.kit.errors import InvariantError
from logherd.telemetry import metrics
from logherd.telemetry.metrics import PROCESS, SECTIONS, Kind, Metric, Readings
from logherd.telemetry.spread import FLUSH_SECONDS, RUN_BYTES, Spread

LISTED = [metric for section in SECTIONS.values() for metric in section]
LABELS = {"version", "code", "answer", "port", "result", "position", "role", "broker", "node", "state"}


def test_every_metric_is_listed_once() -> None:
    named = [value for value in vars(metrics).values() if isinstance(value, Metric)]
    assert sorted(metric.name for metric in LISTED) == sorted(metric.name for metric in (*named, *PROCESS))


def test_names_are_in_base_units_and_only_counters_end_in_total() -> None:
    for metric in LISTED:
        assert re.fullmatch(r"(logherd|process)_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER), metric.name
        assert not re.search(r"_(ms|millis|kb|kib|mb|mib|percent)\b", metric.name)
        assert metric.help.endswith(".")


def test_labels_are_those_with_few_values() -> None:
    assert {label for metric in LISTED for label in metric.labels} <= LABELS


def test_a_reading_has_a_value_for_each_label() -> None:
    with pytest.raises(InvariantError, match="one value for each label"):
        Readings().tell(metrics.REQUESTS, 1)


def test_one_of_several_is_1_and_the_others_are_0() -> None:
    readings = Readings()
    readings.one_of(metrics.ROLE, ("leader", "follower"), "follower")
    assert list(readings) == [(metrics.ROLE, [(("leader",), 0.0), (("follower",), 1.0)])]


def test_a_spread_counts_each_value_once_at_its_bound() -> None:
    spread = Spread((1, 10))
    for value in (0.5, 1, 1.5, 10, 11):
        spread.observe(value)
    assert (spread.counts, spread.sum) == ([2, 2, 1], 24.0)


@pytest.mark.parametrize("bounds", [FLUSH_SECONDS, RUN_BYTES])
def test_bounds_rise(bounds: tuple[float, ...]) -> None:
    assert list(bounds) == sorted(set(bounds))
