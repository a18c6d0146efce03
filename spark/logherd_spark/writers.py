"""What a task does with its rows: chunks of an idempotent writer (H19), or ordinary batches, once or more often.

Everything that decides what is sent is a function of the rows and of the task's place (part, generation), so that a
task that is run again sends the same chunks, and the broker recognises them.
"""

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from types import MappingProxyType
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from logherd.wire.batch import BATCH_MESSAGES_MAX
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from logherd.wire.headers import decode_header, encode_header
from logherd.wire.headers.producers import (
    CloseWriterHeader,
    CountChunksHeader,
    CountChunksResponse,
    OpenWriterHeader,
    OpenWriterResponse,
    StoreChunkHeader,
)
from logherd.wire.headers.send import SendMessageHeaderV2
from logherd_spark.cluster import Cluster, QueueRef, Route
from logherd_spark.encoding import MARK, Body, as_text, encode_rows
from logherd_spark.errors import BrokerRefused, RowRefused, SourceError
from logherd_spark.lanes import Lane
from logherd_spark.options import WriteOptions

__all__ = ["Identity", "Place", "Sent", "close_writer", "confirm", "open_writer", "write_rows"]

_DIGEST_BYTES = 16
_PRODUCER_GROUP = "logherd_spark"
_JOINED_BYTES_MAX = 16 << 20
_NOWHERE: Mapping[str, int] = MappingProxyType({})


class Identity(NamedTuple):
    """Who writes. `writer` outlives `run`, which names one driver's attempt; `lasting`: the writer may come again."""

    writer: str
    run: str
    lasting: bool


class Place(NamedTuple):
    """Which task it is: the partition's number, and the micro-batch's (0 in a batch job)."""

    part: int
    generation: int


@dataclass(slots=True)
class Sent:
    """What a task stored in each group: the topic by which it is found, the writer's epoch there, chunks, rows."""

    topics: dict[str, str] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    chunks: dict[str, int] = field(default_factory=dict)
    rows: int = 0


class _Sender(Protocol):
    """Sends the bodies of one task. `begin` comes before a queue's bodies, as soon as there are rows for it: who is
    late hears so then and not when all rows have been read."""

    def begin(self, queue: QueueRef) -> None: ...

    def send(self, queue: QueueRef, body: bytes) -> None: ...

    def finish(self) -> Sent: ...


def write_rows(
    batches: Iterable[pa.RecordBatch], cluster: Cluster, options: WriteOptions, identity: Identity, place: Place,
    *, epochs: Mapping[str, int] = _NOWHERE,
) -> Sent:  # fmt: skip
    """Store all rows of a task. Blocks until they are. Raises: SourceError.

    `epochs` are those of the groups in which the job's driver has opened the writer; in others the task does. Where the
    writer is closed since, a task that is given an epoch is refused, while one that opens would begin at zero again.
    """
    cluster.any_broker = options.exactly_once
    sender: _Sender = _Chunks(cluster, identity, place, epochs) if options.exactly_once else _Batches(cluster)
    joined = _Joined(sender, options.chunk_bytes)
    # Looked up once: the route changes when the leader moves, and with it would the queues of keys, and all chunks.
    routes: dict[str, Route] = {}
    rows_before = 0
    for number, batch in enumerate(batches):
        if not batch.num_rows:
            continue
        marks = None
        if not options.exactly_once:
            marks = _marks(identity, place, rows_before, batch.num_rows)
        rows = pa.Table.from_batches([batch])
        for topic, of_topic, marks_of_topic in _by_topic(rows, options.topic, marks):
            queues = routes.setdefault(topic, cluster.route(topic)).writable
            if not queues:
                raise SourceError(f"topic {topic} has no queue that may be written")
            bodies = encode_rows(
                of_topic, len(queues), sticky=place.part + number, bytes_max=options.chunk_bytes, marks=marks_of_topic
            )
            for body in bodies:
                joined.send(queues[body.queue], body)
        rows_before += batch.num_rows
    sent = joined.finish()
    sent.rows = rows_before
    return sent


def _by_topic(
    rows: pa.Table, default: str | None, marks: pa.Array | None
) -> Iterable[tuple[str, pa.Table, pa.Array | None]]:
    if "topic" not in rows.column_names:
        yield default or "", rows, marks
        return
    topics = as_text(rows.column("topic").combine_chunks(), "topic")
    if default is not None:
        topics = pc.fill_null(topics, default)
    elif topics.null_count:
        raise RowRefused("column topic is null in a row, and no option topic says where such rows go")
    for topic in topics.unique().to_pylist():
        chosen = pc.equal(topics, topic)
        yield topic, rows.filter(chosen), None if marks is None else marks.filter(chosen)


def _marks(identity: Identity, place: Place, first: int, count: int) -> pa.Array:
    """A property that is the same whenever this row is sent: consumers can tell repetitions by it (OP-114)."""
    numbers = pa.array(range(first, first + count)).cast(pa.string())
    prefix = f"{MARK}\x01{identity.writer}/{place.part}/{place.generation}/"
    return pc.binary_join_element_wise(prefix, numbers, "\x02", "")


@dataclass(slots=True)
class _Held:
    """Bodies for one queue that go together."""

    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    messages: int = 0


class _Joined:
    """What Arrow's batches have for one queue goes in one request, as far as its bounds allow; one without room for as
    much as came last waits for nothing. A broker group remembers a bounded number of chunks, and spread over many
    queues a batch has little for each."""

    def __init__(self, sender: _Sender, bytes_max: int) -> None:
        self._sender = sender
        self._bytes_max = bytes_max
        self._held: dict[QueueRef, _Held] = {}
        self._size = 0

    def send(self, queue: QueueRef, body: Body) -> None:
        self._sender.begin(queue)
        size = len(body.data)
        held = self._held.get(queue)
        if held is not None and (
            held.size + size > self._bytes_max or held.messages + body.messages > BATCH_MESSAGES_MAX
        ):
            self._give(queue)
        held = self._held.setdefault(queue, _Held())
        held.parts.append(body.data)
        held.size += size
        held.messages += body.messages
        self._size += size
        if held.size + size > self._bytes_max:
            self._give(queue)
        elif self._size > _JOINED_BYTES_MAX:
            self._give_all()

    def finish(self) -> Sent:
        self._give_all()
        return self._sender.finish()

    def _give_all(self) -> None:
        for queue in list(self._held):
            self._give(queue)

    def _give(self, queue: QueueRef) -> None:
        held = self._held.pop(queue)
        self._size -= held.size
        self._sender.send(queue, b"".join(held.parts))


class _Chunks:
    """Every chunk is stored once; its number counts in (part, queue, generation)."""

    def __init__(self, cluster: Cluster, identity: Identity, place: Place, epochs: Mapping[str, int]) -> None:
        self._cluster = cluster
        self._identity = identity
        self._place = place
        self._epochs = epochs
        self._lanes: dict[str, Lane] = {}
        self._sequences: dict[QueueRef, int] = {}
        self._sent = Sent()

    def begin(self, queue: QueueRef) -> None:
        group = queue.group
        if group not in self._lanes:
            begun = self._epochs.get(group)
            self._sent.epochs[group] = open_writer(self._cluster, queue, self._identity) if begun is None else begun
            self._sent.topics[group] = queue.topic
            self._lanes[group] = Lane(self._cluster)

    def send(self, queue: QueueRef, body: bytes) -> None:
        group = queue.group
        sequence = self._sequences.get(queue, 0)
        self._sequences[queue] = sequence + 1
        self._sent.chunks[group] = self._sent.chunks.get(group, 0) + 1
        header = StoreChunkHeader(
            writer=self._identity.writer, epoch=self._sent.epochs[group], part=self._place.part,
            generation=self._place.generation, sequence=sequence,
            digest=blake2b(body, digest_size=_DIGEST_BYTES).hexdigest(), topic=queue.topic,
            queue_id=queue.queue_id, born_timestamp=_now_ms(),
        )  # fmt: skip
        ext = encode_header(header)
        self._lanes[group].submit(queue, lambda: Frame(RequestCode.WRITER_CHUNK, 0, ext=ext, body=body), len(body))

    def finish(self) -> Sent:
        for lane in self._lanes.values():
            lane.drain()
        return self._sent


class _Batches:
    """Ordinary batch sends, which every RocketMQ broker takes. What is not known to be stored is sent again."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lanes: dict[str, Lane] = {}

    def begin(self, queue: QueueRef) -> None:
        """Nobody is asked before."""

    def send(self, queue: QueueRef, body: bytes) -> None:
        header = SendMessageHeaderV2(
            producer_group=_PRODUCER_GROUP, topic=queue.topic, default_topic="TBW102", default_topic_queues=4,
            queue_id=queue.queue_id, sys_flag=0, born_timestamp=_now_ms(), flag=0, properties="", batch=True,
            broker_name=queue.group,
        )  # fmt: skip
        ext = encode_header(header)
        lane = self._lanes.setdefault(queue.group, Lane(self._cluster, in_order=False))
        lane.submit(queue, lambda: Frame(RequestCode.SEND_BATCH_MESSAGE, 0, ext=ext, body=body), len(body))

    def finish(self) -> Sent:
        for lane in self._lanes.values():
            lane.drain()
        return Sent()


def open_writer(cluster: Cluster, queue: QueueRef, identity: Identity) -> int:
    """The epoch of this run at the queue's group. Raises: WriterFenced, BrokerRefused, Unanswered, SourceError."""
    header = OpenWriterHeader(writer=identity.writer, run=identity.run, lasting=identity.lasting)
    request = Frame(RequestCode.WRITER_OPEN, 0, ext=encode_header(header))
    try:
        answer = cluster.ask(queue, lambda: request)
    except BrokerRefused as error:
        if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
        raise SourceError(
            f"group {queue.group} is no LogHerd group or an older one: it cannot store rows exactly once; to write to "
            "it all the same: option guarantee=at-least-once"
        ) from None
    return decode_header(OpenWriterResponse, answer.ext).epoch


def confirm(
    cluster: Cluster, identity: Identity, generation: int, sent: Iterable[Sent], queues: Iterable[QueueRef] = ()
) -> None:
    """Before a job or micro-batch counts as done: see that its chunks are all that stand in the log for it.

    `queues` are those to which its rows could have gone: a group of theirs in which this attempt stored nothing is
    asked, too, because an earlier one may have, when the rows or the topic's route were others.
    Raises: SourceError if an earlier attempt stored more, for which nobody would ever ask again; WriterFenced.
    """
    chunks: dict[str, int] = {}
    found: dict[str, tuple[str, int]] = {}
    for each in sent:
        for group, count in each.chunks.items():
            chunks[group] = chunks.get(group, 0) + count
            found[group] = each.topics[group], each.epochs[group]
    for queue in {queue.group: queue for queue in queues if queue.group not in found}.values():
        try:
            found[queue.group] = queue.topic, open_writer(cluster, queue, identity)
        except BrokerRefused as error:
            if error.code != ResponseCode.WRITER_UNKNOWN:  # it has expired there: so long ago it last wrote
                raise
    for group, (topic, epoch) in sorted(found.items()):
        header = CountChunksHeader(writer=identity.writer, epoch=epoch, generation=generation)
        ext = encode_header(header)
        answer = cluster.ask(QueueRef(topic, group, 0), partial(Frame, RequestCode.WRITER_COUNT, 0, ext=ext))
        stored, sent_now = decode_header(CountChunksResponse, answer.ext).chunks, chunks.get(group, 0)
        if stored != sent_now:
            raise SourceError(
                f"group {group} has {stored} chunks of writer {identity.writer} in generation {generation}, this "
                f"attempt has {sent_now}: an earlier attempt wrote other rows, so the plan is not deterministic, "
                "and rows may be stored twice"
            )


def close_writer(cluster: Cluster, identity: Identity, sent: Iterable[Sent]) -> None:
    """Let the brokers forget a writer that will not come again, in every group that `sent` names.

    A group that does not answer, or refuses, is passed over: what was written counts already, and the writer expires.
    """
    done: set[str] = set()
    for each in sent:
        for group, epoch in each.epochs.items():
            if group not in done:
                done.add(group)
                header = CloseWriterHeader(writer=identity.writer, epoch=epoch)
                queue = QueueRef(each.topics[group], group, 0)
                with suppress(SourceError):
                    cluster.ask(queue, partial(Frame, RequestCode.WRITER_CLOSE, 0, ext=encode_header(header)))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
