"""Three replicas, flush before answer: LogHerd beside RocketMQ 5.3.3, `python -m bench.replicated [--quick]`.

The same stock Java client loads a stub that answers at once (the client's own ceiling), a floor (the least that three
flushed copies take in Python: bench/floor_server.py), one RocketMQ broker without replicas and flushes, RocketMQ's two
replicated modes, and LogHerd's two of the same kinds, with all guardians and controllers. Each is started on empty
stores, warmed up and measured alone. LogHerd's own pipelined load and the disk's flushes follow,
and what a stock producer notices when the leader is killed. Prints ratios against the aims of issue 5.
"""

import argparse
import json
import os
import platform
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.compare import BODY, LOADS, run_load, table
from bench.disk_flush import measure_disk
from bench.groups import KINDS, PEERS, RunningGroup, native_send, running_group
from bench.place import bench_place, run_bench
from bench.sampling import Sampler
from bench.targets import PLAIN, Target, bench_classes, running

from compat.driver import Driver
from compat.processes import until
from compat.toolchain import JAVA_DIRECTORY, compile_java
from system.steady import SteadyProducer, longest_gap

_MIB = 1 << 20
_MEMORY_MIB_MAX = 350e6 / _MIB
_RECORD_OVERHEAD = 300
"""Bytes of a record around its body: header, keys, checksum."""
NATIVE_BATCH = 32
_PIPELINED = {"window": 2048, "connections": 8}
"""More in flight than `logherd bench send` has without being told; it goes a tenth to a third faster."""
MANY = 64
_ALONE = "rocketmq async"


class Replicated:
    """The runs of one comparison, collected in `figures`."""

    def __init__(self, directory: Path, *, warmup_s: float, measure_s: float, kills: int, heap: str) -> None:
        self.directory = directory
        self.timing = {"warmup_s": warmup_s, "measure_s": measure_s}
        self.kills = kills
        self.heap = heap
        self.figures: dict[str, Any] = {}

    def client(self, name: str) -> Driver:
        options = ["-Xmx1g", "-XX:TieredStopAtLevel=4"]
        return Driver(bench_classes(), self.directory / name, main="dev.logherd.bench.Bench", options=options)

    def single(self, target: Target) -> None:
        """What a replicated group is measured against: the stub, the floor, or one broker."""
        print(f"  {target.name} ...", flush=True)
        with self.client("client") as client, running(target, self.directory / target.name) as started:
            if not target.plain:
                started.server.create_topic("Bench", queues=8)
            self.figures[target.name] = {
                name: run_load(client, started.server.name_server, started.pids, load, **self.timing)
                for name, load in LOADS.items()
            }
            if target.plain:
                self.figures.setdefault("native", {})[target.name] = self.natives(started.server.broker_port)

    def group(self, kind: str) -> None:
        """All loads on a group, then, if wanted, its leader's death."""
        print(f"  {kind}, three replicas ...", flush=True)
        place = self.directory / kind
        with running_group(kind, bench_classes(), place, heap=self.heap) as group:
            group.server().create_topic("Bench", queues=8)
            self.figures.setdefault("at rest", {})[kind] = self.at_rest(group)
            with self.client("client") as client:
                results = {
                    name: run_load(client, group.name_server, group.pids, load, **self.timing)
                    for name, load in LOADS.items()
                }
            if kind in PEERS:
                self.figures.setdefault("native", {})[kind] = self.natives(group.name_port)
            if kind == "logherd":
                group_memory = max(each["anonymousMiB"] for each in results.values())
                self.figures["memory"] = {"anonymousMiB": group_memory, "processes": len(group.pids)}
            self.figures[kind] = results
            if self.kills:
                self.figures.setdefault("leader killed", {})[kind] = self.leader_killed(group)

    def at_rest(self, group: RunningGroup) -> float:
        """Processor time of all its processes in ms for each second in which no client wants anything."""
        time.sleep(self.timing["warmup_s"])
        seconds = self.timing["measure_s"]
        with Sampler(group.pids) as sampler:
            time.sleep(seconds)
        return round(sampler.cpu_s / seconds * 1000, 1)

    def natives(self, name_port: int) -> dict[str, Any]:
        """The native loads, by body size."""
        return {
            str(BODY): self.native(name_port, BODY, **_PIPELINED), "100": self.native(name_port, 100, **_PIPELINED),
            "100 batched": self.native(name_port, 100, batch=NATIVE_BATCH, window=4096, connections=2),
            # As many senders in processes of their own would: each has a connection and one message in flight.
            f"{BODY} from {MANY} connections": self.native(name_port, BODY, window=MANY, connections=MANY),
        }  # fmt: skip

    def native(self, name_port: int, size: int, **options: int) -> dict[str, Any]:
        """`logherd bench send` with these options."""
        given = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        return native_send(f"127.0.0.1:{name_port}", size=size, seconds=self.timing["measure_s"], options=given)

    def leader_killed(self, group: RunningGroup) -> dict[str, Any]:
        """Longest gap and failed sends of a stock producer, 200/s from four threads, for each death."""
        gaps: list[float] = []
        faults: Counter[str] = Counter()
        classes = compile_java(JAVA_DIRECTORY / "src" / "main" / "java")
        with Driver(classes, self.directory / "steady") as driver:
            for number in range(self.kills):
                until(lambda: group.leader() in group.brokers, seconds=120, what="a leader")
                with SteadyProducer(driver, group.name_server, "Bench", name=f"{number}") as producer:
                    producer.wait_for(100, since=time.time())
                    begin = time.time()
                    port = group.kill_leader()
                    producer.wait_for(100, since=begin + 1)
                    if group.restart is not None:
                        group.restart(port)
                    time.sleep(10)
                    end = time.time()
                gaps.append(longest_gap(producer.sends, begin, end))
                faults.update(send.fault.partition("\n")[0][:160] for send in producer.sends if not send.ok)
        failed = {"failed": faults.total(), "faults": dict(faults.most_common(5))}
        return {"gaps": sorted(round(gap, 3) for gap in gaps), **failed}


def beside_the_loads(figures: dict[str, Any]) -> list[str]:
    """What was measured beside the Java client's loads, as lines of text; only what was measured."""
    out: list[str] = []
    if "disk" in figures:
        flush, stream = figures["disk"]["flush"], figures["disk"]["stream"]["bytes_per_second"] / _MIB
        times = f"a record's flush p50 {flush['p50_ms']:.2f}, p99 {flush['p99_ms']:.2f} ms"
        out.append(f"disk, three writers: {times}; {stream:.0f} MiB/s each in pieces of 1 MiB")
    out += [
        f"at rest, {kind}: {spent:.0f} ms of processor time a second"
        for kind, spent in figures.get("at rest", {}).items()
    ]
    for kind, loads in figures.get("native", {}).items():
        for size, seen in loads.items():
            times = ", ".join(f"{name} {seen['latency'][name]:.1f}" for name in ("p50", "p99", "p999"))
            lost = f"{sum(seen['refused'].values())} refused, {seen['lost']} lost"
            number, _, how = size.partition(" ")
            what = f"native, {kind}, {f'{number} B {how}'.strip()}"
            out.append(f"{what}: {seen['rate']:.0f} msg/s, {times} ms, {lost}")
    for kind, seen in figures.get("leader killed", {}).items():
        gaps = ", ".join(f"{gap:.3f}" for gap in seen["gaps"])
        out.append(f"leader killed, {kind}: gaps {gaps} s, {seen['failed']} failed sends")
        out += [f"  {count} times {fault}" for fault, count in seen["faults"].items()]
    return out


def aims(figures: dict[str, Any]) -> list[tuple[str, float, str, bool]]:
    """Name, value, aim, whether it is reached; only what was measured."""
    out: list[tuple[str, float, str, bool]] = []
    ours = figures.get("logherd", {})
    theirs = [figures[kind] for kind in PEERS.values() if kind in figures]

    def at_least(name: str, value: float, aim: float) -> None:
        out.append((name, value, f">= {aim:g}", value >= aim))

    def at_most(name: str, value: float, aim: float) -> None:
        out.append((name, value, f"<= {aim:.3g}", value <= aim))

    senders, window, one = "64 sync senders", "window of 512 async", "1 sync sender"
    if ours and theirs:
        best = max(each[senders]["rate"] for each in theirs)
        at_least("64 senders: rate / the better of RocketMQ's modes", ours[senders]["rate"] / best, 4)
        tail = min(each[one]["p99us"] for each in theirs)
        at_most("1 sender: p99 / the better of RocketMQ's modes", ours[one]["p99us"] / tail, 0.25)
    for kind, peer in PEERS.items():
        if kind in figures and peer in figures:
            mine, its = figures[kind], figures[peer]
            at_least(f"{kind}: 64 senders' rate / {peer}", mine[senders]["rate"] / its[senders]["rate"], 4)
            at_most(f"{kind}: a lone sender's p99 / {peer}", mine[one]["p99us"] / its[one]["p99us"], 0.25)
    if ours and _ALONE in figures:
        alone = figures[_ALONE][senders]["rate"]
        at_least("64 senders: rate / one RocketMQ broker alone", ours[senders]["rate"] / alone, 1)
    if ours and "stub" in figures:
        ceiling = figures["stub"][window]["rate"]
        at_least("window of 512: rate / the client's ceiling", ours[window]["rate"] / ceiling, 0.9)
    disk = figures.get("disk")
    if disk:
        for kind in (kind for kind in PEERS if kind in figures):
            name = f"{kind}: a lone sender's p50, ms; aim: flush + 0.7"
            at_most(name, figures[kind][one]["p50us"] / 1000, disk["flush"]["p50_ms"] + 0.7)
    if ours and disk:
        taken = disk["stream"]["bytes_per_second"] / (BODY + _RECORD_OVERHEAD)
        native = figures["native"]["logherd"]
        at_least("native, 1 KiB: msg/s", native[str(BODY)]["rate"], min(50_000.0, 0.7 * taken))
        at_least("native, 100 B: msg/s", native["100"]["rate"], 100_000.0)
        at_least(f"native, 100 B, batches of {NATIVE_BATCH}: msg/s", native["100 batched"]["rate"], 100_000.0)
    if "memory" in figures:
        at_most("anonymous memory of all processes, MiB", figures["memory"]["anonymousMiB"], _MEMORY_MIB_MAX)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds for each load, small heaps: does it run?")
    parser.add_argument("--only", help="what to measure: some of stub,floor,alone,disk and the kinds of groups")
    parser.add_argument("--kills", type=int, default=3, help="deaths of each group's leader under a stock producer")
    parser.add_argument("--out", type=Path, default=Path("bench-replicated.json"), help="where the figures go as JSON")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else [*PLAIN, "alone", "disk", *KINDS]
    timing = {"warmup_s": 3.0, "measure_s": 3.0} if options.quick else {"warmup_s": 15.0, "measure_s": 10.0}
    with bench_place() as directory:
        run = Replicated(directory, **timing, kills=options.kills, heap="512m" if options.quick else "1g")
        if "disk" in chosen:
            figures = {"flush": BODY + _RECORD_OVERHEAD, "stream": _MIB}
            run.figures["disk"] = {
                name: asdict(measure_disk(directory / "disk", piece=piece, seconds=3))
                for name, piece in figures.items()
            }
        for kind in PLAIN:
            if kind in chosen:
                run.single(Target(kind))
        if "alone" in chosen:
            run.single(Target("rocketmq", "async", heap=run.heap))
        for kind in KINDS:
            if kind in chosen:
                run.group(kind)
    run.figures["machine"] = {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()}
    print("\n".join(table({name: run.figures[name] for name in (*PLAIN, _ALONE, *KINDS) if name in run.figures})))
    print("\n".join(beside_the_loads(run.figures)))
    run.figures["aims"] = aims(run.figures)
    for name, value, aim, reached in run.figures["aims"]:
        print(f"{name:<52}{value:>10.2f}  {aim:<12}{'reached' if reached else 'MISSED'}")
    options.out.write_text(json.dumps(run.figures, indent=1) + "\n")


if __name__ == "__main__":
    run_bench(main)
