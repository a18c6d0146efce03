"""LogHerd beside RocketMQ 5.3.3 under the same stock Java client, in one run: `python -m bench.compare [--quick]`.

Each target is started on an empty store, warmed up and measured alone; the client's JVM is the same for all, so it is
warm for all. Prints a table with ratios and writes the figures as JSON. Two cores carry client and server, as they do
for every target: the stub, which stores nothing, shows what the client alone can do.
"""

import argparse
import json
import os
import platform
from pathlib import Path
from typing import Any

from bench.place import bench_place, run_bench
from bench.sampling import Sampler, cpu_seconds
from bench.targets import Running, Target, bench_classes, cold_start, running

from compat.driver import Driver

LOADS: dict[str, dict[str, int]] = {
    "64 sync senders": {"senders": 64},
    "window of 512 async": {"window": 512},
    "1 sync sender": {"senders": 1},
}
HEAPS = ["64m", "96m", "128m", "192m", "256m", "512m"]
# A heap "holds the rate" if it reaches the large one's within the noise.
HOLDS = 0.9
BODY = 1024


def run_load(
    client: Driver, name_server: str, pids: list[int], load: dict[str, int], *, warmup_s: float, measure_s: float
) -> dict[str, Any]:
    """One load from the client's JVM, with what it cost these processes and the client."""
    client_cpu = cpu_seconds(client.pid)
    with Sampler(pids) as sampler:
        figures: dict[str, Any] = client.call(
            "produce", seconds=120, nameServer=name_server, topic="Bench", size=BODY, warmupMs=int(warmup_s * 1000),
            measureMs=int(measure_s * 1000), **load,
        )  # fmt: skip
    wall = warmup_s + measure_s
    figures["cpuCores"] = sampler.cpu_s / wall
    figures["clientCpuCores"] = (cpu_seconds(client.pid) - client_cpu) / wall
    figures["anonymousMiB"] = sampler.anonymous_max / (1 << 20)
    return figures


class Comparison:
    """The runs of one comparison, collected in `figures`."""

    def __init__(self, client: Driver, directory: Path, *, warmup_s: float, measure_s: float) -> None:
        self.client = client
        self.directory = directory
        self.warmup_s = warmup_s
        self.measure_s = measure_s
        self.figures: dict[str, Any] = {}
        self._runs = 0

    def fresh(self) -> Path:
        self._runs += 1
        return self.directory / f"run-{self._runs}"

    def load(self, started: Running, load: dict[str, int]) -> dict[str, Any]:
        """One load on a running target, with what it cost."""
        timing = {"warmup_s": self.warmup_s, "measure_s": self.measure_s}
        return run_load(self.client, started.server.name_server, started.pids, load, **timing)

    def measure(self, target: Target, loads: dict[str, dict[str, int]], *, consume: bool) -> None:
        """All loads on one target, then its messages read back."""
        print(f"  {target.name} ...", flush=True)
        results: dict[str, Any] = {}
        with running(target, self.fresh()) as started:
            if target.kind != "stub":
                started.server.create_topic("Bench", queues=8)
            for name, load in loads.items():
                results[name] = self.load(started, load)
            if consume and target.kind != "stub":
                results["consume"] = self.client.call(
                    "consume", seconds=120, nameServer=started.server.name_server, topic="Bench",
                    count=results["64 sync senders"]["messages"], limitMs=30_000,
                )  # fmt: skip
        self.figures[target.name] = results

    def smallest_heap(self, heaps: list[str]) -> None:
        """The first of these heaps with which RocketMQ reaches its rate, and what memory that takes in all."""
        large = self.figures["rocketmq sync"]["64 sync senders"]
        found = {"heap": "1g", "rate": large["rate"], "anonymousMiB": large["anonymousMiB"]}
        for heap in heaps:
            print(f"  rocketmq with a heap of {heap} ...", flush=True)
            try:
                with running(Target("rocketmq", heap=heap), self.fresh()) as started:
                    started.server.create_topic("Bench", queues=8)
                    figures = self.load(started, LOADS["64 sync senders"])
            except (RuntimeError, TimeoutError, OSError) as error:
                print(f"    does not run: {str(error).splitlines()[0]}")
                continue
            if figures["rate"] >= HOLDS * large["rate"] and not figures["failures"]:
                found = {"heap": heap, "rate": figures["rate"], "anonymousMiB": figures["anonymousMiB"]}
                break
        self.figures["smallest heap"] = found


def table(figures: dict[str, Any]) -> list[str]:
    """The figures as lines of text."""
    line = "{:<20}{:<21}{:>9}{:>9}{:>9}{:>9}{:>7}{:>8}{:>9}{:>7}"
    head = ("target", "load", "msg/s", "p50 ms", "p99 ms", "p99.9 ms", "cores", "client", "anon MiB", "errors")
    out = [line.format(*head)]
    for target, results in figures.items():
        for load, seen in results.items() if isinstance(results, dict) else ():
            if isinstance(seen, dict) and "p50us" in seen:
                times = (f"{seen[key] / 1000:.2f}" for key in ("p50us", "p99us", "p999us"))
                rest = (f"{seen['cpuCores']:.2f}", f"{seen['clientCpuCores']:.2f}", f"{seen['anonymousMiB']:.0f}")
                errors = seen["failures"] + seen["notStored"]
                out.append(line.format(target, load, f"{seen['rate']:.0f}", *times, *rest, errors))
            elif load == "consume":
                out.append(line.format(target, load, f"{seen['rate']:.0f}", *[""] * 7))
    return out


def ratios(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """LogHerd against RocketMQ with the same durability, and the aims of issue 3 where there is one."""
    out: list[dict[str, Any]] = []

    def note(name: str, value: float, aim: str, reached: bool | None) -> None:
        out.append({"name": name, "value": round(value, 3), "aim": aim, "reached": reached})

    for flush in ("sync", "async"):
        ours, theirs = figures.get(f"logherd {flush}"), figures.get(f"rocketmq {flush}")
        if not ours or not theirs:
            continue
        for load in (name for name in LOADS if name in ours and name in theirs):
            rate = ours[load]["rate"] / max(1, theirs[load]["rate"])
            tail = ours[load]["p99us"] / max(1, theirs[load]["p99us"])
            aimed = load == "64 sync senders"
            note(f"{flush}, {load}: rate", rate, ">= 1.5" if aimed else "", rate >= 1.5 if aimed else None)
            note(f"{flush}, {load}: p99", tail, "<= 0.5" if aimed else "", tail <= 0.5 if aimed else None)
        if "consume" in ours and "consume" in theirs:
            note(f"{flush}: consume rate", ours["consume"]["rate"] / max(1, theirs["consume"]["rate"]), "", None)
    heap, ours = figures.get("smallest heap"), figures.get("logherd sync")
    if heap and ours:
        share = ours["64 sync senders"]["anonymousMiB"] / heap["anonymousMiB"]
        note("anonymous memory against RocketMQ's smallest", share, "<= 0.1", share <= 0.1)
    if "cold start" in figures:
        seconds = figures["cold start"]["logherd sync"]
        note("cold start to first answered send, s", seconds, "< 1", seconds < 1)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="about a minute: one load, synchronous flush, one heap")
    parser.add_argument("--out", type=Path, default=Path("bench-result.json"), help="where the figures go as JSON")
    parser.add_argument("--only", help="targets to measure, separated by commas (stub, rocketmq, logherd)")
    options = parser.parse_args()
    kinds = options.only.split(",") if options.only else ["stub", "rocketmq", "logherd"]
    flushes = ["sync"] if options.quick else ["sync", "async"]
    loads = dict(list(LOADS.items())[:1]) if options.quick else LOADS
    timing = {"warmup_s": 4.0, "measure_s": 5.0} if options.quick else {"warmup_s": 5.0, "measure_s": 8.0}
    jvm = ["-Xmx1g", "-XX:TieredStopAtLevel=4"]
    with (
        bench_place() as directory,
        Driver(bench_classes(), directory / "client", main="dev.logherd.bench.Bench", options=jvm) as client,
    ):
        run = Comparison(client, directory, **timing)
        if "stub" in kinds:
            run.measure(Target("stub"), loads, consume=False)
        for flush in flushes:
            for kind in [kind for kind in ("rocketmq", "logherd") if kind in kinds]:
                run.measure(Target(kind, flush), loads, consume=True)
        if "rocketmq" in kinds:
            run.smallest_heap(["128m"] if options.quick else HEAPS)
        targets = [Target(kind, "sync") for kind in ("rocketmq", "logherd") if kind in kinds]
        run.figures["cold start"] = {target.name: cold_start(target, run.fresh()) for target in targets}
    figures = run.figures
    figures["machine"] = {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()}
    figures["ratios"] = ratios(figures) if len(targets) == 2 else []
    print("\n".join(table(figures)))
    for name in ("smallest heap", "cold start"):
        print(f"{name}: {figures.get(name)}")
    for each in figures["ratios"]:
        verdict = {True: "reached", False: "MISSED", None: ""}[each["reached"]]
        print(f"{each['name']:<50}{each['value']:>8.2f}  {each['aim']:<8}{verdict}")
    options.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    run_bench(main)
