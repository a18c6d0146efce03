"""The Raft log beside etcd 3.6.5: `python -m bench.raft_log [--quick] [--only etcd|node]`.

Three nodes of each on loopback and one disk, started as real processes; every put is answered after a majority has
flushed it. The same load program (bench/go/raftload) asks both: etcd over gRPC with its stock client, LogHerd's node
over a small binary protocol (bench/node_protocol.py), always at the leader. Prints a table with ratios and writes the
figures as JSON. Load and servers share the machine's cores, for one as for the other.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.place import bench_place, run_bench
from bench.raft_targets import KINDS, Group, load_program, running_group
from bench.sampling import Sampler, resident_bytes

__all__ = ["LOADS", "SHOWN", "SIZES", "Load", "bench_options", "main", "ratios", "sampled", "table", "tell"]

SIZES = (64, 1024)
COMMAND = "python -m bench.raft_log"
SHOWN = {"etcd": "etcd 3.6.5", "sofajraft": "SOFAJRaft", "node": "LogHerd"}


@dataclass(frozen=True, slots=True)
class Load:
    """Puts under way at a time, and over how many connections."""

    name: str
    clients: int
    connections: int


LOADS = (Load("1 client", 1, 1), Load("64 clients", 64, 64), Load("window of 512", 512, 2))


def run_load(
    program: Path, group: Group, load: Load, *, size: int, warmup_s: float, measure_s: float
) -> dict[str, Any]:
    """One load on a running group, and what it cost the servers."""
    command = [
        str(program), f"-target={group.kind}", f"-endpoint={group.leader}", f"-clients={load.clients}",
        f"-connections={load.connections}", f"-size={size}", f"-warmup={warmup_s}s", f"-measure={measure_s}s",
    ]  # fmt: skip

    def asked() -> dict[str, Any]:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the load on {group.kind} failed: {done.stderr.strip()}")
        figures: dict[str, Any] = json.loads(done.stdout)
        return figures

    return sampled(group, asked, seconds=warmup_s + measure_s)


def sampled(group: Group, load: Callable[[], dict[str, Any]], *, seconds: float) -> dict[str, Any]:
    """What a load of so many seconds found, and what it cost the servers."""
    with Sampler(group.pids) as sampler:
        figures = load()
    resident = sum(map(resident_bytes, group.pids)) / (1 << 20)
    return {**figures, "cpuCores": sampler.cpu_s / seconds, "residentMiB": resident}


def measure(kind: str, program: Path, directory: Path, *, warmup_s: float, measure_s: float) -> dict[str, Any]:
    """All loads at all sizes on one group."""
    results: dict[str, Any] = {}
    with running_group(kind, directory) as group:
        for load in LOADS:
            for size in SIZES:
                print(f"  {SHOWN[kind]}, {load.name}, {size} B ...", file=sys.stderr, flush=True)
                results[f"{load.name}, {size} B"] = run_load(
                    program, group, load, size=size, warmup_s=warmup_s, measure_s=measure_s
                )
    return results


def table(figures: dict[str, Any]) -> list[str]:
    """The figures as lines of text; memory is that of all three processes (PSS, so shared pages count once)."""
    line = "{:<12}{:<23}{:>10}{:>9}{:>9}{:>9}{:>9}{:>7}{:>9}{:>8}"
    out = [line.format("", "load", "commits/s", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "cores", "PSS MiB", "errors")]
    for kind in (kind for kind in SHOWN if kind in figures):
        for load, seen in figures[kind].items():
            times = (f"{seen[key] / 1000:.2f}" for key in ("p50us", "p99us", "p999us", "maxus"))
            rest = (f"{seen['cpuCores']:.2f}", f"{seen['residentMiB']:.0f}", seen["failures"])
            out.append(line.format(SHOWN[kind], load, f"{seen['rate']:.0f}", *times, *rest))
    return out


def ratios(figures: dict[str, Any]) -> list[str]:
    """LogHerd against the other: more commits are better, a lower p99 is; the aims are those of issue 4."""
    beside = next(kind for kind in SHOWN if kind in figures)
    line = "{:<23}{:>12}{:>12}{:>12}{:>12}  {}"
    out = [line.format(f"LogHerd / {SHOWN[beside].split()[0]}", "commits/s", "p50", "p99", "PSS", "")]
    for load, ours in figures["node"].items():
        theirs = figures[beside][load]
        by = {key: ours[key] / max(1, theirs[key]) for key in ("rate", "p50us", "p99us", "residentMiB")}
        verdict = "reached" if by["rate"] >= 1 and by["p99us"] <= 1 else "MISSED"
        out.append(line.format(load, *(f"{each:.2f}" for each in by.values()), verdict))
    return out


def bench_options(about: str | None, kinds: Sequence[str], *, out: str) -> argparse.Namespace:
    """Which of two is measured, how long, and where the figures go."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="2 s for each load instead of 8")
    parser.add_argument("--only", choices=kinds, help="one of the two; then there are no ratios")
    parser.add_argument("--out", type=Path, default=Path(out), help="where the figures go as JSON")
    return parser.parse_args()


def tell(command: str, figures: dict[str, Any], out: Path) -> None:
    """Print what was measured, with ratios if it was both, and write it as JSON."""
    print(f"$ {' '.join([command, *sys.argv[1:]])}")
    print("\n".join(table(figures)))
    if len(figures) > 1:
        print("\n".join(["", *ratios(figures)]))
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()}
    out.write_text(json.dumps(figures | {"machine": machine}, indent=1) + "\n")


def main() -> None:
    options = bench_options(__doc__, KINDS, out="bench-raft.json")
    timing = {"warmup_s": 0.5, "measure_s": 2.0} if options.quick else {"warmup_s": 2.0, "measure_s": 8.0}
    program = load_program()
    figures: dict[str, Any] = {}
    with bench_place() as place:
        for kind in [options.only] if options.only else KINDS:
            figures[kind] = measure(kind, program, place / kind, **timing)
    tell(COMMAND, figures, options.out)


if __name__ == "__main__":
    run_bench(main)
