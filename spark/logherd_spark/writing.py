"""Spark's writers: who this task is, from what Spark says about it, and what a commit means.

Nothing is taken back by an abort: what was stored stays. It is the broker that makes a repeated task harmless (H19).
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from logherd_spark.cluster import Cluster, QueueRef
from logherd_spark.encoding import RowShape
from logherd_spark.errors import SourceError, in_one_sentence
from logherd_spark.options import WriteOptions
from logherd_spark.versions import StreamArrowWriter
from logherd_spark.writers import Identity, Place, Sent, close_writer, confirm, open_writer, write_rows

__all__ = ["LogHerdStreamWriter", "LogHerdWriter"]

_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"
_RUN_ID = "spark.jobGroup.id"


@dataclass
class Written(WriterCommitMessage):
    """What a task stored, and as whom."""

    identity: Identity
    sent: Sent


class LogHerdWriter(DataSourceArrowWriter):
    """A batch job. Its writer is `writeId`, or a name of this job's own that nobody will use again."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        RowShape(schema.fieldNames(), topic_given=options.topic is not None)
        self._options = options
        self._identity = Identity(
            options.write_id or f"spark-{uuid4()}", run=str(uuid4()), lasting=options.write_id is not None
        )
        self._begun = Sent()
        self._queues = () if options.topic is None else self._begin(options.topic)

    def _begin(self, topic: str) -> tuple[QueueRef, ...]:
        """In the driver, before any task: a cluster that is not there ends the job here, and an older run is fenced.
        A queue of each group."""
        with closing(self._cluster()) as cluster:
            queues = tuple({queue.group: queue for queue in cluster.route(topic).writable}.values())
            for queue in queues:
                if self._options.exactly_once:
                    self._begun.epochs[queue.group] = open_writer(cluster, queue, self._identity)
                    self._begun.topics[queue.group] = topic
        return queues

    @in_one_sentence
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        part = _context().partitionId()
        with closing(self._cluster()) as cluster:
            place, epochs = Place(part, 0), self._begun.epochs
            sent = write_rows(iterator, cluster, self._options, self._identity, place, epochs=epochs)
            return Written(self._identity, sent)

    @in_one_sentence
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        sent = _sent(messages)
        if self._options.exactly_once:
            with closing(self._cluster()) as cluster:
                # Those with which it began: a task may have written to a group that the route has lost since.
                confirm(cluster, self._identity, 0, sent, self._queues)
                if not self._identity.lasting:
                    close_writer(cluster, self._identity, [self._begun, *sent])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """What was stored stays. A name of this job's own is forgotten where the driver opened it: tasks that still run
        were given its epoch there, and are refused. Where a task opened it they must find it until it expires."""
        if not self._identity.lasting:
            with closing(self._cluster()) as cluster:
                # The job has failed, perhaps because nobody answers: that is not to be waited for once more.
                cluster.patience = replace(cluster.patience, total_seconds=cluster.patience.request_seconds)
                close_writer(cluster, self._identity, [self._begun])

    def _cluster(self) -> Cluster:
        return Cluster(self._options.bootstrap, self._options.patience, any_broker=self._options.exactly_once)


class LogHerdStreamWriter(StreamArrowWriter):
    """A streaming query. Its writer is pipelineId and the query's id, which its checkpoint keeps; a start is a run."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        RowShape(schema.fieldNames(), topic_given=options.topic is not None)
        self._options = options

    @in_one_sentence
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = _context()
        identity = Identity(
            f"{self._options.pipeline_id}:{_told(context, _QUERY_ID)}", run=_told(context, _RUN_ID), lasting=True
        )
        place = Place(context.partitionId(), int(_told(context, _BATCH_ID)))
        with closing(self._cluster()) as cluster:
            return Written(identity, write_rows(iterator, cluster, self._options, identity, place))

    @in_one_sentence
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        identity = next((each.identity for each in messages if isinstance(each, Written)), None)
        if identity is not None and self._options.exactly_once:
            with closing(self._cluster()) as cluster:
                topic = self._options.topic
                queues = () if topic is None else cluster.route(topic).writable
                confirm(cluster, identity, batchId, _sent(messages), queues)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """What was stored stays, and is recognised when the micro-batch is tried again."""

    def _cluster(self) -> Cluster:
        return Cluster(self._options.bootstrap, self._options.patience, any_broker=self._options.exactly_once)


def _sent(messages: list[WriterCommitMessage | None]) -> list[Sent]:
    return [each.sent for each in messages if isinstance(each, Written)]


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise SourceError("Spark gave no task context: rows are written by tasks")
    return context


def _told(context: TaskContext, name: str) -> str:
    value: str | None = context.getLocalProperty(name)
    if not value:
        raise SourceError(f"Spark did not say {name} to the task; without it a repeated task cannot be recognised")
    return value
