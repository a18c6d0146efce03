"""Streaming queries of a real Spark against a real broker: micro-batches, limits, restarts, late drivers."""

import json
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from logherd_spark.bounds import latest, queues_of
from logherd_spark.errors import WriterFenced
from logherd_spark.options import write_options
from logherd_spark.versions import HAS_LIMITS
from logherd_spark.writers import Identity, Place, write_rows
from spark.conftest import Site
from spark.rows import batch, by_value, stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]


def put(site: Site, topic: str, numbers: range, *, writer: str) -> None:
    """Rows from somebody else than the query."""
    options = write_options({"bootstrap": site.names, "topic": topic}, streaming=False)
    with closing(site.cluster()) as cluster:
        write_rows([batch(numbers)], cluster, options, Identity(writer, "run", lasting=True), Place(0, 0))


def source(spark: "SparkSession", site: Site, topic: str, **options: str) -> "DataFrame":
    settings = {"bootstrap": site.names, "subscribe": topic, "startingOffsets": "earliest", **options}
    return spark.readStream.format("logherd").options(**settings).load()


def run(frame: "DataFrame", site: Site, topic: str, checkpoint: Path) -> "StreamingQuery":
    """Copy everything that is there to a topic, and end."""
    query = (
        frame.select("key", "value", "tags").writeStream.format("logherd")
        .options(bootstrap=site.names, topic=topic, pipelineId="copy", checkpointLocation=str(checkpoint))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    return query


def limited(rows: int) -> dict[str, str]:
    """Micro-batches of so many rows, where this Spark has such limits."""
    return {"maxOffsetsPerTrigger": str(rows)} if HAS_LIMITS else {}


def values(numbers: range) -> dict[str, int]:
    return {f"value-{number}": 1 for number in numbers}


def test_a_stream_copies_each_row_once_in_limited_batches_and_goes_on_where_it_was(
    spark: "SparkSession", site: Site, topic: Callable[..., str], tmp_path: Path
) -> None:
    origin, copy, checkpoint = topic(), topic(), tmp_path / "checkpoint"
    put(site, origin, range(1000), writer="a")
    first = run(source(spark, site, origin, **limited(400)), site, copy, checkpoint)
    sizes = [each["numInputRows"] for each in first.recentProgress if each["numInputRows"]]
    assert sizes == ([400, 400, 200] if HAS_LIMITS else [1000])
    assert by_value(stored(site.cluster(), copy)) == values(range(1000))
    put(site, origin, range(1000, 1300), writer="b")
    second = run(source(spark, site, origin), site, copy, checkpoint)
    assert second.id == first.id
    assert by_value(stored(site.cluster(), copy)) == values(range(1300))
    offsets = json.loads((checkpoint / "offsets" / str(len(sizes))).read_text().splitlines()[-1])
    assert set(offsets) == {origin, "#before"}
    assert sum(offsets[origin].values()) == 1300
    assert all(name.startswith("bg:") for name in offsets[origin])


def test_a_micro_batch_that_is_repeated_after_a_restart_adds_nothing_and_fences_the_older_driver(
    spark: "SparkSession", site: Site, topic: Callable[..., str], tmp_path: Path
) -> None:
    origin, copy, checkpoint = topic(), topic(), tmp_path / "checkpoint"
    put(site, origin, range(600), writer="a")
    older = run(source(spark, site, origin), site, copy, checkpoint)
    # As if the driver had died after its tasks were done and before it noted that: the batch is run again.
    for path in (checkpoint / "commits").iterdir():
        path.unlink()
    newer = run(source(spark, site, origin), site, copy, checkpoint)
    assert newer.runId != older.runId
    assert newer.recentProgress[0]["numInputRows"] == 600
    assert by_value(stored(site.cluster(), copy)) == values(range(600))
    options = write_options({"bootstrap": site.names, "topic": copy}, streaming=True)
    late = Identity(f"copy:{older.id}", str(older.runId), lasting=True)
    with closing(site.cluster()) as cluster, pytest.raises(WriterFenced, match="was opened by a newer run"):
        write_rows([batch(range(9))], cluster, options, late, Place(0, 1))
    assert by_value(stored(site.cluster(), copy)) == values(range(600))


def test_a_leader_that_dies_under_a_stream_loses_and_repeats_nothing(
    spark: "SparkSession", site: Site, topic: Callable[..., str], tmp_path: Path
) -> None:
    origin, copy = topic(), topic()
    for at in range(0, 20_000, 2000):
        put(site, origin, range(at, at + 2000), writer=f"w{at}")
    done = threading.Event()

    def kill() -> None:
        for share in (1, 8000):
            with closing(site.cluster()) as cluster:
                while not done.is_set() and sum(latest(cluster, queues_of(cluster, [copy])).values()) < share:
                    time.sleep(0.01)
            site.broker.kill()
            time.sleep(0.2)
            site.broker.start()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        run(source(spark, site, origin, **limited(5000)), site, copy, tmp_path / "checkpoint")
    finally:
        done.set()
        killer.join()
    assert by_value(stored(site.cluster(), copy)) == values(range(20_000))


def test_a_checkpoint_of_yesterday_is_read_today(
    spark: "SparkSession", site: Site, topic: Callable[..., str], tmp_path: Path
) -> None:
    """The golden checkpoint stands at offset 40 of the only queue of a topic."""
    origin, copy, checkpoint = topic(1), topic(), tmp_path / "checkpoint"
    shutil.copytree(Path(__file__).parent / "golden" / "checkpoint-1", checkpoint)
    for path in checkpoint.rglob("*"):
        if path.is_file():
            path.write_text(path.read_text().replace("golden-topic", origin))
    put(site, origin, range(100), writer="a")
    run(source(spark, site, origin), site, copy, checkpoint)
    assert by_value(stored(site.cluster(), copy)) == values(range(40, 100))


def test_a_checkpoint_of_another_topic_of_that_name_ends_the_stream_unless_that_is_allowed(
    spark: "SparkSession", site: Site, topic: Callable[..., str], tmp_path: Path
) -> None:
    origin, other, copy, checkpoint = topic(1), topic(1), topic(), tmp_path / "checkpoint"
    put(site, origin, range(40), writer="a")
    run(source(spark, site, origin), site, copy, checkpoint)
    for path in checkpoint.rglob("*"):
        if path.is_file() and not path.name.endswith(".crc"):
            path.write_text(path.read_text().replace(origin, other))
    for path in checkpoint.rglob(".*.crc"):
        path.unlink()
    put(site, other, range(1000, 1100), writer="b")
    with pytest.raises(Exception, match=r"message 39 is another one .*to go on at offset 40: .*failOnDataLoss=false"):
        run(source(spark, site, other), site, copy, checkpoint)
    run(source(spark, site, other, failOnDataLoss="false"), site, copy, checkpoint)
    assert by_value(stored(site.cluster(), copy)) == {**values(range(40)), **values(range(1040, 1100))}


@pytest.mark.skipif(not HAS_LIMITS, reason="before 4.2 Spark asks for an end without saying where the stream is")
def test_a_first_micro_batch_that_is_repeated_begins_where_it_began(
    spark: "SparkSession", site: Site, topic: Callable[..., str], tmp_path: Path
) -> None:
    origin, checkpoint = topic(1), tmp_path / "checkpoint"
    put(site, origin, range(40), writer="a")
    seen: list[tuple[int, int]] = []

    def count(starting: str) -> None:
        query = (
            source(spark, site, origin, startingOffsets=starting).writeStream.trigger(availableNow=True)
            .foreachBatch(lambda rows, number: seen.append((number, rows.count())))
            .option("checkpointLocation", str(checkpoint)).start()
        )  # fmt: skip
        query.awaitTermination()

    count(json.dumps({origin: {"0": 25}}))
    # As if the driver had died in it; and where it began was the latest then.
    for path in (checkpoint / "commits").iterdir():
        path.unlink()
    count("latest")
    assert seen == [(0, 15), (0, 15)]


def test_messages_that_are_gone_stop_a_stream_unless_that_is_allowed(
    spark: "SparkSession", site: Site, topic: Callable[..., str], tmp_path: Path
) -> None:
    origin, copy = topic(1), topic()
    put(site, origin, range(50), writer="a")
    starting = json.dumps({origin: {"0": 70}})
    with pytest.raises(Exception, match=r"the queue ends at 50; to go on .*failOnDataLoss=false"):
        spark.read.format("logherd").options(
            bootstrap=site.names, subscribe=origin, startingOffsets=starting
        ).load().count()  # fmt: skip
    allowed = {"startingOffsets": starting, "failOnDataLoss": "false"}
    run(source(spark, site, origin, **allowed), site, copy, tmp_path / "checkpoint")
    assert stored(site.cluster(), copy) == []
