"""Three replicas beside NATS JetStream 2.12.1 and Kafka 4.1: `python -m bench.beside [--quick] [--only KIND,...]`.

One load program (bench/go/raftload) loads all of them, each by its own stock Go client. Neither NATS nor Kafka
flushes before it answers, so that LogHerd stands there twice: with `flush: async`, which is their class, and with its
default. RocketMQ's Go client is the dearest of the three, so `logherd native` is the class of `logherd async` under the
least dear load that LogHerd has itself, `logherd bench send`: what its brokers can take.
Each is started on empty stores, as shipped, and measured alone. Prints a table with ratios and writes the figures as
JSON. Load and servers share the machine's cores, for one as for the others.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.groups import native_send, running_group
from bench.kafka_cluster import running_kafka
from bench.place import bench_place, run_bench
from bench.raft_log import LOADS, Load, run_load
from bench.raft_targets import GO, Group, load_program
from bench.sampling import Sampler, resident_bytes

from compat.processes import Process, accepts, free_port, until
from compat.toolchain import build_go

__all__ = ["KINDS", "main", "native_load", "ratios", "table"]

NATIVE = "logherd native"
KINDS = ("nats", "kafka", "logherd", "logherd async", NATIVE)
PEERS = ("nats", "kafka")
CLASS = "logherd async"
IN_CLASS = (CLASS, NATIVE)
SIZES = (1024, 100)
_IDS = (1, 2, 3)


@contextmanager
def started(kind: str, directory: Path, *, heap: str) -> Iterator[Group]:
    """Three replicas on empty stores that take the load; ended behind the block."""
    directory.mkdir(parents=True)
    if kind == "nats":
        with _nats(directory) as group:
            yield group
    elif kind == "kafka":
        with running_kafka(directory, heap=heap) as (addresses, pids):
            yield Group("kafka", addresses, pids)
    else:
        with running_group(CLASS if kind == NATIVE else kind, "", directory / "group") as group:
            group.server().create_topic("Bench", queues=8)
            yield Group("rocketmq", group.name_server, tuple(group.pids))


@contextmanager
def _nats(directory: Path) -> Iterator[Group]:
    """As shipped, apart from addresses."""
    program = str(build_go(GO / "nats"))
    clients, routes = ({each: free_port() for each in _IDS} for _ in range(2))
    known = ",".join(f"nats://127.0.0.1:{port}" for port in routes.values())
    with ExitStack() as ends:
        processes = []
        for each in _IDS:
            command = [
                program, "--name", f"n{each}", "--addr", "127.0.0.1", "--port", str(clients[each]), "--jetstream",
                "--store_dir", str(directory / f"n{each}"), "--cluster_name", "bench", "--routes", known,
                "--cluster", f"nats://127.0.0.1:{routes[each]}",
            ]  # fmt: skip
            processes.append(ends.enter_context(Process(command, log=directory / f"n{each}.out")))
        for port in clients.values():
            until(lambda port=port: accepts(port), seconds=30, what="a NATS server listens")  # type: ignore[misc]
        servers = ",".join(f"nats://127.0.0.1:{port}" for port in clients.values())
        yield Group("nats", servers, tuple(process.pid for process in processes))


def native_load(group: Group, load: Load, *, size: int, warmup_s: float, measure_s: float) -> dict[str, Any]:
    """As `run_load`, by `logherd bench send`, which warms up for a second of its own."""
    options = ("--window", str(load.clients), "--connections", str(load.connections))
    native_send(group.leader, size=size, seconds=warmup_s, options=options)
    with Sampler(group.pids) as sampler:
        found = native_send(group.leader, size=size, seconds=measure_s, options=options)
    times = {f"{name}us": found["latency"][name] * 1000 for name in ("p50", "p99", "p999")}
    return {
        "rate": found["rate"], **times, "failures": sum(found["refused"].values()) + found["lost"],
        "cpuCores": sampler.cpu_s / (measure_s + 1), "residentMiB": sum(map(resident_bytes, group.pids)) / (1 << 20),
    }  # fmt: skip


def table(figures: dict[str, Any]) -> list[str]:
    """The figures as lines of text; memory is that of all processes of a group (PSS, so shared pages count once)."""
    line = "{:<15}{:<22}{:>10}{:>9}{:>9}{:>10}{:>7}{:>9}{:>8}"
    out = [line.format("three replicas", "load", "msg/s", "p50 ms", "p99 ms", "p99.9 ms", "cores", "PSS MiB", "errors")]
    for kind in (kind for kind in KINDS if kind in figures):
        for load, seen in figures[kind].items():
            times = (f"{seen[key] / 1000:.2f}" for key in ("p50us", "p99us", "p999us"))
            rest = (f"{seen['cpuCores']:.2f}", f"{seen['residentMiB']:.0f}", seen["failures"])
            out.append(line.format(kind, load, f"{seen['rate']:.0f}", *times, *rest))
    return out


def ratios(figures: dict[str, Any]) -> list[str]:
    """LogHerd against each of them within their class: more messages are better, a lower p99 is."""
    line = "{:<24}{:<22}{:>10}{:>9}{:>9}{:>9}  {}"
    out: list[str] = []
    for kind in (kind for kind in IN_CLASS if kind in figures):
        out.append(line.format(f"{kind} against", "load", "msg/s", "p50", "p99", "PSS", ""))
        for peer in (peer for peer in PEERS if peer in figures):
            for load, theirs in figures[peer].items():
                ours = figures[kind][load]
                by = {key: ours[key] / max(1, theirs[key]) for key in ("rate", "p50us", "p99us", "residentMiB")}
                out.append(line.format(peer, load, *(f"{each:.2f}" for each in by.values()), _verdict(by["rate"])))
    return out


def _verdict(rate: float) -> str:
    return "ahead" if rate >= 1 else "BEHIND"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="2 s for each load instead of 8, small heaps")
    parser.add_argument("--only", help=f"what to measure, separated by commas: {', '.join(KINDS)}")
    parser.add_argument("--out", type=Path, default=Path("bench-beside.json"), help="where the figures go as JSON")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else KINDS
    if unknown := set(chosen) - set(KINDS):
        parser.error(f"--only: {', '.join(sorted(unknown))} is unknown; there are {', '.join(KINDS)}")
    timing = {"warmup_s": 2.0, "measure_s": 2.0} if options.quick else {"warmup_s": 4.0, "measure_s": 8.0}
    program, figures = load_program(), {}
    with bench_place() as place:
        for kind in chosen:
            with started(kind, place / kind, heap="512m" if options.quick else "1g") as group:
                seen = figures[kind] = {}
                for load in LOADS:
                    for size in SIZES:
                        name = f"{load.name}, {size} B"
                        print(f"  {kind}, {name} ...", file=sys.stderr, flush=True)
                        seen[name] = (
                            native_load(group, load, size=size, **timing) if kind == NATIVE
                            else run_load(program, group, load, size=size, **timing)
                        )  # fmt: skip
    print("\n".join([*table(figures), "", *ratios(figures)]))
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()}
    options.out.write_text(json.dumps({**figures, "machine": machine}, indent=1) + "\n")


if __name__ == "__main__":
    run_bench(main)
