"""Runtime figures: every name that RocketMQ's tools parse, in a form that they can parse."""

from collections.abc import Iterator

import pytest

from logherd.service.admin.runtime import DiskSpace, RuntimeSource, format_bytes, format_runtime, runtime_table
from logherd.service.stats import BrokerStats
from unit.service.small_broker import HOST, SmallBroker


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    broker = SmallBroker(tmp_path_factory.mktemp("store"))
    clock = broker.clock
    broker.put("T")
    broker.store.append(
        broker.store.queue("T", 0), b"unflushed", b"", born_timestamp=0, born_host=HOST, store_timestamp=clock.wall
    )
    stats = BrokerStats(now_ms=0, wall_ms=clock.wall)
    stats.count_put("T", 10, 1000)
    stats.count_get("g", "T", 4, 400)
    for second in range(1, 11):
        stats.tick(second * 1000, clock.wall + second * 1000)
    started = clock.wall - 3_661_000
    table = runtime_table(RuntimeSource(broker.store, stats, clock, started, lambda: DiskSpace(1000, 600, 200)))
    yield table | {"end": str(broker.store.end_position), "committed": str(broker.store.committed_position)}
    broker.close()


CLUSTER_LIST = """
brokerActive brokerVersionDesc pageCacheLockTimeMills commitLogDiskRatio earliestMessageTimeStamp
sendThreadPoolQueueSize pullThreadPoolQueueSize ackThreadPoolQueueSize sendThreadPoolQueueHeadWaitTimeMills
pullThreadPoolQueueHeadWaitTimeMills ackThreadPoolQueueHeadWaitTimeMills timerReadBehind timerOffsetBehind
timerCongestNum timerEnqueueTps timerDequeueTps
"""


@pytest.mark.parametrize("name", CLUSTER_LIST.split())
def test_what_clusterlist_reads_is_there(name: str, runtime: dict[str, str]) -> None:
    assert name in runtime


@pytest.mark.parametrize(
    ("name", "rate"),
    [("putTps", 1.0), ("getFoundTps", 0.1), ("getMissTps", 0.0), ("getTotalTps", 0.1), ("getTransferredTps", 0.4)],
)
def test_rates_are_three_numbers(name: str, rate: float, runtime: dict[str, str]) -> None:
    assert [float(part) for part in runtime[name].split(" ")] == [rate] * 3


def test_positions_disk_and_time_come_from_their_sources(runtime: dict[str, str]) -> None:
    behind = int(runtime["end"]) - int(runtime["committed"])
    assert behind > 0
    assert runtime["commitLogMinOffset"] == "0"
    assert runtime["commitLogMaxOffset"] == runtime["end"]
    assert runtime["dispatchBehindBytes"] == str(behind)
    assert runtime["remainHowManyDataToFlush"] == f"{behind} B"
    assert runtime["commitLogDiskRatio"] == "0.75", "as df: what is kept for root is neither used nor free"
    assert runtime["commitLogDirCapacity"] == "Total : 1000 B, Free : 200 B."
    assert runtime["runtime"] == "[ 0 days, 1 hours, 1 minutes, 1 seconds ]"
    assert runtime["msgPutTotalTodayNow"] == "10"
    assert runtime["putMessageAverageSize"] == "1000.0"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (1 << 30, "1.0 GiB"), (1 << 61, "2.0 EiB")],
)
def test_bytes_are_printed_as_rocketmq_prints_them(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_a_clock_that_ran_back_does_not_break_the_runtime() -> None:
    assert format_runtime(-5) == "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"
