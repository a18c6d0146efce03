"""What a client makes of a name service that knows less for a while than it did."""

from collections.abc import Iterator
from typing import ClassVar, cast

import pyarrow as pa
import pytest

from logherd.wire.bodies import encode_body
from logherd.wire.bodies.routes import BrokerData, TopicRoute
from logherd.wire.codes import ResponseCode
from logherd.wire.frame import Frame
from logherd_spark import cluster as cluster_module
from logherd_spark.bounds import queues_of, resolve
from logherd_spark.cluster import Cluster, QueueRef, Route
from logherd_spark.connection import Connection, ConnectionLost
from logherd_spark.errors import OptionRefused, TopicMissing
from logherd_spark.options import read_options, write_options
from logherd_spark.patience import Patience
from logherd_spark.writers import Identity, Place, write_rows
from spark.rows import batch

QUEUES = (QueueRef("Events", "a", 0), QueueRef("Events", "a", 1))
ROUTE = Route(QUEUES, QUEUES, {"a": ("host:1",)})


class Forgetful(Cluster):
    """A name service that gives these answers, the last one for ever; None: it knows no such topic."""

    def __init__(self, *answers: Route | None) -> None:
        super().__init__(("names:9876",), Patience(1.0, 0.0))
        self.answers = list(answers)

    def _ask_route(self, topic: str) -> Route:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            raise TopicMissing(f"topic {topic} does not exist: names:9876 does not know it")
        return answer


def test_a_topic_that_the_name_service_forgets_is_looked_for_where_it_was() -> None:
    """As while all brokers of its group start again, or a name server of RocketMQ does: a stream must outlive that."""
    cluster = Forgetful(ROUTE, None)
    assert queues_of(cluster, ["Events"], fresh=True) == list(QUEUES)
    assert queues_of(cluster, ["Events"], fresh=True) == list(QUEUES)


def test_a_topic_that_was_never_there_is_told_at_once() -> None:
    with pytest.raises(TopicMissing, match="topic Events does not exist"):
        queues_of(Forgetful(None), ["Events"], fresh=True)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("startingOffsets", "option startingOffsets says nothing about queue 1 "),
        ("startingOffsetsByTimestamp", "option startingOffsetsByTimestamp says nothing about queue 1 "),
    ],
)
def test_the_option_that_leaves_out_a_queue_is_named(option: str, said: str) -> None:
    given = {"bootstrap": "names:9876", "subscribe": "Events", option: '{"Events": {"0": 5}}'}
    options = read_options(given, streaming=False)
    with pytest.raises(OptionRefused, match=said):
        resolve(Forgetful(ROUTE), list(QUEUES), options.start, "startingOffsets")


class NameServer:
    """A connection to a name server; `told` are those that know the topic, `gone` those that answer nothing."""

    told: ClassVar[set[str]] = set()
    gone: ClassVar[set[str]] = set()

    def __init__(self, address: str, *, seconds: float) -> None:
        del seconds
        self.address = address
        if address in self.gone:
            raise ConnectionLost(f"{address} cannot be reached")

    def ask(self, request: Frame, *, seconds: float) -> Frame:
        del request, seconds
        if self.address not in self.told:
            return Frame(ResponseCode.TOPIC_NOT_EXIST, 0)
        broker = BrokerData(cluster="c", broker_name="a", addresses={0: "host:1"})
        return Frame(0, 0, body=encode_body(TopicRoute(brokers=[broker])))

    def close(self) -> None: ...


def test_a_topic_that_one_name_server_does_not_know_is_asked_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of name servers of RocketMQ, of which each knows what its brokers could tell it."""
    monkeypatch.setattr(cluster_module, "Connection", NameServer)
    monkeypatch.setattr(NameServer, "told", {"told:3"})
    monkeypatch.setattr(NameServer, "gone", {"gone:2"})
    cluster = Cluster(("untold:1", "gone:2", "told:3"), Patience(1.0, 0.0))
    assert cluster.route("Events").brokers == {"a": ("host:1",)}
    with pytest.raises(TopicMissing, match="untold:1 does not know it"):
        Cluster(("untold:1", "gone:2"), Patience(1.0, 0.0)).route("Events")


class Taken:
    """A connection to a group that takes everything."""

    address = "host:1"

    def __init__(self, queues: list[int]) -> None:
        self.queues = queues

    def send(self, request: Frame, *, seconds: float) -> int:
        del seconds
        self.queues.append(int(request.ext["e"]))
        return len(self.queues)

    def receive(self, opaque: int, *, seconds: float) -> Frame:
        del opaque, seconds
        return Frame(0, 0)


class Open(Forgetful):
    """All groups take everything; `queues` are those to which it went."""

    queues: list[int]

    def connection(self, queue: QueueRef) -> Connection:
        del queue
        return cast("Connection", Taken(self.queues))


def test_a_key_stays_in_its_queue_for_a_whole_task_also_when_the_route_changes() -> None:
    """As when a queue may not be written any more, or there are new ones, and the leader moves: repeated, the task
    would else send other chunks than before."""
    less = Route(QUEUES, QUEUES[:1], ROUTE.brokers)
    cluster = Open(ROUTE, less)
    cluster.queues = []

    def rows() -> Iterator[pa.RecordBatch]:
        yield batch(range(8), keys=8)
        cluster.route("Events", fresh=True)
        yield batch(range(8), keys=8)

    options = write_options(
        {"bootstrap": "names:9876", "topic": "Events", "guarantee": "at-least-once", "maxRequestBytes": "500"},
        streaming=False,
    )  # fmt: skip
    write_rows(rows(), cluster, options, Identity("w", "run", lasting=False), Place(0, 0))
    assert cluster.queues == [0, 1, 0, 1]
