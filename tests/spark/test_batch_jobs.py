"""Batch jobs of a real Spark against a real broker, compared row by row."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from logherd_spark.bounds import latest, queues_of
from logherd_spark.cluster import Cluster
from logherd_spark.patience import Patience
from logherd_spark.versions import HAS_FILTERS
from spark.conftest import Site
from spark.rows import batch, by_value, stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]


def events(spark: "SparkSession", count: int, *, parts: int = 3) -> "DataFrame":
    from pyspark.sql import functions

    number = functions.col("id").cast("string")
    return spark.range(0, count, 1, parts).select(
        functions.concat(functions.lit("key-"), (functions.col("id") % 17).cast("string")).alias("key"),
        functions.concat(functions.lit("value-"), number).alias("value"),
        functions.concat(functions.lit("tag-"), (functions.col("id") % 2).cast("string")).alias("tags"),
        functions.create_map(functions.lit("number"), number).alias("properties"),
    )


def write(frame: "DataFrame", site: Site, topic: str, **options: str) -> None:
    settings = {"bootstrap": site.names, "topic": topic, **options}
    frame.write.format("logherd").options(**settings).mode("append").save()


def read(spark: "SparkSession", site: Site, topic: str, **options: Any) -> "DataFrame":
    settings = {"bootstrap": site.names, "subscribe": topic, **options}
    return spark.read.format("logherd").options(**settings).load()


def values(count: int) -> dict[str, int]:
    return {f"value-{number}": 1 for number in range(count)}


def test_what_a_job_writes_a_job_reads(spark: "SparkSession", site: Site, topic: Callable[..., str]) -> None:
    name = topic()
    write(events(spark, 5000), site, name)
    found = read(spark, site, name).collect()
    assert {row.value.decode(): 1 for row in found} == values(5000)
    assert len(found) == 5000
    for row in found:
        number = int(row.value.decode().removeprefix("value-"))
        assert (row.key, row.tags, row.topic) == (f"key-{number % 17}", f"tag-{number % 2}", name)
        assert row.properties["number"] == str(number)
    offsets = {(row.queue, row.offset) for row in found}
    assert len(offsets) == 5000
    ends = {queue: max(offset for of, offset in offsets if of == queue) + 1 for queue, _ in offsets}
    assert sum(ends.values()) == 5000


def test_ranges_filters_columns_and_tags_give_what_they_say(
    spark: "SparkSession", site: Site, topic: Callable[..., str]
) -> None:
    name = topic(2)
    write(events(spark, 1000, parts=1), site, name)
    with closing(site.cluster()) as cluster:
        ends = {queue.queue_id: end for queue, end in latest(cluster, queues_of(cluster, [name])).items()}
    starting = f'{{"{name}": {{"0": 5, "1": -2}}}}'
    ending = f'{{"{name}": {{"0": 25, "bg:1": -1}}}}'
    part = read(spark, site, name, startingOffsets=starting, endingOffsets=ending).groupBy("queue").count()
    assert {row["queue"]: row["count"] for row in part.collect()} == {0: 20, 1: ends[1]}
    only = read(spark, site, name, filterPushdown=str(HAS_FILTERS)).where("queue = 1 and offset >= 10 and offset < 14")
    assert sorted(row.offset for row in only.collect()) == [10, 11, 12, 13]
    assert only.rdd.getNumPartitions() == (1 if HAS_FILTERS else 2)
    tagged = read(spark, site, name, tags="tag-1").select("value")
    assert sorted(row.value.decode() for row in tagged.collect()) == sorted(f"value-{n}" for n in range(1, 1000, 2))
    narrow = (
        spark.read.format("logherd").schema("offset bigint, key string")
        .options(bootstrap=site.names, subscribe=name, minPartitions="6").load()
    )  # fmt: skip
    assert narrow.rdd.getNumPartitions() >= 6
    assert narrow.count() == 1000
    assert narrow.columns == ["offset", "key"]


def test_a_range_by_time_begins_where_the_time_does(
    spark: "SparkSession", site: Site, topic: Callable[..., str]
) -> None:
    name = topic(1)
    write(events(spark, 100, parts=1), site, name)
    time.sleep(0.05)
    between = time.time_ns() // 1_000_000
    time.sleep(0.05)
    write(events(spark, 50, parts=1), site, name)
    assert read(spark, site, name, startingTimestamp=between).count() == 50
    assert read(spark, site, name, endingTimestamp=between).count() == 100


def _dies_once(site: Site, topic: str, rows: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Passes batches on; a task's first attempt dies once some of its topic's rows are stored."""
    names = site.names

    def through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        first = context is not None and context.attemptNumber() == 0
        seen = 0
        for each in batches:
            yield each
            seen += each.num_rows
            if first and seen >= rows:
                with closing(Cluster((names,), Patience())) as cluster:
                    deadline = time.monotonic() + 20
                    while not any(latest(cluster, queues_of(cluster, [topic])).values()):
                        if time.monotonic() > deadline:
                            break  # nothing comes through before this task's end: then let it die all the same
                        time.sleep(0.05)
                raise RuntimeError("this attempt was told to die")

    return through


def test_a_task_that_fails_and_is_tried_again_stores_each_row_once(
    spark: "SparkSession", site: Site, topic: Callable[..., str]
) -> None:
    name = topic()
    frame = events(spark, 8000, parts=2)
    at_once = {"maxRequestBytes": "1024"}  # so that rows are stored while others are awaited
    write(frame.mapInArrow(_dies_once(site, name, 3000), frame.schema), site, name, **at_once)
    assert by_value(stored(site.cluster(), name)) == values(8000)


def test_a_job_that_is_run_again_with_its_write_id_adds_nothing(
    spark: "SparkSession", site: Site, topic: Callable[..., str]
) -> None:
    name = topic()
    for _ in range(2):
        write(events(spark, 2000), site, name, writeId=f"nightly-{name}")
    assert by_value(stored(site.cluster(), name)) == values(2000)
    write(events(spark, 2000), site, name)
    assert sum(by_value(stored(site.cluster(), name)).values()) == 4000


def test_a_job_that_is_run_again_with_other_rows_fails(
    spark: "SparkSession", site: Site, topic: Callable[..., str]
) -> None:
    name = topic()
    write(events(spark, 2000), site, name, writeId=f"nightly-{name}")
    with pytest.raises(Exception, match="was stored with other content"):
        write(events(spark, 2001), site, name, writeId=f"nightly-{name}")


def test_a_leader_that_dies_during_a_job_loses_and_repeats_nothing(
    spark: "SparkSession", site: Site, topic: Callable[..., str]
) -> None:
    name = topic()
    done = threading.Event()

    def kill() -> None:
        with closing(site.cluster()) as cluster:
            while not done.is_set() and not any(latest(cluster, queues_of(cluster, [name])).values()):
                time.sleep(0.01)
        site.broker.kill()
        time.sleep(0.2)
        site.broker.start()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        write(events(spark, 60_000, parts=4), site, name)
    finally:
        done.set()
        killer.join()
    assert by_value(stored(site.cluster(), name)) == values(60_000)
    assert read(spark, site, name).count() == 60_000


def test_mistakes_and_dead_clusters_are_told_in_a_sentence(
    spark: "SparkSession", site: Site, topic: Callable[..., str]
) -> None:
    name = topic()
    with pytest.raises(Exception, match=r"unknown option for reading: starting_offsets; known are"):
        read(spark, site, name, starting_offsets="earliest").count()
    with pytest.raises(Exception, match=r"topic nothing does not exist"):
        write(events(spark, 1), site, "nothing")
    settings = {"bootstrap": "127.0.0.1:1", "subscribe": name, "deliveryTimeoutMs": "300"}
    with pytest.raises(Exception, match=r"no name server of 127\.0\.0\.1:1 answered") as caught:
        spark.read.format("logherd").options(**settings).load().count()
    assert str(caught.value).count("File ") <= 1, "the way that an error took is not shown"
    with pytest.raises(Exception, match=r"there is no column partition to write"):
        write(events(spark, 1).withColumnRenamed("key", "partition"), site, name)


def test_rows_name_their_topics_and_queues(spark: "SparkSession", site: Site, topic: Callable[..., str]) -> None:
    first, second = topic(), topic()
    rows = [("a", first, 0), ("b", second, 3), ("c", first, 2), ("d", second, 3)]
    frame = spark.createDataFrame(rows, "value string, topic string, queue int")
    frame.coalesce(1).write.format("logherd").option("bootstrap", site.names).mode("append").save()
    found = read(spark, site, f"{first},{second}").collect()
    assert sorted((row.value.decode(), row.topic, row.queue) for row in found) == sorted(rows)


def test_what_other_producers_wrote_is_read(spark: "SparkSession", site: Site, topic: Callable[..., str]) -> None:
    from logherd_spark.options import write_options
    from logherd_spark.writers import Identity, Place, write_rows

    name = topic()
    options = write_options({"bootstrap": site.names, "topic": name, "guarantee": "at-least-once"}, streaming=False)
    with closing(site.cluster()) as cluster:
        write_rows([batch(range(300))], cluster, options, Identity("any", "run", lasting=False), Place(0, 0))
    assert {row.value.decode() for row in read(spark, site, name).collect()} == set(values(300))
