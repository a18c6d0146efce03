"""Through the leader of a replicated group that is killed: the next one knows what was written, and takes the rest."""

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from logherd_spark.cluster import Cluster
from logherd_spark.errors import WriterFenced
from logherd_spark.options import write_options
from logherd_spark.writers import Identity, Place, Sent, confirm, write_rows
from spark.conftest import PATIENCE, make_topic
from spark.group import LoopbackGroup
from spark.rows import batch, by_value, stored
from spark.test_batch_jobs import events, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.timeout(400), pytest.mark.slow]


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackGroup]:
    with LoopbackGroup(tmp_path_factory.mktemp("group")) as made:
        yield made


def new_topic(group: LoopbackGroup) -> str:
    return make_topic(group.address[group.leader()], group.names, 4)


def write(group: LoopbackGroup, topic: str, batches: Iterator[pa.RecordBatch], *, run: str = "run-1") -> Sent:
    """Row by row: some are stored before all have come, and fewer rows are the same requests as far as they go."""
    options = write_options({"bootstrap": group.names, "topic": topic, "maxRequestBytes": "110"}, streaming=False)
    with closing(Cluster((group.names,), PATIENCE)) as cluster:
        return write_rows(batches, cluster, options, Identity(topic, run, lasting=True), Place(0, 0))


def change_leader(group: LoopbackGroup) -> None:
    """Kill the one that leads; when another does, the killed one comes back."""
    leader = group.leader()
    group.kill(leader)
    group.leader(but=leader)
    group.start(str(leader))


def test_rows_written_through_leaders_that_die_are_stored_once(group: LoopbackGroup) -> None:
    topic = new_topic(group)
    changed = threading.Event()

    def rows() -> Iterator[pa.RecordBatch]:
        for at in range(0, 6000, 100):
            yield batch(range(at, at + 100))
            if at == 2000:
                change.start()
            if at == 5000:
                assert changed.wait(120)

    def leave() -> None:
        change_leader(group)
        changed.set()

    change = threading.Thread(target=leave)
    sent = write(group, topic, rows())
    change.join()
    assert by_value(stored(Cluster((group.names,), PATIENCE), topic)) == dict.fromkeys(values(6000), 1)
    with closing(Cluster((group.names,), PATIENCE)) as cluster:
        confirm(cluster, Identity(topic, "run-1", lasting=True), 0, [sent])


def test_a_new_leader_knows_what_was_written_and_who_may_write(group: LoopbackGroup) -> None:
    topic = new_topic(group)
    batches = [batch(range(at, at + 100)) for at in range(0, 1000, 100)]
    write(group, topic, iter(batches[:6]), run="run-1")
    write(group, topic, iter(batches[:3]), run="run-2")
    change_leader(group)
    with pytest.raises(WriterFenced):
        write(group, topic, iter(batches), run="run-1")
    write(group, topic, iter(batches), run="run-2")
    assert by_value(stored(Cluster((group.names,), PATIENCE), topic)) == dict.fromkeys(values(1000), 1)


def test_a_job_goes_on_through_a_change_of_leader(spark: "SparkSession", group: LoopbackGroup) -> None:
    topic = new_topic(group)
    change = threading.Timer(1.0, change_leader, [group])
    change.start()
    frame = events(spark, 40_000, parts=4)
    try:
        frame.write.format("logherd").options(bootstrap=group.names, topic=topic).mode("append").save()
    finally:
        change.join()
    assert by_value(stored(Cluster((group.names,), PATIENCE), topic)) == values(40_000)
    found = spark.read.format("logherd").options(bootstrap=group.names, subscribe=topic).load()
    assert found.count() == 40_000
