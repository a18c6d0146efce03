"""What a replicated record costs the stores of a leader and of a follower: `python -m bench.record_cost`.

One process appends runs of messages to a leader's store, reads them with their outline as they are shipped, and appends
them to a follower's. The table shows microseconds of processor time of that thread for each record, without sockets,
flushes and derived files; other load on the machine disturbs it less than any clock, so compare the lower quartile of
two versions.
"""

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from bench.place import bench_place, run_bench

from logherd.store import MessageStore, RunMessage
from logherd.store.files_os import OsFiles
from logherd.store.options import LogOptions, StoreOptions
from logherd.store.outline import decode_outlines, encode_outlines

__all__ = ["RecordCost", "main"]

SIZES = (1024, 100)
RUNS = (1, 4, 8, 64)
_HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
_QUEUES = 8
_PROPERTIES = b"UNIQ_KEY\x01%s\x02WAIT\x01true\x02CLUSTER\x01DefaultCluster\x02"
_BYTES_MAX = 3 << 20
"""Of one round: below the longest batch, so that nothing but appending is timed."""

T = TypeVar("T")


class _Clock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class RecordCost:
    """A leader's and a follower's store in one thread. `spent` are nanoseconds of each run, by part."""

    def __init__(self, directory: Path) -> None:
        log = LogOptions(segment_bytes=1 << 28, reserve_bytes=0)
        options = StoreOptions(replicated=True, log=log)
        self.leader, self.follower = (
            MessageStore.open(directory / name, options, OsFiles(), clock=_Clock()) for name in ("leader", "follower")
        )
        self._queues = [self.leader.queue("Bench", number) for number in range(_QUEUES)]
        self._count = 0
        self.spent: dict[str, list[int]] = {"leader": [], "follower": []}

    def run(self, length: int, size: int) -> None:
        """One run of messages with bodies of so many bytes."""
        leader, follower = self.leader, self.follower
        messages, after = [self._message(size) for _ in range(length)], leader.end_position
        placed = self._timed("leader", lambda: leader.append_run(messages, _HOST, 1_700_000_000_000))
        if len(placed) != length:
            raise RuntimeError("a run was cut short: the rounds are too long for one batch")
        data, end = leader.read_raw(after, 1 << 20)
        data, kept = bytes(data), leader.outlines
        outlines = b"" if kept is None else encode_outlines(kept.between(after, end))
        self._timed("follower", lambda: follower.append_raw(data, after, end=end, outlines=decode_outlines(outlines)))

    def close(self) -> None:
        """Let go of the files."""
        self.leader.close()
        self.follower.close()

    def _message(self, size: int) -> RunMessage:
        self._count += 1
        key = b"7F00000100002A9F%016X" % self._count
        queue = self._queues[self._count % _QUEUES]
        return queue, bytes(size), _PROPERTIES % key, key, 1_700_000_000_000, 0, 0, 0

    def _timed(self, part: str, action: Callable[[], T]) -> T:
        begun = time.thread_time_ns()
        result = action()
        self.spent[part].append(time.thread_time_ns() - begun)
        return result


def _quartile(times: list[int], length: int) -> float:
    return sorted(times)[len(times) // 4] / length / 1000


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    print(f"{'runs of':>8}{'bytes':>8}{'leader us':>12}{'follower us':>13}")
    for size in SIZES:
        for length in RUNS:
            with bench_place() as place:
                cost = RecordCost(place)
                for _ in range(min(400, _BYTES_MAX // (length * (size + 200)))):
                    cost.run(length, size)
                cost.close()
            leader, follower = (_quartile(cost.spent[part], length) for part in ("leader", "follower"))
            print(f"{length:>8}{size:>8}{leader:>12.2f}{follower:>13.2f}")
    print(f"load of the machine: {os.getloadavg()[0]:.1f}, cores: {os.cpu_count()}")


if __name__ == "__main__":
    run_bench(main)
