"""The Raft log beside SOFAJRaft 1.3.14, from inside the leader: `python -m bench.raft_inside [--quick] [--only KIND]`.

Three members of each on loopback and one disk. The leader proposes to itself, a window at a time, and a proposal counts
when a majority has flushed it and it is applied; there is no client, and neither state machine does more than keep what
it is given. SOFAJRaft is a library in Java with RocksDB, with its own settings (it flushes) and a heap of 1 GiB;
LogHerd's member is that of bench.log_node. Prints a table with ratios and writes the figures as JSON.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from bench.place import bench_place, run_bench
from bench.raft_log import SHOWN, SIZES, tell
from bench.raft_targets import INSIDE_KINDS, run_inside, running_group
from bench.sampling import Sampler, resident_bytes

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
                with Sampler(group.pids) as sampler:
                    figures = run_inside(group, wanted)
                figures["cpuCores"] = sampler.cpu_s * 1000 / (warmup_ms + measure_ms)
                figures["residentMiB"] = sum(map(resident_bytes, group.pids)) / (1 << 20)
                results[f"window of {window}, {size} B"] = figures
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="2 s for each load instead of 8")
    parser.add_argument("--only", choices=INSIDE_KINDS, help="one of the two; then there are no ratios")
    parser.add_argument("--out", type=Path, default=Path("bench-raft-inside.json"), help="where the figures go as JSON")
    options = parser.parse_args()
    timing = {"warmup_ms": 500, "measure_ms": 2000} if options.quick else {"warmup_ms": 5000, "measure_ms": 8000}
    figures: dict[str, Any] = {}
    with bench_place() as place:
        for kind in [options.only] if options.only else INSIDE_KINDS:
            figures[kind] = measure(kind, place / kind, **timing)
    tell(COMMAND, figures, options.out)


if __name__ == "__main__":
    run_bench(main)
