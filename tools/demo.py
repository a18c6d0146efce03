"""`make demo`: 336,776 real events go through a group whose leader is killed meanwhile, and arrive once each.

python tools/demo.py [--rows N] [--report FILE.html] [--json FILE]
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from demo_group import DemoGroup, Leader, Trouble
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))

import flights as example  # noqa: E402 -- the path has to be there first
import flights_page  # noqa: E402
from pyspark.errors import PySparkException  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

from logherd_spark.bounds import latest, queues_of  # noqa: E402
from logherd_spark.cluster import Cluster  # noqa: E402
from logherd_spark.errors import SourceError  # noqa: E402
from logherd_spark.patience import Patience  # noqa: E402

QUEUES = 8
KILL_AT = 0.25
TRIES = 3
POLL_SECONDS = 0.05
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kill:
    """The leader's death: who it was, how many rows were stored by then, when it was gone, who leads since."""

    old: Leader
    new: Leader
    rows_before: int
    at_ms: int


class Screen:
    """Bars on a terminal, a line for each finished step elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        columns = (
            TextColumn("{task.description}"), BarColumn(bar_width=30), TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
        )  # fmt: skip
        self._bars = Progress(*columns, console=console, disable=not console.is_terminal)

    @contextmanager
    def shown(self) -> Iterator[None]:
        with self._bars:
            yield

    @contextmanager
    def step(self, text: str, total: int | None = None) -> Iterator[Callable[[int, int], None]]:
        """A step of the work; what it gives takes how far it is, and of how many."""
        bar: TaskID = self._bars.add_task(text, total=total, count="")
        began = time.monotonic()

        def move(done: int, of: int) -> None:
            self._bars.update(bar, completed=done, total=of, count=f"{done:,} of {of:,}" if of else "")

        yield move
        self._bars.update(bar, total=1, completed=1)
        self._bars.stop_task(bar)
        if not self.console.is_terminal:
            self.console.print(f"{text}: {time.monotonic() - began:.1f} s")


def watched(work: Callable[[], T], look: Callable[[], None]) -> T:
    """Do the work; look now and then how far it is."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(POLL_SECONDS):
            look()

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        try:
            result = work()
        finally:
            done.set()
    watching.result()
    return result


class Writing:
    """One write through a leader's death: counts what is stored meanwhile, and kills the leader on the way."""

    def __init__(self, group: DemoGroup, topic: str, rows: int, move: Callable[[int, int], None]) -> None:
        self._group, self._topic, self._rows, self._move = group, topic, rows, move
        self._cluster = Cluster(group.name_servers.split(","), Patience(), any_broker=True)
        self._killing: Future[Kill] | None = None

    def through_a_kill(self, write: Callable[[], None]) -> Kill | None:
        """None if the write was over before it came to that."""
        with ThreadPoolExecutor(1) as pool, closing(self._cluster):
            watched(write, lambda: self._look(pool))
            return None if self._killing is None else self._killing.result()

    def _look(self, pool: ThreadPoolExecutor) -> None:
        stored = sum(latest(self._cluster, queues_of(self._cluster, [self._topic])).values())
        self._move(stored, self._rows)
        if self._killing is None and stored >= self._rows * KILL_AT:
            self._killing = pool.submit(self._kill, stored)

    def _kill(self, stored: int) -> Kill:
        old = self._group.kill_leader()
        at_ms = time.time_ns() // 1_000_000
        return Kill(old, self._group.leader(), stored, at_ms)


def tasks_of(spark: SparkSession, move: Callable[[int, int], None]) -> Callable[[], None]:
    """Shows how many of the tasks that Spark has begun with are done."""
    seen: dict[int, tuple[int, int]] = {}
    tracker = spark.sparkContext.statusTracker()

    def look() -> None:
        for stage in tracker.getActiveStageIds():
            known = tracker.getStageInfo(stage)
            if known is not None:
                seen[stage] = known.numCompletedTasks, known.numTasks
        active = set(tracker.getActiveStageIds())
        done = sum(done if stage in active else of for stage, (done, of) in seen.items())
        move(done, sum(of for _, of in seen.values()))

    return look


def write_through_a_kill(
    spark: SparkSession, group: DemoGroup, file: Path, rows: int, screen: Screen
) -> tuple[str, Kill, example.Outcome]:
    """The topic that was written, the leader's death meanwhile, and what is stored: again if the write was faster."""
    options = {"bootstrap": group.name_servers}
    for attempt in range(TRIES):
        topic = f"flights-{attempt}"
        group.create_topic(topic, QUEUES)
        with screen.step("write, and kill the leader", rows) as move:
            kill = Writing(group, topic, rows, move).through_a_kill(
                lambda topic=topic: example.write(spark, file, options, topic, topic)
            )
            move(rows, rows)
        with screen.step("compare row by row") as move:
            outcome = watched(
                lambda topic=topic: example.judge(spark, options, topic, sent=rows), tasks_of(spark, move)
            )
        if kill is not None and outcome.stored_after(kill.at_ms):
            return topic, kill, outcome
        screen.console.print("the write was over before the leader was dead; once more")
    raise Trouble(f"{rows:,} rows are written faster than a process can be killed; take more")


def demonstrate(rows_max: int | None, report: Path, told: Path | None, screen: Screen, log: Path) -> bool:
    """Everything; whether every row arrived once and in order."""
    began = time.monotonic()
    with DemoGroup() as group, quiet(log), screen.shown():
        with screen.step("start Spark and three brokers"):
            file = group.folder / "flights.parquet"
            rows = example.flights(file, rows_max=rows_max)
            spark = example.session(spark__ui__showConsoleProgress="false")
            seconds_up = group.await_ready()
        with stopping(spark):
            topic, kill, outcome = write_through_a_kill(spark, group, file, rows, screen)
            with screen.step("stream back, by route and month") as move:
                options = {"bootstrap": group.name_servers}
                means = watched(lambda: example.delays(spark, options, topic), tasks_of(spark, move))
    outage = outcome.pause(kill.at_ms)
    routes = flights_page.worst(means, flights_min=min(300, rows // 200))
    lines = [*example.shown(outcome), ("outage", f"{outage:.2f} s"), *example.shown_routes(routes)]
    report.write_text(flights_page.page(lines, means, routes, outcome.times, killed_ms=kill.at_ms))
    print_table(screen.console, lines, kill, outcome)
    screen.console.print(f"the same with plots: {report}   ({time.monotonic() - began:.0f} s in all)")
    if told is not None:
        numbers = {name: getattr(outcome, name) for name in ("sent", "stored", "lost", "duplicated", "misplaced")}
        document = {
            **numbers, "kill": asdict(kill), "storedAfterKill": outcome.stored_after(kill.at_ms), "outage": outage,
            "secondsToStart": seconds_up, "routes": len(routes),
        }  # fmt: skip
        told.write_text(json.dumps(document, indent=2))
    return outcome.right


@contextmanager
def stopping(spark: SparkSession) -> Iterator[None]:
    """Stop Spark behind the block.

    Not after Ctrl-C, which may have come in the middle of an answer of its process: then that understands nothing more,
    and ends with ours.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException:
        spark.stop()
        raise
    spark.stop()


def print_table(console: Console, lines: list[tuple[str, str]], kill: Kill, outcome: example.Outcome) -> None:
    table = Table(show_header=False, title="Flights from New York, 2013", title_justify="left")
    table.add_column()
    table.add_column(justify="right")
    for line in lines:
        table.add_row(*line)
    console.print(table)
    after = outcome.stored_after(kill.at_ms)
    console.print(
        f"broker {kill.old.broker} led and was killed (pid {kill.old.pid}) in the middle; broker {kill.new.broker} "
        f"leads since, and stored {after:,} of the rows"
    )


@contextmanager
def quiet(log: Path) -> Iterator[None]:
    """What the Java machine says goes to a file: it would be written across the bars."""
    own = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(own, 2)
        os.close(own)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, help="only so many of the flights")
    parser.add_argument("--report", type=Path, default=Path("flights.html"), help="page to write")
    parser.add_argument("--json", type=Path, help="the numbers, for programs")
    given = parser.parse_args()
    log = given.report.with_suffix(".log")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started is stopped then, too
    try:
        right = demonstrate(given.rows, given.report, given.json, Screen(Console(highlight=False)), log)
    except (Trouble, SourceError, PySparkException) as error:
        print(f"make demo: {str(error).partition(chr(10))[0]}\nwhat Spark said is in {log}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
