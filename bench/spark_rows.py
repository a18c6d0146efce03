"""Rows per second of the data source `logherd` beside Spark's Kafka connector: `python -m bench.spark_rows [--quick]`.

One run: a Kafka 3.9 cluster and LogHerd groups, three replicas each on loopback and one disk, take turns under the
same jobs. Kafka's connector is complete for Spark 4.0 only, so LogHerd is measured there and on this Spark, with
`flush: async`, which is what Kafka does, and with its own default, flushed by the in-sync replicas before the answer.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.kafka_cluster import ROOT, connector_jars, running_kafka
from bench.place import bench_place, run_bench

from compat.toolchain import MissingTool, built_once
from spark.conftest import make_topic
from system.guarded_group import GuardedGroup

SPARK_4_0 = "pyspark==4.0.5"
QUEUES = 4
LOADS = {"write 100 B": 100, "write 1 KiB": 1024}
READ = "read 100 B"
_AIM = 1.0


@dataclass(frozen=True, slots=True)
class Amount:
    """Rows of one job by the bytes of a row, and how often each job is run; the middle one counts."""

    rows: dict[int, int]
    times: int


QUICK = Amount({100: 50_000, 1024: 10_000}, 1)
FULL = Amount({100: 1_000_000, 1024: 200_000}, 3)


class SparkDriver:
    """`bench.spark_driver` under some Spark. A context manager."""

    def __init__(self, directory: Path, *, packages: Path | None = None, jars: str = "") -> None:
        roots = [str(ROOT), *(str(ROOT / each) for each in ("broker", "spark"))]
        path = os.pathsep.join([*([str(packages)] if packages else []), *roots])
        environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
        environment.pop("SPARK_HOME", None)
        self._log = directory / "spark.out"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.spark_driver", jars], cwd=directory, env=environment, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
            )  # fmt: skip

    def __enter__(self) -> "SparkDriver":
        try:
            self.version = str(self._answer()["spark"])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(20)

    def ask(self, **order: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"Spark is gone: {self._log.read_text(errors='replace')[-4000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def spark_4_0() -> Path:
    """Spark 4.0 in a folder of its own, beside the Spark of this environment."""
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        raise MissingTool("uv is not installed: it fetches Spark 4.0, on which Kafka's connector runs")

    def build(aside: Path) -> None:
        command = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--no-deps", "--target", str(aside)]
        subprocess.run([*command, SPARK_4_0], check=True)

    return built_once(SPARK_4_0.replace("==", "-"), build)


def measured(driver: SparkDriver, source: str, amount: Amount, topics: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Rows per second of each load. `topics` gives options of a new topic: `write`, and `read` from the beginning."""
    warm = topics()
    driver.ask(do="write", source=source, count=10_000, size=100, options=warm["write"])
    driver.ask(do="read", source=source, options=warm["read"])
    found: dict[str, Any] = {}
    for name, size in LOADS.items():
        count, times = amount.rows[size], []
        for _ in range(amount.times):
            made = topics()
            times.append(
                driver.ask(do="write", source=source, count=count, size=size, options=made["write"])["seconds"]
            )
        found[name] = count / statistics.median(times)
        if size == 100:
            found[READ] = _read(driver, source, amount, made["read"])
    return found


def _read(driver: SparkDriver, source: str, amount: Amount, options: dict[str, str]) -> float:
    times = []
    for _ in range(amount.times):
        answer = driver.ask(do="read", source=source, options=options)
        rows = amount.rows[100]
        if (answer["rows"], answer["bytes"]) != (rows, rows * 100):
            raise RuntimeError(f"{source} was to read {rows} rows, it has read {answer}")
        times.append(answer["seconds"])
    return amount.rows[100] / statistics.median(times)


def kafka_topics(driver: SparkDriver, bootstrap: str) -> Callable[[], dict[str, Any]]:
    number = iter(range(1000))

    def new() -> dict[str, Any]:
        topic, common = f"rows-{next(number)}", {"kafka.bootstrap.servers": bootstrap}
        driver.ask(do="kafka_topic", bootstrap=bootstrap, name=topic, partitions=QUEUES)
        return {
            "write": {**common, "topic": topic, "kafka.acks": "all"},
            "read": {**common, "subscribe": topic, "startingOffsets": "earliest", "endingOffsets": "latest"},
        }

    return new


def logherd_topics(group: GuardedGroup) -> Callable[[], dict[str, Any]]:
    def new() -> dict[str, Any]:
        leader, _ = group.leader()
        topic = make_topic(f"{leader.host}:{leader.port}", group.name_server, QUEUES)
        common = {"bootstrap": group.name_server}
        return {"write": {**common, "topic": topic}, "read": {**common, "subscribe": topic}}

    return new


@contextmanager
def spark_of(directory: Path, name: str, *, jars: str = "", old: bool) -> Iterator[SparkDriver]:
    home = directory / name
    home.mkdir()
    with SparkDriver(home, packages=spark_4_0() if old else None, jars=jars) as driver:
        yield driver


def run(directory: Path, amount: Amount, heap: str) -> dict[str, Any]:
    """All targets in turn."""
    found: dict[str, Any] = {}
    jars = connector_jars()
    with spark_of(directory, "old", jars=jars, old=True) as old, spark_of(directory, "new", old=False) as new:
        with running_kafka(directory, heap=heap) as (kafka, _):
            print(f"  kafka on {old.version} ...", flush=True)
            found[f"kafka, Spark {old.version}"] = measured(old, "kafka", amount, kafka_topics(old, kafka))
        for flush in ("async", "sync"):
            place = directory / f"logherd-{flush}"
            place.mkdir()
            with GuardedGroup(place, flush=flush, store={"reservedPercent": 0}) as group:
                for driver in (old, new):
                    print(f"  logherd {flush} on {driver.version} ...", flush=True)
                    name = f"logherd {flush}, Spark {driver.version}"
                    found[name] = measured(driver, "logherd", amount, logherd_topics(group))
    return found


def table(found: dict[str, Any]) -> list[str]:
    """Rows per second, then each against Kafka."""
    loads = [*LOADS, READ]
    lines = [f"{'rows/s':<28}" + "".join(f"{load:>14}" for load in loads)]
    lines += [f"{name:<28}" + "".join(f"{figures[load]:>14.0f}" for load in loads) for name, figures in found.items()]
    kafka = next(figures for name, figures in found.items() if name.startswith("kafka"))
    lines += ["", f"{'logherd / kafka':<28}" + "".join(f"{load:>14}" for load in loads)]
    for name, figures in found.items():
        if not name.startswith("kafka"):
            ratios = [figures[load] / kafka[load] for load in loads]
            said = "ahead" if min(ratios) >= _AIM else "behind somewhere"
            lines.append(f"{name:<28}" + "".join(f"{ratio:>14.2f}" for ratio in ratios) + f"  {said}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a twentieth of the rows, each job once: does it run?")
    parser.add_argument("--out", type=Path, default=Path("bench-spark.json"), help="where the figures go as JSON")
    options = parser.parse_args()
    before = os.getloadavg()
    with bench_place() as place:
        found = run(place, QUICK if options.quick else FULL, "512m" if options.quick else "1g")
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "load": [before, os.getloadavg()]}
    print("\n".join(table(found)))
    print(f"load of the machine before and after: {before[0]:.1f}, {machine['load'][1][0]:.1f}")  # type: ignore[index]
    options.out.write_text(json.dumps({"rows": found, "machine": machine}, indent=1) + "\n")


if __name__ == "__main__":
    run_bench(main)
