"""Runtime figures: every name that RocketMQ's tools parse, in a form that they can parse."""

import pytest

from logherd.service.admin.runtime import DiskSpace, RuntimeSource, format_bytes, format_runtime, runtime_table
from logherd.service.stats import BrokerStats
from unit.service.client_fakes import FakeClock


class Figures:
    first_position = 1024
    end_position = 5000
    committed_position = 2952
    writable = True

    def disk(self) -> DiskSpace:
        return DiskSpace(1000, 250)

    def earliest_timestamp(self) -> int:
        return -1


def runtime() -> dict[str, str]:
    clock = FakeClock()
    stats = BrokerStats(now_ms=0, wall_ms=clock.wall)
    stats.count_put("T", 10, 1000)
    stats.count_get("g", "T", 4, 400)
    for second in range(1, 11):
        stats.tick(second * 1000, clock.wall + second * 1000)
    return runtime_table(RuntimeSource(Figures(), stats, clock, clock.wall - 3_661_000))


CLUSTER_LIST = """
brokerActive brokerVersionDesc pageCacheLockTimeMills commitLogDiskRatio earliestMessageTimeStamp
sendThreadPoolQueueSize pullThreadPoolQueueSize ackThreadPoolQueueSize sendThreadPoolQueueHeadWaitTimeMills
pullThreadPoolQueueHeadWaitTimeMills ackThreadPoolQueueHeadWaitTimeMills timerReadBehind timerOffsetBehind
timerCongestNum timerEnqueueTps timerDequeueTps
"""


@pytest.mark.parametrize("name", CLUSTER_LIST.split())
def test_what_clusterlist_reads_is_there(name: str) -> None:
    assert name in runtime()


@pytest.mark.parametrize(
    ("name", "rate"),
    [("putTps", 1.0), ("getFoundTps", 0.1), ("getMissTps", 0.0), ("getTotalTps", 0.1), ("getTransferredTps", 0.4)],
)
def test_rates_are_three_numbers(name: str, rate: float) -> None:
    assert [float(part) for part in runtime()[name].split(" ")] == [rate] * 3


def test_positions_disk_and_time_come_from_their_sources() -> None:
    table = runtime()
    assert table["commitLogMinOffset"] == "1024"
    assert table["commitLogMaxOffset"] == "5000"
    assert table["remainHowManyDataToFlush"] == "2.0 KiB"
    assert table["commitLogDiskRatio"] == "0.75"
    assert table["commitLogDirCapacity"] == "Total : 1000 B, Free : 250 B."
    assert table["runtime"] == "[ 0 days, 1 hours, 1 minutes, 1 seconds ]"
    assert table["msgPutTotalTodayNow"] == "10"
    assert table["putMessageAverageSize"] == "1000.0"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (1 << 30, "1.0 GiB"), (1 << 61, "2.0 EiB")],
)
def test_bytes_are_printed_as_rocketmq_prints_them(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_a_clock_that_ran_back_does_not_break_the_runtime() -> None:
    assert format_runtime(-5) == "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"
