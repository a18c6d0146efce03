"""What a task does, without Spark around it: once for each row, whatever dies, is repeated or comes twice at a time."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from types import SimpleNamespace

import pyarrow as pa
import pytest

from compat.processes import until
from logherd_spark import writers
from logherd_spark import writing as jobs
from logherd_spark.cluster import Cluster, QueueRef
from logherd_spark.encoding import Body
from logherd_spark.errors import BrokerRefused, RowRefused, SourceError, TopicMissing, Unanswered, WriterFenced
from logherd_spark.options import WriteOptions, write_options
from logherd_spark.patience import Patience
from logherd_spark.schema import COLUMNS
from logherd_spark.writers import Identity, Place, Sent, confirm, write_rows
from logherd_spark.writing import LogHerdWriter
from spark.conftest import Site
from spark.rows import batch, by_value, stored

TASK = Place(0, 0)


def writing(site: Site, topic: str, **options: str) -> WriteOptions:
    return write_options({"bootstrap": site.names, "topic": topic, **options}, streaming=False)


def write(
    site: Site, topic: str, batches: Iterator[pa.RecordBatch] | list[pa.RecordBatch], *, run: str = "run-1",
    place: Place = TASK, **options: str,
) -> Sent:  # fmt: skip
    """In small requests, so that something is stored before all rows have come."""
    identity = Identity(f"writer-of-{topic}", run, lasting=True)
    options = {"maxRequestBytes": "1024", **options}
    with closing(site.cluster()) as cluster:
        return write_rows(batches, cluster, writing(site, topic, **options), identity, place)


def numbered(count: int) -> list[str]:
    return [f"value-{number}" for number in range(count)]


def test_rows_are_stored_once_with_all_that_they_say(site: Site, topic: Callable[..., str]) -> None:
    name = topic()
    write(site, name, [batch(range(1000))])
    rows = stored(site.cluster(), name)
    assert sorted(by_value(rows)) == sorted(numbered(1000))
    for row in rows:
        number = int(bytes(row["value"]).decode().removeprefix("value-"))  # type: ignore[call-overload]
        assert (row["key"], row["tags"]) == (f"key-{number % 17}", f"tag-{number % 2}")
        assert dict(row["properties"])["number"] == str(number)  # type: ignore[call-overload]
    assert len({(row["key"], row["queue"]) for row in rows}) == 17, "a key has one queue"


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        (pa.array([5]), "column topic is int64, it must be string"),
        (pa.array([b"\xff"]), "column topic has bytes that are"),
    ],
)
def test_topics_that_are_no_text_are_refused_by_name(topic: pa.Array, said: str) -> None:
    batch = pa.RecordBatch.from_arrays([topic, pa.array(["x"])], names=["topic", "value"])
    options = write_options({"bootstrap": "127.0.0.1:1"}, streaming=False)
    cluster = Cluster(options.bootstrap, Patience(1.0, 0.0))
    with pytest.raises(RowRefused, match=said):
        write_rows([batch], cluster, options, Identity("w", "r", lasting=True), Place(0, 0))


def test_a_task_that_runs_again_adds_only_what_is_missing(site: Site, topic: Callable[..., str]) -> None:
    name = topic()
    batches = [batch(range(at, at + 100)) for at in range(0, 1000, 100)]

    def broken() -> Iterator[pa.RecordBatch]:
        yield from batches[:6]
        until(lambda: bool(stored(site.cluster(), name)), seconds=30, what="a row stored while others are awaited")
        raise RuntimeError("the task died")

    with pytest.raises(RuntimeError, match="the task died"):
        write(site, name, broken())
    assert 0 < len(stored(site.cluster(), name)) <= 600
    for _ in range(2):
        write(site, name, batches)
    assert by_value(stored(site.cluster(), name)) == dict.fromkeys(numbered(1000), 1)


def test_two_attempts_of_one_task_at_once_store_it_once(site: Site, topic: Callable[..., str]) -> None:
    name = topic()
    batches = [batch(range(at, at + 50)) for at in range(0, 1000, 50)]
    with ThreadPoolExecutor(2) as pool:
        sent = list(pool.map(lambda _: write(site, name, batches), range(2)))
    assert sent[0].chunks == sent[1].chunks
    assert by_value(stored(site.cluster(), name)) == dict.fromkeys(numbered(1000), 1)


def test_an_older_driver_is_fenced_by_name_in_the_middle(site: Site, topic: Callable[..., str]) -> None:
    name = topic()
    batches = [batch(range(at, at + 100)) for at in range(0, 400, 100)]

    def interrupted() -> Iterator[pa.RecordBatch]:
        yield batches[0]
        write(site, name, batches, run="run-2")
        yield from batches[1:]

    with pytest.raises(WriterFenced, match=r"was opened by a newer run \(epoch 2\)"):
        write(site, name, interrupted(), run="run-1")
    with pytest.raises(WriterFenced):
        write(site, name, batches, run="run-1")
    assert by_value(stored(site.cluster(), name)) == dict.fromkeys(numbered(400), 1)


@pytest.mark.parametrize("end", [LogHerdWriter.commit, LogHerdWriter.abort])
def test_an_attempt_whose_first_rows_come_after_the_end_of_its_job_stores_nothing(
    site: Site, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch, end: Callable[..., None]
) -> None:
    """As one that Spark has given up for lost, or ran beside another one, and that goes on for a while."""
    name = topic()
    monkeypatch.setattr(jobs, "_context", lambda: SimpleNamespace(partitionId=lambda: 0))
    job = LogHerdWriter(writing(site, name), COLUMNS.__class__([COLUMNS["value"]]))
    end(job, [job.write(iter([batch(range(100))]))])
    with pytest.raises(BrokerRefused, match="it was never opened, was closed, or expired"):
        job.write(iter([batch(range(100))]))
    assert by_value(stored(site.cluster(), name)) == dict.fromkeys(numbered(100), 1)


@pytest.mark.parametrize("given", ["topic", "writeId"])
def test_such_an_attempt_doubles_nothing_of_rows_that_name_their_topics_if_the_job_names_a_topic_or_itself(
    site: Site, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """With neither its driver knows no group in which to open the writer, and each task does it anew."""
    name = topic()
    monkeypatch.setattr(jobs, "_context", lambda: SimpleNamespace(partitionId=lambda: 0))
    options = {"bootstrap": site.names, given: topic()}
    job = LogHerdWriter(
        write_options(options, streaming=False), COLUMNS.__class__([COLUMNS["value"], COLUMNS["topic"]])
    )
    rows = pa.RecordBatch.from_pydict({"value": [b"value-0", b"value-1"], "topic": [name, name]})
    job.commit([job.write(iter([rows]))])
    with suppress(BrokerRefused):
        job.write(iter([rows]))
    assert by_value(stored(site.cluster(), name)) == dict.fromkeys(numbered(2), 1)


def test_an_attempt_that_had_rows_before_the_end_of_its_job_stores_nothing_after_it(
    site: Site, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where each task opens the writer: it has done so with its first rows, however long they wait for others."""
    name = topic()
    monkeypatch.setattr(jobs, "_context", lambda: SimpleNamespace(partitionId=lambda: 0))
    columns = COLUMNS.__class__([COLUMNS["value"], COLUMNS["topic"]])
    job = LogHerdWriter(write_options({"bootstrap": site.names}, streaming=False), columns)
    rows = pa.RecordBatch.from_pydict({"value": [b"value-0", b"value-1"], "topic": [name, name]})

    def late() -> Iterator[pa.RecordBatch]:
        yield rows
        job.commit([job.write(iter([rows]))])

    with pytest.raises(BrokerRefused, match="it was never opened, was closed, or expired"):
        job.write(late())
    assert by_value(stored(site.cluster(), name)) == dict.fromkeys(numbered(2), 1)


class Requests:
    """What would be sent."""

    def __init__(self) -> None:
        self.begun: list[QueueRef] = []
        self.sent: list[tuple[QueueRef, bytes]] = []

    def begin(self, queue: QueueRef) -> None:
        self.begun.append(queue)

    def send(self, queue: QueueRef, body: bytes) -> None:
        self.sent.append((queue, body))

    def finish(self) -> Sent:
        return Sent()


def test_bodies_for_one_queue_are_joined_in_their_order_and_by_the_broker_groups_bounds() -> None:
    here, there = QueueRef("t", "g", 0), QueueRef("t", "other", 0)
    requests = Requests()
    joined = writers._Joined(requests, 10)
    for queue, messages, data in [
        (here, 1, b"aaa"), (there, 1, b"b"), (here, 1, b"cccc"), (here, 1, b"dddd"), (there, 32_767, b"e"),
        (there, 1, b"f"), (here, 1, b"g" * 6),
    ]:  # fmt: skip
        joined.send(queue, Body(0, messages, data))
        assert requests.begun[-1] == queue
    joined.finish()
    assert requests.sent == [
        (here, b"aaacccc"), (there, b"be"), (here, b"dddd" + b"g" * 6), (there, b"f"),
    ]  # fmt: skip


def test_other_rows_in_the_same_place_fail_the_task(site: Site, topic: Callable[..., str]) -> None:
    name = topic()
    write(site, name, [batch(range(100))])
    with pytest.raises(BrokerRefused, match="was stored with other content"):
        write(site, name, [batch(range(1, 101))])
    assert by_value(stored(site.cluster(), name)) == dict.fromkeys(numbered(100), 1)


def test_what_batches_have_for_one_queue_goes_in_one_request_as_far_as_one_has_room(
    site: Site, topic: Callable[..., str]
) -> None:
    name = topic()
    batches = [batch(range(at, at + 100)) for at in range(0, 1000, 100)]
    queues = len(stored_by_queue(site, name, batches, maxRequestBytes="1000000"))
    assert 1 < queues <= 4
    assert sum(write(site, name, batches, maxRequestBytes="1000000").chunks.values()) == queues
    assert by_value(stored(site.cluster(), name)) == dict.fromkeys(numbered(1000), 1)


def stored_by_queue(site: Site, topic: str, batches: list[pa.RecordBatch], **options: str) -> set[object]:
    write(site, topic, batches, **options)
    return {row["queue"] for row in stored(site.cluster(), topic)}


def test_no_more_than_so_much_waits_for_others_of_its_queue(
    site: Site, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "_JOINED_BYTES_MAX", 10_000)
    name = topic()

    def rows() -> Iterator[pa.RecordBatch]:
        for at in range(0, 1000, 100):
            yield batch(range(at, at + 100))
        until(lambda: bool(stored(site.cluster(), name)), seconds=30, what="a row stored while others are awaited")

    write(site, name, rows(), maxRequestBytes="1000000")
    assert by_value(stored(site.cluster(), name)) == dict.fromkeys(numbered(1000), 1)


def test_a_retry_with_fewer_rows_fails_when_it_is_to_count(site: Site, topic: Callable[..., str]) -> None:
    name = topic()
    identity = Identity(f"writer-of-{name}", "run-1", lasting=True)
    # Rows without keys go to another queue with each batch, so the second one has chunks of its own.
    batches = [pa.record_batch({"value": [f"value-{at}".encode()]}) for at in range(2)]
    write(site, name, batches)
    sent = write(site, name, batches[:1])
    with closing(site.cluster()) as cluster, pytest.raises(SourceError, match="the plan is not deterministic"):
        confirm(cluster, identity, 0, [sent])
    whole = write(site, name, batches)
    with closing(site.cluster()) as cluster:
        confirm(cluster, identity, 0, [whole])


@pytest.mark.timeout(180)
@pytest.mark.parametrize("round_number", range(3))
def test_a_leader_that_dies_in_the_middle_loses_and_repeats_nothing(
    site: Site, topic: Callable[..., str], round_number: int
) -> None:
    name = topic()
    died = threading.Event()

    def slowly() -> Iterator[pa.RecordBatch]:
        for at in range(0, 6000, 100):
            yield batch(range(at, at + 100))
            if at == 1000 * (round_number + 1):
                killer.start()
            if at > 5000:
                assert died.wait(60)

    def kill() -> None:
        site.broker.kill()
        time.sleep(0.3)
        site.broker.start()
        died.set()

    killer = threading.Thread(target=kill)
    write(site, name, slowly())
    killer.join()
    assert by_value(stored(site.cluster(), name)) == dict.fromkeys(numbered(6000), 1)


def test_at_least_once_speaks_what_any_rocketmq_understands_and_marks_rows(
    site: Site, topic: Callable[..., str]
) -> None:
    name = topic()
    for _ in range(2):
        write(site, name, [batch(range(60))], guarantee="at-least-once")
    rows = stored(site.cluster(), name)
    assert by_value(rows) == dict.fromkeys(numbered(60), 2)
    marks = {(bytes(row["value"]), dict(row["properties"])["LH_UID"]) for row in rows}  # type: ignore[call-overload]
    assert len(marks) == 60, "a row has the same mark whenever it is sent"


def test_a_topic_that_is_not_there_and_a_cluster_that_is_not_there_are_told(site: Site) -> None:
    with pytest.raises(TopicMissing, match=r"topic nothing does not exist: 127\.0\.0\.1"):
        write(site, "nothing", [batch(range(1))])
    cluster = Cluster(("127.0.0.1:1",), Patience(0.2, 0.3))
    with closing(cluster), pytest.raises(Unanswered, match=r"no name server of 127\.0\.0\.1:1 answered .*refused"):
        cluster.route("nothing")
