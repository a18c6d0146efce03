"""Spark's readers: a batch between two bounds, and a stream whose offsets stand in its checkpoint."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from logherd_spark.bounds import begin_of_new, latest, queues_of, ranges_between, resolve
from logherd_spark.calls import min_offset
from logherd_spark.cluster import Cluster
from logherd_spark.errors import DataLost, SourceError, in_one_sentence
from logherd_spark.filters import Filter, narrowed
from logherd_spark.options import ReadOptions
from logherd_spark.patience import Retries
from logherd_spark.pulling import RangePuller
from logherd_spark.ranges import Offsets, Range, from_checkpoint, limited, split, to_checkpoint
from logherd_spark.schema import column_names
from logherd_spark.versions import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

__all__ = ["FilteringReader", "LogHerdReader", "LogHerdStreamReader"]


class LogHerdReader(DataSourceReader):
    """Everything between two bounds, looked up when the job is planned."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._names = column_names(schema)
        self._filters: list[Filter] = []

    @in_one_sentence
    def partitions(self) -> list[InputPartition]:
        options = self._options
        with closing(Cluster(options.bootstrap, options.patience)) as cluster:
            queues = queues_of(cluster, options.topics)
            start = resolve(cluster, queues, options.start, "startingOffsets")
            end = resolve(cluster, queues, options.end, "endingOffsets")
            ranges = ranges_between(cluster, start, end, fail_on_data_loss=options.fail_on_data_loss)
        return _partitions(narrowed(ranges, self._filters), options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._options, self._names)


class FilteringReader(LogHerdReader):
    """With the option filterPushdown. Spark refuses a reader that can do it while its own setting is off."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        self._filters = list(filters)
        return filters


class LogHerdStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An endless read. Offsets are topic -> "group:queue" -> queue offset."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._names = column_names(schema)
        self._known: Cluster | None = None
        self._last: Offsets | None = None
        self._told: Offsets = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": None}

    @property
    def _cluster(self) -> Cluster:
        if self._known is None:
            self._known = Cluster(self._options.bootstrap, self._options.patience)
        return self._known

    @in_one_sentence
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        queues = queues_of(self._cluster, self._options.topics)
        return to_checkpoint(resolve(self._cluster, queues, self._options.start, "startingOffsets"))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        rows = self._options.rows_per_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    @in_one_sentence
    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        ends = self._ends() if self._last is None else self._last
        # Before Spark 4.2 there are no limits, and nobody says where the stream is: it is where it was sent.
        begins = self._told if start is None else self._begins(from_checkpoint(start), ends)
        if self._options.fail_on_data_loss:
            ends = self._reached(begins, ends)
        # A queue that the topic lost, or a leader that has not all yet, must not move a stream back.
        ends = {**ends, **{queue: max(ends.get(queue, 0), begin) for queue, begin in begins.items()}}
        if isinstance(limit, ReadMaxRows):
            ends = limited(self._kept(begins, ends), ends, limit.max_rows)
        self._told = ends
        return to_checkpoint(ends)

    @in_one_sentence
    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return to_checkpoint(self._ends())

    @in_one_sentence
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = self._ends()

    @in_one_sentence
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        self._told = self._told or from_checkpoint(end)
        ranges = ranges_between(
            self._cluster, from_checkpoint(start), from_checkpoint(end),
            fail_on_data_loss=self._options.fail_on_data_loss,
        )  # fmt: skip
        return _partitions(ranges, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._options, self._names)

    def commit(self, end: dict[str, Any]) -> None:
        """Progress is the checkpoint's; the broker is told nothing."""

    def stop(self) -> None:
        if self._known is not None:
            self._known.close()
            self._known = None

    def _begins(self, start: Offsets, ends: Offsets) -> Offsets:
        """The stream's place in each queue; in one that it has not seen before, where that begins."""
        loss_matters = self._options.fail_on_data_loss
        new = (queue for queue in ends if queue not in start)
        return {
            **start,
            **{queue: begin_of_new(self._cluster, queue, fail_on_data_loss=loss_matters) for queue in new},
        }

    def _kept(self, begins: Offsets, ends: Offsets) -> Offsets:
        """Where the rows of each queue begin: not before what is kept, if loss is no matter. A limit that counted what
        is gone would be used up by nothing, in one micro-batch after the other."""
        if self._options.fail_on_data_loss:
            return begins
        return {
            queue: begin if begin >= ends[queue] else min(max(begin, min_offset(self._cluster, queue)), ends[queue])
            for queue, begin in begins.items()
        }

    def _reached(self, begins: Offsets, ends: Offsets) -> Offsets:
        """The ends, none before the stream's place. Blocks while one is: a replica may not have all yet.

        Raises: DataLost when the patience ends: what will come up to that place would be passed over.
        """
        retries = Retries(self._cluster.patience)
        while short := [queue for queue, begin in begins.items() if ends.get(queue, begin) < begin]:
            if not retries.pause():
                queue = short[0]
                raise DataLost(
                    f"{queue}: the stream is at offset {begins[queue]}, the queue ends at {ends[queue]}: what was read "
                    "is gone there, and what comes in its place is not read; to read it: another checkpoint; to go on "
                    "without it: option failOnDataLoss=false"
                )
            ends = self._ends()
            if self._last is not None:
                self._last = ends
        return ends

    def _ends(self) -> Offsets:
        # The route is asked anew: a topic may have got more queues.
        return latest(self._cluster, queues_of(self._cluster, self._options.topics, fresh=True))


def _partitions(ranges: list[Range], options: ReadOptions) -> list[InputPartition]:
    pieces = split(ranges, parts_min=options.partitions_min, rows_max=options.rows_per_partition)
    return [InputPartition(tuple(piece)) for piece in pieces]


def _read(partition: InputPartition, options: ReadOptions, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    if partition.value is None:  # what Spark makes of no partitions at all
        return
    with closing(Cluster(options.bootstrap, options.patience)) as cluster:
        try:
            yield from RangePuller(cluster, Range(*partition.value), options).batches(names)
        except SourceError as error:
            raise error.with_traceback(None) from None
