"""The Raft log beside SOFAJRaft 1.3.14, from inside the leader: `python -m bench.raft_inside [--quick] [--only KIND]`.

Three members of each on loopback and one disk. The leader proposes to itself, a window at a time, and a proposal counts
when a majority has flushed it and it is applied; there is no client, and neither state machine does more than keep what
it is given. SOFAJRaft is a library in Java with RocksDB, with its own settings (it flushes) and a heap of 1 GiB;
LogHerd's member is that of bench.log_node. Prints a table with ratios and writes the figures as JSON.
"""

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from bench.place import bench_place, run_bench
from bench.raft_log import SIZES
from bench.raft_targets import INSIDE_KINDS, run_inside, running_group
from bench.sampling import Sampler, resident_bytes

__all__ = ["WINDOWS", "main", "ratios", "table"]

WINDOWS = (1, 64, 512)
COMMAND = "python -m bench.raft_inside"
SHOWN = {"sofajraft": "SOFAJRaft", "node": "LogHerd"}


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
                figures["cpuUs"] = sampler.cpu_s * 1e9 / (warmup_ms + measure_ms) / max(1.0, figures["rate"])
                figures["residentMiB"] = sum(map(resident_bytes, group.pids)) / (1 << 20)
                results[f"window of {window}, {size} B"] = figures
    return results


def table(figures: dict[str, Any]) -> list[str]:
    """The figures as lines of text; processor time and memory (PSS) are those of all three processes."""
    line = "{:<11}{:<23}{:>11}{:>9}{:>9}{:>9}{:>9}{:>8}{:>9}{:>8}"
    heads = ("commits/s", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "us each", "PSS MiB", "errors")
    out = [line.format("", "proposals", *heads)]
    for kind in (kind for kind in INSIDE_KINDS if kind in figures):
        for load, seen in figures[kind].items():
            times = (f"{seen[key] / 1000:.2f}" for key in ("p50us", "p99us", "p999us", "maxus"))
            rest = (f"{seen['cpuUs']:.0f}", f"{seen['residentMiB']:.0f}", seen["failures"])
            out.append(line.format(SHOWN[kind], load, f"{seen['rate']:.0f}", *times, *rest))
    return out


def ratios(figures: dict[str, Any]) -> list[str]:
    """LogHerd against SOFAJRaft: more commits are better, a lower p99 is."""
    line = "{:<23}{:>12}{:>12}{:>12}{:>12}{:>12}  {}"
    out = [line.format("LogHerd / SOFAJRaft", "commits/s", "p50", "p99", "us each", "PSS", "")]
    for load, ours in figures["node"].items():
        theirs = figures["sofajraft"][load]
        by = {key: ours[key] / max(1, theirs[key]) for key in ("rate", "p50us", "p99us", "cpuUs", "residentMiB")}
        verdict = "ahead" if by["rate"] >= 1 and by["p99us"] <= 1 else "BEHIND"
        out.append(line.format(load, *(f"{each:.2f}" for each in by.values()), verdict))
    return out


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
    print(f"$ {' '.join([COMMAND, *sys.argv[1:]])}")
    print("\n".join(table(figures)))
    if not options.only:
        print("\n".join(["", *ratios(figures)]))
    figures["machine"] = {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()}
    options.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    run_bench(main)
