"""The figures that `mqadmin clusterList` and `brokerStatus` print, under RocketMQ's names and in its formats.

A figure without a counterpart here has the value that it has while nothing waits: there are no thread pools with
queues, no timer wheel, no transient buffers. Tools parse those names without checking that they are there.

Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/processor/AdminBrokerProcessor.java
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from logherd.kit.clock import Clock
from logherd.model.record import RecordError, decode_record
from logherd.service.replica_view import ReplicationView
from logherd.service.stats import BrokerStats
from logherd.store import MessageStore, StoreDamaged
from logherd.wire.frame import VERSION

__all__ = ["REPLICATION_KEY", "DiskSpace", "RuntimeSource", "format_bytes", "format_runtime", "runtime_table"]

REPLICATION_KEY: Final = "logherdReplication"
VERSION_NAME: Final = "V5_3_3"
_POOLS: Final = ("send", "pull", "litePull", "query", "ack")
_UNITS: Final = "KMGTPE"


class DiskSpace(NamedTuple):
    """Bytes of the file system that holds the store; some of it may be kept for root, and is neither used nor free."""

    total: int
    used: int
    free: int


class RuntimeSource(NamedTuple):
    """Where the figures come from. `started_ms` is wall time; `disk` asks the file system that holds the store;
    `replication` says how this replica sees its group, None if it is alone."""

    store: MessageStore
    stats: BrokerStats
    clock: Clock
    started_ms: int
    disk: Callable[[], DiskSpace]
    replication: Callable[[], ReplicationView | None] = lambda: None


def runtime_table(source: RuntimeSource) -> dict[str, str]:
    """All figures, by RocketMQ's names."""
    table = _store_figures(source) | _traffic(source) | _without_counterpart() | _replication(source)
    return table | {
        "brokerActive": "true",
        "brokerVersionDesc": VERSION_NAME,
        "brokerVersion": str(VERSION),
        "bootTimestamp": str(source.started_ms),
        "runtime": format_runtime(source.clock.now_ms() - source.started_ms),
        "startAcceptSendRequestTimeStamp": "0",
    }


def _replication(source: RuntimeSource) -> dict[str, str]:
    """JSON under a name of ours; tools print it as they print the others."""
    view = source.replication()
    return {} if view is None else {REPLICATION_KEY: msgspec.json.encode(view).decode()}


def _store_figures(source: RuntimeSource) -> dict[str, str]:
    store = source.store
    disk = source.disk()
    reachable = disk.used + disk.free
    ratio = str(disk.used / reachable if reachable else -1.0)
    behind = store.end_position - store.committed_position
    return {
        "commitLogMinOffset": str(store.min_position),
        "commitLogMaxOffset": str(store.end_position),
        "dispatchBehindBytes": str(behind),
        "remainHowManyDataToFlush": format_bytes(behind),
        "earliestMessageTimeStamp": str(_earliest_timestamp(store)),
        "commitLogDiskRatio": ratio,
        "consumeQueueDiskRatio": ratio,
        "commitLogDirCapacity": f"Total : {format_bytes(disk.total)}, Free : {format_bytes(disk.free)}.",
    }


def _earliest_timestamp(store: MessageStore) -> int:
    """Store time of the oldest record kept, ms since 1970 UTC; -1 while there is none, as RocketMQ says it, or it is
    damaged: that is no reason to hold back all the other figures."""
    try:
        record = store.record_at(store.min_position)
        return -1 if record is None else decode_record(record, verify=False).store_timestamp
    except (RecordError, StoreDamaged):
        return -1


def _traffic(source: RuntimeSource) -> dict[str, str]:
    stats = source.stats
    put, get = stats.put_totals(), stats.get_totals()
    found, missed = stats.rates("found"), stats.rates("missed")
    calls = stats.put_calls
    return {
        "msgPutTotalYesterdayMorning": str(put.yesterday_morning),
        "msgPutTotalTodayMorning": str(put.today_morning),
        "msgPutTotalTodayNow": str(put.now),
        "msgGetTotalYesterdayMorning": str(get.yesterday_morning),
        "msgGetTotalTodayMorning": str(get.today_morning),
        "msgGetTotalTodayNow": str(get.now),
        "putTps": _rates(stats.rates("put")),
        "getFoundTps": _rates(found),
        "getMissTps": _rates(missed),
        "getTotalTps": _rates((found[0] + missed[0], found[1] + missed[1], found[2] + missed[2])),
        "getTransferredTps": _rates(stats.rates("transferred")),
        "putMessageTimesTotal": str(calls),
        "putMessageSizeTotal": str(stats.put_bytes),
        "putMessageAverageSize": str(stats.put_bytes / max(calls, 1)),
    }


def _without_counterpart() -> dict[str, str]:
    table = {
        "pageCacheLockTimeMills": "0",
        "remainTransientStoreBufferNumbs": "0",
        "dispatchMaxBuffer": "0",
        "timerReadBehind": "0",
        "timerOffsetBehind": "0",
        "timerCongestNum": "0",
        "timerEnqueueTps": "0.0",
        "timerDequeueTps": "0.0",
        "EndTransactionQueueSize": "0",
        "EndTransactionThreadPoolQueueCapacity": "0",
    }
    for pool in _POOLS:
        table[f"{pool}ThreadPoolQueueSize"] = "0"
        table[f"{pool}ThreadPoolQueueCapacity"] = "0"
        table[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = "0"
    return table


def _rates(rates: tuple[float, float, float]) -> str:
    return " ".join(map(str, rates))


def format_bytes(count: int) -> str:
    """Bytes as RocketMQ prints them: "512 B", "1.5 KiB"."""
    if count < 1024:
        return f"{count} B"
    exponent = min((count.bit_length() - 1) // 10, len(_UNITS))
    return f"{count / (1 << (10 * exponent)):.1f} {_UNITS[exponent - 1]}iB"


def format_runtime(milliseconds: int) -> str:
    """A span as RocketMQ prints it: "[ 0 days, 1 hours, 2 minutes, 3 seconds ]"."""
    minutes, seconds = divmod(max(milliseconds, 0) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"
