"""A scrape as an independent parser reads it."""

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from logherd.app.metrics.broker import read_replication
from logherd.app.metrics.parts import read_requests
from logherd.app.metrics.text import to_text
from logherd.service.replica_view import (
    FollowerView,
    InSyncView,
    LeaderView,
    PendingView,
    PositionsView,
    ReplicationView,
    RequestsView,
)
from logherd.telemetry import metrics
from logherd.telemetry.metrics import PROCESS, SECTIONS, Readings
from logherd.telemetry.spread import Spread

VIEW = ReplicationView(
    mode="controller", role="leader", serving=True, epoch=4, leader=LeaderView(broker_id=1, address="a:1"),
    lease_ms=2_500, in_sync=InSyncView(members=[1, 2], version=7, min_in_sync=2),
    positions=PositionsView(end=900, flushed=800, committed=700),
    followers=[
        FollowerView(broker_id=2, connected=True, in_sync=True, flushed=880, lag_bytes=20, lag_ms=1_500),
        FollowerView(broker_id=3, connected=False, in_sync=False, flushed=None, lag_bytes=None, lag_ms=None),
        FollowerView(
            broker_id=4, connected=True, in_sync=False, flushed=900, lag_bytes=0, lag_ms=0, awaited=False
        ),
    ],
    pending=PendingView(members=[1, 2, 3], why="broker 3 has caught up", age_ms=5), closed=None,
    requests=RequestsView(forwarded=11, held=2),
)  # fmt: skip


def samples(readings: Readings) -> dict[str, float]:
    """Values by name and labels, as written down and read again."""
    text = to_text(readings)
    assert text.media_type.startswith("text/plain; version=0.0.4")
    return {
        sample.name + "".join(f"[{value}]" for value in sample.labels.values()): sample.value
        for family in parse(text.body.decode()) for sample in family.samples
    }  # fmt: skip


def test_counters_gauges_and_labels_are_read_back() -> None:
    readings = Readings()
    readings.tell(metrics.MESSAGES_IN, 12)
    readings.tell(metrics.CONNECTIONS, 3, "broker")
    found = samples(readings)
    assert (found["logherd_messages_in_total"], found["logherd_connections[broker]"]) == (12, 3)
    assert found["logherd_memory_anonymous_bytes"] > 1 << 20
    assert {metric.name for metric in PROCESS} <= found.keys()


def test_buckets_of_a_histogram_add_up() -> None:
    spread = Spread((0.001, 0.01))
    for value in (0.0005, 0.005, 0.006, 5.0):
        spread.observe(value)
    readings = Readings()
    readings.tell(metrics.FLUSH_SECONDS, spread)
    found = samples(readings)
    assert [found[f"logherd_flush_seconds_bucket[{bound}]"] for bound in ("0.001", "0.01", "+Inf")] == [1, 3, 4]
    assert (found["logherd_flush_seconds_count"], round(found["logherd_flush_seconds_sum"], 4)) == (4, 5.0115)


def test_openmetrics_is_written_for_who_asks_for_it() -> None:
    readings = Readings()
    readings.tell(metrics.MESSAGES_IN, 12)
    text = to_text(readings, "application/openmetrics-text; version=1.0.0")
    assert text.media_type.startswith("application/openmetrics-text; version=1.0.0")
    assert "logherd_messages_in" in {family.name for family in parse_openmetrics(text.body.decode())}


def test_codes_without_a_name_share_one_label() -> None:
    readings = Readings()
    read_requests(readings, {34: 2, -1: 5, 999_999: 1}, {(34, 1): 1, (-1, 3): 4, (999_999, 77_777): 1})
    found = samples(readings)
    assert found["logherd_requests_total[HEART_BEAT]"] == 2
    assert found["logherd_requests_total[unknown]"] == 6
    assert found["logherd_refusals_total[SYSTEM_ERROR][HEART_BEAT]"] == 1
    assert found["logherd_refusals_total[REQUEST_CODE_NOT_SUPPORTED][unknown]"] == 4
    assert found["logherd_refusals_total[unknown][unknown]"] == 1


def test_a_leader_tells_all_that_is_known_of_its_group() -> None:
    readings = Readings()
    read_replication(readings, VIEW)
    told = {metric.name for metric, _ in readings}
    assert told == {metric.name for metric in SECTIONS["Brokers of a replicated group"]}
    found = samples(readings)
    assert found["logherd_replication_role[leader]"] == 1
    assert found["logherd_replication_role[follower]"] == 0
    assert found["logherd_replication_lease_seconds"] == 2.5
    assert found["logherd_replication_follower_lag_bytes[2]"] == 20
    assert found["logherd_replication_follower_lag_seconds[2]"] == 1.5
    assert found["logherd_replication_follower_connected[3]"] == 0
    assert [found[f"logherd_replication_follower_awaited[{each}]"] for each in (2, 3, 4)] == [1, 1, 0]
    assert "logherd_replication_follower_lag_bytes[3]" not in found
    assert (found["logherd_replication_pending_change"], found["logherd_replication_writes_closed"]) == (1, 0)
    assert (found["logherd_forwarded_requests_total"], found["logherd_held_requests"]) == (11, 2)


def test_a_broker_that_is_alone_tells_nothing_of_a_group() -> None:
    readings = Readings()
    read_replication(readings, None)
    assert list(readings) == []


@pytest.mark.parametrize("media", ["application/openmetrics-text", "text/plain"])
@pytest.mark.parametrize("version", ["x", "1.x", "2.x", "1.0.0-rc1", "9" * 5_000, "1.0.\u00b2", "2.\ufffd", ""])
def test_a_version_that_is_none_is_no_reason_to_end(media: str, version: str) -> None:
    """Anybody may read this page, and an error in it would end the process."""
    readings = Readings()
    readings.tell(metrics.READY, 1)
    text = to_text(readings, f"{media}; version={version}")
    assert b"logherd_ready 1.0" in text.body
    assert text.media_type.isascii()
