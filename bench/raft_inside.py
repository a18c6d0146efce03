"""The Raft log beside SOFAJRaft 1.3.14, from inside the leader: `python -m bench.raft_inside [--quick] [--only KIND]`.

Three members of each on loopback and one disk. The leader proposes to itself, a window at a time, and a proposal counts
when a majority has flushed it and it is applied; there is no client, and neither state machine does more than keep what
it is given. SOFAJRaft is a library in Java with RocksDB, with its own settings (it flushes) and a heap of 1 GiB;
LogHerd's member is that of bench.log_node. Prints a table with ratios and writes the figures as JSON.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

from bench.place import bench_place, run_bench
from bench.raft_log import SHOWN, SIZES, bench_options, sampled, tell
from bench.raft_targets import INSIDE_KINDS, run_inside, running_group

__all__ = ["WINDOWS", "main"]

WINDOWS = (1, 64, 512)
COMMAND = "python -m bench.raft_inside"


def measure(kind: str, directory: Path, *, warmup_ms: int, measure_ms: int) -> dict[str, Any]:
    """All windows at all sizes on one group."""
    results: dict[str, Any] = {}
    with running_group(kind, directory) as group:
        for window in WINDOWS:
            for size in SIZES:
                print(f"  {SHOWN[kind]}, window of {window}, {size} B ...", file=sys.stderr, flush=True)
                wanted = {"window": window, "size": size, "warmupMs": warmup_ms, "measureMs": measure_ms}
                results[f"window of {window}, {size} B"] = sampled(
                    group, partial(run_inside, group, wanted), seconds=(warmup_ms + measure_ms) / 1000
                )
    return results


def main() -> None:
    options = bench_options(__doc__, INSIDE_KINDS, out="bench-raft-inside.json")
    timing = {"warmup_ms": 500, "measure_ms": 2000} if options.quick else {"warmup_ms": 5000, "measure_ms": 8000}
    figures: dict[str, Any] = {}
    with bench_place() as place:
        for kind in [options.only] if options.only else INSIDE_KINDS:
            figures[kind] = measure(kind, place / kind, **timing)
    tell(COMMAND, figures, options.out)


if __name__ == "__main__":
    run_bench(main)
